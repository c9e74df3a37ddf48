"""Swarms with voters, a log and heirs that are killed: half of all, and able to fail."""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random

from endpoint.replicas.logs import log_consumer
from peermesh.testing.swarm import draw, drawing, run_plan
from peermesh.testing.swarm.plan import (
    Edge,
    Fault,
    Groups,
    Kill,
    Member,
    Plan,
    PowerCut,
    Split,
    Succession,
)
from stores.group import leading
from stores.group.positions import Voters
from stores.table.writers import Writers


def plan_of(seed: int) -> Plan:
    return draw(Random(f"{seed}/plan"), seed)


def test_half_of_all_swarms_have_groups_and_the_others_are_what_they_were(monkeypatch):
    plans = [plan_of(seed) for seed in range(400)]
    assert 160 < sum(plan.groups is not None for plan in plans) < 240
    monkeypatch.setattr(drawing, "enlarged", lambda chance, plan: plan)
    plain = [plan_of(seed) for seed in range(400)]
    assert all(
        plan in (other, None)
        for plan, other in zip(plain, plans, strict=True)
        if other.groups is None
    )


def test_plans_with_groups_have_all_that_may_be_among_them():
    plans = [plan for plan in map(plan_of, range(400)) if plan.groups is not None]
    groups = [plan.groups for plan in plans if plan.groups is not None]
    assert {len(each.on_disk) for each in groups} == {0, 2, 3}
    assert {each.is_log_elected for each in groups} == {True, False}
    successions = Counter(
        sum(isinstance(each.trouble, Succession) for each in plan.faults) for plan in plans
    )
    assert set(successions) == {0, 1, 2, 3}
    assert any(kills_an_heir(plan) for plan in plans)


def kills_an_heir(plan: Plan) -> bool:
    heirs = {each.trouble.heir for each in plan.faults if isinstance(each.trouble, Succession)}
    kills = {each.trouble.node for each in plan.faults if isinstance(each.trouble, Kill | PowerCut)}
    return bool(heirs & kills)


def test_all_voters_are_within_the_time_to_live_of_each_other():
    for plan in map(plan_of, range(400)):
        voters = () if plan.groups is None else plan.groups.voters
        assert all(plan.distances(a)[b] <= plan.ttl for a in voters for b in voters)


def test_of_voters_in_memory_one_at_most_loses_it():
    for plan in map(plan_of, range(400)):
        if plan.groups is not None and not plan.groups.on_disk:
            killed = {
                each.trouble.node
                for each in plan.faults
                if isinstance(each.trouble, Kill | PowerCut)
            }
            assert len(killed & set(plan.groups.voters)) <= 1


# Each test below breaks a rule. The plan cuts every member off in turn, so also the one that leads.

ALL = (0, 1, 2)
CUT_OFF = Plan(
    seed=1,
    members=(Member((), publish_seconds=inf),) * 3,
    edges=(Edge(1, 0), Edge(2, 0), Edge(2, 1)),
    ttl=16,
    master=None,
    is_durable=False,
    trouble_seconds=9.0,
    faults=tuple(Fault(2.0 + 2.5 * node, 4.0 + 2.5 * node, Split((node,))) for node in ALL),
    groups=Groups(voters=ALL, on_disk=ALL, log_holders=ALL, is_log_elected=True),
)


def test_voters_of_which_each_is_cut_off_keep_all_promises():
    report = run_plan(CUT_OFF)
    assert not report.failure
    assert report.applied
    assert report.appended


def test_a_leader_that_acknowledges_without_a_majority_is_found(monkeypatch):
    def alone(voters: Voters, reached) -> int:
        return max(map(reached, voters), default=0)

    monkeypatch.setattr(leading, "agreed", alone)
    assert run_plan(CUT_OFF).failure.startswith("Broken: ")


def test_a_leader_that_does_again_what_is_repeated_is_found(monkeypatch):
    monkeypatch.setattr(Writers, "judge_request", lambda self, *asked: None)
    assert run_plan(CUT_OFF).failure.startswith("Broken: ")


def test_a_reader_that_passes_an_entry_over_is_found(monkeypatch):
    entries_of = log_consumer.entries_of
    monkeypatch.setattr(log_consumer, "entries_of", lambda *asked: entries_of(*asked)[1:])
    assert "comes next" in run_plan(CUT_OFF).failure
