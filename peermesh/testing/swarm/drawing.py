"""What a seed means: draws a plan. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

from peermesh.testing.faults import (
    Delay,
    Direction,
    Duplication,
    LinkFault,
    Loss,
    Partition,
    RateLimit,
    Reordering,
    Reset,
    SlowClose,
)
from peermesh.testing.swarm.drawing_groups import enlarged, heirs_of, strikes
from peermesh.testing.swarm.plan import (
    TOPICS,
    ClockSkew,
    DiskTrouble,
    Edge,
    Fault,
    Kill,
    LinkTrouble,
    Member,
    Pause,
    Plan,
    PowerCut,
    Split,
    Succession,
    Trouble,
    Unpeering,
    Unsubscribing,
)

if TYPE_CHECKING:
    from random import Random

SIZES: Final = (3, 3, 3, 3, 4, 4, 4, 5, 5, 6, 8)
"""Endpoints of most swarms: the smallest that can go wrong in a way go wrong soonest."""

LARGE_SIZES: Final = (12, 20, 30, 50)
LARGE_ONE_IN: Final = 100
"""One swarm of so many is a large one: it takes as long as fifty small ones."""

TROUBLE_SECONDS: Final = (2.0, 6.0)
"""How long faults come."""

FAULTS_MAX: Final = 7
"""Faults of one swarm: two or three at a time."""

SUCCESSION_RATIO: Final = 0.2
"""Swarms with a clone in which one is promoted. In these less is promised: see ``Records.heir``."""

LONG_SECONDS: Final = 17.0
"""Longer than peers bear each other's silence."""


def draw(chance: Random, seed: int) -> Plan:
    """Draw a plan; ``chance`` comes from ``seed``, which is noted in it."""
    is_large = chance.randrange(LARGE_ONE_IN) == 0
    size = chance.choice(LARGE_SIZES if is_large else SIZES)
    edges = _edges(chance, size, 2 if is_large else size)
    plan = Plan(
        seed=seed,
        members=(Member((), inf),) * size,
        edges=edges,
        ttl=255 if is_large else chance.choice((16, 16, 16, 16, 2, 3)),
        master=chance.randrange(size) if chance.random() < 0.75 else None,
        is_durable=chance.random() < 0.7,
        trouble_seconds=round(chance.uniform(*TROUBLE_SECONDS), 1),
    )
    members = tuple(_member(chance, plan, node, is_large=is_large) for node in range(size))
    count = chance.randrange(1, FAULTS_MAX + 1)
    faults = sorted((_fault(chance, plan) for _ in range(count)), key=lambda fault: fault.begin)
    succession = _succession(chance, plan, members)
    if succession is not None:
        begin, end, trouble = succession
        faults = [each for each in faults if not strikes(each.trouble, trouble.heir)]
        faults.append(Fault(begin, end, trouble))
    return enlarged(chance, replace(plan, members=members, faults=tuple(faults)))


def _succession(
    chance: Random, plan: Plan, members: tuple[Member, ...]
) -> tuple[float, float, Succession] | None:
    """Have a clone take over, in some swarms."""
    heirs = [node for node in heirs_of(plan, members) if node != plan.master]
    if not heirs or chance.random() >= SUCCESSION_RATIO:
        return None
    begin = round(chance.uniform(0.5, plan.trouble_seconds), 2)
    trouble = Succession(chance.choice(heirs), is_killed=chance.random() < 0.5)
    return begin, round(begin + chance.uniform(0.5, 5.0), 2), trouble


def _edges(chance: Random, size: int, extra_max: int) -> tuple[Edge, ...]:
    """Connect everybody as a line, a star or by chance, and some of them once more."""
    choose = chance.choice((lambda n: n - 1, lambda n: 0, chance.randrange))
    pairs = [(node, choose(node)) for node in range(1, size)]
    free = [(n, m) for n in range(size) for m in range(n) if (n, m) not in pairs]
    extra = chance.choice((0, 0, 1, 2, size // 2, len(free)))
    pairs += chance.sample(free, min(extra, extra_max, len(free)))
    return tuple(_edge(chance, pair) for pair in pairs)


def _edge(chance: Random, pair: tuple[int, int]) -> Edge:
    dialler, acceptor = pair if chance.random() < 0.5 else pair[::-1]
    return Edge(dialler, acceptor, is_mutual=chance.random() < 0.25)


def _member(chance: Random, plan: Plan, node: int, *, is_large: bool) -> Member:
    pause = chance.choice((0.1, 0.2, 0.2, 0.5, inf)) * (20 if is_large else 1)
    topics = tuple(chance.sample(TOPICS, chance.choice((0, 1, 1, 2, 3))))
    is_near = plan.master is not None and plan.distances(plan.master)[node] <= plan.ttl
    is_chosen = chance.random() < (0.1 if is_large else 0.6) or node == plan.master
    write_pause = chance.choice((0.2, 0.4, 0.8))
    if not (is_near and is_chosen):
        return Member(topics, pause)
    return Member(topics, pause, has_clone=node != plan.master, write_seconds=write_pause)


def _fault(chance: Random, plan: Plan) -> Fault:
    drawers: tuple[tuple[int, Callable[[Random, Plan], Trouble]], ...] = (
        (8, _link_trouble),
        (3, _split),
        (3, _kill),
        (2, _power_cut),
        (2, _pause),
        (2, _unpeering),
        (2, _unsubscribing),
        (1, _skew),
        (2 if plan.master is not None and plan.is_durable else 0, _disk_trouble),
    )
    weights = [weight for weight, _ in drawers]
    draw_trouble = chance.choices([each for _, each in drawers], weights)[0]
    begin = round(chance.uniform(0, plan.trouble_seconds), 2)
    lasts = chance.choice((0.05, 0.3, 1.0, 2.0, 4.0))
    if chance.random() < 0.03:
        lasts = LONG_SECONDS
    return Fault(
        begin, round(begin + lasts * chance.uniform(0.5, 1), 2), draw_trouble(chance, plan)
    )


def _direction(chance: Random) -> Direction:
    return chance.choice((Direction.BOTH, Direction.BOTH, Direction.FORTH, Direction.BACK))


def _link_trouble(chance: Random, plan: Plan) -> LinkTrouble:
    faults: tuple[LinkFault, ...] = (
        Partition(),
        Partition(),
        Reset(),
        Reset(),
        Delay(round(chance.uniform(0.01, 0.5), 3), 0.01),
        Loss(chance.choice((0.05, 0.3))),
        Duplication(0.3),
        Reordering(0.3),
        RateLimit(chance.choice((2_000, 20_000))),
        SlowClose(1.0),
    )
    edge = chance.randrange(len(plan.edges))
    return LinkTrouble(edge, chance.choice(faults), _direction(chance))


def _split(chance: Random, plan: Plan) -> Split:
    size = len(plan.members)
    nodes = chance.sample(range(size), chance.randrange(1, size))
    return Split(tuple(sorted(nodes)), _direction(chance))


def _kill(chance: Random, plan: Plan) -> Kill:
    return Kill(chance.randrange(len(plan.members)))


def _power_cut(chance: Random, plan: Plan) -> PowerCut:
    return PowerCut(chance.randrange(len(plan.members)))


def _pause(chance: Random, plan: Plan) -> Pause:
    return Pause(chance.randrange(len(plan.members)))


def _unpeering(chance: Random, plan: Plan) -> Unpeering:
    return Unpeering(chance.randrange(len(plan.edges)))


def _unsubscribing(chance: Random, plan: Plan) -> Unsubscribing:
    return Unsubscribing(chance.randrange(len(plan.members)))


def _skew(chance: Random, plan: Plan) -> ClockSkew:
    return ClockSkew(chance.randrange(len(plan.members)), chance.choice((-3_600.0, 2.0, 86_400.0)))


def _disk_trouble(chance: Random, plan: Plan) -> DiskTrouble:
    assert plan.master is not None
    return DiskTrouble(plan.master, is_full=chance.random() < 0.5)
