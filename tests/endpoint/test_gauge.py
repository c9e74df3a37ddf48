"""Rates: a second's worth at once, then the average; and what waits for what."""

from __future__ import annotations

from endpoint.gauge import PAUSE_SECONDS_MAX, Bucket, Gauge, Rates, Spent
from hypothesis import given, strategies as st


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 500)), max_size=30))
def test_whoever_waits_as_told_never_spends_more_than_the_average_and_the_burst(steps) -> None:
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


def test_data_wait_for_credit_and_are_read_at_once() -> None:
    gauge = Gauge(Rates(bytes_per_second=100))
    assert gauge.read(0, Spent(size=1_000, messages=5)) == 0
    assert gauge.late_seconds(0) == 9
    assert gauge.late_seconds(9) <= 0


def test_commands_are_read_later_a_little_at_a_time() -> None:
    gauge = Gauge(Rates(messages_per_second=10))
    assert gauge.read(0, Spent(size=1_000, commands_size=500, messages=15)) == 0.5
    assert gauge.read(0, Spent(size=2_000, commands_size=900, messages=915)) == PAUSE_SECONDS_MAX


def test_news_is_read_later_too_and_takes_no_credit_away() -> None:
    gauge = Gauge(Rates(announcements_per_second=10, announcements_burst=100))
    gauge.hear_news(0, 100)
    assert gauge.read(0, Spent(size=1)) == 0
    gauge.hear_news(0, 5)
    assert gauge.read(0, Spent(size=2)) == 0.5
    assert gauge.late_seconds(0) == 0


def test_without_limits_nothing_is_measured() -> None:
    assert not Rates(announcements_burst=7).are_limited
    gauge = Gauge(Rates())
    gauge.hear_news(0, 10**9)
    assert gauge.read(0, Spent(10**12, 10**12, 10**12)) == gauge.late_seconds(0) == 0
