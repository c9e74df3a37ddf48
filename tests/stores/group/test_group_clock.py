"""Elapsed time runs under leaders alone; the stamp never goes back."""

from __future__ import annotations

import pytest

from stores.group.clock import (
    JITTER_NS,
    SECOND_NS,
    STANDING_NS,
    STEP_NS_MAX,
    TICK_NS_MAX,
    GroupClock,
    Moment,
    Times,
)

START = 1_000 * SECOND_NS
WALL = 10**18


def run(clock, seconds, *, jump_ns=0, since=0):
    """Let a leader's clock run by tenths of a second, its wall clock off by a jump."""
    for tenth in range(int(seconds * 10) + 1):
        now = START + since * SECOND_NS + tenth * SECOND_NS // 10
        clock.run_to(Moment(now, WALL + now + jump_ns))
    return clock.times


def test_a_new_group_believes_its_first_leader():
    times = run(GroupClock(), 5)
    assert times == Times(5 * SECOND_NS, WALL + START + 5 * SECOND_NS)


def test_without_a_leader_elapsed_time_stands_still():
    clock = GroupClock()
    run(clock, 5)
    clock.stop()
    times = run(clock, 1, since=1000)
    assert times.elapsed_ns == 6 * SECOND_NS


def test_the_next_leader_goes_on_where_the_last_one_stood():
    first, second = GroupClock(), GroupClock()
    second.hear(run(first, 5))
    second.hear(Times(1, 1))  # a late word
    assert second.times == first.times
    assert run(second, 2, since=5).elapsed_ns == 7 * SECOND_NS


def test_a_pause_counts_two_seconds_at_most():
    clock = GroupClock()
    clock.run_to(Moment(START, WALL))
    clock.run_to(Moment(START + 3600 * SECOND_NS, WALL))
    assert clock.times.elapsed_ns == TICK_NS_MAX


def test_a_monotonic_clock_that_goes_back_counts_nothing():
    clock = GroupClock()
    clock.run_to(Moment(START, WALL))
    before = clock.times
    clock.run_to(Moment(START - SECOND_NS, WALL - SECOND_NS))
    assert clock.times == before


@pytest.mark.parametrize("jump_ns", [10**17, -(10**17)])
def test_a_wrong_look_at_the_wall_clock_is_not_believed(jump_ns):
    clock = GroupClock()
    run(clock, 5)
    run(clock, 30, jump_ns=jump_ns, since=5)
    times = run(clock, 5, since=35)
    assert times.stamp_ns == WALL + START + 40 * SECOND_NS


def test_a_step_that_stands_for_a_minute_counts():
    clock = GroupClock()
    run(clock, 5)
    jump_ns = 3600 * SECOND_NS
    assert run(clock, 59, jump_ns=jump_ns, since=5).stamp_ns < WALL + START + 100 * SECOND_NS
    times = run(clock, 3, jump_ns=jump_ns, since=64)
    assert times.stamp_ns == WALL + START + 67 * SECOND_NS + jump_ns


def test_a_step_counts_from_the_moment_on_that_it_has_stood_long_enough():
    clock, jump_ns = GroupClock(), 3600 * SECOND_NS
    clock.run_to(Moment(START, WALL + START))
    for ago_ns in (STANDING_NS, STANDING_NS - 1, 1, 0):
        now = START + STANDING_NS + 1 - ago_ns
        times = clock.run_to(Moment(now, WALL + now + jump_ns))
        assert times.stamp_ns == WALL + now + (0 if ago_ns else jump_ns)


@pytest.mark.parametrize(
    ("jump_ns", "is_followed"),
    [(JITTER_NS, False), (JITTER_NS + 1, True), (STEP_NS_MAX, True), (STEP_NS_MAX + 1, False)],
)
def test_steps_between_jitter_and_a_jump_are_followed_at_once(jump_ns, is_followed):
    clock = GroupClock()
    clock.run_to(Moment(START, WALL + START))
    times = clock.run_to(Moment(START + 1, WALL + START + 1 + jump_ns))
    assert times.stamp_ns == WALL + START + 1 + (jump_ns if is_followed else 0)


def test_the_stamp_stands_while_the_wall_clock_is_behind_it():
    clock = GroupClock()
    run(clock, 5)
    before = clock.times.stamp_ns
    jump_ns = -3600 * SECOND_NS
    times = run(clock, STANDING_NS // SECOND_NS + 5, jump_ns=jump_ns, since=5)
    assert before < times.stamp_ns == run(clock, 5, jump_ns=jump_ns, since=70).stamp_ns


def test_small_steps_are_followed_at_once():
    clock = GroupClock()
    run(clock, 5)
    times = run(clock, 1, jump_ns=SECOND_NS // 2, since=5)
    assert times.stamp_ns == WALL + START + 6 * SECOND_NS + SECOND_NS // 2


def test_a_leader_whose_clock_is_wrong_from_the_start_is_not_believed_either():
    clock = GroupClock(Times(0, WALL + START))
    times = run(clock, 30, jump_ns=10**17)
    assert times.stamp_ns == WALL + START + 30 * SECOND_NS


def test_what_is_dated_by_both_clocks_has_one_date_whenever_it_is_read():
    clock = GroupClock()
    dates = set()
    for number in range(20):
        jitter_ns = number % 3 * 5_000
        now = START + number * SECOND_NS // 10
        times = clock.run_to(Moment(now, WALL + now + jitter_ns))
        dates.add(times.stamp_ns - times.elapsed_ns)
    assert len(dates) == 1
