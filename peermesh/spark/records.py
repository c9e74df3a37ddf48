"""What is kept of jobs in a store, and the atomic batches that change it. Pure.

All keys are vectors that begin with ``RESERVED``, so that readers can tell them from a user's own.

=============================================  =====================================================
key                                            value
=============================================  =====================================================
(RESERVED, "job", job)                         the run that may write: its token, and when it began
(RESERVED, "query", job, query)                the last batch that is done, and when
(RESERVED, "unit", job, fingerprint, unit)     a unit of work that is done: its result
(RESERVED, "progress", job, query)             the last progress that a listener saw
(RESERVED, "sink", query)                      the last batch that is published: ``Mark``
(RESERVED, "staged", query, token, piece)      rows of a batch that is being published
(RESERVED, "count", query, what)               rows of all batches: ``Counts`` has a field for each
=============================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from stores.batch import Batch
from wire.encoding import encode
from wire.errors import InvalidData, StoreError
from wire.limits import MIB
from wire.values import Value

RESERVED: Final = "peermesh.spark"

PIECE_COUNT_MAX: Final = 1_000
"""Rows that are published at once: a batch of a store has 1,024 steps, and the mark takes one."""

PIECE_SIZE_MAX: Final = 4 * MIB
"""Bytes that are published at once: a master is busy with them for some ten milliseconds."""

Row: TypeAlias = tuple[Value, Value]
"""A key with its value."""


@dataclass(slots=True)
class Taken:
    """The rows of a task or a batch, and how many were left out, as a column of the key is null."""

    rows: list[Row] = field(default_factory=list)
    dropped: int = 0


class JobFenced(StoreError):
    """Another run of the job has begun: this one may not write any more, and has to end."""


class ReplayConflict(StoreError):
    """Somebody else writes under the same identity; nothing of the batch was done."""


def is_reserved(key: Value) -> bool:
    """Tell whether a key is one of ours."""
    return isinstance(key, tuple) and len(key) > 0 and key[0] == RESERVED


def job_key(job: str) -> Value:
    """Give the key of the run that may write."""
    return (RESERVED, "job", job)


def query_key(job: str, query: str) -> Value:
    """Give the key of the last batch of a query."""
    return (RESERVED, "query", job, query)


def named(query: str, name: str | None) -> str:
    """Give the identity of one of several functions of a query; without a name, of the query."""
    if name is None:
        return query
    if not name:
        raise InvalidData("name='' is none: give a text, as in name='second', or leave it away")
    return f"{query}/{name}"


def unit_key(job: str, fingerprint: str, unit: Value) -> Value:
    """Give the key of a unit of work."""
    return (RESERVED, "unit", job, fingerprint, unit)


def units_prefix(job: str, fingerprint: str) -> Value:
    """Give what the keys of all units of a job begin with."""
    return (RESERVED, "unit", job, fingerprint)


def progress_key(job: str, query: str) -> Value:
    """Give the key of the last progress of a query."""
    return (RESERVED, "progress", job, query)


# The ledger.


def batch_done(run: Value, job: str, changes: Batch) -> Batch:
    """Guard changes by the run that may write."""
    if changes.others is not None:
        raise InvalidData("the changes of a batch may have no otherwise(): they happen, or not")
    return changes.if_value(job_key(job), run)


def note_batch(changes: Batch, key: Value, last: Value, batch: int, at: datetime) -> Batch:
    """Add that a batch is done, if the one before it is the last one still."""
    guarded = changes.if_absent(key) if last is None else changes.if_value(key, last)
    return guarded.put(key, {"batch": batch, "at": at})


def last_batch(value: Value) -> int:
    """Read which batch was the last; -1 if there was none."""
    if not isinstance(value, Mapping):
        return -1
    number = value["batch"]
    assert isinstance(number, int), value
    return number


# The sink.


@dataclass(frozen=True, slots=True)
class Mark:
    """What of a query is published: all batches up to ``batch``, of that one some pieces."""

    batch: int = -1
    token: str = ""
    """Names the staged pieces. Without any it is empty, or names the sweep that came before: so
    that of two marks of one batch the later one differs."""
    piece: int = 0
    """The next one."""
    piece_count: int = 0

    @property
    def is_under_way(self) -> bool:
        """Tell whether pieces of the batch are to be published still."""
        return self.piece < self.piece_count


def sink_key(query: str) -> Value:
    """Give the key of what a query has published."""
    return (RESERVED, "sink", query)


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the rows of a batch, or of all batches of a query."""

    rows: int = 0
    """That were written, those too that another row of the batch replaced."""
    replaced: int = 0
    """Of which a later row of the same batch has the key."""
    dropped: int = 0
    """That were left out, as a column of their key is null."""


def count_key(query: str, what: str) -> Value:
    """Give the key of a count of a query's rows."""
    return (RESERVED, "count", query, what)


def count_rows(batch: Batch, query: str, counts: Counts) -> Batch:
    """Add what a batch counts to what its query has counted."""
    for what, count in asdict(counts).items():
        if count:
            batch.increment(count_key(query, what), count)
    return batch


def staged_key(query: str, token: str, piece: int) -> Value:
    """Give the key of some staged rows."""
    return (RESERVED, "staged", query, token, piece)


def staged_prefix(query: str) -> Value:
    """Give what the keys of all staged rows of a query begin with."""
    return (RESERVED, "staged", query)


def write_mark(mark: Mark) -> Value:
    """Give what is stored of a mark."""
    return (mark.batch, mark.token, mark.piece, mark.piece_count)


def read_mark(value: Value) -> Mark:
    """Read a mark; none stands for a query that has published nothing."""
    return Mark(*value) if isinstance(value, tuple) else Mark()


def move_mark(query: str, before: Mark, after: Mark) -> Batch:
    """Begin a batch that happens only if nobody moved the mark."""
    key, batch = sink_key(query), Batch()
    guarded = batch.if_absent(key) if before == Mark() else batch.if_value(key, write_mark(before))
    return guarded.put(key, write_mark(after))


def put_rows(batch: Batch, rows: Iterable[Row], *, is_upsert: bool) -> Batch:
    """Add rows; those that are no upserts insist on new keys."""
    for key, value in rows:
        if not is_upsert:
            batch.if_absent(key)
        batch.put(key, value)
    return batch


def split(rows: Iterable[Row]) -> Iterator[tuple[Row, ...]]:
    """Cut rows into pieces that can be published at once."""
    piece: list[Row] = []
    size = 0
    for row in rows:
        row_size = len(encode(row))
        if piece and (len(piece) == PIECE_COUNT_MAX or size + row_size > PIECE_SIZE_MAX):
            yield tuple(piece)
            piece, size = [], 0
        piece.append(row)
        size += row_size
    if piece:
        yield tuple(piece)


def last_of_each(rows: Iterable[Row]) -> list[Row]:
    """Keep the last row of each key: a batch of upserts says each key once."""
    return list({encode(row[0]): row for row in rows}.values())


def repeated(rows: Iterable[Row]) -> list[Value]:
    """Give the keys that more than one row has."""
    found: dict[bytes, Value] = {}
    seen: set[bytes] = set()
    for key, _ in rows:
        encoded = encode(key)
        if encoded in seen:
            found[encoded] = key
        seen.add(encoded)
    return list(found.values())
