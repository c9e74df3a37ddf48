"""What a replica remembers of members that come and go, and of those that are invented."""

from __future__ import annotations

import pytest

from stores.group.positions import MemberId
from stores.replica import roster as rosters
from stores.replica.roster import Roster
from wire.identifiers import EndpointId

A, B, C = VOTERS = tuple(MemberId(name, 1) for name in "abc")
LEARNERS = [MemberId("x", life) for life in range(9)]


def where(number: int) -> EndpointId:
    return EndpointId(bytes([number]) * 16)


@pytest.fixture
def roster() -> Roster:
    return Roster(A, where(0), "abc")


def test_an_endpoint_has_the_member_that_it_named_last(roster: Roster) -> None:
    for member in LEARNERS:
        roster.meet(where(1), member, VOTERS)
    assert [roster.endpoint_of(member) for member in LEARNERS[:-1]] == [None] * 8
    assert roster.lose(where(1)) == [LEARNERS[-1]]
    assert roster.lose(where(1)) == []


def test_a_member_is_where_it_was_heard_last(roster: Roster) -> None:
    roster.meet(where(1), B, VOTERS)
    roster.meet(where(2), B, VOTERS)
    assert roster.lose(where(1)) == []
    assert roster.endpoint_of(B) == where(2)
    roster.meet(where(1), C, VOTERS)
    roster.meet(where(1), B, VOTERS)
    assert (roster.endpoint_of(B), roster.endpoint_of(C)) == (where(1), None)
    assert roster.lose(where(2)) == []
    assert roster.lose(where(1)) == [B]


def test_nobody_else_is_taken_for_the_replica_here(roster: Roster) -> None:
    roster.meet(where(1), A, VOTERS)
    assert roster.endpoint_of(A) == where(0)


def test_no_more_members_are_known_than_there_may_be_but_for_voters(
    roster: Roster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rosters, "FOLLOWERS_MAX", 3)
    voter, anew = MemberId("elsewhere", 1), MemberId("b", 2)
    for number, member in enumerate([*LEARNERS[:3], voter, anew], 1):
        roster.meet(where(number), member, (A, voter))
    known = [each for each in (*LEARNERS, voter, anew) if roster.endpoint_of(each)]
    assert known == [*LEARNERS[:2], voter, anew]
    roster.meet(where(9), LEARNERS[0], (A, voter))
    assert roster.endpoint_of(LEARNERS[0]) == where(9), "it is none more"


def test_how_long_a_member_was_silent_is_remembered_of_voters_alone(roster: Roster) -> None:
    roster.meet(where(1), B, VOTERS)
    roster.meet(where(2), C, VOTERS)
    assert roster.hears_majority(VOTERS)
    roster.lose(where(1))
    roster.lose(where(2))
    for _ in range(20):
        roster.tick((A, B))
    text = "2 of 3 voters: b silent 2.0 s, c never heard; start them, or promote(force=True)"
    assert roster.explain_silence(VOTERS) == text


def test_what_to_do_stands_in_an_error_however_long_names_are() -> None:
    voters = tuple(MemberId(name * 64, 1) for name in "abcde")
    roster = Roster(voters[0], where(0), [voter.name for voter in voters])
    assert roster.explain_silence(voters).endswith("; start them, or promote(force=True)")
    assert len(roster.explain_silence(voters)) < 145
    for number, voter in enumerate(voters[1:], 1):
        roster.meet(where(number), voter._replace(life=2), voters)
    assert f"promote(force=True) at {voters[0].name}" in roster.explain_silence(voters)
    assert Roster(voters[0], where(0), "b").explain_silence((B,)) == "1 of 1 voters: b never heard"
