"""Byte strings in one block are a sequence like any other, and numbers travel as little-endian."""

from __future__ import annotations

import sys
from array import array

import pytest
from hypothesis import given, strategies as st

from stores.table.strings import Strings, ends_of, packed, unpacked
from wire.errors import DecodeError

ITEMS = st.lists(st.binary(min_size=1, max_size=5))


@given(ITEMS)
def test_strings_are_a_sequence_that_equals_any_other_of_the_same(items):
    found = Strings.of(items)
    assert (len(found), list(found), found[1:]) == (len(items), items, items[1:])
    assert [found[number] for number in range(-len(items), len(items))] == 2 * items
    assert found == items
    assert found == tuple(items)
    assert found == Strings.of(tuple(items))
    assert found != [*items, b"x"]
    assert found != len(items)
    assert Strings.of(found) is found
    assert repr(found) == f"Strings.of({items!r})"
    with pytest.raises(IndexError):
        found[len(items)]


@given(ITEMS)
def test_strings_that_travel_are_the_same(items):
    found = Strings.of(items)
    assert found.ends == ends_of(items)
    assert Strings.unpacked(found.content, packed(found.ends)) == items


@pytest.mark.parametrize("order", ["little", "big"])
def test_numbers_travel_with_the_lowest_byte_first_on_every_machine(order, monkeypatch):
    numbers = array("Q", [1, 2**64 - 1, 5 << 40])
    travelling = b"".join(number.to_bytes(8, "little") for number in numbers)
    native = sys.byteorder
    monkeypatch.setattr(sys, "byteorder", order)
    if order != native:  # What is in memory there is turned here.
        numbers.byteswap()
    assert packed(numbers) == travelling
    assert unpacked("Q", travelling) == numbers


def test_a_number_that_is_cut_off_is_refused():
    with pytest.raises(DecodeError, match="end in the middle"):
        unpacked("i", bytes(7))
