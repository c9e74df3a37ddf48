"""Digests: equal tables have equal ones, others have not, and a slice at a time it is the same."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stores.digests import DigestWalk, digest
from stores.table import Columns, Entry


def columns_of(**entries: tuple[bytes, int] | tuple[bytes, int, int]) -> Columns:
    columns = Columns()
    for key, (value, revision, *expiry) in entries.items():
        columns.set(key.encode(), Entry(value, revision, *(expiry or [None])))
    return columns


def test_the_order_in_which_entries_came_does_not_count():
    one, two = (b"1", 1), (b"2", 2, 99)
    assert digest(columns_of(a=one, b=two), 2) == digest(columns_of(b=two, a=one), 2)


@pytest.mark.parametrize(
    "other",
    [
        columns_of(a=(b"0", 1)),
        columns_of(b=(b"1", 1)),
        columns_of(a=(b"1", 3)),
        columns_of(a=(b"1", 1, 0)),
        columns_of(),
        columns_of(a=(b"1", 1), b=(b"", 2)),
    ],
)
def test_whatever_differs_makes_another_digest(other):
    assert digest(columns_of(a=(b"1", 1)), 2) != digest(other, 2)


_KEYS = st.binary(min_size=1, max_size=1)


@given(
    st.dictionaries(_KEYS, st.binary(max_size=2), min_size=1),
    st.lists(st.tuples(_KEYS, st.none() | st.binary(max_size=2), st.none() | st.just(7))),
    st.data(),
)
def test_a_digest_taken_in_slices_is_that_of_its_moment(entries, writes, data):
    columns = Columns()
    for revision, (key, value) in enumerate(entries.items()):
        columns.set(key, Entry(value, revision, revision if revision % 3 == 0 else None))
    expected, walk = digest(columns, 9), DigestWalk(columns, 9)
    for revision, (key, value, expires_at_ns) in enumerate(writes, start=100):
        walk.remember([key, key])
        columns.set(key, None if value is None else Entry(value, revision, expires_at_ns))
        if (found := walk.step(data.draw(st.integers(0, 3)))) is not None:
            break
    else:
        found = walk.step(1_000)
    assert found == expected
