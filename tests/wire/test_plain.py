"""Plain Python from values: what ``json`` can write, and nothing lost that it has a place for."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, strategies as st

from wire.identifiers import EndpointId
from wire.plain import plain
from wire.values import Count, Enum, Port, Set, Table, Timespan, Timestamp

PAIRS = [
    (None, None),
    (True, True),
    (Count(7), 7),
    (("a", ("b",)), ["a", ["b"]]),
    (Table({"a": Table({"b": Count(1)})}), {"a": {"b": 1}}),
    (Table({1: "one", "two": 2}), [[1, "one"], ["two", 2]]),
    (Table(), {}),
    (Set(["x"]), ["x"]),
    (b"\x00\xff", "AP8="),
    (Port(53, Port.UDP), "53/udp"),
    (Enum("tea"), "tea"),
    (ip_address("10.0.0.7"), "10.0.0.7"),
    (ip_network("10.0.0.0/8"), "10.0.0.0/8"),
    (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00Z"),
    (Timestamp.of(1_000_000_001), "1970-01-01T00:00:01.000000001Z"),
    (timedelta(milliseconds=1500), "1500ms"),
    (Timespan(1), "1ns"),
    (EndpointId(bytes(16)), "00000000-0000-0000-0000-000000000000"),
]


@pytest.mark.parametrize(("value", "expected"), PAIRS)
def test_a_value_becomes_dicts_lists_text_and_numbers(value, expected):
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    assert json.loads(json.dumps(value, default=plain)) == expected


@given(data=st.data())
def test_json_writes_any_value_with_it(values, data):
    value = data.draw(values)
    json.dumps(value, default=plain)
    json.dumps(plain(value))


def own_list() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


def own_dict() -> dict[str, object]:
    found: dict[str, object] = {}
    found["self"] = [found]
    return found


def deep() -> list[object]:
    found: list[object] = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize("make", [own_list, own_dict, deep])
def test_what_holds_itself_or_is_nested_too_deep_is_refused(make):
    with pytest.raises(ValueError, match="holds itself, or is nested too deep"):
        plain(make())


def test_what_the_api_gives_of_fields_becomes_a_dict():
    @dataclass(frozen=True)
    class Entry:
        key: str
        value: object

    assert plain(Entry("k", Table({"a": 1}))) == {"key": "k", "value": {"a": 1}}


def test_what_is_no_value_is_refused():
    with pytest.raises(TypeError, match="object is no value of the mesh"):
        plain([object()])
