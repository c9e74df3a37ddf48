"""Liveness of a peer: one that lives and takes what it is sent is left alone, however slow."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from endpoint.link.liveness import (
    SLOW_SECONDS,
    WITHHELD_SECONDS,
    PeerMonitor,
    PeerMoving,
    PeerSlow,
    PeerStalled,
    Progress,
)
from handshake.keepalive import SILENCE_TIMEOUT_SECONDS, PeerSilent, PingDue

STALL = 5.0


def monitor() -> PeerMonitor:
    return watching_from(progress())


def watching_from(first: Progress) -> PeerMonitor:
    return PeerMonitor(0.0, first, STALL, 38.0)


def progress(heard: int = 0, acknowledged: int = 0, **changes) -> Progress:
    """A peer for which nothing waits."""
    usual = {
        "written": acknowledged, "taken": 0, "credit": 0, "waiting": 0,
        "waits": False, "is_starved": False, "is_writing": False,
    }  # fmt: skip
    return Progress(heard=heard, acknowledged=acknowledged, **{**usual, **changes})


def waits_to_be_taken(heard: int, acknowledged: int = 0, **changes) -> Progress:
    return progress(heard, acknowledged, waits=True, is_writing=True, waiting=MANY, **changes)


def waits_for_credit(heard: int, acknowledged: int = 0, **changes) -> Progress:
    return progress(heard, acknowledged, waits=True, is_starved=True, waiting=MANY, **changes)


MANY = 1_000_000


def first_trouble(watch, seconds: int) -> tuple[int, object] | None:
    watching = watching_from(watch(0))
    for second in range(seconds + 1):
        _, seen = watching.tick(float(second), watch(second))
        for each in seen:
            if isinstance(each, PeerStalled | PeerSilent):
                return second, each
    return None


def test_an_idle_peer_that_answers_is_pinged_every_second_and_left_alone() -> None:
    watching = monitor()
    for second in range(1, 100):
        assert watching.tick(float(second), progress(heard=second)) == (1.0, [PingDue()])


def test_a_peer_that_says_nothing_is_silent_and_nothing_else() -> None:
    second, seen = first_trouble(lambda second: progress(), 100)
    assert second == SILENCE_TIMEOUT_SECONDS
    assert isinstance(seen, PeerSilent)


@pytest.mark.parametrize("waits", [waits_to_be_taken, waits_for_credit])
def test_one_that_talks_but_neither_takes_nor_grants_is_stalled(waits) -> None:
    assert first_trouble(waits, 100) == (STALL, PeerStalled(STALL))


def test_one_whose_system_acknowledges_a_byte_a_second_is_left_alone() -> None:
    assert first_trouble(lambda second: waits_to_be_taken(second, second, written=900), 200) is None


def test_bytes_that_the_own_system_takes_are_no_progress() -> None:
    def watch(second: int) -> Progress:
        return waits_to_be_taken(second, written=1_000 * second)

    assert first_trouble(watch, 100) == (STALL, PeerStalled(STALL))


def test_one_that_grants_credit_is_left_alone() -> None:
    assert first_trouble(lambda second: waits_for_credit(second, credit=second), 200) is None


def test_acknowledged_pings_are_no_progress() -> None:
    """A process that was stopped has a system that acknowledges what is small."""

    def watch(second: int) -> Progress:
        return waits_for_credit(second, 30 * second)

    assert first_trouble(watch, 100) == (STALL, PeerStalled(STALL))


def test_data_that_are_acknowledged_late_are_progress_though_nothing_more_is_sent() -> None:
    def watch(second: int) -> Progress:
        return waits_for_credit(second, min(500, 10 * second), written=500 + 30 * second)

    second, seen = first_trouble(watch, 100)
    assert seen == PeerStalled(STALL)
    assert second == 50 + STALL


def test_data_that_were_taken_in_the_last_second_count_as_data() -> None:
    def watch(second: int) -> Progress:
        return waits_for_credit(second, 100 * second, taken=second)

    assert first_trouble(watch, 100) is None


def test_withheld_keeps_the_stall_clock_while_it_is_fresh() -> None:
    watching = monitor()
    for second in range(30):
        if second % int(WITHHELD_SECONDS) == 0:
            watching.hear_withheld()
        _, seen = watching.tick(float(second), waits_for_credit(second))
        assert not any(isinstance(each, PeerStalled) for each in seen)


def test_a_peer_is_slow_once_and_moving_once() -> None:
    watching, told = monitor(), {}
    acknowledged = 0
    for second in range(60):
        # A trickle, then more in five seconds than waits, then nothing waits.
        acknowledged += 20_000 if second < 30 else 300_000
        if second < 50:
            watch = waits_to_be_taken(second, acknowledged, written=10**9)
        else:
            watch = progress(second, acknowledged)
        for each in watching.tick(float(second), watch)[1]:
            if isinstance(each, PeerSlow | PeerMoving):
                told[second] = each
    (slow, moving) = told
    assert told == {slow: PeerSlow(is_withheld=False), moving: PeerMoving()}
    assert slow == SLOW_SECONDS
    assert 30 < moving <= 30 + 2 * SLOW_SECONDS


def test_a_peer_that_is_idle_again_is_not_slow() -> None:
    watching = monitor()
    watching.hear_withheld()
    seen: list = []
    for second in range(7):
        watching.hear_withheld()
        seen += watching.tick(float(second), waits_for_credit(second))[1]
    assert PeerSlow(is_withheld=True) in seen
    assert PeerMoving() in watching.tick(8.0, progress(8))[1]
    assert PeerMoving() not in watching.tick(9.0, progress(9))[1]


def changes(watch, seconds: int) -> dict[int, object]:
    """The seconds in which a peer is called slow, or moving again."""
    watching, told, is_slow = watching_from(watch(0)), {}, False
    for second in range(seconds + 1):
        for each in watching.tick(float(second), watch(second))[1]:
            if isinstance(each, PeerSlow | PeerMoving):
                told[second] = each
                is_slow = isinstance(each, PeerSlow)
        assert watching.is_slow is is_slow
    return told


def test_what_a_connection_holds_alone_makes_a_peer_slow_too() -> None:
    assert changes(lambda second: waits_to_be_taken(second)._replace(waiting=0), 5) == {
        5: PeerSlow(is_withheld=False)
    }


def test_the_seconds_count_from_when_something_began_to_wait() -> None:
    def watch(second: int) -> Progress:
        return waits_to_be_taken(second) if second > 3 else progress(second)

    assert changes(watch, 20) == {3 + SLOW_SECONDS: PeerSlow(is_withheld=False)}


def test_what_was_taken_before_the_first_look_does_not_count() -> None:
    watching, seen = watching_from(progress(acknowledged=10 * MANY)), []
    for second in range(6):
        seen += watching.tick(float(second), waits_to_be_taken(second, 10 * MANY + 1))[1]
    assert PeerSlow(is_withheld=False) in seen


def test_each_five_seconds_are_compared_by_themselves() -> None:
    def watch(second: int) -> Progress:
        return waits_to_be_taken(second, max(0, second - 5) * MANY, written=10**9)

    assert changes(watch, 20) == {5: PeerSlow(is_withheld=False), 10: PeerMoving()}


@pytest.mark.parametrize(("heard", "is_withheld"), [(1, False), (2, True), (5, True)])
def test_withheld_explains_a_slow_peer_for_three_seconds(heard: int, is_withheld: bool) -> None:
    watching, seen = monitor(), []
    for second in range(6):
        seen += watching.tick(float(second), waits_for_credit(second))[1]
        if second == heard - (heard == 5):
            watching.hear_withheld()
    assert PeerSlow(is_withheld) in seen


def test_a_full_pipe_is_not_slow() -> None:
    watching = monitor()
    for second in range(100):
        watch = waits_to_be_taken(second, second * MANY, written=10**9)
        assert watching.tick(float(second), watch)[1] in ([], [PingDue()])


@pytest.mark.parametrize("waits", [progress, waits_to_be_taken, waits_for_credit])
def test_our_own_suspension_is_not_held_against_a_peer(waits) -> None:
    watching = monitor()
    watching.tick(1.0, waits(1))
    passed, seen = watching.tick(1_000.0, waits(1))
    assert passed == 2.0
    assert seen in ([], [PingDue()])


@given(st.lists(st.tuples(st.floats(0.01, 3), st.booleans(), st.booleans(), st.booleans())))
def test_no_peer_is_accused_before_the_time_is_over(steps) -> None:
    watching, now, heard, acknowledged, credit = monitor(), 0.0, 0, 0, 0
    since_moved = 0.0
    watching.tick(0.0, waits_for_credit(0))
    for passed, hears, moves, is_granted in steps:
        now += passed
        heard, credit, acknowledged = heard + hears, credit + is_granted, acknowledged + moves
        since_moved = 0.0 if moves or is_granted else since_moved + passed
        watch = waits_to_be_taken(heard, acknowledged, written=10**9, credit=credit)
        if any(isinstance(each, PeerStalled) for each in watching.tick(now, watch)[1]):
            assert since_moved >= STALL - 0.01
