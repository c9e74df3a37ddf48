"""What waits of data for one peer: two marks, a reserve, and what is dropped when it is used up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from endpoint.link.data_queue import DataQueue, Outgoing, OverflowPolicy
from endpoint.link.limits import LinkLimits, Mark

LIMITS = LinkLimits(own=Mark(4, 2), transit=Mark(6, 3), reserve=5)


def queue(
    policy: OverflowPolicy = OverflowPolicy.DISCONNECT, *, may_hold: bool = True
) -> DataQueue:
    return DataQueue(policy, LIMITS, may_hold=may_hold)


def own(charge: int = 1, number: int = 0, count: int = 1) -> Outgoing:
    return Outgoing([number.to_bytes(8)], 8, count, charge, True)


def transit(charge: int = 1, number: int = 0) -> Outgoing:
    return Outgoing([number.to_bytes(8)], 8, 1, charge, False)


def numbers(waiting: DataQueue) -> list[int]:
    taken = []
    while waiting.frames:
        taken.append(int.from_bytes(waiting.take().pieces[0]))
    return taken


def fill(waiting: DataQueue, make, charge: int) -> None:
    for number in range(charge):
        waiting.put(make(number=number), forced=False)


def test_publishers_wait_at_their_mark_and_go_on_at_half_of_it() -> None:
    waiting = queue()
    assert waiting.is_yielding is waiting.is_lossy is False
    for charge, is_full in [(1, False), (2, False), (3, False), (4, True)]:
        waiting.put(own(), forced=False)
        assert (waiting.own, waiting.is_full) == (charge, is_full)
    seen = []
    while waiting.frames:
        waiting.take()
        seen.append((waiting.own, waiting.is_full, waiting.has_room))
    assert seen == [(3, False, False), (2, False, False), (1, False, True), (0, False, True)]


def test_senders_of_what_passes_are_told_at_the_mark_and_links_withheld_at_the_reserve() -> None:
    waiting, seen = queue(), []
    for _ in range(12):
        waiting.put(transit(), forced=False)
        seen.append((waiting.is_crowded, waiting.is_exhausted))
    assert seen == [(number >= 6, number >= 11) for number in range(1, 13)]
    passable = []
    while waiting.frames:
        waiting.take()
        passable.append(waiting.is_passable)
    assert passable.index(True) == len(passable) - LIMITS.transit.low


def test_neither_kind_counts_for_the_mark_of_the_other() -> None:
    waiting = queue()
    fill(waiting, transit, 20)
    assert not waiting.is_full
    assert waiting.has_room
    waiting = queue()
    fill(waiting, own, 20)
    waiting.put(transit(6), forced=False)
    assert not waiting.is_exhausted
    waiting.take()
    waiting = queue()
    fill(waiting, own, 20)
    assert not waiting.is_crowded
    assert waiting.is_passable


def test_data_leave_in_order_whatever_their_kind() -> None:
    waiting = queue()
    for number in range(10):
        waiting.put((own if number % 3 else transit)(number=number), forced=False)
    assert numbers(waiting) == list(range(10))


def test_a_place_that_held_too_long_drops_its_oldest_until_there_is_room() -> None:
    waiting = queue()
    fill(waiting, transit, 5)
    waiting.put(own(number=99), forced=False)
    fill(waiting, transit, 7)
    waiting.become_lossy()
    assert (waiting.transit, waiting.own, waiting.dropped) == (6, 1, 6)
    assert not waiting.is_crowded, "no sender is told any more"
    assert waiting.is_passable
    waiting.put(transit(number=12), forced=False)
    assert (waiting.transit, waiting.dropped) == (6, 7)
    taken: list[bool] = []
    while waiting.transit >= LIMITS.transit.low:
        assert waiting.is_yielding
        taken.append(waiting.take().own)
    assert waiting.is_yielding is False
    assert taken == [True, False, False, False, False], "it has dropped only what passes through"
    assert numbers(waiting) == [6, 12], "the latest"
    fill(waiting, transit, 6)
    assert waiting.is_crowded


def test_a_forced_message_never_enlarges_a_full_place() -> None:
    waiting = queue()
    fill(waiting, transit, 5)
    waiting.put(transit(number=5), forced=True)
    assert (waiting.transit, waiting.dropped) == (6, 0), "there was room"
    waiting.put(transit(number=6), forced=True)
    assert (waiting.transit, waiting.dropped) == (6, 1)
    waiting.put(transit(number=7), forced=False)
    waiting.put(transit(3, number=8), forced=True)
    assert (waiting.transit, waiting.dropped) == (7, 4), "it makes room for itself, and no more"
    assert numbers(waiting) == [4, 5, 6, 7, 8]


def test_without_the_right_to_hold_the_oldest_go_when_the_reserve_is_used_up() -> None:
    waiting = queue(may_hold=False)
    fill(waiting, transit, 20)
    assert (waiting.transit, waiting.dropped) == (11, 9)
    assert not waiting.is_crowded
    assert not waiting.is_exhausted
    assert waiting.is_passable
    assert numbers(waiting) == list(range(9, 20))


def test_a_frame_larger_than_the_place_passes_alone() -> None:
    waiting = queue(may_hold=False)
    fill(waiting, transit, 5)
    waiting.put(transit(100, number=7), forced=False)
    assert numbers(waiting) == [7]


@pytest.mark.parametrize("policy", [OverflowPolicy.DROP_OLDEST, OverflowPolicy.DROP_NEWEST])
def test_a_frame_without_messages_is_never_dropped(policy: OverflowPolicy) -> None:
    waiting = queue(policy)
    fill(waiting, own, 2)
    waiting.put(own(0, number=77, count=0), forced=False)
    fill(waiting, own, 6)
    waiting.is_lossy = True
    waiting.apply_policy()
    assert 77 in numbers(waiting)


@given(
    st.sampled_from([OverflowPolicy.DROP_OLDEST, OverflowPolicy.DROP_NEWEST]),
    st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.booleans()), max_size=60),
)
def test_a_lossy_queue_stays_bounded_counts_every_drop_and_keeps_the_order(policy, steps) -> None:
    waiting = queue(policy)
    waiting.is_lossy = True
    came: list[int] = []
    for number, (charge, is_own, takes) in enumerate(steps):
        waiting.put((own if is_own else transit)(charge, number=number), forced=False)
        waiting.check()
        assert waiting.own + waiting.transit < LIMITS.own.high or len(waiting.frames) == 1
        assert not waiting.is_full
        if takes:
            came.append(int.from_bytes(waiting.take().pieces[0]))
    came += numbers(waiting)
    assert len(came) + waiting.dropped == len(steps)
    assert all(before < after for before, after in pairwise(came))
    assert waiting.own == waiting.transit == 0
    if steps:
        kept = came[-1] == len(steps) - 1 if policy is OverflowPolicy.DROP_OLDEST else not came[0]
        assert kept, "the latest, or the first"


def test_the_newest_goes_though_a_frame_without_messages_is_behind_it() -> None:
    waiting = queue(OverflowPolicy.DROP_NEWEST)
    fill(waiting, own, 4)
    waiting.put(own(0, number=77, count=0), forced=False)
    waiting.apply_policy()
    assert numbers(waiting) == [0, 1, 2, 77]


@pytest.mark.parametrize(
    ("policy", "left"),
    [(OverflowPolicy.DROP_OLDEST, [7, 8, 9]), (OverflowPolicy.DROP_NEWEST, [0, 1, 2])],
)
def test_a_policy_says_which_end_of_a_queue_goes(policy, left) -> None:
    waiting = queue(policy)
    fill(waiting, own, 10)
    waiting.apply_policy()
    assert waiting.dropped == 7
    assert numbers(waiting) == left


@given(
    st.booleans(),
    st.lists(
        st.sampled_from(["own", "transit", "forced", "take", "deadline"]), min_size=30, max_size=80
    ),
)
def test_charges_add_up_whatever_happens_and_own_data_are_never_lost(may_hold, steps) -> None:
    waiting, put_own, came = queue(may_hold=may_hold), [], []
    for number, step in enumerate(steps):
        if step == "take":
            if waiting.frames:
                came.append(int.from_bytes(waiting.take().pieces[0]))
        elif step == "deadline":
            waiting.become_lossy()
            assert waiting.transit <= LIMITS.transit.high
        else:
            before = waiting.transit
            is_own = step == "own"
            frame = own(number=number) if is_own else transit(2, number=number)
            waiting.put(frame, forced=step == "forced")
            put_own += [number] * is_own
            if step == "forced":
                assert waiting.transit <= max(before, LIMITS.transit.high)
        waiting.check()
        assert not (waiting.is_yielding and waiting.is_exhausted)
    came += numbers(waiting)
    assert came == sorted(came)
    assert [number for number in came if number in put_own] == put_own


def test_what_a_lost_peer_did_not_get_is_counted_with_what_was_dropped_before() -> None:
    waiting = queue()
    fill(waiting, transit, 8)
    waiting.become_lossy()
    assert waiting.dropped == 2
    waiting.put(own(count=3), forced=False)
    waiting.discard()
    assert waiting.dropped == 2 + 6 + 3
    waiting.check()
    assert not waiting.frames
