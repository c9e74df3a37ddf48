"""What a seed means: who is in the swarm, what they do, and what goes wrong when. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
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

if TYPE_CHECKING:
    from random import Random

SIZES: Final = (3, 3, 3, 3, 4, 4, 4, 5, 5, 6, 8)
"""Endpoints of most swarms: the smallest that can go wrong in a way go wrong soonest."""

LARGE_SIZES: Final = (12, 20, 30, 50)
LARGE_ONE_IN: Final = 100
"""One swarm of so many is a large one: it takes as long as fifty small ones."""

TOPICS: Final = ("a", "a/b", "a/c", "b", "")
"""Some are prefixes of others; the last one is everything."""

PUBLISHED: Final = ("a/b/x", "a/c", "b", "c")
"""What is published on; not everything is wanted by everybody."""

TROUBLE_SECONDS: Final = (2.0, 6.0)
"""How long faults come."""

FAULTS_MAX: Final = 7
"""Faults of one swarm: two or three at a time."""

SUCCESSION_RATIO: Final = 0.2
"""Swarms with a clone in which one is promoted. In these less is promised: see ``Records.heir``."""

LONG_SECONDS: Final = 17.0
"""Longer than peers bear each other's silence."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Two endpoints that are to be peers."""

    dialler: int
    acceptor: int
    is_mutual: bool = False
    """Whether both dial, so that dials cross."""


@dataclass(frozen=True, slots=True)
class LinkTrouble:
    """Something is wrong with a link."""

    edge: int
    fault: LinkFault
    direction: Direction = Direction.BOTH


@dataclass(frozen=True, slots=True)
class Split:
    """The swarm falls into two parts, between which one way or no way is left."""

    nodes: tuple[int, ...]
    direction: Direction = Direction.BOTH


@dataclass(frozen=True, slots=True)
class Kill:
    """An endpoint's process is killed, and started again in the end."""

    node: int


@dataclass(frozen=True, slots=True)
class PowerCut:
    """The same with its machine: nobody is told, and what was not synced is lost."""

    node: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A process stands still for a while."""

    node: int


@dataclass(frozen=True, slots=True)
class Unpeering:
    """Two endpoints part on purpose, and peer again in the end."""

    edge: int


@dataclass(frozen=True, slots=True)
class Unsubscribing:
    """A subscriber wants less for a while."""

    node: int


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """A machine's time of day is off."""

    node: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DiskTrouble:
    """A disk is full, or its syncs fail."""

    node: int
    is_full: bool


@dataclass(frozen=True, slots=True)
class Succession:
    """The master is lost, a clone is promoted in its place, and then the old one returns."""

    heir: int
    is_killed: bool
    """Whether the master's process is killed; otherwise its links are cut."""


Trouble = (
    LinkTrouble
    | Split
    | Kill
    | PowerCut
    | Pause
    | Unpeering
    | Unsubscribing
    | ClockSkew
    | DiskTrouble
    | Succession
)
"""Whatever may go wrong."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Some trouble, for some time."""

    begin: float
    end: float
    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Member:
    """One endpoint of the swarm."""

    topics: tuple[str, ...]
    """What it subscribes to; nothing at all, perhaps."""
    publish_seconds: float
    """Pause between two messages; infinite for one that says nothing."""
    has_clone: bool = False
    write_seconds: float = inf
    """Pause between two mutations of the store."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that happens in one run, but for what the seed of the simulation decides."""

    seed: int
    members: tuple[Member, ...]
    edges: tuple[Edge, ...]
    ttl: int
    master: int | None
    """Who has the master of the store."""
    is_durable: bool
    """Whether the master keeps its store on a disk."""
    trouble_seconds: float
    faults: tuple[Fault, ...] = field(default=())

    @property
    def is_ordered(self) -> bool:
        """Whether nothing can overtake: there is one path between any two, and nobody is replaced.

        What a relay had sent before it was killed may come behind what its next life sends.
        """
        is_tree = len(self.edges) == len(self.members) - 1
        return is_tree and not any(
            isinstance(each.trouble, Kill | PowerCut | Succession) for each in self.faults
        )

    def distances(self, root: int) -> dict[int, int]:
        """Give how many links lead to each member, at the least."""
        found, queue = {root: 0}, [root]
        for near in queue:
            for edge in self.edges:
                ends = (edge.dialler, edge.acceptor)
                far = sum(ends) - near
                if near in ends and far not in found:
                    found[far] = found[near] + 1
                    queue.append(far)
        return found


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
        faults = [each for each in faults if not _strikes(each.trouble, trouble.heir)]
        faults.append(Fault(begin, end, trouble))
    return replace(plan, members=members, faults=tuple(faults))


def _strikes(trouble: Trouble, heir: int) -> bool:
    """Whether it kills the heir: one who is started anew does not know that it was promoted."""
    return isinstance(trouble, Kill | PowerCut) and trouble.node == heir


def _succession(
    chance: Random, plan: Plan, members: tuple[Member, ...]
) -> tuple[float, float, Succession] | None:
    """Have a clone take over, in some swarms."""
    keepers = [node for node, member in enumerate(members) if isfinite(member.write_seconds)]
    heirs = [node for node in keepers if node != plan.master and _is_near(plan, node, keepers)]
    if not heirs or chance.random() >= SUCCESSION_RATIO:
        return None
    begin = round(chance.uniform(0.5, plan.trouble_seconds), 2)
    trouble = Succession(chance.choice(heirs), is_killed=chance.random() < 0.5)
    return begin, round(begin + chance.uniform(0.5, 5.0), 2), trouble


def _is_near(plan: Plan, node: int, others: Sequence[int]) -> bool:
    distances = plan.distances(node)
    return all(distances[other] <= plan.ttl for other in others)


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
