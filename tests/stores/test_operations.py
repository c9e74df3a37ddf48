"""What adding and subtracting mean: the table of ``stores.operations``, row by row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given, strategies as st

from stores.actions import Initial
from stores.operations import add, look_up, subtract
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import InvalidData, NoSuchKey, TypeClash
from wire.values import Count, Enum, Port, Set, Table, Timespan, Timestamp

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENT = datetime(2024, 5, 17, 12, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)
INT_MAX, INT_MIN, COUNT_MAX = 2**63 - 1, -(2**63), 2**64 - 1


def added(stored, amount):
    return decode(add(encode(stored), encode(amount), Initial.NUMBER))


def begun(amount, initial):
    return decode(add(None, encode(amount), initial))


def subtracted(stored, amount):
    return decode(subtract(encode(stored), encode(amount)))


ADDITIONS = [
    (1, 2, 3),
    (-5, 5, 0),
    (INT_MAX - 1, 1, INT_MAX),
    (Count(1), Count(2), Count(3)),
    (Count(0), Count(COUNT_MAX), Count(COUNT_MAX)),
    (1.5, 0.25, 1.75),
    (SECOND, SECOND, 2 * SECOND),
    (SECOND, Timespan(1), Timespan(1_000_000_001)),
    (Timespan(1), Timespan(999), timedelta(microseconds=1)),
    (MOMENT, SECOND, MOMENT + SECOND),
    (EPOCH, Timespan(7), Timestamp(7)),
    (Timestamp(7), Timespan(993), EPOCH + timedelta(microseconds=1)),
    ("ab", "cd", "abcd"),
    (b"ab", b"cd", b"abcd"),
    (Set([1]), 1, Set([1])),
    (Set([1]), True, Set([1, True])),
    (Set([1]), (1, 2), Set([1, (1, 2)])),
    (Set(), None, Set([None])),
    (Table({"a": 1}), ("b", 2), Table({"a": 1, "b": 2})),
    (Table({"a": 1}), ("a", 2), Table({"a": 2})),
    (Table([(1, "int")]), (1.0, "real"), Table([(1, "int"), (1.0, "real")])),
    ((1, 2), 3, (1, 2, 3)),
    ((), (1, 2), ((1, 2),)),
]


@pytest.mark.parametrize(("stored", "amount", "expected"), ADDITIONS, ids=repr)
def test_adding_to_a_value(stored, amount, expected):
    assert encode(added(stored, amount)) == encode(expected)


SUBTRACTIONS = [
    (3, 2, 1),
    (INT_MIN + 1, 1, INT_MIN),
    (Count(3), Count(3), Count(0)),
    (1.5, 0.25, 1.25),
    (SECOND, SECOND, timedelta(0)),
    (timedelta(0), Timespan(1), Timespan(-1)),
    (MOMENT, SECOND, MOMENT - SECOND),
    (Timestamp(7), Timespan(7), EPOCH),
    (Set([1, True]), 1, Set([True])),
    (Set([1]), 2, Set([1])),
    (Table({"a": 1, "b": 2}), "a", Table({"b": 2})),
    (Table({"a": 1}), "z", Table({"a": 1})),
    (Table([(1, "int"), (1.0, "real")]), 1, Table([(1.0, "real")])),
    ((1, 2, 3), "whatever", (1, 2)),
    ((), 1, ()),
]


@pytest.mark.parametrize(("stored", "amount", "expected"), SUBTRACTIONS, ids=repr)
def test_subtracting_from_a_value(stored, amount, expected):
    assert encode(subtracted(stored, amount)) == encode(expected)


NUMBERS = [1, Count(1), 1.0]
OTHERS = [None, True, "x", b"x", Set(), Table(), (), Enum("x"), SECOND, MOMENT]


@pytest.mark.parametrize("operate", [added, subtracted])
@pytest.mark.parametrize("stored", NUMBERS, ids=repr)
@pytest.mark.parametrize("amount", NUMBERS + OTHERS, ids=repr)
def test_numbers_go_with_their_own_type_only(operate, stored, amount):
    if type(stored) is type(amount):
        operate(stored, amount)
    else:
        with pytest.raises(TypeClash):
            operate(stored, amount)


@pytest.mark.parametrize("operate", [added, subtracted])
@pytest.mark.parametrize("stored", [SECOND, Timespan(1), MOMENT, Timestamp(1)], ids=repr)
@pytest.mark.parametrize("amount", [1, Count(1), 1.0, MOMENT, "x", None], ids=repr)
def test_times_go_with_timespans_only(operate, stored, amount):
    with pytest.raises(TypeClash):
        operate(stored, amount)


@pytest.mark.parametrize("stored", ["text", b"bytes"])
def test_nothing_is_taken_away_from_strings(stored):
    with pytest.raises(TypeClash):
        subtracted(stored, stored)


@pytest.mark.parametrize(("stored", "amount"), [("text", b"b"), (b"b", "text"), ("text", 1)])
def test_strings_grow_by_their_own_type_only(stored, amount):
    with pytest.raises(TypeClash):
        added(stored, amount)


@pytest.mark.parametrize("operate", [added, subtracted])
@pytest.mark.parametrize(
    "stored",
    [None, True, IPv4Address("1.2.3.4"), IPv4Network("10.0.0.0/8"), Port(80), Enum("e")],
    ids=repr,
)
def test_all_other_types_refuse(operate, stored):
    with pytest.raises(TypeClash):
        operate(stored, 1)


@pytest.mark.parametrize(
    ("operate", "stored", "amount"),
    [
        (added, INT_MAX, 1),
        (subtracted, INT_MIN, 1),
        (added, Count(COUNT_MAX), Count(1)),
        (subtracted, Count(1), Count(3)),
        (added, Timespan(INT_MAX), Timespan(1)),
        (added, Timestamp(INT_MAX), Timespan(INT_MAX)),
        (subtracted, Timespan(INT_MIN + 1), Timespan(7)),
    ],
)
def test_a_number_that_does_not_fit_is_refused_and_never_wraps(operate, stored, amount):
    with pytest.raises(InvalidData):
        operate(stored, amount)


@pytest.mark.parametrize("item", ["x", 1, Set(), None], ids=repr)
def test_a_table_takes_vectors_only(item):
    with pytest.raises(TypeClash):
        added(Table(), item)


@pytest.mark.parametrize("item", [(), (1,), (1, 2, 3)], ids=repr)
def test_a_table_takes_a_key_and_a_value(item):
    with pytest.raises(InvalidData):
        added(Table(), item)


BEGINNINGS = [
    (2, Initial.NUMBER, 2),
    (Count(2), Initial.NUMBER, Count(2)),
    (0.5, Initial.NUMBER, 0.5),
    (SECOND, Initial.NUMBER, EPOCH + SECOND),
    (Timespan(7), Initial.NUMBER, Timestamp(7)),
    ("x", Initial.TEXT, "x"),
    (b"x", Initial.TEXT, b"x"),
    (1, Initial.SET, Set([1])),
    (("k", "v"), Initial.SET, Set([("k", "v")])),
    (("k", "v"), Initial.TABLE, Table({"k": "v"})),
    (1, Initial.VECTOR, (1,)),
]


@pytest.mark.parametrize(("amount", "initial", "expected"), BEGINNINGS, ids=repr)
def test_a_missing_key_begins_with_the_operations_type(amount, initial, expected):
    assert encode(begun(amount, initial)) == encode(expected)


@pytest.mark.parametrize(
    ("amount", "initial"),
    [
        *((amount, Initial.NUMBER) for amount in ("x", True, None, MOMENT, (), Set())),
        (1, Initial.TEXT),
        (1, Initial.TABLE),
    ],
    ids=repr,
)
def test_a_missing_key_does_not_begin_with_what_does_not_fit(amount, initial):
    with pytest.raises(TypeClash):
        begun(amount, initial)


def test_nothing_is_taken_away_from_a_missing_key():
    with pytest.raises(NoSuchKey):
        subtract(None, encode(1))


@given(st.lists(st.integers() | st.booleans() | st.text(max_size=3), max_size=8))
def test_a_set_built_piece_by_piece_is_the_set(elements):
    elements = [x for x in elements if not isinstance(x, int) or INT_MIN <= x <= INT_MAX]
    stored = encode(Set())
    for element in elements:
        stored = add(stored, encode(element), Initial.SET)
    assert stored == encode(Set(elements))
    for element in elements:
        stored = subtract(stored, encode(element))
    assert stored == encode(Set())


@given(st.lists(st.tuples(st.integers(0, 3) | st.booleans(), st.integers(0, 9)), max_size=8))
def test_a_table_built_piece_by_piece_is_the_table(items):
    stored = encode(Table())
    for item in items:
        stored = add(stored, encode(item), Initial.TABLE)
    assert stored == encode(Table(items))


LOOK_UPS = [
    ((7, 8), 1, 8),
    ((7, 8), Count(0), 7),
    (Set([1]), 1, True),
    (Set([1]), True, False),
    (Table({"a": 1}), "a", 1),
    ("text", "whatever", "text"),
    (5, 0, 5),
]


@pytest.mark.parametrize(("value", "index", "expected"), LOOK_UPS, ids=repr)
def test_looking_into_a_value(value, index, expected):
    assert encode(look_up(value, index)) == encode(expected)


@pytest.mark.parametrize(("value", "index"), [((7, 8), 2), (Table({"a": 1}), "b"), ((), Count(0))])
def test_looking_for_what_is_not_there(value, index):
    with pytest.raises(NoSuchKey):
        look_up(value, index)


@pytest.mark.parametrize("index", [-1, "0", 0.0, True, None], ids=repr)
def test_vectors_are_indexed_by_numbers_from_zero_on(index):
    with pytest.raises(TypeClash):
        look_up((1, 2), index)
