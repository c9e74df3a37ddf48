"""The watch over a peer: who lives and takes what we send is left alone, however slow."""

from __future__ import annotations

import pytest
from endpoint.vigil import (
    STALL_SECONDS,
    STARVATION_SECONDS,
    PeerStalled,
    Progress,
    Vigil,
)
from hypothesis import given, strategies as st

from handshake.keepalive import SILENCE_TIMEOUT_SECONDS, PeerSilent, PingDue


def progress(
    received: int = 0,
    sent: int = 0,
    grants: int = 0,
    *,
    is_sendable: bool = False,
    has_backlog: bool = False,
) -> Progress:
    return Progress(received, sent, grants, is_sendable, has_backlog)


def first_trouble(watch, seconds: int) -> tuple[int, object] | None:
    vigil = Vigil(0.0)
    for second in range(1, seconds + 1):
        seen = vigil.tick(float(second), watch(second))
        if seen is not None and not isinstance(seen, PingDue):
            return second, seen
    return None


def test_an_idle_peer_that_answers_is_pinged_every_second_and_left_alone() -> None:
    vigil = Vigil(0.0)
    for second in range(1, 100):
        assert vigil.tick(float(second), progress(received=second)) == PingDue()


def test_a_peer_that_says_nothing_is_silent() -> None:
    second, seen = first_trouble(lambda second: progress(), 100)
    assert isinstance(seen, PeerSilent)
    assert second == SILENCE_TIMEOUT_SECONDS


def test_one_that_says_nothing_while_something_waits_for_it_is_stalled_sooner() -> None:
    second, seen = first_trouble(lambda second: progress(has_backlog=True, is_sendable=True), 100)
    assert isinstance(seen, PeerStalled)
    assert second == STALL_SECONDS


def test_one_that_stays_stalled_and_says_nothing_is_silent_in_the_end() -> None:
    vigil, watch = Vigil(0.0), progress(has_backlog=True, is_sendable=True)
    seen = [vigil.tick(float(second), watch) for second in range(1, 20)]
    assert isinstance(seen[5], PeerStalled)
    assert isinstance(seen[int(SILENCE_TIMEOUT_SECONDS)], PeerSilent)


def test_one_that_talks_but_takes_nothing_is_stalled() -> None:
    second, seen = first_trouble(
        lambda second: progress(received=second, has_backlog=True, is_sendable=True), 100
    )
    assert isinstance(seen, PeerStalled)
    assert STALL_SECONDS <= second <= STALL_SECONDS + 1


def test_one_that_takes_a_byte_a_second_is_left_alone() -> None:
    def watch(second: int) -> Progress:
        return progress(second, second, second, has_backlog=True, is_sendable=True)

    assert first_trouble(watch, 200) is None


def test_one_that_never_speaks_of_credit_is_starving_us() -> None:
    second, seen = first_trouble(lambda second: progress(received=second, has_backlog=True), 100)
    assert isinstance(seen, PeerStalled)
    assert second == STARVATION_SECONDS


def test_one_that_repeats_its_credit_every_second_waits_for_a_slow_reader() -> None:
    def watch(second: int) -> Progress:
        return progress(second, 0, second, has_backlog=True)

    assert first_trouble(watch, 1_000) is None


@pytest.mark.parametrize("trouble", [{}, {"has_backlog": True, "is_sendable": True}])
def test_our_own_suspension_is_not_held_against_a_peer(trouble: dict[str, bool]) -> None:
    vigil = Vigil(0.0)
    vigil.tick(1.0, progress(received=1, **trouble))
    seen = vigil.tick(1_000.0, progress(received=1, **trouble))
    assert seen is None or seen == PingDue()


@given(st.lists(st.tuples(st.floats(0.01, 3), st.booleans(), st.booleans(), st.booleans())))
def test_nobody_is_accused_before_the_time_is_over(steps) -> None:
    vigil, now, received, sent, grants = Vigil(0.0), 0.0, 0, 0, 0
    since_received = since_sent = since_grant = 0.0
    for passed, hears, sends, is_granted in steps:
        now += passed
        received, sent, grants = received + hears, sent + sends, grants + is_granted
        since_received = 0.0 if hears else since_received + passed
        since_sent = 0.0 if sends else since_sent + passed
        since_grant = 0.0 if is_granted else since_grant + passed
        watch = progress(received, sent, grants, is_sendable=True, has_backlog=True)
        if isinstance(vigil.tick(now, watch), PeerStalled):
            is_due = since_received >= STALL_SECONDS - 0.01 or since_sent >= STALL_SECONDS - 0.01
            assert is_due or since_grant >= STARVATION_SECONDS - 0.01
