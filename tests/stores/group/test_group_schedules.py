"""With all rules on, no schedule goes wrong."""

from __future__ import annotations

import pytest

from stores.group.messages import TimeoutNow, Vote, VoteGranted
from stores.group.roles import Role
from tests.stores.group.schedules import SCHEDULES
from tests.stores.group.stage import Stage, given


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.__name__)
def test_all_rules_together_hold_in_every_schedule(schedule):
    schedule()


def test_who_wins_an_earlier_term_late_needs_nothing_that_a_later_one_committed():
    """A candidate is stopped between its votes and its lead, while another one leads and commits.

    The promise of a term's leader is about what earlier terms have committed. A witness that asked
    for more saw in seed 21727 of the worlds what Raft does not promise.
    """
    stage = Stage()
    stage.do("a", "receive", stage.ids["c"], TimeoutNow(0))
    stage.pass_on("ac", kinds=(Vote,))
    votes = [letter for letter in stage.mail if isinstance(letter[2], VoteGranted)]
    given([letter[:2] for letter in votes] == [(stage.ids["c"], stage.ids["a"])], "no late vote")
    stage.clear()
    given(stage.elect("b", "c"), "b is not elected")
    stage.tick("b", times=8, links=["bc"], sync="bc")
    given(stage.is_ready("b"), "b has committed nothing")
    committed = stage.members["b"].state.commit
    stage.mail = votes
    stage.pass_on("ac", kinds=(VoteGranted,))
    assert stage.members["a"].role is Role.LEADER
    assert stage.members["a"].ballot.term < stage.members["b"].ballot.term
    stage.tick("ab", times=8, links=["abc"], sync="abc")
    assert stage.members["a"].role is Role.FOLLOWER
    assert stage.members["a"].state.commit >= committed
