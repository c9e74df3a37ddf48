"""What the readers of the source do with a log, without Spark: plan, wait, fetch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from peermesh.blocking import Log
from peermesh.spark.offsets import (
    GONE,
    Offsets,
    Piece,
    Point,
    Range,
    advance,
    at_most,
    complete,
    describe_losses,
    explain_losses,
    gone_with_log,
    losses,
    ranges,
    skip,
    take,
)
from peermesh.spark.options import End, Explicit, Instant, Place
from stores.group.positions import Position
from stores.log.bookmarks import LogBookmark
from stores.log.limits import FETCH_SIZE_MAX
from stores.log.partitions import Span
from stores.log.runs import Run
from wire.errors import NoSuchPartition, OffsetOutOfRange, StoreError
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

    end: Point
    lost: Sequence[Range] = ()
    """What it skips."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a batch reads."""

    wanted: Sequence[Range]
    lost: Sequence[Range]
    """What it skips."""
    log: LogBookmark
    """Of which log, for the tasks."""


class There(NamedTuple):
    """What there is to read: all of one moment."""

    spans: Mapping[int, Span]
    log: LogBookmark
    """Of which log."""

    def is_other_than(self, point: Point) -> bool:
        """Tell whether a point is of another log."""
        return point.log is not None and point.log.group != self.log.group

    def ends(self) -> Offsets:
        """Give the offsets that the next entries will have."""
        return {number: span.end for number, span in self.spans.items()}


class LogReader:
    """Reads one log for a query."""

    def __init__(
        self, log: Log, *, fails_on_loss: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read ``log``; what is lost is an error, or skipped with a warning."""
        self._log = log
        self._fails_on_loss = fails_on_loss
        self._clock = clock
        self._there = There({}, LogBookmark())
        self._asked_at = -SPANS_SECONDS

    def look(self, *, fresh: bool = False) -> There:
        """Give what there is, as of 100 ms ago at most, or now if ``fresh``."""
        now = self._clock()
        if fresh or not now - self._asked_at < SPANS_SECONDS:
            self._there, self._asked_at = There(*self._log.marked_offsets()), now
        return self._there

    def point(self, place: Place, rest: End, option: str) -> Point:
        """Find the offsets of a place, with the log that they are of; raises ``InvalidData``."""
        log = self.look().log  # Before all else: if another one begins meanwhile, it is noticed.
        return Point(self.resolve(place, rest, option), log)

    def resolve(self, place: Place, rest: End, option: str) -> Offsets:
        """Find the offsets of a place; ``rest`` is for partitions that it does not name.

        Raises ``InvalidData``, which names the option that gave them, for some that are not there.
        """
        spans = self.look(fresh=isinstance(place, Explicit)).spans
        if isinstance(place, Instant):
            return self._log.offsets_at(place.nanoseconds)
        if isinstance(place, Explicit):
            return complete(dict(place.offsets), spans, self.resolve(rest, rest, option), option)
        is_start = place is End.EARLIEST
        return {number: span.start if is_start else span.end for number, span in spans.items()}

    def end(self, *, fresh: bool = False) -> Point:
        """Give where the log ends, with the log that it is."""
        there = self.look(fresh=fresh)
        return Point(there.ends(), there.log)

    def commit(self, consumer: str, end: Point) -> None:
        """Move the cursor of a consumer, if it is in this log."""
        if not self.look().is_other_than(end):
            self._log.commit(consumer, end.offsets)

    def next_end(
        self, start: Point, rows_max: int | None, target: Point | None, seconds: float
    ) -> Goal:
        """Say how far the next batch goes. If there is nothing, wait for it so long at the leader.

        With a ``target``, nothing behind that is read, and nothing is waited for.
        """
        there = self.look()
        if target is None and there.ends() == start.offsets:
            with suppress(OffsetOutOfRange, NoSuchPartition):  # What is lost is looked up below.
                self._log.runs(start.offsets, 1, seconds, after=there.log)
            there = self.look(fresh=True)
        begin, lost = self._begin(start, there)
        self._check(lost)
        ends = there.ends() if target is None else at_most(there.ends(), target.offsets)
        return Goal(Point(advance(begin, ends, rows_max), there.log), lost)

    def plan(self, start: Point, end: Point) -> Plan:
        """Say what a batch reads and what it skips, which is warned of; raises ``DataLoss``."""
        offsets, there = {**dict.fromkeys(end.offsets, 0), **start.offsets}, self.look()
        if there.is_other_than(end):
            # It was planned before the other log began: that is for the next batch.
            wanted, lost = list[Range](), gone_with_log(offsets, end.offsets)
        else:
            begin, lost = self._begin(Point(offsets, start.log), there)
            gone = {each.partition for each in lost if each.end == GONE}
            wanted = [each for each in ranges(begin, end.offsets) if each.partition not in gone]
        self._check(lost)
        if lost:
            self._warn(lost)
        return Plan(wanted, lost, there.log)

    def _begin(self, start: Point, there: There) -> tuple[Offsets, list[Range]]:
        """Say where a batch begins, and what is lost before."""
        if there.is_other_than(start):
            begin = {number: span.start for number, span in there.spans.items()}
            return begin, gone_with_log(start.offsets, {})
        lost = losses(start.offsets, there.spans)
        begin = skip(start.offsets, lost)
        overwritten = self._overwritten(Point(begin, start.log), there.log.position)
        return skip(begin, overwritten), lost + overwritten

    def _overwritten(self, begin: Point, last: Position) -> list[Range]:
        """Find where others have the offsets of entries that were read, and are lost.

        That takes a lead by force, and so another term: in most batches nothing is asked.
        """
        log = begin.log
        if log is None or (log.position.term == last.term and log.position <= last):
            return []
        places = {number: offset for number, offset in begin.offsets.items() if offset}
        lost: list[Range] = []
        while places and isinstance(told := self._ask(places, log, 1), OffsetOutOfRange):
            if told.is_another_log:
                break  # It began since it was looked up: the tasks are told.
            if told.start < told.offset:
                lost.append(Range(told.partition, told.offset, told.start))
                del places[told.partition]
            else:  # Retention let more go since: the tasks are told, and of others it says nothing.
                places[told.partition] = told.start
        return lost

    def _check(self, lost: Sequence[Range]) -> None:
        if lost and self._fails_on_loss:
            raise DataLoss(explain_losses(self._log.name(), lost))

    def _warn(self, lost: Sequence[Range]) -> None:
        _logger.warning("failOnDataLoss is false: %s", describe_losses(self._log.name(), lost))

    # -- what a task does ------------------------------------------------------------------------

    def read(self, wanted: Sequence[Range], log: LogBookmark | None = None) -> Iterator[Piece]:
        """Read ranges of several partitions, of each in order; raises ``DataLoss``.

        If ``log`` is another one now, or has lost what was there when they were planned, that is
        a loss, too.

        While the caller does something with one answer, the next question is under way.
        """
        places: Offsets = {each.partition: each.start for each in wanted}
        ends = {each.partition: each.end for each in wanted}
        with ThreadPoolExecutor(1, "peermesh-spark-reads") as ahead:
            answer = ahead.submit(self._ask, dict(places), log)
            while places:
                runs = answer.result()
                found = list(take(runs, places, ends)) if isinstance(runs, list) else []
                if not found:
                    self._lose(places, ends, None if isinstance(runs, list) else runs)
                if places:
                    answer = ahead.submit(self._ask, dict(places), log)
                yield from found

    def _ask(
        self, places: Offsets, log: LogBookmark | None, size: int = FETCH_SIZE_MAX
    ) -> list[Run] | OffsetOutOfRange | NoSuchPartition:
        try:
            return self._log.runs(places, size, after=log)
        except (OffsetOutOfRange, NoSuchPartition) as error:
            return error

    def _lose(
        self, places: Offsets, ends: Offsets, error: OffsetOutOfRange | NoSuchPartition | None
    ) -> None:
        """Go on behind what retention took, or behind the end of a log that has become shorter.

        Of another log there is nothing to read here.
        """
        if isinstance(error, NoSuchPartition) or (error is not None and error.is_another_log):
            lost = gone_with_log(places, {number: ends[number] for number in places})
            places.clear()
        elif error is None or error.start < error.offset:
            # A range that ends before it begins: see ``losses``.
            if error is None:
                lost = [Range(each, ends[each], place) for each, place in places.items()]
            else:
                lost = [Range(error.partition, error.offset, error.start)]
            for each in lost:
                del places[each.partition]
        else:
            number, begin = error.partition, error.start
            lost = [Range(number, places[number], min(begin, ends[number]))]
            places[number] = begin
            if begin >= ends[number]:
                del places[number]
        self._check(lost)
        self._warn(lost)
