"""Draws what half of all swarms have besides: groups, and successions one after the other. Pure.

A founder keeps what it has: one in memory that is lost as it founds leaves a group that begins by
hand alone. It draws after all else, so that the other half of all seeds mean what they would mean
without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Final

from peermesh.testing.swarm.plan import (
    DiskTrouble,
    Fault,
    Groups,
    Kill,
    Member,
    Pause,
    Plan,
    PowerCut,
    Split,
    Succession,
    Trouble,
)

if TYPE_CHECKING:
    from random import Random

VOTERS: Final = 3
"""The smallest number that survives a loss."""

STRIKES_MAX: Final = 3
"""Faults that hit a voter, besides those that hit anybody."""

SUCCESSIONS_MAX: Final = 3
"""So many, an earlier leader may be an heir."""


def enlarged(chance: Random, plan: Plan) -> Plan:
    """Give a plan with groups in half of all seeds, and the plan as it is in the others."""
    if chance.random() < 0.5:
        return plan
    voters = _voters(chance, plan)
    faults = [each for each in plan.faults if not isinstance(each.trouble, Succession)]
    successions = _successions(chance, plan)
    on_disk = voters[: chance.choice((3, 3, 2, 0 if not successions else 2))]
    faults += successions
    faults += [_strike(chance, plan, voters) for _ in range(chance.randrange(STRIKES_MAX + 1))]
    if not on_disk:  # A majority that lost its memory needs a person: one voter may lose it.
        safe = voters[:-1]
        faults = [each for each in faults if not any(strikes(each.trouble, node) for node in safe)]
    is_elected = chance.random() < 0.5
    log_holders = voters if is_elected else tuple(chance.sample(voters, 2))
    groups = Groups(voters, on_disk, log_holders, is_elected)
    faults.sort(key=lambda fault: fault.begin)
    return replace(plan, groups=groups, faults=tuple(faults))


def _voters(chance: Random, plan: Plan) -> tuple[int, ...]:
    """Choose voters of which each is within the time to live of the others."""
    size = len(plan.members)
    reaches = {node: plan.distances(node) for node in range(size)}
    near = [
        [other for other in range(size) if reaches[node][other] <= plan.ttl // 2]
        for node in range(size)
    ]
    return tuple(
        chance.sample(chance.choice([each for each in near if len(each) >= VOTERS]), VOTERS)
    )


def heirs_of(plan: Plan, members: Sequence[Member]) -> list[int]:
    """Name those that have the store, and whom all the others that have it would follow."""
    keepers = [node for node, member in enumerate(members) if isfinite(member.write_seconds)]
    return [node for node in keepers if _is_near(plan, node, keepers)]


def _is_near(plan: Plan, node: int, others: Sequence[int]) -> bool:
    distances = plan.distances(node)
    return all(distances[other] <= plan.ttl for other in others)


def _successions(chance: Random, plan: Plan) -> list[Fault]:
    """Have one clone after the other take over, and some of them killed, in half of the swarms."""
    heirs = heirs_of(plan, plan.members)
    if plan.master is None or len(heirs) < 2 or chance.random() < 0.5:
        return []
    faults: list[Fault] = []
    leader, begin = plan.master, chance.uniform(0.5, plan.trouble_seconds)
    for _ in range(chance.randrange(1, SUCCESSIONS_MAX + 1)):
        leader = chance.choice([node for node in heirs if node != leader])
        trouble = Succession(leader, is_killed=chance.random() < 0.5)
        end = begin + chance.uniform(0.5, 3.0)
        faults.append(_fault(begin, end, trouble))
        if chance.random() < 0.5:
            at = begin + chance.uniform(0.05, 2.0)
            loss = chance.choice((Kill, PowerCut))(leader)
            faults.append(_fault(at, at + chance.uniform(0.3, 2.0), loss))
        begin = end + chance.uniform(0.2, 2.0)
    return faults


def _strike(chance: Random, plan: Plan, voters: tuple[int, ...]) -> Fault:
    node = chance.choice(voters)
    troubles: tuple[Trouble, ...] = (
        Kill(node),
        PowerCut(node),
        Pause(node),
        Split((node,)),
        DiskTrouble(node, is_full=chance.random() < 0.5),
    )
    begin = chance.uniform(0.5, plan.trouble_seconds)
    lasts = chance.choice((0.3, 1.0, 4.0)) * chance.uniform(0.5, 1)
    return _fault(begin, begin + lasts, chance.choice(troubles))


def _fault(begin: float, end: float, trouble: Trouble) -> Fault:
    return Fault(round(begin, 2), round(end, 2), trouble)


def strikes(trouble: Trouble, node: int) -> bool:
    """Whether it kills an endpoint."""
    return isinstance(trouble, Kill | PowerCut) and trouble.node == node
