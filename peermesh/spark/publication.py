"""Publishes batches of rows in a store or a log, each once, whoever was killed in between."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Final

from peermesh.blocking import Log
from peermesh.spark.joining import AnyStore, patiently
from peermesh.spark.options import Writing
from peermesh.spark.records import (
    PIECE_COUNT_MAX,
    Counts,
    Mark,
    ReplayConflict,
    Row,
    Taken,
    count_rows,
    last_of_each,
    move_mark,
    put_rows,
    read_mark,
    repeated,
    sink_key,
    split,
    staged_key,
    staged_prefix,
)
from stores.batch import Batch
from stores.log.limits import APPEND_COUNT_MAX, PRODUCER_WINDOW
from stores.log.runs import partition_of
from wire.encoding import encode
from wire.errors import GuardFailed, InvalidData, SequenceUnknown
from wire.limits import MIB
from wire.scalars import shorten
from wire.values import Value

APPEND_SIZE_MAX: Final = 8 * MIB
"""Bytes of one append: half of what a keeper takes at once."""

PIECES_MAX: Final = PRODUCER_WINDOW
"""Appends of one batch: a keeper remembers so many of a producer."""

KEYS_NAMED_MAX: Final = 3
"""Keys that an error names: enough to look for what they have in common."""


def publish_in_store(
    store: AnyStore,
    query: str,
    batch: int,
    taken: Taken,
    writing: Writing,
    seconds: float,
) -> bool:
    """Publish a batch of a query, once; tell whether it was this time.

    What became of its rows is counted with it. Up to ``PIECE_COUNT_MAX`` rows appear at once. More
    are staged under keys of their own, decided on in one step, and then appear in pieces. The
    next writer completes what was decided.
    """
    publisher = _Publisher(store, query, seconds)
    publisher.complete()
    if batch <= publisher.mark.batch:
        return False
    publisher.sweep()
    rows, is_upsert = taken.rows, writing is Writing.UPSERT
    kept = last_of_each(rows) if is_upsert else rows
    pieces = list(split(kept))
    if not is_upsert:
        _check_append(rows, len(pieces))
    publisher.counts = Counts(len(rows), len(rows) - len(kept), taken.dropped)
    if len(pieces) > 1:
        publisher.stage(batch, pieces)
    else:
        publisher.move(Mark(batch), [row for piece in pieces for row in piece], is_upsert=is_upsert)
    return True


def _check_append(rows: Sequence[Row], piece_count: int) -> None:
    if piece_count > 1:
        raise InvalidData(
            f"writeMode append takes {PIECE_COUNT_MAX:,} rows in a batch, or fewer large ones,"
            f" not {len(rows):,}: make batches smaller with maxOffsetsPerTrigger"
        )
    twice = repeated(rows)
    if twice:
        raise GuardFailed(
            f"writeMode append: several rows of this batch have {_named(twice)}: nothing of it is"
            " written; drop duplicates, or write with upsert"
        )


def _named(keys: Sequence[Value]) -> str:
    """Name some keys, and tell how many others there are."""
    shown = ", ".join(shorten(key) for key in keys[:KEYS_NAMED_MAX])
    more = len(keys) - KEYS_NAMED_MAX
    return f"the key{'s' * (len(keys) > 1)} {shown}" + (f", and {more:,} more" if more > 0 else "")


class _Publisher:
    """Moves the mark of a query, with rows."""

    def __init__(self, store: AnyStore, query: str, seconds: float) -> None:
        self._store = store
        self._query = query
        self._seconds = seconds
        self.mark = self._found_mark()
        self.counts = Counts()
        """Of the batch that is to be decided on; noted together with the decision."""

    def _get(self, key: Value) -> Value:
        return patiently(lambda: self._store.at_master().get(key), self._seconds)

    def _found_mark(self) -> Mark:
        return read_mark(self._get(sink_key(self._query)))

    def move(self, after: Mark, rows: Sequence[Row], *, is_upsert: bool = True) -> None:
        """Publish rows, and move the mark, both or none."""
        changes = put_rows(move_mark(self._query, self.mark, after), rows, is_upsert=is_upsert)
        count_rows(changes, self._query, self.counts)
        if self.mark.is_under_way:
            changes.erase(staged_key(self._query, self.mark.token, self.mark.piece))
        self._apply(changes, rows)
        self.mark, self.counts = after, Counts()

    def _apply(self, changes: Batch, rows: Sequence[Row]) -> None:
        try:
            self._store.batch(changes).result(self._seconds)
        except GuardFailed as error:
            raise self._conflict(error, rows) from None

    def _conflict(self, error: GuardFailed, rows: Sequence[Row]) -> Exception:
        if self._found_mark() == self.mark:
            there = patiently(lambda: self._there(rows), self._seconds)
            if not there:
                return error  # it has been deleted since
            return GuardFailed(
                f"writeMode append: store {self._store.name()} has {_named(there)} already: nothing"
                " of the batch is written; write with upsert, or leave out what is there"
            )
        return self._two_writers()

    def _there(self, rows: Sequence[Row]) -> list[Value]:
        reader = self._store.at_master()
        return [key for key, _ in rows if reader.exists(key)]

    def _two_writers(self) -> ReplayConflict:
        return ReplayConflict(
            f"two writers publish as {self._query}: stop one of them; two streams need a checkpoint"
            " each, and two runs of df.write a writeId each"
        )

    def _gone(self) -> ReplayConflict:
        """Say what became of a staged piece that is not there."""
        mark, key = self.mark, sink_key(self._query)
        if self._found_mark() != mark:
            return self._two_writers()
        return ReplayConflict(
            f"batch {mark.batch} of {self._query}: the staged piece {mark.piece + 1} of"
            f" {mark.piece_count} is gone from store {self._store.name()}: stop every other driver"
            f" of the query, erase the key {key!r}, and start the query again, which then"
            " writes the batch anew"
        )

    def stage(self, batch: int, pieces: Sequence[Sequence[Row]]) -> None:
        """Put the pieces aside, decide on them, and publish them."""
        token = uuid.uuid4().hex
        receipts = [
            self._store.put(staged_key(self._query, token, number), tuple(piece))
            for number, piece in enumerate(pieces)
        ]
        for receipt in receipts:
            receipt.result(self._seconds)
        self.move(Mark(batch, token, 0, len(pieces)), ())
        self.complete()

    def complete(self) -> None:
        """Publish what was decided on: the staged rows, whatever a replay would bring."""
        while self.mark.is_under_way:
            mark = self.mark
            staged = self._get(staged_key(self._query, mark.token, mark.piece))
            if not isinstance(staged, tuple):
                raise self._gone()
            is_last = mark.piece + 1 == mark.piece_count
            after = Mark(mark.batch, mark.token, mark.piece + 1, mark.piece_count)
            self.move(Mark(mark.batch) if is_last else after, staged)

    def sweep(self) -> None:
        """Erase what was staged and not decided on; from here on it never can be.

        Another driver may have staged it a moment ago, and be about to decide. So the mark changes
        before anything is erased: a decision holds only for the mark that was found before.
        """
        left = patiently(self._staged_keys, self._seconds)
        if not left:
            return
        after = Mark(self.mark.batch, uuid.uuid4().hex)
        self._apply(move_mark(self._query, self.mark, after), ())
        self.mark = after
        for receipt in [self._store.erase(key) for key in left]:
            receipt.result(self._seconds)

    def _staged_keys(self) -> list[Value]:
        found = self._store.at_master().entries(prefix=staged_prefix(self._query))
        return [entry.key for entry in found]


def publish_in_log(
    log: Log,
    query: str,
    batch: int,
    rows: Sequence[Row],
    seconds: float,
    *,
    is_repeatable: bool = True,
) -> None:
    """Append a batch of a query, once: what has no key goes to the one partition of the query.

    Rows with keys go where their keys belong, and each partition has a producer of its own: so
    a repetition finds in each what was appended there, whatever was missing in others.

    A log remembers so many producers, and no more. What is not repeatable takes none: ``query`` is
    of this call alone then, and as long as it lasts, the handle of the log asks again for what has
    no receipt, and has it once.
    """
    number = batch if is_repeatable else None
    try:
        for place, found in _places_of(query, rows, log.partition_count()):
            _append(log, place, number, found, seconds)
    except SequenceUnknown as error:
        raise SequenceUnknown(
            f"log {log.name()}: whether batch {batch} of {query} was written is not known any more:"
            f" {error}. If its rows are not there, write them with another writeId, or start the"
            " stream with a new checkpoint"
        ) from None


def _places_of(
    query: str, rows: Sequence[Row], count: int
) -> Iterator[tuple[tuple[str, int], list[Row]]]:
    """Give the producers that append some rows, each with its partition, and which rows."""
    without = [row for row in rows if row[0] is None]
    if without:
        yield (query, partition_of(encode(f"spark/{query}"), count)), without
    by_partition: dict[int, list[Row]] = {}
    for row in rows:
        if row[0] is not None:
            by_partition.setdefault(partition_of(encode(row[0]), count), []).append(row)
    for partition, found in sorted(by_partition.items()):
        yield (f"{query}/{partition}", partition), found


def _append(
    log: Log, place: tuple[str, int], batch: int | None, rows: Sequence[Row], seconds: float
) -> None:
    """Append rows to a partition: of a batch with a number as a producer, otherwise as none."""
    pieces = _cut(rows)
    producer, partition = place
    if batch is None:
        for piece in pieces:
            log.append_entries(piece, partition=partition).result(seconds)
        return
    if len(pieces) > PIECES_MAX:
        raise InvalidData(
            f"a batch of {len(rows):,} rows takes {len(pieces):,} appends, {PIECES_MAX:,} are"
            " allowed: make batches smaller with maxOffsetsPerTrigger"
        )
    for number, piece in enumerate(pieces):
        log.append_entries(
            piece,
            partition=partition,
            producer=f"spark/{producer}",
            sequence=batch * PIECES_MAX + number,
        ).result(seconds)


def _cut(rows: Sequence[Row]) -> list[list[Row]]:
    pieces: list[list[Row]] = []
    size = 0
    for row in rows:
        row_size = len(encode(row))
        if not pieces or len(pieces[-1]) == APPEND_COUNT_MAX or size + row_size > APPEND_SIZE_MAX:
            pieces.append([])
            size = 0
        pieces[-1].append(row)
        size += row_size
    return pieces
