"""Broker's JSON and values of the mesh: one table, which loses nothing in either direction."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network, ip_address, ip_network

import pytest
from hypothesis import given, strategies as st

from peermesh.gateways.websocket.mapping import NoValue, members, read
from wire.encoding import encode
from wire.scalars import Count, Enum, Port, PortProtocol, Timespan, Timestamp
from wire.values import Set, Table

NANOSECONDS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 2**64 - 1).map(Count),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    TEXTS,
    st.ip_addresses(),
    st.builds(lambda *each: ip_network(each, strict=False), st.ip_addresses(), st.integers(0, 32)),
    st.builds(Port, st.integers(0, 65_535), st.sampled_from(PortProtocol)),
    NANOSECONDS.map(Timestamp.of),
    NANOSECONDS.map(Timespan.of),
    TEXTS.map(Enum),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda each: st.one_of(
        st.lists(each, max_size=4).map(tuple),
        st.lists(each, max_size=4).map(Set),
        st.lists(st.tuples(each, each), max_size=4).map(Table),
    ),
    max_leaves=12,
)


def written(value) -> str:
    return f"{{{members(value)}}}"


def typed(name: str, data: object) -> dict[str, object]:
    return {"@data-type": name, "data": data}


@given(VALUES)
def test_what_is_written_is_read_as_the_same_value(value):
    text = written(value)
    found = read(json.loads(text))
    assert encode(found) == encode(value)
    assert written(found) == text


@pytest.mark.parametrize(
    ("value", "name", "data"),
    [
        (None, "none", {}),
        (True, "boolean", True),
        (False, "boolean", False),
        (Count(2**64 - 1), "count", 2**64 - 1),
        (-7, "integer", -7),
        (-7.5, "real", -7.5),
        (1e300, "real", 1e300),
        (math.inf, "real", "inf"),
        (-math.inf, "real", "-inf"),
        ("Hello World!", "string", "Hello World!"),
        ('"\\\n\x00', "string", '"\\\n\x00'),
        (ip_address("1.2.3.4"), "address", "1.2.3.4"),
        (ip_address("2001:db8::"), "address", "2001:db8::"),
        (ip_network("255.255.255.0/24"), "subnet", "255.255.255.0/24"),
        (ip_network("2001:db8::/32"), "subnet", "2001:db8::/32"),
        (Port(53, Port.UDP), "port", "53/udp"),
        (Port(0, Port.UNKNOWN), "port", "0/?"),
        (datetime(2022, 4, 10, 7, tzinfo=UTC), "timestamp", "2022-04-10T07:00:00.000"),
        (Timestamp(1_123_456_789), "timestamp", "1970-01-01T00:00:01.123456789"),
        (datetime.fromtimestamp(0.25, UTC), "timestamp", "1970-01-01T00:00:00.250"),
        (timedelta(seconds=1.5), "timespan", "1500ms"),
        (timedelta(0), "timespan", "0s"),
        (Timespan(-1), "timespan", "-1ns"),
        (Enum("foo"), "enum-value", "foo"),
        ((), "vector", []),
        (b"text\xff", "string", "text\\xff"),
    ],
)
def test_each_type_is_written_as_in_broker(value, name, data):
    assert json.loads(written(value)) == typed(name, data)


def test_containers_hold_typed_values():
    assert json.loads(written((Count(42), 23))) == typed(
        "vector", [typed("count", 42), typed("integer", 23)]
    )
    table = Table([("last", 2), ("first", True)])
    assert json.loads(written(table)) == typed(
        "table",
        [
            {"key": typed("string", "first"), "value": typed("boolean", True)},
            {"key": typed("string", "last"), "value": typed("integer", 2)},
        ],
    )


def test_sets_and_tables_are_in_the_order_of_broker():
    """Types first: a count comes before an integer; then by value, and not by encoded length."""
    keys = ["b", "aaa", -1, 300, 20, Count(5), True, None]
    ordered = [None, True, Count(5), -1, 20, 300, "aaa", "b"]
    found = json.loads(written(Set(keys)))["data"]
    assert list(map(read, found)) == ordered
    found = json.loads(written(Table((key, 0) for key in keys)))["data"]
    assert [read(each["key"]) for each in found] == ordered


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("none", None, None),
        ("real", 1, 1.0),
        ("real", "nan", math.nan),
        ("subnet", "10.1.2.3/8", IPv4Network("10.0.0.0/8")),
        ("port", "80", Port(80)),
        ("timespan", "1500000000.0ns", timedelta(seconds=1.5)),
        ("timespan", "0.5d", timedelta(hours=12)),
        ("timespan", "2min", timedelta(minutes=2)),
        ("timespan", "-1.5h", timedelta(minutes=-90)),
        ("timestamp", "2020-02-02T02:02:02Z", datetime(2020, 2, 2, 2, 2, 2, tzinfo=UTC)),
        ("timestamp", "2020-02-02T02:02:02", datetime(2020, 2, 2, 2, 2, 2, tzinfo=UTC)),
        ("timestamp", "2020-02-02T02:02:02.1+02", datetime(2020, 2, 2, 0, 2, 2, 100_000, UTC)),
        ("timestamp", "2020-02-02T02:02:02-0200", datetime(2020, 2, 2, 4, 2, 2, tzinfo=UTC)),
        ("timestamp", "2020-02-02T02:02:02+02:00", datetime(2020, 2, 2, 0, 2, 2, tzinfo=UTC)),
        ("set", [typed("count", 1)] * 2, Set([Count(1)])),
    ],
)
def test_other_forms_of_clients_are_read(name, data, value):
    assert encode(read(typed(name, data))) == encode(value)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "None is no value: write"),
        ([], "is no value: write"),
        ({"data": 1}, "is no value: write"),
        ({"@data-type": "count"}, "is no value: write"),
        (typed("phone", "555"), "there is no type 'phone'; there are none, boolean"),
        (typed(["count"], 1), "there is no type ['count']"),
        (typed("none", 0), "0 is no none: its data is {}"),
        (typed("boolean", 1), "1 is no boolean: bool is expected"),
        (typed("count", -1), "-1 is no count: a count holds"),
        (typed("count", 1.0), "1.0 is no count"),
        (typed("count", True), "True is no count"),
        (typed("integer", 1.0), "1.0 is no integer: int is expected"),
        (typed("integer", True), "True is no integer"),
        (typed("real", True), "True is no real: a number is expected"),
        (typed("real", "1.0"), "'1.0' is no real: a number is expected"),
        (typed("real", 10**400), "is no real: int too large"),
        (typed("string", 1), "1 is no string: str is expected"),
        (typed("address", 1), "1 is no address: str is expected"),
        (typed("address", "1.2.3"), "'1.2.3' is no address: "),
        (typed("subnet", "1.2.3.4"), "'1.2.3.4' is no subnet: write 10.0.0.0/8"),
        (typed("subnet", 1), "1 is no subnet: str is expected"),
        (typed("subnet", "1.2.3.4/33"), "'1.2.3.4/33' is no subnet: "),
        (typed("port", 80), "80 is no port: str is expected"),
        (typed("port", "80/sctp"), "'80/sctp' is no port: "),
        (typed("timestamp", "today"), "'today' is no timestamp: write 2026-01-31"),
        (typed("timestamp", "2020-02-30T00:00:00"), "is no timestamp: day is out of range"),
        (typed("timestamp", "3000-01-01T00:00:00.1"), "is no timestamp: "),
        (typed("timestamp", 1), "1 is no timestamp: "),
        (typed("timespan", "1"), "'1' is no timespan: write 1500ms; units are ns, us, ms, s, min"),
        (typed("timespan", "1e3s"), "'1e3s' is no timespan: "),
        (typed("timespan", "9999999d"), "'9999999d' is no timespan: "),
        (typed("timespan", f"{'9' * 31}s"), "is no timespan: "),
        (typed("enum-value", 1), "1 is no enum-value: "),
        (typed("vector", {}), "{} is no vector: list is expected"),
        (typed("vector", "abc"), "'abc' is no vector: list is expected"),
        (typed("vector", [typed("count", -1)]), "-1 is no count: a count holds"),
        (typed("set", {}), "{} is no set: list is expected"),
        (typed("set", [typed("string", "\ud800")]), "is no set: "),
        (typed("table", {}), "{} is no table: list is expected"),
        (typed("table", [1]), "[1] is no table: "),
        (typed("table", [{"key": typed("count", 1)}]), "is no table: 'value'"),
        (typed("table", [{"key": typed("count", 1), "value": 1}]), "1 is no value: write"),
    ],
)
def test_what_is_no_value_is_refused_with_what_is_wrong(found, words):
    with pytest.raises(NoValue, match=re.escape(words)) as refused:
        read(found)
    assert len(str(refused.value)) < 400
