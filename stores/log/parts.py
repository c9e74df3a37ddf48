"""The applied state of a log in parts: what a snapshot carries, and how it is put together again.

A log is mostly runs, and a member that was away has most of them. So a snapshot may leave out the
runs of all entries up to one that the other member has applied.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, TypeVar, overload

from stores.group.clock import NO_TIMES, Times
from stores.group.positions import START, Position
from stores.limits import CHUNK_COUNT_MAX, CHUNK_SIZE_MAX
from stores.log.kept_runs import KeptRun, KeptRuns
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
class CursorsPart:
    """Some consumers, with all of their cursors."""

    cursors: Cursors


@dataclass(frozen=True, slots=True)
class ProducersPart:
    """Some producers, the one that was idle longest first."""

    rows: tuple[ProducerRow, ...]


Part = HeadPart | RunsPart | CursorsPart | ProducersPart | WritersPart


class Frozen(Sequence[Part]):
    """The state at one moment, cut into parts of 256 KiB at most, or of one thing each."""

    def __init__(
        self,
        head: HeadPart,
        runs: Sequence[KeptRun],
        cursors: Cursors,
        producers: Iterable[ProducerRow],
        writers: Iterable[LedgerRow],
    ) -> None:
        """Freeze a log; a part with runs is built when it is asked for."""
        self._runs = runs
        self._ends = _ends(runs)
        self._beside = beside(head, cursors, producers, writers)

    def __len__(self) -> int:
        """Count the parts."""
        return len(self._beside) + len(self._ends)

    @overload
    def __getitem__(self, number: int) -> Part: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Part]: ...

    def __getitem__(self, number: int | slice) -> Part | Sequence[Part]:
        """Build a part."""
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        if number < len(self._beside):
            return self._beside[number]
        number -= len(self._beside)
        start = self._ends[number - 1] if number else 0
        return RunsPart(tuple(self._runs[start : self._ends[number]]))


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


def _ends(runs: Sequence[KeptRun]) -> list[int]:
    """Find where each part ends: one run always fits."""
    used = list(accumulate(len(run.body) + RUN_SIZE for run in runs))
    ends, end = list[int](), 0
    while end < len(runs):
        room = CHUNK_SIZE_MAX + (used[end - 1] if end else 0)
        end = max(bisect_right(used, room, end, min(end + CHUNK_COUNT_MAX, len(runs))), end + 1)
        ends.append(end)
    return ends


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

    runs: list[KeptRun] = field(default_factory=list)
    cursors: list[tuple[str, Positions]] = field(default_factory=list)
    producers: list[ProducerRow] = field(default_factory=list)
    writers: list[LedgerRow] = field(default_factory=list)

    def take(self, part: object) -> None:
        """Take in the next part; raises ``DecodeError`` for what is none."""
        match part:
            case RunsPart(runs):
                self.runs += runs
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
    head: HeadPart, runs: Sequence[KeptRun], known: KeptRuns
) -> tuple[Partitions, KeptRuns]:
    """Join the runs that came with those that are here: they have to fill the spans."""
    count = len(head.spans)
    lists: list[list[KeptRun]] = [[] for _ in range(count)]
    for run in known.above(0) if head.after else ():
        is_kept = run.partition < count and run.end > head.spans[run.partition].start
        if is_kept and run.position.index <= head.after:
            lists[run.partition].append(run)
    for run in runs:
        if run.partition >= count or not head.after < run.position.index <= head.position.index:
            raise DecodeError("a snapshot of a log has a run that does not belong there")
        lists[run.partition].append(run)
    partitions: list[Partition] = []
    for number, (some, span) in enumerate(zip(lists, head.spans, strict=True)):
        _check_runs(some, span, number)
        partition = Partition()
        partition.clear(some[0].first_offset if some else span.end)
        for run in some:
            partition.extend(RunInfo(run.first_offset, run.count, run.elapsed_ns, len(run.body)))
        partition.trim(span.start)
        partitions.append(partition)
    return Partitions(partitions), KeptRuns(count, (run for some in lists for run in some))


def _check_runs(runs: Sequence[KeptRun], span: Span, number: int) -> None:
    """Make sure that runs begin at the span's start or before, end at its end, and have no hole."""
    end = runs[0].first_offset if runs else span.start
    is_right = end <= span.start <= span.end and (not runs or runs[0].end > span.start)
    last = START, NO_TIMES
    for run in runs:
        at = run.position, Times(run.elapsed_ns, run.timestamp_ns)
        is_later = at[0] >= last[0] and all(a >= b for a, b in zip(at[1], last[1], strict=True))
        is_right = is_right and run.first_offset == end and is_later
        end, last = run.end, at
    if not is_right or end != span.end:
        raise DecodeError(f"a snapshot of a log has not all entries of partition {number}")
