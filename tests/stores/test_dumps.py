"""Dumps: what was written is read, and what is damaged in any place is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stores.dumps import DumpReader, Header, dumped
from stores.table import Entry
from wire.encoding import encode
from wire.errors import InvalidData
from wire.values import Count, Table

ENTRIES = [
    (encode(1), Entry(encode("one"), 3, None)),
    (encode(Count(1)), Entry(encode(Table({1: None})), 2**40, 2**62)),
    (encode("large"), Entry(encode(bytes(100_000)), 7, None)),
]
WHOLE = b"".join(dumped(Header("table", 9), ENTRIES))


def read(data, piece=4_096):
    reader, found = DumpReader(), []
    for start in range(0, len(data), piece):
        found += reader.feed(data[start : start + piece])
    return reader.finish(), found


@pytest.mark.parametrize("piece", [1, 5, 4_096, 1 << 20])
def test_what_was_written_is_read_in_pieces_of_any_size(piece):
    data = b"".join(dumped(Header("t", 9), ENTRIES[:2])) if piece < 10 else WHOLE
    header, found = read(data, piece)
    assert header.revision == 9
    assert found == ENTRIES[: len(found)]
    assert len(found) == (2 if piece < 10 else 3)


def test_an_empty_store_has_a_dump_too():
    assert read(b"".join(dumped(Header("t", 0), []))) == (Header("t", 0), [])


@given(st.integers(0, len(WHOLE) - 1))
def test_one_that_breaks_off_is_refused(size):
    with pytest.raises(InvalidData):
        read(WHOLE[:size])


@given(st.one_of(st.integers(0, 120), st.integers(0, len(WHOLE) - 1)), st.integers(1, 255))
def test_one_that_was_altered_anywhere_is_refused(place, change):
    altered = bytearray(WHOLE)
    altered[place] ^= change
    with pytest.raises(InvalidData):
        read(bytes(altered))


def test_what_follows_the_end_is_refused():
    with pytest.raises(InvalidData, match="goes on"):
        read(WHOLE + WHOLE)
    with pytest.raises(InvalidData, match="breaks off"):
        read(WHOLE + b"x")


def test_other_files_and_versions_are_refused():
    with pytest.raises(InvalidData, match="no dump"):
        read(b"SQLite format 3" * 100)
    record = encode(("peermesh store dump", 2, "t", 9))
    with pytest.raises(InvalidData, match="version 2"):
        read(len(record).to_bytes(4, "big") + record)
