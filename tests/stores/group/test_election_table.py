"""Every role, every message, and every fact that matters: what Raft says, written down again.

``expected`` is the paper's rules in plain code, and knows nothing of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import pytest

from stores.group.ballot import NEW_SLOTS, Ballot
from stores.group.clock import NO_TIMES
from stores.group.effects import Promises, Send
from stores.group.election import TABLE, Election, kind_of
from stores.group.journal import Journal
from stores.group.messages import (
    HigherTerm,
    Keepalive,
    PreVote,
    PreVoteGranted,
    TimeoutNow,
    Vote,
    VoteGranted,
)
from stores.group.positions import MemberId, Position
from stores.group.roles import DEFAULT_TIMING, Role, Trigger
from stores.group.terms import (
    DRAWN_TERMS,
    FORCED_TERMS,
    LEAD_TERMS,
    founding_term,
    is_forced,
    is_of_another_lead,
)

A, B, C, D = (MemberId(name, 0) for name in "abcd")
TERM = 5
END = Position(4, 10)
TERMS = (TERM - 1, TERM, TERM + 1, TERM + 4)
LASTS = (Position(4, 9), END, Position(5, 3))
BACK = (Role.FOLLOWER, Role.ASKING, Role.CANDIDATE)


@dataclass(frozen=True)
class Standing:
    """All that a member's answer may depend on."""

    role: Role
    term: int
    vote: MemberId | None
    leader: MemberId | None
    has_heard_leader: bool
    is_whole: bool
    is_voter: bool

    @property
    def as_follower(self) -> Role:
        return Role.FOLLOWER if self.is_voter else Role.LEARNER


def standings() -> Iterator[Standing]:
    """Give all that can be, and some that cannot."""
    facts = product((None, B, C), (None, B, C), (False, True), (False, True), (False, True))
    for role, (vote, leader, *rest) in product(Role, facts):
        has_heard, is_whole, is_voter = rest
        if role in (Role.CANDIDATE, Role.LEADER):
            vote = A
        if role is Role.LEADER:
            leader, has_heard = A, True
        yield Standing(role, TERM, vote, leader, has_heard, is_whole, is_voter)


def events() -> Iterator[object]:
    for term in TERMS:
        for last in LASTS:
            yield PreVote(term, last)
            yield Vote(term, last, is_handed=False)
            yield Vote(term, last, is_handed=True)
        yield from (PreVoteGranted(term), VoteGranted(term), HigherTerm(term), TimeoutNow(term))
        yield Keepalive(term, 1, 0, 0, NO_TIMES)
    yield from (each for each in Trigger if each is not Trigger.MAJORITY_WON)


def expected(now: Standing, event: object) -> tuple[Standing, list[Send]]:
    """Say what a message of B, or a trigger about B, does."""
    if isinstance(event, Trigger):
        return _triggered(now, event)
    if isinstance(event, PreVote | Vote) and _protects(now, event):
        return now, []
    if not isinstance(event, PreVote | PreVoteGranted) and event.term > now.term:
        now = replace(now, role=now.as_follower, term=event.term, vote=None, leader=None)
    if isinstance(event, PreVote | Vote):
        return _asked(now, event)
    if isinstance(event, Keepalive):
        return _led(now, event)
    return _granted(now, event)


def _granted(now: Standing, event: object) -> tuple[Standing, list[Send]]:
    can_stand = now.role in BACK and now.is_whole and now.is_voter
    match event:
        case TimeoutNow() if event.term == now.term and can_stand:
            return _candidate(now, is_handed=True)
        case PreVoteGranted() if event.term == now.term + 1 and now.role is Role.ASKING:
            return _candidate(now, is_handed=False)
        case VoteGranted() if event.term == now.term and now.role is Role.CANDIDATE:
            return replace(now, role=Role.LEADER, leader=A), []
    return now, []


def _protects(now: Standing, event: PreVote | Vote) -> bool:
    is_handed = isinstance(event, Vote) and event.is_handed
    return now.leader is not None and now.has_heard_leader and not is_handed


def _asked(now: Standing, event: PreVote | Vote) -> tuple[Standing, list[Send]]:
    is_level = now.is_whole and event.last >= END
    if isinstance(event, PreVote) and is_level and event.term > now.term:
        return now, [Send(B, PreVoteGranted(event.term))]
    is_ahead = now.is_whole and event.last < END and event.term > now.term
    if isinstance(event, PreVote) and is_ahead and now.role is Role.LEARNER:
        asked = PreVote(now.term + 1, END)
        others = [voter for voter in _voters(now) if voter != A]
        after = replace(now, role=Role.ASKING, leader=None)
        return after, [Send(other, asked) for other in others]
    is_free = now.vote in (None, B) and event.term == now.term
    if isinstance(event, Vote) and is_level and is_free:
        return replace(now, vote=B), [Send(B, VoteGranted(event.term))]
    return now, [Send(B, HigherTerm(now.term))] * (event.term <= now.term)


def _led(now: Standing, event: Keepalive) -> tuple[Standing, list[Send]]:
    if event.term < now.term:
        return now, [Send(B, HigherTerm(now.term))]
    if now.role is Role.LEADER:
        return now, []  # two leaders of one term: the member follows none
    role = now.role if now.role is Role.LEARNER else now.as_follower
    return replace(now, role=role, leader=B), []


def _triggered(now: Standing, event: Trigger) -> tuple[Standing, list[Send]]:
    match event:
        case Trigger.TIMEOUT if now.role is Role.LEARNER:
            return replace(now, leader=None), []
        case Trigger.TIMEOUT if now.role in BACK:
            if not (now.is_whole and now.is_voter):
                return replace(now, leader=None, role=now.as_follower), []
            asked = PreVote(now.term + 1, END)
            after = replace(now, leader=None, role=Role.ASKING)
            return after, [Send(B, asked), Send(C, asked)]
        case Trigger.LEADER_UNREACHABLE if now.role in (Role.FOLLOWER, Role.LEARNER):
            return replace(now, leader=None) if now.leader == B else now, []
        case Trigger.VOTERS_CHANGED if now.role is Role.LEARNER and now.is_voter:
            return replace(now, role=Role.FOLLOWER), []
        case Trigger.VOTERS_CHANGED if now.role in BACK and not now.is_voter:
            return replace(now, role=Role.LEARNER), []
        case Trigger.FORCED:
            term = FORCED_TERMS  # the least of those that are drawn
            return replace(now, role=Role.LEADER, term=term, vote=A, leader=A), []
        case Trigger.MAJORITY_LOST if now.role is Role.LEADER:
            return replace(now, leader=None, role=now.as_follower), []
    return now, []


def _candidate(now: Standing, *, is_handed: bool) -> tuple[Standing, list[Send]]:
    vote = Vote(now.term + 1, END, is_handed)
    others = [voter for voter in _voters(now) if voter != A]
    after = replace(now, role=Role.CANDIDATE, term=now.term + 1, vote=A, leader=None)
    return after, [Send(other, vote) for other in others]


def _voters(now: Standing) -> tuple[MemberId, ...]:
    return (A, B, C) if now.is_voter else (B, C, D)


def member_in(now: Standing) -> tuple[Election, Ballot]:
    """Bring a real election into a state."""
    promises = Promises(A, 1, now.term, now.vote, now.is_whole)
    # A file that has its mark, so that it is whole if its record says so.
    ballot = Ballot(promises, NEW_SLOTS, END)
    journal = Journal(END, _voters(now))
    election = Election(ballot, journal, DEFAULT_TIMING, lambda low, high: low)
    election.role, election.leader = now.role, now.leader
    election._votes = {A}
    election._unheard_ticks = 0 if now.has_heard_leader else DEFAULT_TIMING.timeout_ticks_min
    return election, ballot


@pytest.mark.parametrize("role", Role)
def test_every_message_in_every_standing_does_what_raft_says(role):
    cases = product((each for each in standings() if each.role is role), events())
    for now, event in cases:
        if isinstance(event, PreVoteGranted) and role is Role.ASKING and not now.is_voter:
            continue  # its own vote does not count then: see below
        if isinstance(event, VoteGranted) and role is Role.CANDIDATE and not now.is_voter:
            continue
        election, ballot = member_in(now)
        effects = election.take(B, event)
        after, answers = expected(now, event)
        assert (election.role, election.leader) == (after.role, after.leader), (now, event)
        assert (ballot.term, ballot.vote) == (after.term, after.vote), (now, event)
        assert effects == answers, (now, event)


def test_the_own_vote_of_a_member_that_is_no_voter_counts_for_nothing():
    """A removed voter that asks needs a majority of the others."""
    now = Standing(Role.CANDIDATE, TERM, A, None, False, True, is_voter=False)
    election, _ = member_in(now)
    election.take(B, VoteGranted(TERM))
    assert election.role is Role.CANDIDATE
    election.take(C, VoteGranted(TERM))
    assert election.role is Role.LEADER


def test_one_voter_twice_is_no_majority_of_five():
    promises = Promises(A, 1, TERM, A, is_whole=True)
    voters = (A, B, C, D, MemberId("e", 0))
    journal = Journal(END, voters)
    ballot = Ballot(promises, NEW_SLOTS, END)
    election = Election(ballot, journal, DEFAULT_TIMING, lambda low, high: low)
    election.role, election._votes = Role.CANDIDATE, {A}
    for _ in range(3):
        election.take(B, VoteGranted(TERM))
    assert election.role is Role.CANDIDATE


def test_a_single_voter_elects_itself_with_one_timeout():
    journal = Journal(END, (A,))
    ballot = Ballot(Promises(A, 1, TERM, None, is_whole=True), NEW_SLOTS, END)
    election = Election(ballot, journal, DEFAULT_TIMING, lambda low, high: low)
    for _ in range(DEFAULT_TIMING.timeout_ticks_min - 1):
        election.tick()
    assert election.role is Role.FOLLOWER
    election.tick()
    assert election.role is Role.LEADER
    assert (ballot.term, ballot.vote) == (TERM + 1, A)


def test_a_vote_is_given_once_in_a_term_whatever_comes_in_between():
    now = Standing(Role.FOLLOWER, TERM, None, None, False, True, is_voter=True)
    election, ballot = member_in(now)
    election.take(B, Vote(TERM, END, is_handed=False))
    election.take(C, Keepalive(TERM, 1, 0, 0, NO_TIMES))
    assert election.take(C, Vote(TERM, END, is_handed=True)) == [Send(C, HigherTerm(TERM))]
    assert ballot.vote == B


@pytest.mark.parametrize("role", Role)
def test_every_row_of_the_table_is_the_first_that_holds_somewhere(role):
    """A row that no standing comes to would be drawn, and never happen."""
    met = set()
    for now, event in product((each for each in standings() if each.role is role), events()):
        election, _ = member_in(now)
        rows = TABLE[role].get(kind_of(event), ())
        holding = [at for at, move in enumerate(rows) if move.condition(election, B, event)]
        met |= {(kind_of(event), at) for at in holding[:1]}
    rows = {(kind, at) for kind, moves in TABLE[role].items() for at in range(len(moves))}
    assert {row for row in rows if row[0] is not Trigger.MAJORITY_WON} == met


def test_majorities_lead_from_asking_to_leading():
    now = Standing(Role.ASKING, TERM, None, None, False, True, is_voter=True)
    election, ballot = member_in(now)
    election.take(C, PreVoteGranted(TERM + 1))
    assert (election.role, ballot.term) == (Role.CANDIDATE, TERM + 1)
    election.take(C, VoteGranted(TERM + 1))
    assert (election.role, election.leader) == (Role.LEADER, A)


def test_timeouts_of_a_lost_lead_double_up_to_four_times_for_thirty_seconds():
    now = Standing(Role.LEADER, TERM, A, A, True, True, is_voter=True)
    election, _ = member_in(now)
    limits = []
    for _ in range(4):
        election.role = Role.LEADER
        election.take(A, Trigger.MAJORITY_LOST)
        limits.append(election._limit_ticks)
    assert limits == [20, 40, 40, 40]
    election._limit_ticks = 10_000
    for _ in range(DEFAULT_TIMING.backoff_ticks - 1):
        election.tick()
    assert election._draw_limit() == 40
    election.tick()
    assert election._draw_limit() == 10


def ticks_to_ask(election: Election) -> int:
    """Count the ticks until a member asks for votes."""
    return next(count for count in range(1, 100) if election.tick())


NO_LEADER = Standing(Role.FOLLOWER, TERM, None, None, False, True, is_voter=True)


@pytest.mark.parametrize(
    ("event", "ticks"),
    [
        (Vote(TERM + 1, END, is_handed=False), 10),
        (Keepalive(TERM, 1, 0, 0, NO_TIMES), 10),
        (Vote(TERM + 1, LASTS[0], is_handed=False), 5),
        (HigherTerm(TERM + 1), 5),
        (PreVote(TERM + 1, END), 5),
    ],
    ids=["its vote", "a leader", "a vote that it refuses", "a later term", "a question"],
)
def test_what_has_a_follower_wait_for_all_of_another_timeout(event, ticks):
    election, _ = member_in(NO_LEADER)
    for _ in range(5):
        election.tick()
    election.take(B, event)
    assert ticks_to_ask(election) == ticks


def test_a_member_that_asks_waits_for_all_of_a_timeout_before_it_asks_again():
    election, _ = member_in(NO_LEADER)
    assert [ticks_to_ask(election) for _ in range(3)] == [10, 10, 10]


def test_a_leader_that_hears_of_a_later_term_waits_for_all_of_a_timeout():
    election, ballot = member_in(NO_LEADER)
    ticks_to_ask(election)
    election.take(B, PreVoteGranted(TERM + 1))
    for _ in range(9):
        assert election.tick() == []
    election.take(B, VoteGranted(TERM + 1))
    assert election.role is Role.LEADER
    election.take(B, HigherTerm(TERM + 2))
    assert (election.role, ballot.term) == (Role.FOLLOWER, TERM + 2)
    assert ticks_to_ask(election) == 10


@pytest.mark.parametrize(("drawn", "ticks"), [(0, 1), (DEFAULT_TIMING.hint_ticks_max, 3)])
def test_a_hint_has_a_follower_ask_within_some_ticks_that_are_drawn(drawn, ticks):
    election, _ = member_in(replace(NO_LEADER, leader=B))
    for _ in range(5):
        election.tick()
    election._draw = lambda low, high: min(drawn, high)
    election.take(B, Trigger.LEADER_UNREACHABLE)
    assert ticks_to_ask(election) == ticks


def test_the_terms_of_those_that_are_forced_are_drawn_from_a_half_of_a_stretch():
    for draw, term in [(min, FORCED_TERMS), (max, FORCED_TERMS + DRAWN_TERMS - 1)]:
        election, ballot = member_in(NO_LEADER)
        election._draw = draw
        election.take(A, Trigger.FORCED)
        assert (ballot.term, ballot.vote, election.leader) == (term, A, A)


def test_a_term_is_forced_if_it_is_of_a_later_stretch():
    assert is_forced(FORCED_TERMS, FORCED_TERMS - 1)
    assert is_forced(2 * FORCED_TERMS, FORCED_TERMS + 5)
    assert not is_forced(FORCED_TERMS + 9, FORCED_TERMS)
    assert not is_forced(FORCED_TERMS - 1, 0)


@pytest.mark.parametrize(
    ("seconds", "term"),
    [(-5, 1), (0, 1), (1, 1), (1_800_000_000, 1_800_000_000), (1 << 40, FORCED_TERMS - LEAD_TERMS)],
)
def test_a_group_begins_in_the_term_of_its_second_and_not_by_force(seconds, term):
    assert founding_term(seconds * 10**9) == founding_term(seconds * 10**9 + 999_999_999) == term
    assert not is_of_another_lead(term, 0)


def test_a_hint_lets_a_follower_ask_at_once_and_is_void_with_the_next_leader():
    now = Standing(Role.FOLLOWER, TERM, None, B, True, True, is_voter=True)
    election, _ = member_in(now)
    election.take(B, Trigger.LEADER_UNREACHABLE)
    election.take(C, Keepalive(TERM, 1, 0, 0, NO_TIMES))
    for _ in range(DEFAULT_TIMING.timeout_ticks_min - 1):
        assert election.tick() == []
    assert election.role is Role.FOLLOWER
    election.take(C, Trigger.LEADER_UNREACHABLE)
    assert election.tick() == [Send(B, PreVote(TERM + 1, END)), Send(C, PreVote(TERM + 1, END))]


def test_a_leader_is_protected_by_ticks_since_it_was_heard_not_by_timers():
    now = Standing(Role.FOLLOWER, TERM, None, B, True, True, is_voter=True)
    election, _ = member_in(now)
    election._limit_ticks = 1000
    for _ in range(DEFAULT_TIMING.timeout_ticks_min):
        assert election.take(C, PreVote(TERM + 1, END)) == []
        election.tick()
    assert election.take(C, PreVote(TERM + 1, END)) == [Send(C, PreVoteGranted(TERM + 1))]


@pytest.mark.parametrize("is_voter", [True, False])
def test_who_has_nothing_of_a_forced_lead_asks_for_no_votes(is_voter):
    role = Role.FOLLOWER if is_voter else Role.LEARNER
    election, ballot = member_in(replace(NO_LEADER, role=role, is_voter=is_voter))
    ballot.follow(FORCED_TERMS + 7)
    for _ in range(10 * DEFAULT_TIMING.timeout_ticks_max):
        assert election.tick() == []
    behind = PreVote(FORCED_TERMS + 9, Position(END.term, END.index - 1))
    assert election.take(B, behind) == []
    assert election.role is role


def test_leads_by_force_of_one_stretch_are_told_apart_by_what_they_have_drawn():
    drawn = FORCED_TERMS + 5
    assert not is_of_another_lead(drawn + LEAD_TERMS - 1, drawn)
    assert is_of_another_lead(drawn + LEAD_TERMS, drawn)
    assert is_of_another_lead(FORCED_TERMS, FORCED_TERMS - 1)
    assert not is_of_another_lead(LEAD_TERMS + 7, 0), "no lead was taken by force"
