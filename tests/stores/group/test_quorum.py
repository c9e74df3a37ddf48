"""Majorities, and which changes of the voters are safe."""

from __future__ import annotations

from itertools import combinations

import pytest

from channels import Event
from stores.group.codec import GroupCodec
from stores.group.entries import VotersEntry
from stores.group.limits import VOTERS_MAX
from stores.group.membership import Wanted, next_voters
from stores.group.messages import ToFollower
from stores.group.positions import MemberId
from stores.group.quorum import ChangeRefusal, agreed, has_majority, majority, refusal_of
from stores.table.codec import TableCodec
from wire.errors import DecodeError

A, B, C, D, E = (MemberId(name, 0) for name in "abcde")


@pytest.mark.parametrize(("count", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(count, needed):
    voters = (A, B, C, D, E)[:count]
    assert majority(voters) == needed
    assert has_majority(voters, voters[:needed])
    assert not has_majority(voters, voters[: needed - 1])


def test_others_and_repeated_ones_make_no_majority():
    assert not has_majority((A, B, C), [A, A, D, E])


@pytest.mark.parametrize(
    ("reached", "number"),
    [((5, 3, 1), 3), ((5, 5, 0), 5), ((9, 0, 0), 0), ((9, 4), 4), ((7,), 7), ((), 0)],
)
def test_a_majority_has_the_number_in_the_middle(reached, number):
    voters = (A, B, C)[: len(reached)]
    assert agreed(voters, dict(zip(voters, reached, strict=True)).__getitem__) == number


def test_majorities_of_neighbouring_configurations_share_a_voter():
    everyone = (A, B, C, D, E)
    for size in range(1, 5):
        old, new = everyone[:size], everyone[: size + 1]
        for some in combinations(old, majority(old)):
            for others in combinations(new, majority(new)):
                assert set(some) & set(others)


@pytest.mark.parametrize(
    ("new", "healthy", "level", "refusal"),
    [
        ((A, B, C, D), (A, B, C, D), (D,), None),
        ((A, B), (A, B), (), None),
        ((A, B), (A, B, C), (), ChangeRefusal.LAST_OF_THREE),
        ((A, B), (A, C), (), ChangeRefusal.LAST_OF_THREE),
        ((A, B, C), (A, B, C), (), ChangeRefusal.NO_CHANGE),
        ((C, B, A), (A, B, C), (), ChangeRefusal.NO_CHANGE),
        ((A, B, D), (A, B, C, D), (D,), ChangeRefusal.SEVERAL),
        ((A,), (A, B, C), (), ChangeRefusal.SEVERAL),
        ((), (A, B, C), (), ChangeRefusal.NOBODY),
        ((A, B), (A,), (), ChangeRefusal.TOO_FEW_HEALTHY),
        ((A, B, C, D), (A, B), (D,), ChangeRefusal.TOO_FEW_HEALTHY),
        ((A, B, C, D), (A, B, C, D), (), ChangeRefusal.NOT_LEVEL),
        ((A, B, C, D), (A, B, C), (D,), ChangeRefusal.SILENT),
        ((A, B, C, D), (A, B, C), (), ChangeRefusal.SILENT),
    ],
)
def test_a_change_is_of_one_healthy_and_level_voter(new, healthy, level, refusal):
    assert judged((A, B, C), new, healthy, level) is refusal


def judged(old, new, healthy, level=()):
    """Judge a change; who is not healthy is not there."""
    is_healthy = healthy.__contains__
    return refusal_of(
        old,
        new,
        is_healthy=is_healthy,
        is_level=level.__contains__,
        is_there=is_healthy,
        has_echoed=is_healthy,
    )


@pytest.mark.parametrize("old", [(A, B), (A, B, C, D), (A, B, C, D, E)])
def test_other_than_three_voters_may_lose_one_that_is_there(old):
    assert judged(old, old[1:], healthy=old) is None


X = MemberId("a", 9)


@pytest.mark.parametrize(
    ("voters", "settled", "gone", "wanted", "after"),
    [
        ((A, B), (A, B), (), Wanted(count=3), None),
        ((A, B), (A, B, C), (), Wanted(count=3), (A, B, C)),
        ((A, B), (C, D), (), Wanted(count=2), None),
        ((A, B), (D, C), (), Wanted(names=frozenset("abd")), (A, B, D)),
        ((A, B), (), (), Wanted(names=frozenset("abd")), None),
        ((A, B, C), (X,), (A,), Wanted(names=frozenset("abc")), (B, C)),
        ((A, B, C), (X,), (B,), Wanted(names=frozenset("abc")), None),
        ((A, B, C), (X,), (), Wanted(names=frozenset("abc")), None),
        ((A, B), (X,), (), Wanted(count=3), None),
        ((B, C), (X, D), (), Wanted(names=frozenset("abc")), (B, C, X)),
        ((A, B, C), (X,), (A,), Wanted(count=3), (B, C)),
        ((A, B, C), (X,), (A,), Wanted(), None),
        ((A, B, C), (D,), (), Wanted(names=frozenset("ad")), (A, B, C, D)),
    ],
)
def test_a_leader_replaces_lost_lives_and_fills_up_by_itself(voters, settled, gone, wanted, after):
    assert next_voters(voters, settled, gone, wanted) == after


def test_no_voter_is_added_beyond_those_that_other_members_read():
    some = tuple(MemberId(f"n{number}", 1) for number in range(VOTERS_MAX + 2))

    def judged(old, new):
        return refusal_of(
            old,
            new,
            is_healthy=lambda member: True,
            is_level=lambda member: True,
            is_there=lambda member: True,
            has_echoed=lambda member: True,
        )

    assert judged(some[: VOTERS_MAX - 1], some[:VOTERS_MAX]) is None
    assert judged(some[:VOTERS_MAX], some[: VOTERS_MAX + 1]) is ChangeRefusal.TOO_MANY
    assert judged(some, some[:-1]) is None, "a leader of an earlier release may have added them"
    GroupCodec(TableCodec()).decode(letter_of(some[:VOTERS_MAX]))
    with pytest.raises(DecodeError):
        GroupCodec(TableCodec()).decode(letter_of(some[: VOTERS_MAX + 1]))


def letter_of(voters):
    event = Event(1, 1, (VotersEntry(1, voters),))
    (payload,) = GroupCodec(TableCodec()).encode(A, bytes(16), ToFollower(1, None, event))
    return payload
