"""When a comparison is at its end, and whom it asks: the clock and the mail are the test's."""

from __future__ import annotations

import pytest

from stores.effects import Verified
from stores.group.words import Looked, Verify
from stores.replica.comparing import ANSWER_TICKS, ASKS_MAX, REPEAT_TICKS
from tests.stores.replica.test_core import Mesh


class Looking(Mesh):
    """A mesh whose cores do their longer work when mail is passed on."""

    def work(self) -> None:
        super().work()
        while any(core.has_work for core in self.cores.values()):
            for name, core in self.cores.items():
                if core.has_work and name not in self.cut:
                    self.take(name, core.work())
            super().work()

    def compare(self, name: str, token: int = 1) -> None:
        self.take(name, self.cores[name].begin_verify(token))

    def verdicts(self, name: str) -> list[Verified]:
        return [each for each in self.told[name] if isinstance(each, Verified)]


def leading() -> tuple[Looking, str, str]:
    """Give a group with an entry, its leader, and another member."""
    mesh = Looking(durable=False)
    leader = mesh.lead()
    mesh.put(leader)
    mesh.tick()
    mesh.work()
    return mesh, leader, next(name for name in "abc" if name != leader)


@pytest.mark.parametrize("at", ["leader", "follower"])
def test_a_comparison_ends_once_all_members_have_answered(at: str) -> None:
    mesh, leader, other = leading()
    asker = leader if at == "leader" else other
    mesh.compare(asker)
    assert not mesh.verdicts(asker)
    mesh.work()
    (verdict,) = mesh.verdicts(asker)
    assert len(verdict.rows) == 3
    assert len({row.digest for row in verdict.rows}) == 1
    assert verdict.rows[0].replica.endpoint == mesh.where[leader]


def test_a_member_that_is_silent_is_waited_for_and_told_of() -> None:
    mesh, leader, other = leading()
    mesh.cut = {other}
    mesh.compare(leader)
    mesh.work()
    for _ in range(ANSWER_TICKS - 1):
        mesh.tick()
        mesh.work()
        assert not mesh.verdicts(leader)
    mesh.tick()
    (verdict,) = mesh.verdicts(leader)
    assert [row.digest is None for row in verdict.rows].count(True) == 1


def test_those_that_ask_meanwhile_share_the_next_comparison() -> None:
    mesh, leader, other = leading()
    for token in range(1, 100):
        mesh.compare(leader, token)
        mesh.compare(other, token)
    before = mesh.cores[leader].member.journal.end_index
    mesh.work()
    assert len(mesh.verdicts(leader)) == len(mesh.verdicts(other)) == 99
    assert mesh.cores[leader].member.journal.end_index - before <= 2


def test_a_question_outlives_its_leader() -> None:
    mesh, leader, other = leading()
    mesh.cut = {leader}
    mesh.compare(other)
    mesh.pass_ticks(80)
    (verdict,) = mesh.verdicts(other)
    assert verdict.rows[0].replica.endpoint != mesh.where[leader]


def test_an_answer_to_a_comparison_of_another_leader_is_none() -> None:
    mesh, leader, other = leading()
    mesh.cut = {other}
    mesh.compare(leader)
    mesh.work()
    core = mesh.cores[leader]
    core.comparing.hear(mesh.where[other], mesh.cores[other].own, Looked(1, (0, 0, 0)))
    core.comparing.hear(mesh.where[other], mesh.cores[other].own, Looked(2, (0, 0, 0)))
    mesh.tick()
    assert not mesh.verdicts(leader)


def test_a_question_that_is_repeated_is_answered_once_and_there_is_a_limit() -> None:
    mesh, leader, other = leading()
    comparing = mesh.cores[leader].comparing
    mesh.compare(leader)
    for ticket in range(2 * ASKS_MAX):
        for _ in range(2):
            comparing.hear(mesh.where[other], mesh.cores[other].own, Verify(ticket))
    (tickets,) = comparing._waiting.values()
    assert len(tickets) == ASKS_MAX
    mesh.compare(other, 5_000)
    for _ in range(REPEAT_TICKS):
        mesh.tick()
    mesh.work()
    assert len(mesh.verdicts(other)) == 1
