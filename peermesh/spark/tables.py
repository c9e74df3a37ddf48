"""Reads a store as a table: what is named is looked up, and all else is of one revision.

Who reads is a task that comes and goes. It asks the nearest replica, page by page, and that keeps
the revision of the first page for the others. The next page is under way while the last one becomes
columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from peermesh.blocking import Reader
from peermesh.spark.filters import KeyFilter, candidates
from peermesh.spark.joining import Membership
from peermesh.spark.records import is_reserved
from stores.scanning import LATEST, PAGE_COUNT_MAX
from stores.table import Entry
from wire.decoding import decode
from wire.encoding import encode

Row = tuple[bytes, Entry]
"""An encoded key, and what is stored there."""


def read_table(
    membership: Membership, name: str, key_filter: KeyFilter, since: int
) -> Iterator[Sequence[Row]]:
    """Give the entries that are wanted, in pages, as they were at the revision ``since`` or later.

    Keys that are named are looked up one by one, each at a moment of its own. Raises
    ``RevisionGone`` where so much was written meanwhile that the revision was let go.
    """
    reader = membership.store(name).not_before(since)
    if key_filter.keys is not None:
        yield [row for row in _named(reader, key_filter.keys) if _is_wanted(row, key_filter)]
        return
    for page in _pages(reader):
        yield [row for row in page if _is_wanted(row, key_filter)]


def _is_wanted(row: Row, key_filter: KeyFilter) -> bool:
    key = row[0]
    if key[0] < 0x80 and key_filter.is_everything:
        return True  # It is no vector, as all reserved keys are, and need not be looked at.
    decoded = decode(key)
    return not is_reserved(decoded) and key_filter.accepts(decoded)


def _named(reader: Reader, texts: Iterable[str]) -> Iterator[Row]:
    for key in (key for text in texts for key in candidates(text)):
        found = reader.entry(key)
        if found is not None:
            yield encode(key), Entry(encode(found.value), found.revision, None)


def _pages(reader: Reader) -> Iterator[Sequence[Row]]:
    ask = partial(reader.scan_encoded, limit=PAGE_COUNT_MAX)
    with ThreadPoolExecutor(1, "peermesh-spark-reads") as ahead:
        answer = ahead.submit(ask, revision=LATEST)
        while True:
            page = answer.result()
            if page.continuation is None:
                yield page.entries
                return
            answer = ahead.submit(ask, after=page.continuation, revision=page.revision)
            yield page.entries
