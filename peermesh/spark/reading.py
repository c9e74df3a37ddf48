"""What the readers of the source do with a log, without Spark: plan, wait, fetch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from endpoint.replicas.logs.log_entries import LogEntry
from peermesh.blocking import Log
from peermesh.spark.offsets import (
    Offsets,
    Range,
    advance,
    at_most,
    complete,
    explain_losses,
    losses,
    ranges,
    skip,
)
from peermesh.spark.options import End, Explicit, Instant, Place
from wire.errors import OffsetOutOfRange, StoreError

READ_COUNT: Final = 4_096
"""Entries that are asked for at a time; the keeper gives fewer where they are large."""


class DataLoss(StoreError, LookupError):
    """Entries that a query has not read are gone; the text names them."""


class LogReader:
    """Reads one log for a query."""

    def __init__(self, log: Log, *, fails_on_loss: bool) -> None:
        """Read ``log``; what is lost is an error, or skipped."""
        self._log = log
        self._fails_on_loss = fails_on_loss

    def resolve(self, place: Place, rest: End) -> Offsets:
        """Find the offsets of a place; ``rest`` is for partitions that it does not name."""
        spans = self._log.offsets()
        if isinstance(place, Instant):
            return {number: self._log.offset_at(number, place.nanoseconds) for number in spans}
        if isinstance(place, Explicit):
            return complete(dict(place.offsets), spans, self.resolve(rest, rest))
        is_start = place is End.EARLIEST
        return {number: span.start if is_start else span.end for number, span in spans.items()}

    def ends(self) -> Offsets:
        """Give the offsets that the next entries will have."""
        return self.resolve(End.LATEST, End.LATEST)

    def next_end(
        self, start: Offsets, rows_max: int | None, target: Offsets | None, seconds: float
    ) -> Offsets:
        """Say how far the next batch goes. If there is nothing, wait for it so long at the keeper.

        With a ``target``, nothing behind that is read, and nothing is waited for.
        """
        start = self._skip(start)
        ends = self.ends()
        if target is not None:
            ends = at_most(ends, target)
        elif ends == start:
            self._log.consume(start=start).get_batch(1, seconds)
            ends = self.ends()
        return advance(start, ends, rows_max)

    def plan(self, start: Offsets, end: Offsets) -> list[Range]:
        """Say what a batch reads; raises ``DataLoss``."""
        return ranges(self._skip(start), end)

    def _skip(self, start: Offsets) -> Offsets:
        lost = losses(start, self._log.offsets())
        if lost and self._fails_on_loss:
            raise DataLoss(explain_losses(self._log.name(), lost))
        return skip(start, lost)

    def read(self, wanted: Range) -> Iterator[LogEntry]:
        """Read entries, in order; raises ``DataLoss`` if retention was faster."""
        at = wanted.start
        while at < wanted.end:
            try:
                entries = self._log.read(wanted.partition, at, min(READ_COUNT, wanted.end - at))
            except OffsetOutOfRange as error:
                at = self._lose(Range(wanted.partition, at, min(error.start, wanted.end)))
                continue
            if not entries:
                at = self._lose(Range(wanted.partition, wanted.end, at))
                return
            yield from entries
            at = entries[-1].offset + 1

    def _lose(self, lost: Range) -> int:
        if self._fails_on_loss:
            raise DataLoss(explain_losses(self._log.name(), [lost]))
        return lost.end
