"""Typed values as JSON: whatever a store can hold, the command line can write and read back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, strategies as st

from peermesh.cli.values import NoValue, format_value, parse_value
from wire.encoding import encode
from wire.scalars import COUNT_MAX, INTEGER_MAX, INTEGER_MIN, Count, Enum, Port, Timespan, Timestamp
from wire.values import Set, Table

scalars = (
    st.none()
    | st.booleans()
    | st.integers(INTEGER_MIN, INTEGER_MAX)
    | st.floats()
    | st.text()
    | st.binary()
    | st.integers(0, COUNT_MAX).map(Count)
    | st.builds(Port, st.integers(0, 65535), st.sampled_from([Port.TCP, Port.UDP, Port.UNKNOWN]))
    | st.text().map(Enum)
    | st.ip_addresses()
    | st.ip_addresses(v=4).map(ip_network)
    | st.integers(INTEGER_MIN, INTEGER_MAX).map(Timestamp.of)
    | st.integers(INTEGER_MIN, INTEGER_MAX).map(Timespan.of)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=3).map(Set)
        | st.lists(st.tuples(inner, inner), max_size=3).map(Table)
        | st.dictionaries(st.text() | st.just("@data-type"), inner, max_size=3).map(Table)
    ),
    max_leaves=6,
)


@given(values)
def test_every_value_comes_back_as_it_was(value):
    text = format_value(value)
    assert "\n" not in text
    assert encode(parse_value(text)) == encode(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (1, "1"),
        (1.0, "1.0"),
        ("ä", '"ä"'),
        ((1, True), "[1, true]"),
        (Table({"a": 1}), '{"a": 1}'),
        (Count(7), '{"@data-type": "count", "data": 7}'),
        (Port(53, Port.UDP), '{"@data-type": "port", "data": "53/udp"}'),
        (Enum("x"), '{"@data-type": "enum-value", "data": "x"}'),
        (b"\0", '{"@data-type": "bytes", "data": "AA=="}'),
        (float("inf"), '{"@data-type": "real", "data": "inf"}'),
        (ip_address("::1"), '{"@data-type": "address", "data": "::1"}'),
        (ip_network("10.0.0.0/8"), '{"@data-type": "subnet", "data": "10.0.0.0/8"}'),
        (
            datetime(2026, 1, 2, 3, 4, 5, 600_000, UTC),
            '{"@data-type": "timestamp", "data": "2026-01-02T03:04:05.6Z"}',
        ),
        (Timestamp(1), '{"@data-type": "timestamp", "data": "1970-01-01T00:00:00.000000001Z"}'),
        (timedelta(milliseconds=1500), '{"@data-type": "timespan", "data": "1500ms"}'),
        (timedelta(), '{"@data-type": "timespan", "data": "0s"}'),
        (Timespan(-1), '{"@data-type": "timespan", "data": "-1ns"}'),
        (Set([1]), '{"@data-type": "set", "data": [1]}'),
        (Table({1: 2}), '{"@data-type": "table", "data": [{"key": 1, "value": 2}]}'),
    ],
)
def test_what_json_has_no_type_for_says_its_type(value, text):
    assert format_value(value) == text
    assert encode(parse_value(text)) == encode(value)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (("timespan", "2h"), timedelta(hours=2)),
        (("timestamp", "2026-01-02 03:04:05+01:00"), datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)),
        (("timestamp", "2026-01-02T03:04:05"), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (("port", "80"), Port(80)),
        (("vector", [1, {"@data-type": "count", "data": 2}]), (1, Count(2))),
        (("integer", 5), 5),
        (("none", {}), None),
    ],
)
def test_what_people_write_is_understood(data, value):
    kind, content = data
    assert parse_value(json.dumps({"@data-type": kind, "data": content})) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "{",
        "NaN",
        "[" * 100_000,
        "[" * 700 + "]" * 700,
        '{"@data-type": "address", "data": true}',
        '{"@data-type": "subnet", "data": 7}',
        '{"@data-type": "count"}',
        '{"@data-type": "count", "data": -1}',
        '{"@data-type": "count", "data": 1, "more": 2}',
        '{"@data-type": "nonsense", "data": 1}',
        '{"@data-type": ["count"], "data": 1}',
        '{"@data-type": "integer", "data": true}',
        '{"@data-type": "port", "data": "80/xyz"}',
        '{"@data-type": "address", "data": "1.2.3"}',
        '{"@data-type": "subnet", "data": "10.0.0.1/8"}',
        '{"@data-type": "timestamp", "data": "yesterday"}',
        '{"@data-type": "timestamp", "data": "2026-13-01T00:00:00"}',
        '{"@data-type": "timestamp", "data": 5}',
        '{"@data-type": "timespan", "data": "5 parsecs"}',
        '{"@data-type": "bytes", "data": "!"}',
        '{"@data-type": "set", "data": 1}',
        '{"@data-type": "table", "data": [1]}',
        '{"@data-type": "table", "data": [{"key": 1}]}',
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_value_is_refused_with_a_reason(text):
    with pytest.raises(NoValue, match=r"\w+ \w+"):
        parse_value(text)


@pytest.mark.parametrize(
    "nanoseconds",
    [INTEGER_MIN, -9_223_372_036_000_000_001, -9_223_372_036_000_000_000, -1, 0, INTEGER_MAX],
)
def test_the_first_and_the_last_instants_survive(nanoseconds: int) -> None:
    instant = Timestamp.of(nanoseconds)
    assert parse_value(format_value(instant)) == instant
