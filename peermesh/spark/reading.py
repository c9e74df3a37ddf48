"""What the readers of the source do with a log, without Spark: plan, wait, fetch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from peermesh.blocking import Log
from peermesh.spark.offsets import (
    GONE,
    Offsets,
    Piece,
    Range,
    advance,
    at_most,
    complete,
    describe_losses,
    explain_losses,
    losses,
    ranges,
    skip,
    take,
)
from peermesh.spark.options import End, Explicit, Instant, Place
from stores.log.partitions import Span
from stores.log.runs import Run
from wire.errors import OffsetOutOfRange, StoreError
from wire.logs import logger_of

SPANS_SECONDS: Final = 0.1
"""How long one answer about where partitions begin and end serves all that plan a batch: Spark asks
three times, one directly after the other."""

_logger = logger_of("peermesh.spark")
"""What is told here is in the log of the driver, or of the executor."""


class DataLoss(StoreError, LookupError):
    """Entries that a query has not read are gone; the text names them."""


@dataclass(frozen=True, slots=True)
class Goal:
    """How far the next batch goes."""

    ends: Offsets
    lost: Sequence[Range] = ()
    """What it skips."""


class LogReader:
    """Reads one log for a query."""

    def __init__(
        self, log: Log, *, fails_on_loss: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read ``log``; what is lost is an error, or skipped with a warning."""
        self._log = log
        self._fails_on_loss = fails_on_loss
        self._clock = clock
        self._spans: Mapping[int, Span] = {}
        self._asked_at = -SPANS_SECONDS

    def spans(self, *, fresh: bool = False) -> Mapping[int, Span]:
        """Give where partitions begin and end, as of 100 ms ago at most, or now if ``fresh``."""
        now = self._clock()
        if fresh or not now - self._asked_at < SPANS_SECONDS:
            self._spans, self._asked_at = self._log.offsets(), now
        return self._spans

    def resolve(self, place: Place, rest: End, option: str) -> Offsets:
        """Find the offsets of a place; ``rest`` is for partitions that it does not name.

        Raises ``InvalidData``, which names the option that gave them, for some that are not there.
        """
        spans = self.spans(fresh=isinstance(place, Explicit))
        if isinstance(place, Instant):
            return self._log.offsets_at(place.nanoseconds)
        if isinstance(place, Explicit):
            return complete(dict(place.offsets), spans, self.resolve(rest, rest, option), option)
        is_start = place is End.EARLIEST
        return {number: span.start if is_start else span.end for number, span in spans.items()}

    def ends(self, *, fresh: bool = False) -> Offsets:
        """Give the offsets that the next entries will have."""
        return {number: span.end for number, span in self.spans(fresh=fresh).items()}

    def next_end(
        self, start: Offsets, rows_max: int | None, target: Offsets | None, seconds: float
    ) -> Goal:
        """Say how far the next batch goes. If there is nothing, wait for it so long at the leader.

        With a ``target``, nothing behind that is read, and nothing is waited for.
        """
        lost = self._losses(start)
        start = skip(start, lost)
        ends = self.ends()
        if target is not None:
            ends = at_most(ends, target)
        elif ends == start:
            with suppress(OffsetOutOfRange):  # Retention was faster: the plan says so.
                self._log.runs(ends, 1, seconds)
            ends = self.ends(fresh=True)
        return Goal(advance(start, ends, rows_max), lost)

    def plan(self, start: Offsets, end: Offsets) -> tuple[list[Range], list[Range]]:
        """Say what a batch reads and what it skips, which is warned of; raises ``DataLoss``."""
        lost = self._losses({**dict.fromkeys(end, 0), **start})
        if lost:
            self._warn(lost)
        gone = {each.partition for each in lost if each.end == GONE}
        end = {number: offset for number, offset in end.items() if number not in gone}
        return ranges(skip(start, lost), end), lost

    def _losses(self, start: Offsets) -> list[Range]:
        lost = losses(start, self.spans())
        if lost and self._fails_on_loss:
            raise DataLoss(explain_losses(self._log.name(), lost))
        return lost

    def _warn(self, lost: Sequence[Range]) -> None:
        _logger.warning("failOnDataLoss is false: %s", describe_losses(self._log.name(), lost))

    # -- what a task does ------------------------------------------------------------------------

    def read(self, wanted: Sequence[Range]) -> Iterator[Piece]:
        """Read ranges of several partitions, of each in order; raises ``DataLoss``.

        While the caller does something with one answer, the next question is under way.
        """
        places: Offsets = {each.partition: each.start for each in wanted}
        ends = {each.partition: each.end for each in wanted}
        with ThreadPoolExecutor(1, "peermesh-spark-reads") as ahead:
            answer = ahead.submit(self._ask, dict(places))
            while places:
                runs = answer.result()
                found = list(take(runs, places, ends)) if isinstance(runs, list) else []
                if not found:
                    self._lose(places, ends, runs if isinstance(runs, OffsetOutOfRange) else None)
                if places:
                    answer = ahead.submit(self._ask, dict(places))
                yield from found

    def _ask(self, places: Offsets) -> list[Run] | OffsetOutOfRange:
        try:
            return self._log.runs(places)
        except OffsetOutOfRange as error:
            return error

    def _lose(
        self, places: Offsets, ends: Mapping[int, int], error: OffsetOutOfRange | None
    ) -> None:
        """Go on behind what retention took, or behind the end of a log that has become shorter."""
        if error is None or error.start < error.offset:
            # A range that ends before it begins: see ``losses``.
            numbers = list(places) if error is None else [error.partition]
            lost = [Range(each, ends[each], places.pop(each)) for each in numbers]
        else:
            number, begin = error.partition, error.start
            lost = [Range(number, places[number], min(begin, ends[number]))]
            places[number] = begin
            if begin >= ends[number]:
                del places[number]
        if self._fails_on_loss:
            raise DataLoss(explain_losses(self._log.name(), lost))
        self._warn(lost)
