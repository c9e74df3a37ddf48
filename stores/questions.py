"""What a proxy asks a replica, and what is found there: entries of one moment, in pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from stores.order import order_of
from stores.scanning import Page, Span
from stores.table import Entry
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


Question = LookUpCommand | ScanCommand

Row = tuple[bytes, bytes | None, int, int | None]
"""Key, value if it was asked for, revision, and when it expires."""


@dataclass(frozen=True, slots=True)
class ReadAnswerCommand:
    """A replica to a proxy: this is there, in the state of this epoch and revision."""

    number: int
    rows: tuple[Row, ...]
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

    def scan(self, span: Span, limit: int, revision: int | None = None) -> Page:
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
        if entry is None:
            return ReadAnswerCommand(question.number, (), None)
        row = _row(question.key, entry, epoch_ns, has_value=question.has_value)
        return ReadAnswerCommand(question.number, (row,), None)
    try:
        span, count = Span(question.start, question.stop), min(question.limit, limit)
        page = copy.scan(span, count, question.revision)
    except InvalidData as error:
        raise DecodeError(f"a proxy asks for what there is not: {error}") from None
    rows: list[Row] = []
    size = 0
    for key, entry in page.entries:
        row = _row(key, entry, epoch_ns, has_value=question.has_values)
        size += len(key) + len(row[1] or b"")
        if rows and size > ANSWER_SIZE_MAX:
            return ReadAnswerCommand(question.number, tuple(rows), order_of(key))
        rows.append(row)
    return ReadAnswerCommand(question.number, tuple(rows), page.continuation)


def in_steps(prepare: Callable[[int], int], reply: Callable[[int], None]) -> Job:
    """Put the keys in order, a slice at a time; then ``reply`` with what is left of a slice.

    ``prepare`` puts so many in order, at most, and says how many it were.
    """
    count = SLICE_COUNT // 2
    while (handled := prepare(count)) == count:
        yield
    reply(SLICE_COUNT - handled)


def _row(key: bytes, entry: Entry, epoch_ns: int, *, has_value: bool) -> Row:
    at_ns = None if entry.expires_at_ns is None else entry.expires_at_ns + epoch_ns
    return key, entry.value if has_value else None, entry.revision, at_ns
