"""The order of keys: total, typed, and such that prefixes are stretches of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from math import inf, nan

import pytest
from hypothesis import given, strategies as st

from stores.order import order_of, prefix_range
from wire.encoding import encode
from wire.errors import InvalidData
from wire.values import Count, Enum, Port, PortProtocol, Set, Table, Timespan, Timestamp

ASCENDING = [
    None,
    False,
    True,
    Count(0),
    Count(2**64 - 1),
    -(2**63),
    -1,
    0,
    255,
    256,
    2**63 - 1,
    -inf,
    -1.5,
    -0.0,
    0.0,
    1e-300,
    7.25,
    inf,
    nan,
    "",
    "\0",
    "\0\0",
    "\0a",
    "Z",
    "a",
    "a\0",
    "aa",
    "b",
    "é",
    "€",
    "\U0001f600",
    b"",
    b"\0",
    b"a",
    b"\xff",
    b"\xff\xff",
    IPv6Address("::1"),
    IPv4Address("1.2.3.4"),
    IPv6Address("::ffff:1.2.3.4"),
    IPv4Address("10.0.0.0"),
    IPv6Address("2001:db8::"),
    IPv4Network("10.0.0.0/8"),
    IPv4Network("10.0.0.0/16"),
    IPv6Network("2001:db8::/32"),
    Port(80, PortProtocol.TCP),
    Port(80, PortProtocol.UDP),
    Port(8080, PortProtocol.TCP),
    Timestamp(-1),
    datetime(1970, 1, 1, tzinfo=UTC),
    Timestamp(1),
    datetime(2024, 5, 17, tzinfo=UTC),
    Timespan(-7),
    timedelta(0),
    timedelta(days=1),
    Enum("a"),
    Enum("b"),
    Set(),
    Set([1]),
    Set([1, 2]),
    Table(),
    Table({"a": 1}),
    Table({"a": 2}),
    (),
    (None,),
    (1,),
    (1, "x"),
    (2,),
    ("a",),
    ("a", 0),
    ("a\0",),
    ("a\0", 0),
    ("aa",),
    ((),),
    ((), 1),
    ((1,),),
]


def test_every_type_has_its_place():
    places = [order_of(encode(value)) for value in ASCENDING]
    for before, after, value in zip(places, places[1:], ASCENDING[1:], strict=False):
        assert before < after, value


KEYS = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**64 - 1).map(Count),
        st.floats(),
        st.text(st.sampled_from("\0\x01ab\x7fé\U0001f600")),
        st.binary(max_size=4),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


@given(KEYS, KEYS)
def test_two_keys_share_a_place_only_if_they_are_one(left, right):
    encoded = encode(left), encode(right)
    places = order_of(encoded[0]), order_of(encoded[1])
    assert (places[0] == places[1]) == (encoded[0] == encoded[1])


@given(st.lists(st.text(st.sampled_from("\0\x01ab\xff")), max_size=20))
def test_text_goes_by_its_code_points(texts):
    assert sorted(texts, key=lambda text: order_of(encode(text))) == sorted(texts)


@given(st.lists(st.lists(st.integers(-3, 300)).map(tuple), max_size=20))
def test_vectors_go_element_by_element(vectors):
    assert sorted(vectors, key=lambda vector: order_of(encode(vector))) == sorted(vectors)


def begins(key, prefix):
    return type(key) is type(prefix) and encode(key[: len(prefix)]) == encode(prefix)


PREFIXES = st.one_of(
    st.text(st.sampled_from("\0a\xff"), max_size=3),
    st.lists(st.sampled_from([b"", b"\0", b"\xff", b"a"]), max_size=3).map(b"".join),
    st.lists(st.one_of(st.integers(0, 2), st.sampled_from(["", "a", "a\0"])), max_size=2).map(
        tuple
    ),
)


@given(PREFIXES, PREFIXES)
def test_a_prefix_is_a_stretch_of_the_order(prefix, key):
    start, stop = prefix_range(encode(prefix))
    assert (start <= order_of(encode(key)) < stop) == begins(key, prefix)
    extended = prefix + key if type(prefix) is type(key) else prefix
    assert start <= order_of(encode(extended)) < stop


@pytest.mark.parametrize("prefix", [None, True, 1, 1.0, Count(1), Set(), Enum("a")])
def test_nothing_begins_with_other_types(prefix):
    with pytest.raises(InvalidData, match="a prefix is text, bytes or a vector"):
        prefix_range(encode(prefix))
