"""Which members are to be voters, by their names or by their number, and what is known of each."""

from __future__ import annotations

import pytest

from channels import CumulativeAck, Event
from stores.group import followers
from stores.group.entries import ActionEntry
from stores.group.followers import BREAK_TICKS, SILENT_TICKS, Followers
from stores.group.journal import Journal
from stores.group.limits import DISMISSED_MAX
from stores.group.membership import (
    IN_TOUCH_TICKS,
    Declared,
    MemberStatus,
    Wanted,
    dismissed_after,
)
from stores.group.messages import FromFollower, ToFollower
from stores.group.positions import START, MemberId
from stores.group.quorum import VoterHistory

A, B, C, D = (MemberId(name, 0) for name in "abcd")


@pytest.mark.parametrize(
    ("names", "count", "wants"),
    [((), 0, False), (("a", "b"), 0, True), (("b",), 0, False), ((), 3, True), (("b",), 3, True)],
)
def test_a_replica_asks_for_a_vote_where_its_name_is_declared_or_a_number(names, count, wants):
    assert Declared(names, count).wanted.wants("a") is wants
    assert Wanted(frozenset(names), count).wants("a") is wants


def test_where_names_are_declared_no_other_is_added_and_else_up_to_the_number():
    assert Wanted(frozenset("ab"), 1).admits("b", ())
    assert not Wanted(frozenset("ab"), 9).admits("c", ())
    assert [Wanted(count=2).admits("c", voters) for voters in ((), (1,), (1, 2))] == [
        True,
        True,
        False,
    ]


# -- what a leader knows of those that follow it -------------------------------------------------


@pytest.fixture
def known():
    return Followers(VoterHistory(0, (D,)))


def follow(known, member, *, session=1, match=0, wants_vote=False, is_whole=True):
    """Have a member in session that has echoed a round now."""
    follower = known.find(member)
    follower.begin(session, 0, 0)
    follower.wants_vote = wants_vote
    word = FromFollower(1, session, is_whole=is_whole, message=CumulativeAck(1, match))
    known.acknowledged(member, word, match)
    known.echo(member, 1)


def test_nothing_is_known_of_a_member_that_was_never_heard_of(known):
    assert (len(known), list(known), known.get(A)) == (0, [], None)
    assert (known.matched(A), known.echoed(A)) == (0, 0)
    assert not known.is_in_touch(A, 99)
    assert not known.is_healthy(A, 99)
    known.forget(A)


def test_a_member_is_in_touch_for_some_ticks_after_an_echo_of_a_round(known):
    known.find(A)
    assert not known.is_in_touch(A, 5), "it has echoed no round"
    known.tick = 7
    known.echo(A, 1)
    known.tick += 5
    assert known.is_in_touch(A, 5)
    known.tick += 1
    assert not known.is_in_touch(A, 5)
    known.echo(A, 1)
    assert known.is_in_touch(A, 0)


def test_the_latest_round_that_was_echoed_counts(known):
    for number in (4, 3):
        known.echo(A, number)
    assert known.echoed(A) == 4


def test_a_member_in_touch_is_healthy_if_it_says_that_it_is_whole(known):
    follow(known, A)
    follow(known, B, is_whole=False)
    assert known.is_healthy(A, 5)
    assert not known.is_healthy(B, 5)
    known.tick += 6
    assert not known.is_healthy(A, 5)


def test_acknowledgements_of_a_whole_member_alone_raise_what_is_durable_there(known):
    follow(known, A, match=5)
    for match, is_whole, matched in [(4, True, 5), (9, False, 5), (8, True, 8)]:
        word = FromFollower(1, 1, is_whole=is_whole, message=CumulativeAck(1, match))
        known.acknowledged(A, word, match)
        assert (known.matched(A), known.get(A).is_whole) == (matched, is_whole)
    known.get(A).begin(2, 8, 8)
    assert (known.matched(A), known.get(A).is_whole) == (0, False), "a session begins anew"


def test_a_member_is_silent_after_its_ticks_without_an_echo_also_without_any(known):
    known.tick = 3
    known.find(A)
    follow(known, B)
    known.tick += SILENT_TICKS
    assert known.silent() == []
    known.echo(B, 2)
    known.tick += 1
    assert known.silent() == [A]
    known.forget(A)
    assert [member for member, _ in known] == [B]


def test_no_more_members_are_known_than_there_may_be_but_for_voters(known, monkeypatch):
    monkeypatch.setattr(followers, "FOLLOWERS_MAX", 2)
    for member in (A, B, C, D):
        known.echo(member, 1)
    assert [known.get(member) is not None for member in (A, B, C, D)] == [True, True, False, True]
    for member in (D, A):
        known.forget(member)
    assert known.find(C) is not None


def test_a_member_that_asks_for_a_vote_gets_it_when_it_is_whole_level_and_long_enough_there(known):
    follow(known, A, match=5, wants_vote=True)
    follow(known, B, match=5)
    follow(known, C, match=4, wants_vote=True)
    follow(known, D, match=5, wants_vote=True, is_whole=False)
    for _ in range(IN_TOUCH_TICKS):
        assert known.settled(5) == []
        known.tick += 1
        for member in (A, B, C, D):
            known.echo(member, known.tick)
    assert known.settled(5) == [A]
    assert known.settled(4) == [A, C]
    known.tick += BREAK_TICKS + 1
    assert known.settled(4) == []


@pytest.mark.parametrize("silence", [BREAK_TICKS, BREAK_TICKS + 1])
def test_a_member_that_was_silent_for_too_long_has_to_prove_itself_anew(known, silence):
    known.tick = 1
    follow(known, A, wants_vote=True)
    end = known.tick + IN_TOUCH_TICKS
    known.tick += silence
    while known.tick < end:
        known.echo(A, known.tick)
        known.tick += BREAK_TICKS
    known.tick = end
    known.echo(A, known.tick)
    assert known.settled(0) == ([A] if silence == BREAK_TICKS else [])
    known.tick += silence
    assert known.settled(0) == ([A] if silence == BREAK_TICKS else [])


def test_who_is_removed_is_dismissed_as_the_latest_one_until_it_is_a_voter_again():
    assert dismissed_after((), (A,), ["b"]) == ("b",)
    assert dismissed_after(("b", "c"), (A,), ["b"]) == ("b", "c")
    assert dismissed_after(("b", "c"), (A, D), ["e"]) == ("b", "c", "e")
    assert dismissed_after(("b", "c"), (A, B)) == ("c",)
    assert dismissed_after(("b",), (A, MemberId("b", 7)), ["b"]) == ()


def test_the_name_that_was_dismissed_first_is_forgotten_for_one_too_many():
    names = tuple(map(str, range(DISMISSED_MAX)))
    assert dismissed_after(names[:-1], (A,), names[-1:]) == names
    assert dismissed_after(names, (A,), ["x"]) == (*names[1:], "x")


def test_a_declared_name_stays_dismissed_however_many_others_are():
    """As of machines that have a new name each, or names that were mistyped."""
    names, declared = tuple(map(str, range(DISMISSED_MAX))), frozenset({"0", "2"})
    assert dismissed_after(names, (A,), ["x"], declared) == ("0", *names[2:], "x")
    for number in range(DISMISSED_MAX):
        names = dismissed_after(names, (A,), [f"y{number}"], declared)
    assert len(names) == DISMISSED_MAX
    assert names[:3] == ("0", "2", "y2")


def test_a_member_whose_vote_a_person_took_is_not_given_it_in_any_life():
    lives = [MemberId("b", 1), MemberId("b", 2), C]
    known = Followers(VoterHistory(0, (A,), ("b",)))
    for member in lives:
        follow(known, member, wants_vote=True)
    known.tick += IN_TOUCH_TICKS
    for member in lives:
        known.echo(member, known.tick)
    assert [each.member for each in known.status((A,)) if each.is_dismissed] == lives[:2]


def test_a_member_is_newer_than_one_that_was_not_heard_since_it_came(known):
    assert known.is_newer(B, A), "neither was heard"
    follow(known, A)
    known.tick += 1
    known.find(B)
    assert known.is_newer(B, A)
    assert not known.is_newer(A, B)
    known.echo(B, 1)
    known.echo(A, 1)
    assert known.is_newer(B, A), "in one tick it is not known who was heard first"
    known.tick += 1
    assert known.is_newer(B, A)
    known.echo(A, 2)
    assert not known.is_newer(B, A)


def test_a_leader_tells_of_each_voter_and_each_member_that_it_heard_of(known):
    follow(known, A, match=5)
    follow(known, B, match=3, is_whole=False)
    known.tick += 4
    known.echo(A, 2)
    known.tick += 1
    status = {each.member: each for each in known.status((A, C))}
    assert status == {
        A: MemberStatus(A, is_voter=True, is_whole=True, match=5, silent_ticks=1),
        C: MemberStatus(C, is_voter=True, is_whole=False, match=0, silent_ticks=5),
        B: MemberStatus(B, is_voter=False, is_whole=False, match=0, silent_ticks=5),
    }


def test_a_member_is_sent_what_it_lacks_in_runs_and_a_few_ahead_of_its_word(known, monkeypatch):
    monkeypatch.setattr(followers, "CATCH_UP_ENTRIES", 4)
    monkeypatch.setattr(followers, "CATCH_UP_RUN", 2)
    journal = Journal(START, (A,), [ActionEntry(1, number) for number in range(1, 12)])
    follower = known.find(A)

    def sent(done):
        return list(follower.catch_up(journal, 9, 1, done))

    def run(first, last):
        return ToFollower(1, None, Event(1, first, journal.payloads(first, last)), 9)

    follower.begin(7, 2, 10)
    assert sent(2) == [run(3, 4), run(5, 6)]
    assert sent(3) == [run(7, 7)]
    assert sent(3) == []
    assert sent(8) == [run(9, 10)], "it got the eighth otherwise"
    assert sent(11) == []
    journal.compact(6)
    follower.begin(8, 0, 10)
    assert sent(0) == []
    assert sent(5) == [run(7, 8), run(9, 9)], "the journal begins there"
