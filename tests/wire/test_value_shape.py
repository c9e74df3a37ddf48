"""What a value holds, and how deep, told without decoding it."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, strategies as st

from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError, EncodeError, ErrorCode
from wire.limits import PAYLOAD_SIZE_MAX, VALUE_ENTRIES_MAX
from wire.scalars import Count
from wire.shape import check_shape

leaves = st.none() | st.booleans() | st.integers(-9, 2**40) | st.text(max_size=30) | st.floats()
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


def measure(value: object) -> tuple[int, int]:
    """Count the levels and the values, by looking at them."""
    if isinstance(value, tuple):
        items = list(value)
    elif isinstance(value, dict):
        items = [part for pair in value.items() for part in pair]
    else:
        return 0, 1
    inner = [measure(item) for item in items]
    depth = 1 + max(depth for depth, _ in inner) if inner else 0
    return depth, 1 + sum(entries for _, entries in inner)


@given(values)
def test_it_is_exact(value: object) -> None:
    depth, entries = measure(value)
    encoded = encode(value)
    check_shape(encoded, depth, entries)
    with pytest.raises(DecodeError, match="holds more than"):
        check_shape(encoded, depth, entries - 1)
    if depth:
        with pytest.raises(DecodeError, match="levels deep"):
            check_shape(encoded, depth - 1, entries)


def test_a_tag_is_a_level_and_no_value_of_its_own() -> None:
    encoded = encode((Count(1), Count(2)))
    check_shape(encoded, 2, 3)
    with pytest.raises(DecodeError):
        check_shape(encoded, 1, 3)


@given(st.binary(max_size=200))
def test_any_bytes_are_looked_at_to_their_end(data: bytes) -> None:
    check_shape(data, 300, 300)


def bomb() -> bytes:
    """Give the most memory for the fewest bytes: tables of one item each."""
    count = (PAYLOAD_SIZE_MAX - 5) // 3
    return b"\x9a" + count.to_bytes(4) + b"\xa1\x60\x00" * count


def test_a_bomb_is_refused_before_it_takes_memory() -> None:
    data = bomb()
    tracemalloc.start()
    with pytest.raises(DecodeError, match="values") as raised:
        decode(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert raised.value.code is ErrorCode.LIMIT_EXCEEDED
    assert peak < 100_000


def test_large_values_of_few_parts_and_the_largest_of_many_pass() -> None:
    assert len(decode(encode(bytes(PAYLOAD_SIZE_MAX - 10)))) == PAYLOAD_SIZE_MAX - 10
    most = (0,) * (VALUE_ENTRIES_MAX - 1)
    assert decode(encode(most)) == most


def test_what_nobody_would_take_is_not_sent() -> None:
    with pytest.raises(EncodeError, match="several messages"):
        encode((0,) * VALUE_ENTRIES_MAX)
