"""Values: what type each has, how it is written, and what comes back of it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from types import MappingProxyType

import pytest

import peermesh
import peermesh.compat.broker as broker
from peermesh.compat.broker import Count, Data, Enum, ImmutableData, Port

Type = Data.Type

NOON = datetime(2024, 5, 17, 12, tzinfo=UTC)
NOON_NS = int(NOON.timestamp()) * 10**9


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, Type.Nil, "nil"),
        (True, Type.Boolean, "T"),
        (False, Type.Boolean, "F"),
        (Count(2**64 - 1), Type.Count, "18446744073709551615"),
        (-(2**63), Type.Integer, "-9223372036854775808"),
        (0.5, Type.Real, "0.500000"),
        (1e16, Type.Real, "10000000000000000.000000"),
        ("", Type.String, ""),
        ("tab\there", Type.String, "tab\there"),
        (b"\xff\x00a", Type.String, "\\xff\\x00a"),
        (IPv4Address("10.0.0.1"), Type.Address, "10.0.0.1"),
        (IPv6Address("::1"), Type.Address, "::1"),
        (IPv4Network("10.0.0.0/8"), Type.Subnet, "10.0.0.0/8"),
        (IPv6Network("fc00::/7"), Type.Subnet, "fc00::/7"),
        (Port(443, Port.TCP), Type.Port, "443/tcp"),
        (Port(), Type.Port, "0/?"),
        (NOON, Type.Timestamp, f"{NOON_NS}ns"),
        (timedelta(milliseconds=-3), Type.Timespan, "-3000000ns"),
        (Enum("conn::S0"), Type.EnumValue, "conn::S0"),
        (set(), Type.Set, "{}"),
        ({"b", "aa", Count(2), 1}, Type.Set, "{2, 1, aa, b}"),
        ({"k": {"x": None}}, Type.Table, "{k -> {x -> nil}}"),
        ({Port(22, Port.TCP): 1, True: (2,)}, Type.Table, "{T -> (2), 22/tcp -> 1}"),
        ([1, (2.0, "c")], Type.Vector, "(1, (2.000000, c))"),
    ],
)
def test_a_value_has_a_type_and_a_text_and_comes_back(value, kind, text):
    data = Data.from_py(value)
    assert (data.get_type(), str(data)) == (kind, text)
    back = Data.to_py(data)
    assert back == (tuple(value) if isinstance(value, list) else value)
    assert Data(data) == data
    assert hash(Data(value)) == hash(data)


def test_a_duration_is_of_nanoseconds_or_of_seconds():
    assert broker.Timespan(1_500_000_000) == broker.Timespan(1.5) == timedelta(seconds=1.5)
    fine = Data(broker.Timespan(1_234_567))
    assert (str(fine), fine.get_type()) == ("1234567ns", Type.Timespan)
    assert Data.to_py(fine) == timedelta(microseconds=1_234)


def test_an_instant_is_of_seconds_and_a_finer_one_comes_back_rounded():
    assert str(Data(broker.Timestamp(1.5))) == "1500000000ns"
    fine = Data(peermesh.Timestamp(NOON_NS + 1))
    assert str(fine) == f"{NOON_NS + 1}ns"
    assert Data.to_py(fine) == NOON
    assert Data(broker.now()).get_type() is Type.Timestamp
    assert abs(Data.to_py(broker.now()).timestamp() - time.time()) < 60


def test_an_instant_without_a_zone_is_local_time(monkeypatch):
    monkeypatch.setenv("TZ", "UTC-2")  # two hours east, as POSIX has it
    time.tzset()
    try:
        found = Data.to_py(Data(datetime(2024, 5, 17, 14)))
        assert (found, found.tzinfo) == (NOON, broker.utc)
    finally:
        monkeypatch.undo()
        time.tzset()
    east = NOON.astimezone(timezone(timedelta(hours=3)))
    assert Data.to_py(Data(east)).tzinfo is broker.utc


def test_text_and_bytes_are_one_type_and_only_what_is_no_text_comes_back_as_bytes():
    assert Data.to_py(Data(b"caf\xc3\xa9")) == "café"
    assert Data(b"key") == Data("key")
    assert Data.to_py(Data(b"\xff")) == b"\xff"
    assert Data.to_py(Data("�")) == "�"


def test_a_port_has_its_parts_by_methods():
    port = Data.to_py(peermesh.Port(53, peermesh.Port.UDP))
    assert (port.number(), port.get_type(), str(port)) == (53, Port.UDP, "53/udp")
    assert port == Port(53, Port.UDP) < Port(53, Port.ICMP)
    assert len({port, Port(53, Port.UDP), Port(53, Port.Unknown)}) == 2
    with pytest.raises(ValueError, match="a port is an int of 0 to 65535"):
        Data(Port(70_000, Port.TCP))


def test_a_wrapped_set_can_be_changed_and_keeps_its_order():
    data = Data({3, 1, 2})
    wrapped = data.as_set()
    assert [str(each) for each in wrapped] == ["1", "2", "3"]
    wrapped.remove(Data(2))
    wrapped.add(Data("0"))
    assert str(wrapped) == "Set{1, 3, 0}"
    assert Data.to_py(wrapped) == {1, 3, "0"}
    assert str(data) == "{1, 2, 3}"
    wrapped.clear()
    assert str(wrapped) == "Set{}"


def test_a_wrapped_table_and_vector_have_values_with_types():
    table = Data(MappingProxyType({(1, 2): "pair", Count(1): "one"})).as_table()
    assert [str(key) for key in table] == ["1", "(1, 2)"]
    assert table[Data([1, 2])] == Data("pair")
    assert Data(1) not in table
    text, inner = Data(["a", [b"b"]]).as_vector()
    assert (text.get_type(), str(inner)) == (Type.String, "(b)")
    assert Data.to_py(inner.as_vector()[0]) == "b"


def test_values_of_different_types_are_different():
    alike = [Data(each) for each in (1, True, 1.0, Count(1), "1")]
    assert len(set(alike)) == 5
    assert Data(1) != 1


def test_what_is_frozen_is_of_the_mesh_and_can_be_hashed_and_not_changed():
    frozen = ImmutableData.to_py(Data([{"a": {1}}, frozenset({2}), Port(1, Port.TCP)]))
    table, elements, _ = frozen
    assert frozen == ({"a": {1}}, {2}, peermesh.Port(1, Port.TCP))
    assert (type(table), type(elements)) == (peermesh.Table, peermesh.Set)
    assert len({table, ImmutableData.to_py(Data({"a": frozenset({1})}))}) == 1
    with pytest.raises(TypeError):
        table["b"] = 1
    with pytest.raises(AttributeError):
        elements.add(3)
    assert json.dumps(dict(ImmutableData.to_py(Data({"a": 1})))) == '{"a": 1}'


def test_a_set_of_tables_is_for_the_frozen_form_alone():
    data = peermesh.Set([peermesh.Table({"a": 1})])
    with pytest.raises(TypeError, match="unhashable"):
        Data.to_py(data)
    assert [*ImmutableData.to_py(data)] == [{"a": 1}]


@pytest.mark.parametrize("value", [object(), [1, object()], {"a": {"b": 3j}}, {1j}])
def test_what_is_no_value_is_refused_with_its_type(value):
    with pytest.raises(TypeError, match=r"unsupported data type: <class '(object|complex)'>"):
        Data(value)
