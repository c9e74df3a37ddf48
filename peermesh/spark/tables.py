"""Reads a store as a table: what is named is looked up, and all of it is of one moment.

Who reads is a task that comes and goes. So it asks the nearest replica, page by page; if the store
changed between two pages, which their revisions tell, it takes a copy and reads that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from endpoint.replicas.stores.reading import Entry, decode_page
from peermesh.blocking import Reader, ReplicaStore, Store
from peermesh.spark.filters import KeyFilter, candidates
from peermesh.spark.joining import Membership
from peermesh.spark.records import is_reserved
from stores.scanning import EVERYTHING, PAGE_COUNT_MAX


def read_table(
    membership: Membership, name: str, key_filter: KeyFilter, since: int
) -> Iterator[Entry]:
    """Give the entries that are wanted, as they were at the revision ``since`` or later.

    Keys that are named are looked up one by one, each at a moment of its own.
    """
    reader = membership.store(name).not_before(since)
    if key_filter.keys is not None:
        found = _named(reader, key_filter.keys)
    else:
        found = iter(_everything(membership, name, reader))
    for entry in found:
        if not is_reserved(entry.key) and key_filter.accepts(entry.key):
            yield entry


def _named(reader: Reader, texts: Iterable[str]) -> Iterator[Entry]:
    for key in (key for text in texts for key in candidates(text)):
        entry = reader.entry(key)
        if entry is not None:
            yield entry


def _everything(membership: Membership, name: str, reader: Reader) -> list[Entry]:
    found = _at_one_moment(reader)
    if found is not None:
        return found
    with membership.copy(name) as store:
        return _entries_of_copy(store)


def _at_one_moment(reader: Reader) -> list[Entry] | None:
    """Give all entries; ``None`` if they changed while they were read."""
    found: list[Entry] = []
    page = first = reader.scan(limit=PAGE_COUNT_MAX)
    found += page
    while page.continuation is not None:
        page = reader.scan(limit=PAGE_COUNT_MAX, after=page.continuation)
        if page.revision != first.revision:
            return None
        found += page
    return found


def _entries_of_copy(store: Store | ReplicaStore) -> list[Entry]:
    """Give all entries of a copy, in one go of its loop: nothing happens in between."""
    passage, core = store.inside()

    def take() -> list[Entry]:
        found: list[Entry] = []
        span = EVERYTHING
        while True:
            page = core.part.table.scan(span, PAGE_COUNT_MAX)
            found += decode_page(page)
            if page.continuation is None:
                return found
            span = span.after(page.continuation)

    return passage.call_sync(take)
