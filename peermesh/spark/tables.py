"""Reads a store as a table: what is named is looked up, and all else is of one revision.

A reader is a task that comes and goes. A store of many rows is cut into stretches of its key
order, one for each task, all of the revision at which it was planned. A task asks the nearest
replica that keeps it, page by page; the next page is under way while the last one becomes columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from peermesh.blocking import Reader
from peermesh.spark.columns import array_of, heads_of
from peermesh.spark.filters import KeyFilter, candidates
from peermesh.spark.records import is_reserved
from stores.scanning import LATEST, PAGE_COUNT_MAX, Page
from stores.table import Entry
from stores.table.rows import Rows
from stores.table.strings import Strings
from wire.decoding import decode
from wire.encoding import encode

CUTS_PER_TASK: Final = 16
"""Places where a task may begin, for the rows of one: so tasks differ by one part in so many."""

NO_VECTORS: Final = bytes(range(0x80))
"""First bytes of encoded numbers, text and bytes. All reserved keys are vectors."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a task reads of the key order; keys are encoded."""

    start: bytes | None = None
    stop: bytes | None = None
    """The first key that does not belong to it; ``None`` for the end."""
    revision: int = LATEST
    """As of which one: of now if the task is the only one, and takes care of it by itself."""


def plan_table(
    reader: Reader, rows_per_task: int, task_count: Callable[[int], int]
) -> list[Stretch]:
    """Cut a store into stretches, one for each task that ``task_count`` has for its rows."""
    step = max(1, rows_per_task // CUTS_PER_TASK)
    pages = list(_pages(reader, Stretch(), step))
    cuts = [key for page in pages for key in page.rows.keys]
    tasks = min(task_count(len(cuts) * step), len(cuts))
    if tasks <= 1:
        return [Stretch()]
    places = [None, *(cuts[len(cuts) * number // tasks] for number in range(1, tasks)), None]
    revision = pages[0].revision
    return [Stretch(*ends, revision) for ends in pairwise(places)]


def read_table(reader: Reader, key_filter: KeyFilter, stretch: Stretch) -> Iterator[Rows]:
    """Give the entries that are wanted, in pages, all of the stretch's revision.

    Keys that are named are looked up one by one, each at a moment of its own. Raises
    ``RevisionGone`` where so much was written meanwhile that the revision was let go.
    """
    if key_filter.keys is not None:
        yield _wanted(Rows.listed(_named(reader, key_filter.keys)), key_filter)
        return
    for page in _pages(reader, stretch):
        yield _wanted(page.rows, key_filter)


def _wanted(rows: Rows, key_filter: KeyFilter) -> Rows:
    heads = heads_of(array_of(Strings.of(rows.keys)))
    if key_filter.is_everything and not heads.translate(None, NO_VECTORS):
        return rows
    keys = map(decode, rows.keys)
    flags = [not is_reserved(key) and key_filter.accepts(key) for key in keys]
    return rows if all(flags) else rows.chosen(flags)


def _named(reader: Reader, texts: Iterable[str]) -> Iterator[tuple[bytes, Entry]]:
    for key in (key for text in texts for key in candidates(text)):
        found = reader.entry(key)
        if found is not None:
            yield encode(key), Entry(encode(found.value), found.revision, None)


def _pages(reader: Reader, stretch: Stretch, step: int = 1) -> Iterator[Page]:
    start, stop = (None if key is None else decode(key) for key in (stretch.start, stretch.stop))
    ask = partial(reader.scan_encoded, start, stop, limit=PAGE_COUNT_MAX, step=step)
    with ThreadPoolExecutor(1, "peermesh-spark-reads") as ahead:
        answer = ahead.submit(ask, revision=stretch.revision)
        while True:
            page = answer.result()
            if page.continuation is None:
                yield page
                return
            answer = ahead.submit(ask, after=page.continuation, revision=page.revision)
            yield page
