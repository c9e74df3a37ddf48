"""The runs that a member of a group keeps of a log: each with the entry that it came with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stores.group.positions import Position
from stores.log.runs import Run, RunList


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


class KeptRuns:
    """All runs of a log, in memory."""

    def __init__(self, partition_count: int = 0, runs: Iterable[KeptRun] = ()) -> None:
        """Start with runs that are in order in each partition."""
        self._lists: list[RunList[KeptRun]] = [RunList() for _ in range(partition_count)]
        for run in runs:
            self.append(run)

    def append(self, run: KeptRun) -> None:
        """Take in the next run of its partition."""
        self._lists[run.partition].append(run)

    def trim(self, partition: int, start: int) -> None:
        """Let all runs go that end before an offset, or with it."""
        self._lists[partition].trim(start)

    def read(self, partition: int, offset: int, size_max: int) -> list[KeptRun]:
        """Give runs from the one with an offset on, one at least if it is there."""
        return self._lists[partition].read(offset, size_max)

    def find(self, partition: int, timestamp_ns: int) -> int | None:
        """Give the first offset of a time, or later, if there is one."""
        return self._lists[partition].find(timestamp_ns)

    def above(self, index: int) -> list[KeptRun]:
        """Give the runs of all entries after one, in the order of partitions and offsets."""
        return [
            run
            for runs in self._lists
            for run in runs.after(lambda run: run.position.index <= index)
        ]
