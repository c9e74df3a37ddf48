"""Times as text: what is written is read as the same instant or duration, to the nanosecond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from wire.scalars import Timespan, Timestamp
from wire.times import read_timespan, read_timestamp, write_timespan, write_timestamp

NANOSECONDS = st.integers(-(2**63), 2**63 - 1)


@given(NANOSECONDS, st.sampled_from([0, 3, 9]), st.sampled_from(["Z", ""]))
def test_an_instant_is_read_as_it_was_written(nanoseconds, digits_min, zone):
    text = write_timestamp(nanoseconds, digits_min=digits_min, zone=zone)
    assert read_timestamp(text) == Timestamp.of(nanoseconds)


@given(NANOSECONDS)
def test_a_duration_is_read_as_it_was_written(nanoseconds):
    assert read_timespan(write_timespan(nanoseconds)) == Timespan.of(nanoseconds)


def test_digits_are_written_as_far_as_they_are_wanted_or_needed():
    assert write_timestamp(0) == "1970-01-01T00:00:00Z"
    assert write_timestamp(0, digits_min=3) == "1970-01-01T00:00:00.000Z"
    assert write_timestamp(500_000_000) == "1970-01-01T00:00:00.5Z"
    assert write_timestamp(1, digits_min=3, zone="") == "1970-01-01T00:00:00.000000001"


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("0.5h", timedelta(minutes=30)),
        ("-1.5s", timedelta(seconds=-1.5)),
        ("1.4ns", Timespan(1)),
        ("0.000001ms", Timespan(1)),
        ("2d", timedelta(days=2)),
    ],
)
def test_durations_have_decimals_and_larger_units(text, span):
    assert read_timespan(text) == span


@pytest.mark.parametrize("text", ["", "1", "s", "1.s", ".5s", "1e3s", "1 s", "+1s", "1S", "1,5s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="write 1500ms"):
        read_timespan(text)


@pytest.mark.parametrize("zone", ["+02", "+0200", "+02:00"])
def test_zones_have_three_forms(zone):
    found = read_timestamp(f"2020-02-02T02:02:02{zone}")
    assert found == datetime(2020, 2, 2, 0, 2, 2, tzinfo=UTC)
