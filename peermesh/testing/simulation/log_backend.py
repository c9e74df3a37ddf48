"""The log backend of a simulated host: in place of ``Backend.SQLite``, on the simulated disk."""

from __future__ import annotations

from typing import Any, Final

from peermesh.testing.simulation.disk import Disk
from peermesh.testing.simulation.record_file import RecordFile
from stores import fields
from stores.actions import WriterId
from stores.disk.memory import MemoryLogBackend
from stores.epochs import next_epoch
from stores.log.changes import EpochEnds, LoadedLog, LogChanges, Role
from stores.log.partitions import Partition, RunInfo
from stores.log.producers import ProducerRow
from stores.log.runs import Run
from stores.log.staging import apply_cursors
from stores.outcomes import WriterRow
from wire.errors import BackendFailure

_ALL: Final = 1 << 62
"""More bytes than any log has."""


class KeptLogBackend(MemoryLogBackend):
    """A log that outlives its keepers: what was committed is there, in memory."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self.log_id = 0
        self.epoch = 0
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.epochs: list[EpochEnds] = []
        self.role = Role.KEEPER
        self.known_epoch = 0
        self.cursors: dict[str, dict[int, int]] = {}
        self.writers: dict[WriterId, WriterRow] = {}
        self.producers: dict[str, ProducerRow] = {}

    def load_keeper(self, epoch_min: int, partition_count: int | None) -> LoadedLog:
        """Start another life, unless it is a deposed keeper's."""
        if self.epoch and self.role is Role.DEPOSED:
            return self._loaded()
        if self.epoch and self.role is Role.COPY:
            raise BackendFailure("it holds a follower's copy of a log, which is promoted")
        self.role = Role.KEEPER
        self.epoch = next_epoch(self.epoch, epoch_min)
        self.log_id = self.log_id or self.epoch
        if not self.ends:
            self.starts, self.ends = [0] * (partition_count or 1), [0] * (partition_count or 1)
        self.epochs.append(EpochEnds(self.epoch, tuple(self.ends)))
        return self._loaded()

    def load_follower(self) -> LoadedLog:
        """Give what is there."""
        return self._loaded()

    def _loaded(self) -> LoadedLog:
        partitions = []
        for number, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            runs = self._list(number)
            first, partition = runs.first_offset, Partition()
            partition.clear(end if first is None else first)
            for run in () if first is None else runs.read(first, _ALL):
                size = len(run.body)
                partition.extend(RunInfo(run.first_offset, run.count, run.timestamp_ns, size))
            partition.trim(start)
            partitions.append(partition)
        cursors = tuple((name, tuple(at.items())) for name, at in self.cursors.items())
        return LoadedLog(
            self.log_id,
            self.epoch,
            partitions,
            cursors,
            tuple(self.epochs),
            tuple(self.writers.values()),
            tuple(self.producers.values()),
            self.role,
            self.known_epoch,
        )

    def commit(self, changes: LogChanges) -> None:
        """Keep the changes."""
        super().commit(changes)
        if changes.log_id is not None:
            self.log_id = changes.log_id
            self.starts = [0] * len(changes.cleared)
            self.ends = [0] * len(changes.cleared)
        self.epoch = changes.epoch or self.epoch
        self.role = self.role if changes.role is None else changes.role
        self.known_epoch = changes.known_epoch or self.known_epoch
        self.epochs = self.epochs if changes.lives is None else list(changes.lives)
        for number, start in changes.cleared:
            self.starts[number] = self.ends[number] = start
        for number, end in changes.cut:
            self.ends[number] = end
        for run in changes.runs:
            self.ends[run.partition] = run.end
        for number, start in changes.starts:
            self.starts[number] = max(start, self.starts[number])
        apply_cursors(self.cursors, changes.forgotten_consumers, changes.cursors)
        self._commit_memory(changes)

    def _commit_memory(self, changes: LogChanges) -> None:
        if changes.is_memory_new:
            self.writers.clear()
            self.producers.clear()
        for gone in changes.forgotten_writers:
            self.writers.pop(gone, None)
        for name in changes.forgotten_producers:
            self.producers.pop(name, None)
        for row in changes.writers:
            self.writers[row.writer] = row
        for each in changes.producers:
            known = self.producers.pop(each.name, None)
            appended = (() if known is None else known.appended) + each.appended
            kept = tuple(at for at in appended if at[0] >= each.floor)
            self.producers[each.name] = ProducerRow(each.name, kept, each.floor)


class DiskLogBackend(KeptLogBackend):
    """A log in one file of a simulated disk."""

    def __init__(self, disk: Disk, owner: object, path: str, options: dict[str, Any]) -> None:
        """Take the options of ``Backend.SQLite``; raises ``BackendFailure`` for others."""
        super().__init__()
        self._file = RecordFile(disk, owner, path, options, "a log in SQLite")

    @property
    def is_durable(self) -> bool:
        """Keepers persist before they acknowledge."""
        return True

    def load_keeper(self, epoch_min: int, partition_count: int | None) -> LoadedLog:
        """Read all records that are whole, and begin another life."""
        self._read()
        loaded = super().load_keeper(epoch_min, partition_count)
        if loaded.role is Role.KEEPER:
            life = {"log": self.log_id, "epoch": self.epoch, "partitions": len(self.ends)}
            self._file.append({"life": life}, is_synced=True)
        return loaded

    def load_follower(self) -> LoadedLog:
        """Read all records that are whole."""
        self._read()
        return super().load_follower()

    def read_at_hand(self, partition: int, offset: int, size_max: int) -> list[Run] | None:
        """Give nothing, so that the disk is asked."""
        return None

    def commit(self, changes: LogChanges) -> None:
        """Append one record, and sync."""
        self._file.append(_packed(changes))
        super().commit(changes)

    def close(self) -> None:
        """Let go of the lock."""
        self._file.close()

    def _read(self) -> None:
        for record in self._file.load():
            life = record.get("life")
            if life is None:
                super().commit(_unpacked(record))
                continue
            self.log_id, self.epoch, count = life["log"], life["epoch"], life["partitions"]
            self.role = Role.KEEPER
            self.starts = self.starts or [0] * count
            self.ends = self.ends or [0] * count
            self.epochs.append(EpochEnds(self.epoch, tuple(self.ends)))


def _packed(changes: LogChanges) -> dict[str, Any]:
    lives = changes.lives
    return {
        "log_id": changes.log_id,
        "epoch": changes.epoch,
        "known_epoch": changes.known_epoch,
        "role": None if changes.role is None else changes.role.value,
        "lives": None if lives is None else [[life.epoch, list(life.ends)] for life in lives],
        "cleared": list(changes.cleared),
        "cut": list(changes.cut),
        "starts": list(changes.starts),
        "runs": [
            [run.partition, run.first_offset, run.count, run.timestamp_ns, run.body]
            for run in changes.runs
        ],
        "cursors": list(changes.cursors),
        "forgotten_consumers": list(changes.forgotten_consumers),
        "is_memory_new": changes.is_memory_new,
        "writers": [
            [bytes(row.writer), row.last_request, fields.pack(row.outcomes)]
            for row in changes.writers
        ],
        "forgotten_writers": [bytes(writer) for writer in changes.forgotten_writers],
        "producers": [[row.name, list(row.appended), row.floor] for row in changes.producers],
        "forgotten_producers": list(changes.forgotten_producers),
    }


def _unpacked(record: dict[str, Any]) -> LogChanges:
    role, lives = record["role"], record["lives"]
    return LogChanges(
        **{
            **record,
            "role": None if role is None else Role(role),
            "lives": None if lives is None else [EpochEnds(at, tuple(ends)) for at, ends in lives],
            "cursors": tuple(
                (name, tuple((number, at) for number, at in positions))
                for name, positions in record["cursors"]
            ),
            "runs": [Run(*row) for row in record["runs"]],
            "writers": [
                WriterRow(
                    WriterId(writer), request, tuple(fields.outcome(item) for item in outcomes)
                )
                for writer, request, outcomes in record["writers"]
            ],
            "forgotten_writers": [WriterId(writer) for writer in record["forgotten_writers"]],
            "producers": [
                ProducerRow(name, tuple((one, two, three) for one, two, three in appended), floor)
                for name, appended, floor in record["producers"]
            ],
        }
    )
