"""The backend of a log in memory, which ends with its keeper or follower."""

from __future__ import annotations

from stores.log.changes import EpochEnds, LoadedLog, LogChanges
from stores.log.partitions import Partition
from stores.log.runs import Run, RunList


class MemoryLogBackend:
    """Keeps the runs, and forgets all else: the core that commits it has it in memory."""

    def __init__(self) -> None:
        """Start empty."""
        self._runs: dict[int, RunList[Run]] = {}

    @property
    def is_durable(self) -> bool:
        """Nothing blocks."""
        return False

    def load_keeper(self, epoch_min: int, partition_count: int | None) -> LoadedLog:
        """Give an empty log; the caller's epoch, from a clock, is one that was never used."""
        count = 1 if partition_count is None else partition_count
        epochs = (EpochEnds(epoch_min, (0,) * count),)
        return LoadedLog(epoch_min, epoch_min, [Partition() for _ in range(count)], epochs=epochs)

    def load_follower(self) -> LoadedLog:
        """Give a copy of nothing yet."""
        return LoadedLog(0, 0, [])

    def commit(self, changes: LogChanges) -> None:
        """Keep the runs."""
        if changes.log_id is not None:
            self._runs.clear()
        for partition, _ in changes.cleared:
            self._runs.pop(partition, None)
        for partition, end in changes.cut:
            self._list(partition).cut(end)
        for run in changes.runs:
            self._list(run.partition).append(run)
        for partition, start in changes.starts:
            self._list(partition).trim(start)

    def read(self, partition: int, offset: int, size_max: int) -> list[Run]:
        """Give runs from the one with ``offset`` on, one at least if it is there."""
        return self._list(partition).read(offset, size_max)

    def read_at_hand(self, partition: int, offset: int, size_max: int) -> list[Run] | None:
        """Do the same: everything is at hand."""
        return self.read(partition, offset, size_max)

    def find(self, partition: int, timestamp_ns: int) -> int | None:
        """Give the first offset that was appended at this time or later, if there is one."""
        return self._list(partition).find(timestamp_ns)

    def close(self) -> None:
        """Do nothing."""

    def _list(self, partition: int) -> RunList[Run]:
        found = self._runs.get(partition)
        if found is None:
            found = self._runs[partition] = RunList()
        return found
