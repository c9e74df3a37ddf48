"""Keep-alive of one peering, in seconds that the test makes up."""

from __future__ import annotations

import pytest

from handshake.keepalive import KeepAlive, PeerSilent, PingDue


@pytest.fixture
def keep_alive():
    return KeepAlive(now=100.0, interval_seconds=1.0, timeout_seconds=5.0)


def test_a_ping_is_due_once_per_interval(keep_alive):
    answers = [keep_alive.tick(now) for now in (100.5, 101.0, 101.5, 102.0, 102.5)]
    assert answers == [None, PingDue(), None, PingDue(), None]


def test_a_ping_is_due_whether_or_not_the_peer_is_heard(keep_alive):
    keep_alive.heard(100.9)
    assert keep_alive.tick(101.0) == PingDue()


def test_a_peer_that_sends_nothing_is_silent_after_the_timeout(keep_alive):
    answers = [keep_alive.tick(100.0 + second) for second in range(1, 6)]
    assert answers == [PingDue()] * 4 + [PeerSilent(5.0)]


def test_a_peer_that_is_heard_is_never_silent(keep_alive):
    for second in range(101, 200):
        assert keep_alive.tick(float(second)) == PingDue()
        if second % 4 == 0:
            keep_alive.heard(second + 0.1)


def test_silence_is_counted_from_when_the_peer_was_heard_last(keep_alive):
    for now in (101.0, 102.0, 103.0):
        keep_alive.tick(now)
    keep_alive.heard(103.5)
    for now in (104.0, 105.0, 106.0, 107.0, 108.0):
        assert keep_alive.tick(now) == PingDue()
    assert keep_alive.tick(108.5) == PeerSilent(5.0)


def test_a_process_that_was_suspended_reads_before_it_judges(keep_alive):
    keep_alive.tick(101.0)
    assert keep_alive.tick(700.0) == PingDue()
    keep_alive.heard(700.1)
    assert keep_alive.tick(701.0) == PingDue()


def test_after_a_suspension_a_peer_that_is_gone_is_still_noticed(keep_alive):
    keep_alive.tick(101.0)
    keep_alive.tick(700.0)
    assert keep_alive.tick(701.0) == PingDue()
    assert keep_alive.tick(702.0) == PeerSilent(5.0)


def test_ticks_that_come_late_are_counted_in_full(keep_alive):
    answers = [keep_alive.tick(now) for now in (101.7, 103.4, 105.1)]
    assert answers[:2] == [PingDue()] * 2
    assert isinstance(answers[2], PeerSilent)


@pytest.mark.parametrize(("interval", "timeout"), [(0.0, 5.0), (-1.0, 5.0), (3.0, 5.0)])
def test_a_timeout_that_does_not_fit_two_pings_is_refused(interval, timeout):
    with pytest.raises(ValueError, match="at least two intervals"):
        KeepAlive(now=0.0, interval_seconds=interval, timeout_seconds=timeout)


def test_the_defaults_are_a_ping_each_second_and_an_end_after_fifteen():
    keep_alive = KeepAlive(now=0.0)
    answers = [keep_alive.tick(float(second)) for second in range(1, 16)]
    assert answers == [PingDue()] * 14 + [PeerSilent(15.0)]


@pytest.mark.parametrize(("interval", "timeout"), [(0.3, 0.6), (0.2, 0.5)])
def test_a_timeout_that_fits_two_pings_is_taken(interval, timeout):
    assert KeepAlive(now=0.0, interval_seconds=interval, timeout_seconds=timeout).tick(0) is None


@pytest.mark.parametrize(("interval", "timeout"), [(0.3, 0.59), (0.0, 1.0), (-1, 1)])
def test_a_timeout_that_fits_no_two_pings_is_refused(interval, timeout):
    told = f"a keep-alive of {timeout} s with pings every {interval} s"
    with pytest.raises(ValueError, match=told):
        KeepAlive(now=0.0, interval_seconds=interval, timeout_seconds=timeout)


def test_a_late_tick_counts_as_two_intervals_whatever_they_are():
    for interval in (0.5, 4.0):
        slow = KeepAlive(now=0.0, interval_seconds=interval, timeout_seconds=3 * interval)
        assert slow.tick(100 * interval) == PingDue()
        assert slow.tick(200 * interval) == PeerSilent(4 * interval)
