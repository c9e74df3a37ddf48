"""Encoding: one form for each value, everything else refused with the place and what to do."""

from __future__ import annotations

import math
import struct
from collections import Counter, OrderedDict, UserDict, namedtuple
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from ipaddress import IPv6Address
from types import MappingProxyType
from uuid import UUID

import cbor2
import pytest
from hypothesis import given, strategies as st

from wire import encoding
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import EncodeError
from wire.identifiers import EndpointId
from wire.limits import PAYLOAD_SIZE_MAX, VALUE_DEPTH_MAX
from wire.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, freeze


class Color(IntEnum):
    RED = 7


class Word(StrEnum):
    HELLO = "hello"


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - the untyped kind is the one to test


class OddText(str):
    __slots__ = ()

    def encode(self, *_args: object) -> bytes:
        return b"something else"


class FineInstant(datetime):
    nanosecond = 1


class FineDuration(timedelta):
    nanoseconds = 1


@given(st.data())
def test_what_is_encoded_decodes_to_itself_in_its_types(values, data):
    value = data.draw(values)
    decoded = decode(encode(value))
    assert type(decoded) is type(value)
    assert encode(decoded) == encode(value)
    assert decoded == value or "nan" in repr(value)


@given(st.data())
def test_values_are_equal_exactly_if_their_encodings_are(values, data):
    first, second = data.draw(values), data.draw(values)
    is_same = type(first) is type(second) and repr(first) == repr(second)
    assert (encode(first) == encode(second)) == is_same


def written(item: object) -> bytes:
    """Encode in another way what cbor2 read: sorted, and with long floats."""
    match item:
        case float():
            return b"\xfb" + struct.pack("!d", math.nan if math.isnan(item) else item)
        case list() | tuple():
            return encoding.head(4, len(item)) + b"".join(map(written, item))
        case dict() | cbor2.frozendict():
            pairs = sorted((written(key), written(part)) for key, part in item.items())
            return encoding.head(5, len(pairs)) + b"".join(map(b"".join, pairs))
        case cbor2.CBORTag():
            return encoding.head(6, item.tag) + written(item.value)
        case _:
            return cbor2.dumps(item)


@given(st.data())
def test_an_independent_decoder_reads_the_same(values, data):
    value = data.draw(values)
    keep = {tag: (lambda item, _, tag=tag: cbor2.CBORTag(tag, item)) for tag in (52, 54, 258)}
    read = cbor2.loads(encode(value), semantic_decoders=keep)
    assert written(read) == encode(value)
    if isinstance(value, (str, bytes, int, float, tuple)):
        assert isinstance(read, list if type(value) is tuple else type(value))


@given(st.data())
def test_the_order_of_elements_and_keys_leaves_no_trace(values, data):
    elements = data.draw(st.lists(st.text() | st.integers(-9, 9), unique=True))
    shuffled = data.draw(st.permutations(elements))
    assert encode(set(elements)) == encode(set(shuffled)) == encode(frozenset(elements))
    items = {element: data.draw(values) for element in elements}
    assert encode(items) == encode({element: items[element] for element in shuffled})


@pytest.mark.parametrize(
    ("relative", "value"),
    [
        (Color.RED, 7),
        (Word.HELLO, "hello"),
        (OddText("x"), "x"),
        (EndpointId(b"x" * 16), b"x" * 16),
        (bytearray(b"x"), b"x"),
        (memoryview(b"xyz")[1:], b"yz"),
        (Pair(1, "a"), (1, "a")),
        (OrderedDict(a=1), {"a": 1}),
        (Counter("aab"), {"a": 2, "b": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (UserDict({1: 2}), {1: 2}),
        ({Word.HELLO: 1}, {"hello": 1}),
        ({"b": 1, "a": 2}.keys(), {"a", "b"}),
        (Set(["a"]), {"a"}),
        (Table({"a": [1]}), {"a": (1,)}),
        (
            datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            datetime(2024, 1, 1, tzinfo=UTC),
        ),
        (math.inf - math.inf, math.nan),
        (-math.nan, math.nan),
    ],
    ids=lambda value: type(value).__name__,
)
def test_relatives_are_written_like_what_they_stand_for(relative, value):
    assert encode(relative) == encode(value)
    assert encode([relative]) == encode([value])
    assert encode({"a": relative}) == encode({"a": value})
    assert encode({1: relative}) == encode({1: value})


def test_alike_keys_of_one_table_are_kept_apart():
    alike = Table([(1, "int"), (True, "bool"), (1.0, "float"), (Count(1), "count")])
    assert len({encode(key) for key in alike}) == 4
    assert decode(encode(alike)) == alike


def test_a_table_is_a_map_exactly_if_all_keys_are_text_or_bytes():
    assert encode({"a": 1, b"b": 2})[0] == 0xA2
    assert encode({})[0] == 0xA0
    assert encode({"a": 1, 1: 2})[:3] == bytes.fromhex("d99505")


def test_what_was_remembered_of_keys_does_not_confuse_other_keys():
    for _ in range(2):
        assert encode({"1": 0}) == bytes.fromhex("a1613100")
        assert encode({b"1": 0}) == bytes.fromhex("a1413100")
        assert encode({1: 0}) == bytes.fromhex("d99505820100")
        assert encode({True: 0}) == bytes.fromhex("d9950582f500")


def test_what_is_remembered_is_bounded():
    for number in range(2 * encoding.PLANS_MAX):
        encode({f"key {number}": 1})
    assert len(encoding._PLANS) <= encoding.PLANS_MAX
    encode({"x" * encoding.PLAN_SIZE_MAX: 1})
    encode({str(number): 1 for number in range(encoding.PLAN_KEYS_MAX + 1)})
    assert all(len(keys) <= encoding.PLAN_KEYS_MAX for keys in encoding._PLANS)
    assert all(len(key) < encoding.PLAN_SIZE_MAX for keys in encoding._PLANS for key in keys)
    for number in range(2 * encoding.WRITERS_MAX):
        assert encode(type(f"Kind{number}", (int,), {})(5)) == b"\x05"
    assert len(encoding._WRITERS) <= encoding.WRITERS_MAX


REFUSED = [
    (2**63, "data: an int of 64 bits .* Count"),
    (-(2**63) - 1, "data: an int of 64 bits .* int64"),
    (2**64, "data: an int of 65 bits .* text or bytes"),
    ([1, {"x": 2**63}], r"data\[1\]\['x'\]: an int"),
    ([1, [2, 3, [-(2**70)]]], r"data\[1\]\[2\]\[0\]: an int"),
    ({"a": {1: 2**63}}, r"data\['a'\]\[1\]: an int"),
    ({2**63: 1}, "a key of data: an int"),
    ({("a", 2**63): 1}, r"a key of data\[1\]: an int"),
    ({"a": {(1, 2**63)}}, r"an element of data\['a'\]\[1\]: an int"),
    (object(), "data: builtins.object is not in the data model: convert"),
    ([Decimal(1)], r"data\[0\]: decimal.Decimal is not"),
    ([Fraction(1)], r"data\[0\]: fractions.Fraction is not"),
    ([1 + 2j], r"data\[0\]: builtins.complex is not"),
    ([date(2024, 1, 1)], r"data\[0\]: datetime.date is not"),
    ([UUID(int=1)], r"data\[0\]: uuid.UUID is not"),
    ({"a": range(3)}, r"data\['a'\]: builtins.range is not"),
    (iter(()), "data: builtins.tuple_iterator is not"),
    ([datetime(2024, 1, 1)], r"data\[0\]: .* add one"),
    ([datetime(2300, 1, 1, tzinfo=UTC)], r"data\[0\]: .* 292 years"),
    ([timedelta(days=200_000)], r"data\[0\]: .* 292 years"),
    (FineInstant(2024, 1, 1, tzinfo=UTC), "Timestamp.of"),
    (FineDuration(1), "Timespan.of"),
    ([IPv6Address("fe80::1%eth0")], r"data\[0\]: fe80::1%eth0 has a zone"),
    ("\ud800", "data: .* lone surrogate"),
    (["a", "\udfff"], r"data\[1\]: .* lone surrogate"),
    ({"\ud800": 1}, "a key of data: .* lone surrogate"),
    ({math.nan, -math.nan}, "data: nan is in it twice"),
    ({"a": {math.nan: 1, -math.nan: 2}}, r"data\['a'\]: nan is in it twice"),
    (Enum("\ud800"), "surrogate"),
]


@pytest.mark.parametrize(("value", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_what_has_no_place_in_the_data_model_is_refused_by_name(value, text):
    with pytest.raises(EncodeError, match=text) as refused:
        encode(value)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    "number", [2**63 - 1, -(2**63), 2**32, -(2**32) - 1, 65_536, 256, -257, 1024]
)
def test_integers_at_the_edges_fit(number):
    assert decode(encode(number)) == number
    assert encode(number) == cbor2.dumps(number)
    assert encode([number])[1:] == encode({"a": number})[3:] == encode(number)


@pytest.mark.parametrize("size", [0, 23, 24, 255, 256, 65_535, 65_536])
def test_sizes_at_the_edges_have_the_shortest_heads(size):
    for value in (
        "x" * size,
        b"x" * size,
        [0] * size,
        {f"{number:05}": 0 for number in range(size)},
    ):
        assert encode(value) == cbor2.dumps(value)
        assert encode([value])[1:] == encode(value)
        assert encode({"a": value})[3:] == encode(value)


def nested(levels: int, value: object, wrap: object = lambda inner: [inner]) -> object:
    for _ in range(levels):
        value = wrap(value)
    return value


WRAPPERS = [
    lambda inner: [inner],
    lambda inner: (inner, 1),
    lambda inner: {"a": inner},
    lambda inner: {1: inner},
    lambda inner: Table([((inner,), 1)]),
    lambda inner: frozenset([inner]),
    lambda inner: Set([inner]),
]


@pytest.mark.parametrize("wrap", WRAPPERS)
@pytest.mark.parametrize(
    "leaf", [(), 1, "a", Count(1), Port(1), Enum("a"), Timestamp(1), Timespan(1)]
)
def test_a_value_of_any_depth_is_encoded_and_decoded_or_refused(wrap, leaf):
    depths = []
    for levels in range(VALUE_DEPTH_MAX + 2):
        # Sets and tables refuse such elements when they are made, the rest when they are encoded.
        with suppress(EncodeError):
            value = nested(levels, leaf, wrap)
            encoded = encode(value)
            assert encode(decode(encoded)) == encoded
            depths.append(levels)
    assert depths == [*range(len(depths))]
    assert len(depths) >= VALUE_DEPTH_MAX // 3


def test_the_deepest_list_is_as_deep_as_the_limit():
    encode(nested(VALUE_DEPTH_MAX, 1))
    with pytest.raises(EncodeError, match="flatten"):
        encode(nested(VALUE_DEPTH_MAX + 1, 1))


def test_a_value_that_holds_itself_is_refused():
    cycle: list[object] = []
    cycle.append({"a": cycle})
    with pytest.raises(EncodeError, match="holds itself"):
        encode(cycle)


def test_a_value_that_is_too_large_is_refused():
    size = PAYLOAD_SIZE_MAX - 5
    assert len(encode("x" * size)) == PAYLOAD_SIZE_MAX
    with pytest.raises(EncodeError, match="in pieces"):
        encode("x" * (size + 1))
    with pytest.raises(EncodeError, match="in pieces"):
        encode(b"x" * (size + 1))


def test_a_small_value_that_repeats_itself_endlessly_ends_early(monkeypatch):
    monkeypatch.setattr(encoding, "PAYLOAD_SIZE_MAX", 10_000)
    with pytest.raises(EncodeError, match="in pieces"):
        encode(nested(30, 1, lambda inner: [inner] * 10))
    with pytest.raises(EncodeError, match="in pieces"):
        encode(nested(30, 1, lambda inner: {"a": inner, "b": inner, "c": inner}))


def test_tables_that_are_keys_of_tables_are_sorted_once_each(monkeypatch):
    table = nested(9, 1, lambda inner: Table([(inner, 1), ("a", 2)]))
    sort, sorted_keys = encoding._sort, []
    monkeypatch.setattr(
        encoding, "_sort", lambda keys, depth: sorted_keys.append(keys) or sort(keys, depth)
    )
    for work in (encode, hash, repr, freeze, lambda received: [*received.items()]):
        sorted_keys.clear()
        work(table)
        assert len(sorted_keys) <= 9, "linear; doing it twice at each level makes 512 of them"
    sorted_keys.clear()
    decode(encode(table))
    assert len(sorted_keys) <= 9 + 9 * 10 / 2


def test_a_list_that_changes_meanwhile_does_not_become_broken_bytes():
    class Growing(UserDict[str, object]):
        def __iter__(self):
            victim.append(1)
            return super().__iter__()

    victim: list[object] = [Growing({"a": 1})]
    with pytest.raises(EncodeError, match="changed"):
        encode(victim)
