"""The runs that a member of a group keeps of a log: each with the entry that it came with.

A member with a file has the entries of most runs there alone, and knows here where they are: some
sixty bytes for each run, in columns.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import overload

from stores.group.positions import START, Position
from stores.log.runs import Run


@dataclass(frozen=True, slots=True)
class RunPlace:
    """A committed run without its entries: which it is, so that a file can be asked for it."""

    partition: int
    first_offset: int
    count: int
    timestamp_ns: int
    size: int
    """Bytes of its entries."""
    position: Position
    """Of the journal's entry that brought it."""
    elapsed_ns: int
    """The group's elapsed time there: age is counted by it."""

    @property
    def end(self) -> int:
        """The offset after the last entry."""
        return self.first_offset + self.count

    @property
    def place(self) -> RunPlace:
        """Itself."""
        return self

    def filled(self, body: bytes) -> KeptRun:
        """Give the run with its entries."""
        place = self.partition, self.first_offset, self.count, self.timestamp_ns
        return KeptRun(*place, body, self.position, self.elapsed_ns)


@dataclass(frozen=True, slots=True)
class KeptRun(Run):
    """A committed run. By its position it is known whether another member has it, too."""

    position: Position
    """Of the journal's entry that brought it."""
    elapsed_ns: int
    """The group's elapsed time there: age is counted by it."""

    @classmethod
    def of(cls, run: Run, position: Position, elapsed_ns: int) -> KeptRun:
        """Keep a run that an entry brought."""
        body = run.body
        place = run.partition, run.first_offset, run.count, run.timestamp_ns
        return cls(*place, body, position, elapsed_ns)

    @property
    def size(self) -> int:
        """Bytes of its entries."""
        return len(self.body)

    @property
    def place(self) -> RunPlace:
        """Which run it is."""
        place = self.partition, self.first_offset, self.count, self.timestamp_ns
        return RunPlace(*place, len(self.body), self.position, self.elapsed_ns)


AnyRun = KeptRun | RunPlace
"""A run whose entries are at hand, or in a file alone."""


class RunColumns:
    """The runs of one partition, in order and without gaps: a column for each of their numbers."""

    __slots__ = (
        *("_begin", "_bodies", "_elapsed", "_firsts", "_indexes", "_released", "_stamps"),
        *("_terms", "_total", "_totals", "end", "partition"),
    )

    def __init__(self, partition: int) -> None:
        """Start empty."""
        self.partition = partition
        self.end = 0
        """The offset after the last run; of no meaning while there is none."""
        self._begin = 0
        """Where the first run is. What is before it is gone, and makes room when it is half."""
        self._released = 0
        """The entries of all runs before it were released."""
        self._total = 0
        """Bytes of all runs that were ever here before the columns begin."""
        self._totals = array("Q")
        """Bytes of all runs up to each, from the very first on: so a range's size is at hand."""
        self._firsts, self._stamps, self._elapsed = array("Q"), array("Q"), array("Q")
        self._terms, self._indexes = array("Q"), array("Q")
        self._bodies: list[bytes | None] = []

    def __len__(self) -> int:
        """Count the runs."""
        return len(self._firsts) - self._begin

    def __getitem__(self, number: int) -> AnyRun:
        """Give one by its number, the first one's being nought."""
        return self._at(self._begin + number)

    def append(self, run: AnyRun) -> None:
        """Take in the next run."""
        assert not len(self) or run.first_offset == self.end, (self.end, run)
        self._firsts.append(run.first_offset)
        self._stamps.append(run.timestamp_ns)
        self._elapsed.append(run.elapsed_ns)
        self._terms.append(run.position.term)
        self._indexes.append(run.position.index)
        self._totals.append(self._before(len(self._totals)) + run.size)
        self._bodies.append(run.body if isinstance(run, KeptRun) else None)
        self.end = run.end

    def trim(self, start: int) -> None:
        """Let all runs go that end before an offset, or with it."""
        while len(self) and self._end_of(self._begin) <= start:
            self._bodies[self._begin] = None
            self._begin += 1
        if 2 * self._begin > len(self._firsts):
            self._make_room()

    def release(self, index: int) -> None:
        """Keep no entries of runs up to a journal's entry: a file has them."""
        at, end = max(self._released, self._begin), len(self._firsts)
        while at < end and self._indexes[at] <= index:
            self._bodies[at] = None
            at += 1
        self._released = at

    def read(self, offset: int, size_max: int) -> list[AnyRun]:
        """Give runs from the one with an offset on, one at least if it is there."""
        found: list[AnyRun] = []
        at = bisect_right(self._firsts, offset, self._begin) - 1
        if at < self._begin or self._end_of(at) <= offset:
            return found
        room = self._before(at) + size_max
        while at < len(self._firsts) and (not found or self._totals[at] <= room):
            found.append(self._at(at))
            at += 1
        return found

    def find(self, timestamp_ns: int) -> int | None:
        """Give the first offset of a time, or later, if there is one: times never go back."""
        at = bisect_left(self._stamps, timestamp_ns, self._begin)
        return self._firsts[at] if at < len(self._firsts) else None

    def first_from(self, index: int) -> int:
        """Give the first offset that came with an entry of the journal, or after it; or the end."""
        at = bisect_left(self._indexes, index, self._begin)
        return self._firsts[at] if at < len(self._firsts) else self.end

    @property
    def last(self) -> Position:
        """The journal's entry that brought the last run; ``START`` without any."""
        return Position(self._terms[-1], self._indexes[-1]) if len(self) else START

    def above(self, index: int) -> RunColumns:
        """Give a copy of the runs of all entries after one."""
        found, start = RunColumns(self.partition), bisect_right(self._indexes, index, self._begin)
        found.end, found._total = self.end, self._before(start)
        found._totals, found._firsts = self._totals[start:], self._firsts[start:]
        found._stamps, found._elapsed = self._stamps[start:], self._elapsed[start:]
        found._terms, found._indexes = self._terms[start:], self._indexes[start:]
        found._bodies = self._bodies[start:]
        return found

    def fitting(self, number: int, room: int, count_max: int, overhead: int) -> int:
        """Give the number of the first run from one on that is too much.

        All before it take ``room`` bytes at most, with an ``overhead`` for each.
        """
        start = self._begin + number
        base, end = (
            self._before(start) + start * overhead,
            min(start + count_max, len(self._firsts)),
        )
        places = range(start, max(start, end))
        fit = bisect_right(
            places, base + room, key=lambda at: self._totals[at] + (at + 1) * overhead
        )
        return number + fit

    def size(self, start: int, end: int) -> int:
        """Give the bytes of the runs of some numbers."""
        return self._before(self._begin + end) - self._before(self._begin + start)

    def _at(self, at: int) -> AnyRun:
        first, position = self._firsts[at], Position(self._terms[at], self._indexes[at])
        count, body = self._end_of(at) - first, self._bodies[at]
        place = self.partition, first, count, self._stamps[at]
        if body is not None:
            return KeptRun(*place, body, position, self._elapsed[at])
        size = self._totals[at] - self._before(at)
        return RunPlace(*place, size, position, self._elapsed[at])

    def _end_of(self, at: int) -> int:
        return self._firsts[at + 1] if at + 1 < len(self._firsts) else self.end

    def _before(self, at: int) -> int:
        return self._totals[at - 1] if at else self._total

    def _make_room(self) -> None:
        gone = self._begin
        self._total = self._before(gone)
        for column in (self._totals, self._firsts, self._stamps, self._elapsed):
            del column[:gone]
        for column in (self._terms, self._indexes):
            del column[:gone]
        del self._bodies[:gone]
        self._released = max(0, self._released - gone)
        self._begin = 0


class Runs(Sequence[AnyRun]):
    """The runs of some partitions one after the other, which do not change."""

    def __init__(self, columns: Sequence[RunColumns]) -> None:
        """Have these."""
        self.columns = columns
        self._ends = list(accumulate(map(len, columns)))

    def __len__(self) -> int:
        """Count the runs."""
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[AnyRun]:
        """Give all of them."""
        for column in self.columns:
            for number in range(len(column)):
                yield column[number]

    @overload
    def __getitem__(self, number: int) -> AnyRun: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[AnyRun]: ...

    def __getitem__(self, number: int | slice) -> AnyRun | Sequence[AnyRun]:
        """Give one, or some."""
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        at = bisect_right(self._ends, number)
        return self.columns[at][number - (self._ends[at - 1] if at else 0)]


class KeptRuns:
    """All runs of a log."""

    def __init__(self, partition_count: int = 0, runs: Iterable[AnyRun] = ()) -> None:
        """Start with runs that are in order in each partition."""
        self._columns = [RunColumns(number) for number in range(partition_count)]
        for run in runs:
            self.append(run)

    def append(self, run: AnyRun) -> None:
        """Take in the next run of its partition."""
        self._columns[run.partition].append(run)

    def trim(self, partition: int, start: int) -> None:
        """Let all runs go that end before an offset, or with it."""
        self._columns[partition].trim(start)

    def release(self, index: int) -> None:
        """Keep no entries of runs up to a journal's entry: a file has them."""
        for column in self._columns:
            column.release(index)

    def read(self, partition: int, offset: int, size_max: int) -> list[AnyRun]:
        """Give runs from the one with an offset on, one at least if it is there."""
        return self._columns[partition].read(offset, size_max)

    def find(self, partition: int, timestamp_ns: int) -> int | None:
        """Give the first offset of a time, or later, if there is one."""
        return self._columns[partition].find(timestamp_ns)

    def first_from(self, partition: int, index: int) -> int:
        """Give the first offset that came with an entry of the journal, or after it; or the end."""
        return self._columns[partition].first_from(index)

    @property
    def last(self) -> Position:
        """The journal's entry that brought the last run of all; ``START`` without any."""
        return max((column.last for column in self._columns), default=START)

    def above(self, index: int) -> Runs:
        """Give the runs of all entries after one, in the order of partitions and offsets."""
        return Runs([column.above(index) for column in self._columns])
