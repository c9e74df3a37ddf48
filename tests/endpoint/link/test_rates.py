"""Rates: a second's worth at once, then the average; and what waits for what."""

from __future__ import annotations

from hypothesis import given, strategies as st

from endpoint.link.limits import WINDOW_SIZE, LinkLimits
from endpoint.link.link import HeldTooLong, Link
from endpoint.link.rates import (
    DEBT_SECONDS_MAX,
    PAUSE_SECONDS_MAX,
    Bucket,
    PeerRates,
    Rates,
    Spent,
)


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 500)), max_size=30))
def test_one_that_waits_as_told_never_spends_more_than_the_average_and_the_burst(steps) -> None:
    bucket, now, spent = Bucket(100), 0.0, 0
    for pause, amount in steps:
        now += pause + max(0.0, bucket.late_seconds(now))
        assert spent <= 100 * now + 100 + 1e-6
        bucket.spend(now, amount)
        spent += amount


def test_a_burst_may_be_more_than_a_second_is_worth() -> None:
    bucket = Bucket(10, burst=1_000)
    bucket.spend(0, 1_000)
    assert bucket.late_seconds(0) <= 0
    bucket.spend(0, 10)
    assert bucket.late_seconds(0) == 1


def test_a_debt_ends_before_the_other_side_loses_patience() -> None:
    bucket = Bucket(1)
    bucket.spend(5, 10**9)
    assert bucket.late_seconds(5) == DEBT_SECONDS_MAX
    assert LinkLimits().stand_seconds_max > DEBT_SECONDS_MAX


def test_data_wait_for_credit_and_are_read_at_once() -> None:
    rates, link = PeerRates(Rates(bytes_per_second=100)), Link()
    assert rates.settle(0, link, Spent(size=100, messages=5)) == 0
    assert not link.is_withheld
    assert rates.settle(0, link, Spent(size=1_000, messages=5)) == 0
    assert link.is_withheld
    rates.relax(8.9, link)
    assert link.is_withheld
    rates.relax(9, link)
    assert not link.is_withheld


def test_messages_are_counted_since_the_last_time_and_any_debt_counts() -> None:
    rates, link = PeerRates(Rates(messages_per_second=10)), Link()
    assert rates.is_due
    for second, messages in enumerate((10, 20, 30)):
        rates.settle(second, link, Spent(messages=messages))
        assert rates.is_due, "what has a limit is always looked at"
        assert not link.is_withheld
    rates.settle(2, link, Spent(messages=35))
    assert link.is_withheld, "for half a second"


def test_commands_are_read_later_a_little_at_a_time() -> None:
    rates, link = PeerRates(Rates(messages_per_second=10)), Link()
    assert rates.settle(0, link, Spent(size=1_000, commands_size=500, messages=15)) == 0.5
    spent = Spent(size=2_000, commands_size=900, messages=915)
    assert rates.settle(0, link, spent) == PAUSE_SECONDS_MAX


def test_news_is_read_later_too_and_takes_no_credit_away() -> None:
    rates, link = PeerRates(Rates(announcements_per_second=10, announcements_burst=100)), Link()
    assert not rates.is_due
    rates.hear_news(0, 100)
    assert rates.is_due
    assert rates.settle(0, link, Spent(size=1)) == 0
    assert not rates.is_due
    rates.hear_news(0, 5)
    assert rates.settle(0, link, Spent(size=2)) == 0.5
    assert rates.is_due
    assert not link.is_withheld


def test_without_limits_nothing_is_measured() -> None:
    assert not Rates(announcements_burst=7).are_limited
    assert Rates(announcements_per_second=1).are_limited
    rates, link = PeerRates(Rates()), Link()
    rates.hear_news(0, 10**9)
    assert rates.settle(0, link, Spent(10**12, 10**12, 10**12)) == 0
    assert not link.is_withheld


def test_a_window_is_a_second_of_the_smallest_limit() -> None:
    assert Rates(announcements_per_second=1).window == WINDOW_SIZE
    assert Rates(bytes_per_second=10**9).window == WINDOW_SIZE
    assert Rates(bytes_per_second=10_000).window == 10_000
    assert Rates(bytes_per_second=10_000, messages_per_second=10).window == 160


def test_rates_never_make_a_place_of_their_own_give_way() -> None:
    rates, link = PeerRates(Rates(bytes_per_second=1)), Link()
    rates.settle(0, link, Spent(size=10**9))
    seen = [link.tick(float(now), heard=now, written=0, acknowledged=0) for now in range(100)]
    assert not any(isinstance(each, HeldTooLong) for some in seen for each in some)
    rates.become_lossy()


@given(st.integers(1_000, 10**6), st.integers(1, 10))
def test_a_limited_peer_that_sends_all_it_may_keeps_to_its_average(rate, frames) -> None:
    limits = Rates(bytes_per_second=rate)
    rates, link = PeerRates(limits), Link(limits=LinkLimits(window=limits.window))
    size, came = max(1, rate // frames), 0
    for tenth in range(600):
        now = tenth / 10
        rates.relax(now, link)
        link.due()
        while link.received < link.granted:
            link.admit(size)
            came += size
        rates.settle(now, link, Spent(size=came))
        # The first window, then what the average allows: a window and a frame beyond at most.
        assert came <= WINDOW_SIZE + size + rate * (now + 2) + limits.window
