"""Received containers: typed identity, immutability, hashes that go with equality."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Mapping, Set as AbstractSet
from datetime import timedelta
from enum import IntEnum
from types import MappingProxyType

import pytest
from hypothesis import given, strategies as st

from wire.decoding import decode
from wire.encoding import encode
from wire.errors import EncodeError
from wire.order import place_of
from wire.values import Count, Port, Set, Table, freeze

ALIKE = (1, True, 1.0, Count(1))
NAN = float("nan")


def test_a_set_tells_alike_elements_apart():
    alike = Set(ALIKE)
    assert len(alike) == 4
    assert all(element in alike for element in ALIKE)
    assert True not in Set([1])
    assert 1.0 not in Set([1, "a"])
    assert 0.0 in Set([0.0])
    assert -0.0 not in Set([0.0])


def test_a_table_tells_alike_keys_apart():
    table = Table([(key, type(key).__name__) for key in ALIKE])
    assert [table[key] for key in ALIKE] == ["int", "bool", "float", "Count"]
    assert table.get(2, "none") == "none"
    with pytest.raises(KeyError):
        Table([(1, "a")])[True]
    assert 1 not in Table({"1": "text"})


def test_what_cannot_be_encoded_is_in_no_container():
    assert object() not in Set([1])
    assert 2**64 not in Table([(1, 2)])
    assert [1] not in Table({"a": 1})
    assert [1] in Set([(1,)])


def test_equality_is_typed():
    assert Set([1, 2]) == {2, 1} == Set([2, 1])
    assert Set([1]) != {True}
    assert {1.0} != Set([1])
    assert Set(["a"]) == frozenset("a")
    assert Set(["a"]) != {"b"}
    assert Set(["a"]) != ["a"]
    assert Table({"a": 1}) == {"a": 1}
    assert Table({"a": 1}) != {"a": True}
    assert Table({"a": 1}) != {"a": 1.0}
    assert Table({"a": [1]}) == {"a": (1,)}
    assert Table({"a": 1}) != {"a": object()}
    assert Table({"a": 1}) != {"b": 1}
    assert Table() != ()
    assert Table([(1, 2)]) == {1: 2}


def test_all_nans_are_one_key():
    assert len(Set([NAN, math.inf - math.inf])) == 1
    assert Table([(NAN, 1)])[float("nan")] == 1
    for element in (NAN, (1, (NAN,)), Set([NAN]), Table({"a": NAN})):
        there = decode(encode(Set([element])))
        assert there == Set([element])
        assert hash(there) == hash(Set([element]))


def test_of_equal_keys_the_last_counts():
    assert Table([("a", 1), ("a", 2)]) == {"a": 2}


@given(st.data())
def test_equal_containers_have_equal_hashes_however_they_came(values, data):
    elements = data.draw(st.lists(values, max_size=6))
    made = Set(elements)
    assert made == Set(reversed(elements)) == decode(encode(made))
    assert hash(made) == hash(Set(reversed(elements))) == hash(decode(encode(made)))
    table = Table([(element, element) for element in elements])
    assert table == Table([*reversed([*table.items()])]) == decode(encode(table))
    assert hash(table) == hash(decode(encode(table)))


@given(st.frozensets(st.integers().filter(lambda number: abs(number) < 2**63) | st.text()))
def test_a_set_hashes_like_the_frozenset_it_equals(elements):
    assert Set(elements) == elements
    assert hash(Set(elements)) == hash(elements)


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_the_operators_of_sets_are_those_of_python(a, b):
    assert Set(a) | Set(b) == Set(a | b)
    assert Set(a) & b == a & b
    assert a - Set(b) == a - b
    assert Set(a) ^ Set(b) == a ^ b
    assert (Set(a) <= Set(b)) == (a <= b)
    assert Set(a).isdisjoint(b) == a.isdisjoint(b)


IN_ORDER = [
    None,
    True,
    Count(13),
    3,
    "a",
    "aa",
    "b",
    Port(22, Port.TCP),
    timedelta(seconds=1),
    Set(["aa"]),
    Table({"aa": 1}),
    (1, 2, 3),
]
"""Type first, and then by value: Broker's order."""


@pytest.mark.parametrize("is_received", [False, True])
def test_containers_go_through_what_they_hold_in_the_order_of_broker(is_received):
    elements, table = Set(IN_ORDER[::-1]), Table([(key, str(key)) for key in IN_ORDER[::-1]])
    if is_received:
        elements, table = decode(encode(elements)), decode(encode(table))
    assert list(elements) == IN_ORDER
    assert list(table) == list(table.keys()) == IN_ORDER
    assert list(table.values()) == [str(key) for key in IN_ORDER]
    assert list(table.items()) == [(key, str(key)) for key in IN_ORDER]
    assert repr(Set(["b", "aa", 3])) == "Set([3, 'aa', 'b'])"
    assert repr(decode(encode({"b": 1, "aa": 2}))) == "Table({'aa': 2, 'b': 1})"


class Colour(IntEnum):
    RED = 1


def test_the_order_takes_relatives_of_the_known_types():
    elements = Set([frozenset({1}), "b", Colour.RED])
    assert list(elements) == [1, "b", frozenset({1})]
    assert list(Table([(MappingProxyType({}), 1), (0, 2)])) == [0, {}]


@given(st.sets(st.one_of(st.text(max_size=3), st.integers(-9, 300), st.binary(max_size=3))))
def test_the_order_is_that_of_the_keys_of_stores(values):
    places = [place_of(value) for value in decode(encode(values))]
    assert places == sorted(places)
    places = [place_of(key) for key in decode(encode(dict.fromkeys(values)))]
    assert places == sorted(places)


def test_containers_offer_no_way_to_change_them():
    table, elements = Table({"a": [1, {"b": {2}}]}), Set([("a", 1)])
    for change in (
        "__setitem__",
        "__delitem__",
        "update",
        "pop",
        "clear",
        "add",
        "discard",
        "remove",
    ):
        assert not hasattr(table, change)
        assert not hasattr(elements, change)
    with pytest.raises(AttributeError):
        table.other = 1
    assert type(table["a"]) is tuple
    assert isinstance(table["a"][1], Table)
    assert isinstance(table["a"][1]["b"], Set)


def test_containers_keep_nothing_of_what_they_were_made_from():
    inner = [1]
    source = {"a": inner}
    table, elements = Table(source), Set([tuple(inner)])
    inner.append(2)
    source["b"] = 3
    assert table == {"a": (1,)}
    assert elements == {(1,)}


@given(st.data())
def test_freezing_gives_what_a_receiver_gets(values, data):
    value = data.draw(values)
    thawed = thaw(value)
    frozen = freeze(thawed)
    assert encode(frozen) == encode(thawed) == encode(value)
    hash(frozen)


def thaw(value: object) -> object:
    """Make the outermost containers mutable where Python's own can hold the same."""
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    if isinstance(value, Table) and all(type(key) is str for key in value):
        return {key: thaw(item) for key, item in value.items()}
    return bytearray(value) if isinstance(value, bytes) else value


def test_freezing_leaves_nothing_mutable():
    assert type(freeze([[]])[0]) is tuple
    assert type(freeze({1: [2]})) is Table
    assert type(freeze({1})) is Set
    assert type(freeze(bytearray(b"x"))) is bytes
    assert type(freeze(memoryview(b"x"))) is bytes


def test_what_has_no_place_in_the_data_model_goes_into_no_container():
    cycle: list[object] = []
    cycle.append(cycle)
    for bad in (object(), 2**63, cycle, "\ud800"):
        with pytest.raises(EncodeError):
            Set([bad if not isinstance(bad, list) else tuple(bad)])
        with pytest.raises(EncodeError):
            Table({"a": bad})


CONTAINERS = [
    Set(),
    Set(["a", "b"]),
    Set(ALIKE),
    Table(),
    Table({"a": 1}),
    Table([(key, 1) for key in ALIKE]),
    decode(encode({"a": {"b": {1, 2}}})),
]


@pytest.mark.parametrize("container", CONTAINERS, ids=repr)
def test_containers_can_be_copied_pickled_and_pasted(container):
    for twin in (
        copy.copy(container),
        copy.deepcopy(container),
        pickle.loads(pickle.dumps(container)),
        eval(repr(container)),
    ):
        assert twin == container
        assert hash(twin) == hash(container)
        assert encode(twin) == encode(container)


def test_containers_are_what_python_calls_sets_and_mappings():
    assert isinstance(Set(), AbstractSet)
    assert isinstance(Table(), Mapping)
    assert dict(Table({"a": 1})) == {"a": 1}
    match decode(encode({"kind": "x", "rest": [1]})):
        case {"kind": kind, "rest": (first,)}:
            assert (kind, first) == ("x", 1)
        case other:
            pytest.fail(f"{other} did not match")
