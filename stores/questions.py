"""What a proxy asks a replica, and what is found there: entries of one moment, in pages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import add
from typing import Final, Protocol

from stores.order import order_of
from stores.scanning import Page, Span
from stores.table import Entry
from stores.table.rows import Rows
from stores.table.strings import Strings
from stores.work import SLICE_COUNT, Job
from wire.errors import DecodeError, InvalidData
from wire.limits import KIB

ANSWER_SIZE_MAX: Final = 256 * KIB
"""Bytes after which an answer to a proxy takes no more entries, like a chunk of a snapshot; one
always fits."""


@dataclass(frozen=True, slots=True)
class LookUpCommand:
    """A proxy to a replica: what is under this key?

    It is asked with the state that the proxy has seen: an earlier one is no answer.
    """

    number: int
    revision_min: int
    """Answer with a state of at least this revision, whatever its epoch."""
    key: bytes
    has_value: bool


@dataclass(frozen=True, slots=True)
class ScanCommand:
    """A proxy to a replica: which entries are in this span? Asked as a look-up is."""

    number: int
    revision_min: int
    start: bytes
    stop: bytes | None
    limit: int
    has_values: bool
    revision: int | None = None
    """As of which one: ``LATEST`` has that of now kept; ``None`` if each page is of its own."""
    step: int = 1
    """Every so many-th entry alone, to cut a store into parts of equal length."""


Question = LookUpCommand | ScanCommand


@dataclass(frozen=True, slots=True)
class ReadAnswerCommand:
    """A replica to a proxy: this is there, in the state of this epoch and revision."""

    number: int
    rows: Rows
    """Without values if none were asked for; expiries are times of Unix."""
    continuation: bytes | None


@dataclass(frozen=True, slots=True)
class ReadRefusedCommand:
    """A replica to a proxy: what I have is no answer; ask another one."""

    number: int
    is_stale: bool
    """True if readers here get ``StaleData`` too; otherwise it may be able to answer soon."""
    text: str
    is_denied: bool = False
    """True if the proxy has no right to read: no other replica will answer either."""
    is_gone: bool = False
    """True if the revision that was asked for is not kept here; it may be elsewhere."""


class Copy(Protocol):
    """A replica, as its readers see it."""

    def entry(self, key: bytes) -> Entry | None:
        """Give the value with its revision and expiry."""

    def scan(self, span: Span, limit: int, revision: int | None = None, step: int = 1) -> Page:
        """Give the first entries of a span in the order of keys, of now or of a kept revision."""


def find(
    copy: Copy, question: Question, limit: int = SLICE_COUNT, epoch_ns: int = 0
) -> ReadAnswerCommand:
    """Give what is found, in a page of no more than ``limit`` entries.

    Expiries in the copy are counted from ``epoch_ns``. Raises ``RevisionGone``, and ``DecodeError``
    for what no proxy asks.
    """
    if isinstance(question, LookUpCommand):
        entry = copy.entry(question.key)
        rows = Rows.listed([] if entry is None else [(question.key, entry)])
        shown = _shown(rows, has_values=question.has_value)
        return ReadAnswerCommand(question.number, shown.dated(epoch_ns), None)
    try:
        span, count = Span(question.start, question.stop), min(question.limit, limit)
        page = copy.scan(span, count, question.revision, question.step)
    except InvalidData as error:
        raise DecodeError(f"a proxy asks for what there is not: {error}") from None
    shown = _fitting(_shown(page.rows, has_values=question.has_values))
    continuation = page.continuation
    if len(shown) < len(page.rows):
        continuation = order_of(page.rows.keys[len(shown)])
    return ReadAnswerCommand(question.number, shown.dated(epoch_ns), continuation)


def in_steps(prepare: Callable[[int], int], reply: Callable[[int], None]) -> Job:
    """Put the keys in order, a slice at a time; then ``reply`` with what is left of a slice.

    ``prepare`` puts so many in order, at most, and says how many it were.
    """
    count = SLICE_COUNT // 2
    while (handled := prepare(count)) == count:
        yield
    reply(SLICE_COUNT - handled)


def _shown(rows: Rows, *, has_values: bool) -> Rows:
    return rows if has_values else replace(rows, values=())


def _fitting(rows: Rows) -> Rows:
    """Lay out the first rows that an answer has room for; there is room for one of any size."""
    sizes: Iterable[int] = map(len, rows.keys)
    if rows.values:
        sizes = map(add, sizes, map(len, rows.values))
    first = rows.first(max(1, bisect_right(list(accumulate(sizes)), ANSWER_SIZE_MAX)))
    return replace(first, keys=Strings.of(first.keys), values=Strings.of(first.values))
