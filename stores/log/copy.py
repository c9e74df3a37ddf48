"""A follower's copy: what came from the keeper, gathered for the next commit."""

from __future__ import annotations

from dataclasses import dataclass, field

from stores.log.changes import LogChanges
from stores.log.keeper import apply_cursors
from stores.log.messages import Cursors, Event, ForgetConsumer, MoveCursor, Positions, Trimmed
from stores.log.partitions import Partition, Partitions, RunInfo
from stores.log.runs import Run
from wire.errors import DecodeError


@dataclass(slots=True)
class CopyStage:
    """What becomes visible together."""

    log_id: int | None = None
    epoch: int | None = None
    cleared: dict[int, int] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    cursors: dict[str, dict[int, int]] = field(default_factory=dict)
    forgotten: dict[str, None] = field(default_factory=dict)
    size: int = 0

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to commit."""
        is_same = self.log_id is None and self.epoch is None
        has_entries = self.cleared or self.runs or self.starts
        return is_same and not (has_entries or self.cursors or self.forgotten)

    def clear(self, partition: int, start: int) -> None:
        """Take in that a partition loses everything."""
        self.runs = [run for run in self.runs if run.partition != partition]
        self.starts.pop(partition, None)
        self.cleared[partition] = start

    def forget(self, consumer: str) -> None:
        """Take in that a consumer goes."""
        self.cursors.pop(consumer, None)
        self.forgotten[consumer] = None

    def moved(self) -> Cursors:
        """Give the cursors that are set."""
        return tuple((name, tuple(sorted(at.items()))) for name, at in self.cursors.items())

    def changes(self) -> LogChanges:
        """Give it to a backend."""
        return LogChanges(
            log_id=self.log_id,
            epoch=self.epoch,
            cleared=tuple(self.cleared.items()),
            runs=self.runs,
            starts=tuple(self.starts.items()),
            cursors=self.moved(),
            forgotten_consumers=tuple(self.forgotten),
        )


class Copy:
    """The entries and cursors that a follower has: some of them seen, some on their way."""

    def __init__(
        self, log_id: int, epoch: int, partitions: list[Partition], cursors: Cursors
    ) -> None:
        """Begin with what a backend kept."""
        self.log_id = log_id
        self.epoch = epoch
        """It is a beginning of what this life of the keeper has, or had."""
        self.partitions = Partitions(partitions)
        """What is committed here, and can be read."""
        self.cursors = {name: dict(positions) for name, positions in cursors}
        self.ends = list(self.partitions.ends())
        """Where the partitions end with what is on its way to the disk."""
        self._cleared_to: dict[int, int] = {}
        self._stage = CopyStage()
        self._in_flight: CopyStage | None = None

    @property
    def is_settled(self) -> bool:
        """True if everything that came is committed."""
        return self._stage.is_empty and self._in_flight is None

    @property
    def size(self) -> int:
        """Bytes that came and are not committed."""
        return self._stage.size + (0 if self._in_flight is None else self._in_flight.size)

    # -- what comes ------------------------------------------------------------------------------

    def agree(self, log_id: int, epoch: int, starts: tuple[int, ...], agreed: Positions) -> None:
        """Take in with which log it is to be level, and up to where it is so already.

        A partition with an entry that the keeper does not have, or with a hole, begins anew: this
        comes with lost disks only, and a copy that is copied again is right for sure.
        """
        if log_id != self.log_id or len(starts) != len(self.ends):
            self._stage.log_id = self.log_id = log_id
            self.ends = list(starts)
            for name in self.cursors:
                self._stage.forget(name)
            for partition, start in enumerate(starts):
                self.clear(partition, start)
        else:
            for partition, end in agreed:
                if end < self.ends[partition] or self.ends[partition] < starts[partition]:
                    self.clear(partition, starts[partition])
                else:
                    self._trim(partition, starts[partition])
        self._stage.epoch = self.epoch = epoch

    def replace_cursors(self, cursors: Cursors) -> None:
        """Take in all cursors that there are."""
        for name in {*self.cursors, *self._stage.cursors} - {name for name, _ in cursors}:
            self._stage.forget(name)
        for name, positions in cursors:
            self._move(name, positions)

    def clear(self, partition: int, start: int) -> None:
        """Let everything of a partition go."""
        self._stage.clear(partition, start)
        self.ends[partition] = start
        self._cleared_to[partition] = start

    def add(self, run: Run) -> None:
        """Take in the next run, or one that is there; raises ``DecodeError`` if one is missing."""
        if run.partition >= len(self.ends):
            raise DecodeError(f"a run of partition {run.partition}, which the log does not have")
        cleared_to = self._cleared_to.pop(run.partition, None)
        if cleared_to is not None and run.first_offset < cleared_to < run.end:
            # The log begins in the middle of this run.
            self.clear(run.partition, run.first_offset)
            del self._cleared_to[run.partition]
            self._trim(run.partition, cleared_to)
        if run.end <= self.ends[run.partition]:
            return
        if run.first_offset != self.ends[run.partition]:
            raise DecodeError(
                f"partition {run.partition} goes on at {run.first_offset}, and"
                f" {self.ends[run.partition]} is the next here"
            )
        self._stage.runs.append(run)
        self._stage.size += len(run.body)
        self.ends[run.partition] = run.end

    def consume(self, event: Event) -> None:
        """Do what the keeper did; raises ``DecodeError`` if it makes no sense."""
        match event:
            case Run():
                self.add(event)
            case Trimmed(starts):
                for partition, start in starts:
                    self._trim(partition, start)
            case MoveCursor(consumer, positions):
                self._move(consumer, positions)
            case ForgetConsumer(consumer):
                self._stage.forget(consumer)

    def _trim(self, partition: int, start: int) -> None:
        if partition >= len(self.ends):
            raise DecodeError(f"partition {partition} is trimmed, which the log does not have")
        self._stage.starts[partition] = max(start, self._stage.starts.get(partition, 0))

    def _move(self, consumer: str, positions: Positions) -> None:
        self._stage.cursors.setdefault(consumer, {}).update(positions)

    # -- commits ---------------------------------------------------------------------------------

    def start_commit(self) -> LogChanges | None:
        """Give what gathered, if there is any and no other commit is under way."""
        if self._stage.is_empty or self._in_flight is not None:
            return None
        self._in_flight, self._stage = self._stage, CopyStage()
        return self._in_flight.changes()

    def finish_commit(self) -> None:
        """Show what was committed."""
        stage, self._in_flight = self._in_flight, None
        assert stage is not None, "nothing is on its way to the disk"
        if stage.log_id is not None:
            self.partitions = Partitions([Partition() for _ in stage.cleared])
        for number, start in stage.cleared.items():
            self.partitions[number].clear(start)
        for run in stage.runs:
            info = RunInfo(run.first_offset, run.count, run.timestamp_ns, len(run.body))
            self.partitions[run.partition].extend(info)
        for number, start in stage.starts.items():
            self.partitions[number].trim(start)
        apply_cursors(self.cursors, tuple(stage.forgotten), stage.moved())
