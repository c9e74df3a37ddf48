"""The applied state of a log in parts: what a snapshot carries, and how it is put together again.

A log is mostly runs, and a member that was away has most of them. So a snapshot may leave out the
runs of all entries up to one that the other member has applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeVar, overload

from stores.group.clock import NO_TIMES, Times
from stores.group.positions import START, Position
from stores.limits import CHUNK_COUNT_MAX, CHUNK_SIZE_MAX
from stores.log.kept_runs import AnyRun, KeptRun, KeptRuns, Runs
from stores.log.limits import (
    CONSUMERS_MAX,
    CURSORS_MAX,
    PARTITIONS_MAX,
    PRODUCERS_MAX,
    RETIRED_PRODUCERS_MAX,
)
from stores.log.messages import Cursors, Positions
from stores.log.partitions import KEEP_ALL, Partition, Partitions, Retention, RunInfo, Span
from stores.log.producers import ProducerRow
from stores.quota import UNLIMITED, Quota
from stores.table.lineage import LINEAGE_MAX, Reign
from stores.table.parts import WritersPart, writers_parts
from stores.table.writers import WRITERS_MAX, LedgerRow
from wire.errors import DecodeError

RUN_SIZE: Final = 64
"""Bytes of a run in a part besides its entries, roughly."""

ROW_SIZE: Final = 24
"""Bytes of a cursor, or of an append of a named producer, in a part, roughly."""

PRODUCERS_KNOWN_MAX: Final = PRODUCERS_MAX + RETIRED_PRODUCERS_MAX
"""Named producers in a snapshot."""

_RowT = TypeVar("_RowT")


@dataclass(frozen=True, slots=True)
class HeadPart:
    """The first part: all that is small."""

    position: Position = START
    """The last entry that the machine has applied."""
    after: int = 0
    """The runs of entries up to this index are left out."""
    spans: tuple[Span, ...] = ()
    """Of the partitions; none before the log has begun."""
    times: Times = NO_TIMES
    """Of the last run."""
    quota: Quota = UNLIMITED
    retention: Retention = KEEP_ALL
    reigns: tuple[Reign, ...] = ()


@dataclass(frozen=True, slots=True)
class RunsPart:
    """Some runs, in the order of partitions and offsets."""

    runs: tuple[KeptRun, ...]


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """Some runs, of which a file has the entries, or of some of them. It never travels so."""

    runs: Sequence[AnyRun]


@dataclass(frozen=True, slots=True)
class CursorsPart:
    """Some consumers, with all of their cursors."""

    cursors: Cursors


@dataclass(frozen=True, slots=True)
class ProducersPart:
    """Some producers, the one that was idle longest first."""

    rows: tuple[ProducerRow, ...]


Part = HeadPart | RunsPart | PlacedPart | CursorsPart | ProducersPart | WritersPart

_Cut = tuple[int, int, int]
"""A partition, and the numbers of its runs: from one up to, not including, another."""


class Frozen(Sequence[Part]):
    """The state at one moment, cut into parts of 256 KiB at most, or of one thing each."""

    def __init__(
        self,
        head: HeadPart,
        runs: Runs,
        cursors: Cursors,
        producers: Iterable[ProducerRow],
        writers: Iterable[LedgerRow],
    ) -> None:
        """Freeze a log; a part with runs is built when it is asked for."""
        self._columns = runs.columns
        self._cuts = _cuts(runs)
        self._beside = beside(head, cursors, producers, writers)

    def __len__(self) -> int:
        """Count the parts."""
        return len(self._beside) + len(self._cuts)

    @overload
    def __getitem__(self, number: int) -> Part: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Part]: ...

    def __getitem__(self, number: int | slice) -> Part | Sequence[Part]:
        """Build a part. Runs whose entries a file has are named in it, and have to be read."""
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        if number < len(self._beside):
            return self._beside[number]
        runs: list[AnyRun] = []
        for partition, start, end in self._cuts[number - len(self._beside)]:
            runs += [self._columns[partition][at] for at in range(start, end)]
        at_hand = tuple(run for run in runs if isinstance(run, KeptRun))
        return RunsPart(at_hand) if len(at_hand) == len(runs) else PlacedPart(runs)


def beside(
    head: HeadPart,
    cursors: Cursors,
    producers: Iterable[ProducerRow],
    writers: Iterable[LedgerRow],
) -> list[Part]:
    """Give all parts but the runs."""
    parts: list[Part] = [head]
    parts += [CursorsPart(some) for some in _divided(cursors, lambda row: len(row[1]))]
    parts += [ProducersPart(some) for some in _divided(producers, lambda row: len(row.appended))]
    return [*parts, *writers_parts(writers)]


def _cuts(runs: Runs) -> list[list[_Cut]]:
    """Cut runs into what one part holds: one run always fits."""
    cuts, cut = list[list[_Cut]](), list[_Cut]()
    room, count = CHUNK_SIZE_MAX, CHUNK_COUNT_MAX
    for partition, column in enumerate(runs.columns):
        start = 0
        while start < len(column):
            end = max(column.fitting(start, room, count, RUN_SIZE), start if cut else start + 1)
            if end > start:
                cut.append((partition, start, end))
                room -= column.size(start, end) + (end - start) * RUN_SIZE
                count -= end - start
            start = end
            if start < len(column):
                cuts.append(cut)
                cut, room, count = [], CHUNK_SIZE_MAX, CHUNK_COUNT_MAX
    return [*cuts, cut] if cut else cuts


def _divided(rows: Iterable[_RowT], weigh: Callable[[_RowT], int]) -> Iterator[tuple[_RowT, ...]]:
    """Cut rows, each of some things and a name, into what one part holds."""
    part, size = list[_RowT](), 0
    for row in rows:
        row_size = (11 + weigh(row)) * ROW_SIZE  # A name of 255 characters is as large as ten.
        size += row_size
        if part and size > CHUNK_SIZE_MAX:
            yield tuple(part)
            part, size = [], row_size
        part.append(row)
    if part:
        yield tuple(part)


@dataclass(slots=True)
class Rows:
    """What all parts besides the first have."""

    runs: list[Sequence[AnyRun]] = field(default_factory=list)
    cursors: list[tuple[str, Positions]] = field(default_factory=list)
    producers: list[ProducerRow] = field(default_factory=list)
    writers: list[LedgerRow] = field(default_factory=list)

    def take(self, part: object) -> None:
        """Take in the next part; raises ``DecodeError`` for what is none."""
        match part:
            case RunsPart(runs) | PlacedPart(runs):
                self.runs.append(runs)
            case CursorsPart(cursors):
                self.cursors += cursors
            case ProducersPart(rows):
                self.producers += rows
            case WritersPart(rows):
                self.writers += rows
            case _:
                raise DecodeError(f"a snapshot of a log has a {type(part).__name__} in it")

    def check(self) -> None:
        """Raise ``DecodeError`` if there are too many of a kind, or one of them twice."""
        for what, names, count_max in (
            ("consumers", [name for name, _ in self.cursors], CONSUMERS_MAX),
            ("producers", [row.name for row in self.producers], PRODUCERS_KNOWN_MAX),
            ("writers", [row.writer for row in self.writers], WRITERS_MAX),
        ):
            if len(set(names)) != len(names) or len(names) > count_max:
                raise DecodeError(f"a snapshot of a log has too many {what}, or one twice")


@dataclass(slots=True)
class Thawed:
    """A state that was put together again."""

    head: HeadPart
    partitions: Partitions
    runs: KeptRuns
    rows: Rows

    @property
    def cursors(self) -> dict[str, dict[int, int]]:
        """Where every named consumer is."""
        return {name: dict(at) for name, at in self.rows.cursors}


def thaw(parts: Sequence[object], known: KeptRuns) -> Thawed:
    """Put all parts together, with the runs that a member has, where the parts leave some out.

    Raises ``DecodeError`` if they are no whole state; nothing has changed then.
    """
    head = parts[0] if parts else HeadPart()
    if not isinstance(head, HeadPart):
        raise DecodeError("a snapshot of a log does not begin with its head")
    if len(head.reigns) > LINEAGE_MAX or len(head.spans) > PARTITIONS_MAX:
        raise DecodeError("a snapshot of a log has too many terms or partitions")
    rows = Rows()
    for part in parts[1:]:
        rows.take(part)
    rows.check()
    partitions, kept = _put_together(head, rows.runs, known)
    _check_cursors(rows.cursors, partitions.ends())
    return Thawed(head, partitions, kept, rows)


def _check_cursors(cursors: Sequence[tuple[str, Positions]], ends: Sequence[int]) -> None:
    if sum(len(at) for _, at in cursors) > CURSORS_MAX:
        raise DecodeError("a snapshot of a log has too many cursors")
    for name, at in cursors:
        for partition, offset in at:
            if partition >= len(ends) or offset > ends[partition]:
                raise DecodeError(f"consumer {name} is beyond the end of partition {partition}")


def _put_together(
    head: HeadPart, runs: Iterable[Sequence[AnyRun]], known: KeptRuns
) -> tuple[Partitions, KeptRuns]:
    """Join the runs that came with those that are here: they have to fill the spans."""
    spans = head.spans
    joining = [_Joining(number, span) for number, span in enumerate(spans)]
    kept = KeptRuns(len(spans))
    for run in known.above(0) if head.after else ():
        is_kept = run.partition < len(spans) and run.end > spans[run.partition].start
        if is_kept and run.position.index <= head.after:
            joining[run.partition].add(run)
            kept.append(run)
    for run in chain.from_iterable(runs):
        is_here = run.partition < len(spans)
        if not is_here or not head.after < run.position.index <= head.position.index:
            raise DecodeError("a snapshot of a log has a run that does not belong there")
        joining[run.partition].add(run)
        kept.append(run)
    return Partitions([each.partition() for each in joining]), kept


class _Joining:
    """One partition whose runs come one by one.

    They begin at the span's start or before, end at its end, and have no hole.
    """

    def __init__(self, number: int, span: Span) -> None:
        self._number = number
        self._span = span
        self._partition = Partition()
        self._is_empty = True
        self._last = START, NO_TIMES

    def add(self, run: AnyRun) -> None:
        """Take in the next run; raises ``DecodeError`` for one that is not the next."""
        if self._is_empty:
            if not run.first_offset <= self._span.start < run.end:
                raise self._error
            self._partition.clear(run.first_offset)
            self._is_empty = False
        at = run.position, Times(run.elapsed_ns, run.timestamp_ns)
        last = self._last
        is_later = at[0] >= last[0] and all(a >= b for a, b in zip(at[1], last[1], strict=True))
        if run.first_offset != self._partition.end or run.end > self._span.end or not is_later:
            raise self._error
        self._last = at
        self._partition.extend(RunInfo(run.first_offset, run.count, run.elapsed_ns, run.size))

    def partition(self) -> Partition:
        """Give it; raises ``DecodeError`` if it is not whole."""
        if self._is_empty:
            self._partition.clear(self._span.start)
        if self._partition.end != self._span.end:
            raise self._error
        self._partition.trim(self._span.start)
        return self._partition

    @property
    def _error(self) -> DecodeError:
        return DecodeError(f"a snapshot of a log has not all entries of partition {self._number}")
