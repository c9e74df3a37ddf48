"""A follower's copy: what came from the keeper, gathered for the next commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stores.log.changes import EpochEnds, LoadedLog, LogChanges, Role
from stores.log.limits import EPOCHS_MAX
from stores.log.memory import Memory, Remembered
from stores.log.messages import Cursors, Event, ForgetConsumer, MoveCursor, Positions, Trimmed
from stores.log.partitions import Partition, Partitions, RunInfo
from stores.log.runs import Run
from stores.log.staging import apply_cursors
from wire.errors import DecodeError


@dataclass(slots=True)
class CopyStage:
    """What becomes visible together."""

    log_id: int | None = None
    epoch: int | None = None
    lives: tuple[EpochEnds, ...] | None = None
    cleared: dict[int, int] = field(default_factory=dict)
    cut: dict[int, int] = field(default_factory=dict)
    is_memory_new: bool = False
    has_memory: bool = False
    position: int = 0
    """The event that brought the last of it."""
    runs: list[Run] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    cursors: dict[str, dict[int, int]] = field(default_factory=dict)
    forgotten: dict[str, None] = field(default_factory=dict)
    size: int = 0

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to commit."""
        is_same = self.log_id is None and self.epoch is None
        has_entries = self.cleared or self.cut or self.runs or self.starts
        has_others = self.cursors or self.forgotten or self.has_memory
        return is_same and not (has_entries or has_others)

    def clear(self, partition: int, start: int) -> None:
        """Take in that a partition loses everything."""
        self.runs = [run for run in self.runs if run.partition != partition]
        self.starts.pop(partition, None)
        self.cut.pop(partition, None)
        self.cleared[partition] = start

    def cut_off(self, partition: int, end: int) -> None:
        """Take in that a partition loses what it has from ``end`` on."""
        self.runs = [run for run in self.runs if run.partition != partition or run.end <= end]
        if partition not in self.cleared:
            self.cut[partition] = end

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
            lives=self.lives,
            cleared=tuple(self.cleared.items()),
            cut=tuple(self.cut.items()),
            is_memory_new=self.is_memory_new,
            runs=self.runs,
            starts=tuple(self.starts.items()),
            cursors=self.moved(),
            forgotten_consumers=tuple(self.forgotten),
        )


class Copy:
    """The entries and cursors that a follower has: some of them seen, some on their way."""

    def __init__(self, loaded: LoadedLog) -> None:
        """Start with what a backend kept."""
        self.log_id = loaded.log_id
        self.epoch = loaded.epoch
        """It is a beginning of what this life of the keeper has, or had."""
        self.lives = tuple(loaded.epochs)
        self.partitions = Partitions(loaded.partitions)
        """What is committed here, and can be read."""
        self.cursors = {name: dict(positions) for name, positions in loaded.cursors}
        self.memory = Memory(loaded.writers, loaded.producers)
        self.position = 0
        """The last event of this epoch that was taken in, with all before it."""
        self.committed_position = 0
        """The last event that is committed here."""
        self._open: list[Event] = []
        """Events of a commit of the keeper's that has not come to its end."""
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
    def is_open(self) -> bool:
        """True if a part of a commit of the keeper's came, which alone is of no use."""
        return bool(self._open)

    @property
    def size(self) -> int:
        """Bytes that came and are not committed."""
        return self._stage.size + (0 if self._in_flight is None else self._in_flight.size)

    # -- what comes ------------------------------------------------------------------------------

    def agree(self, log_id: int, epoch: int, starts: tuple[int, ...], agreed: Positions) -> None:
        """Take in with which log it is to be level, and up to where it is so already.

        What the keeper does not have is cut off: entries that were lost by a promotion, or by a
        disk. A partition with nothing in common, or with a hole, begins anew.
        """
        self.drop_open()
        if log_id != self.log_id or len(starts) != len(self.ends):
            self._stage.log_id = self.log_id = log_id
            self.ends = list(starts)
            for name in self.cursors:
                self._stage.forget(name)
            for partition, start in enumerate(starts):
                self.clear(partition, start)
        else:
            for partition, end in agreed:
                self._agree_on(partition, starts[partition], end)
        if epoch != self.epoch:
            self.position = self.committed_position = self._stage.position = 0
            if self._in_flight is not None:
                self._in_flight.position = 0
        self._stage.epoch = self.epoch = epoch

    def drop_open(self) -> None:
        """Forget a part of a commit: the channel that brought it broke."""
        self._open.clear()

    def _agree_on(self, partition: int, start: int, end: int) -> None:
        own = self.ends[partition]
        if end < own and own != start:
            own = self._boundary(partition, end)
        if own < start or (own == start and own != self.ends[partition]):
            self.clear(partition, start)
            return
        if own < self.ends[partition]:
            self._stage.cut_off(partition, own)
            self.ends[partition] = own
        self._trim(partition, start)

    def _boundary(self, partition: int, end: int) -> int:
        """Give the last place up to ``end`` where runs are known to meet; -1 if none is known.

        What is committed tells, unless a commit that is to come lets all of it go.
        """
        coming = (self._in_flight, self._stage)
        if any(stage is not None and partition in stage.cleared for stage in coming):
            return -1
        return self.partitions[partition].boundary(end)

    def live(self, lives: tuple[EpochEnds, ...]) -> None:
        """Take in which lives the keeper had."""
        self._stage.lives = self.lives = lives

    def remember(self, parts: Sequence[Remembered], sequence: int, *, is_new: bool) -> None:
        """Take in what the keeper remembered at an event up to which everything is here."""
        if is_new:
            self.memory = Memory()
            self._stage.is_memory_new = True
        self._stage.has_memory = True
        for part in parts:
            self.memory.follow(part)
        self.position = self._stage.position = sequence

    def promote(self, epoch: int) -> LogChanges:
        """Start another life, in which it is the keeper's; nothing may be under way."""
        assert self.is_settled, self
        known = self.lives
        if self.epoch not in [life.epoch for life in known]:
            # Of a life that nobody saw begin nothing is agreed upon.
            known = (*known, EpochEnds(self.epoch, (0,) * len(self.ends)))
        self.lives = (*known, EpochEnds(epoch, tuple(self.ends)))
        return LogChanges(epoch=epoch, lives=self.lives[-EPOCHS_MAX:], role=Role.KEEPER)

    def legacy(self, epoch: int) -> LoadedLog:
        """Give all that a keeper needs to lead from here; the copy is of no more use."""
        memory = self.memory
        return LoadedLog(
            *(self.log_id, epoch),
            [self.partitions[number] for number in range(len(self.partitions))],
            tuple((name, tuple(at.items())) for name, at in self.cursors.items()),
            self.lives,
            memory.ledger.rows(),
            tuple(memory.producers.rows()),
        )

    def replace_cursors(self, cursors: Cursors) -> None:
        """Take in all cursors that there are."""
        kept = {name: dict(positions).keys() for name, positions in cursors}
        for known in (self.cursors, dict(self._stage.cursors)):
            for name, at in known.items():
                if not at.keys() <= kept.get(name, set()):
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

    def consume(self, event: Event, sequence: int) -> None:
        """Take in what the keeper did, one commit of it at a time.

        Of a commit that comes half nothing is seen: an entry without what is remembered of it
        would be appended again. Raises ``DecodeError`` if it makes no sense.
        """
        self._open.append(event)
        if isinstance(event, Remembered) and event.is_last:
            events, self._open = self._open, []
            for each in events:
                self._do(each)
            self.position = self._stage.position = sequence

    def _do(self, event: Event) -> None:
        match event:
            case Remembered():
                self.memory.follow(event)
                self._stage.has_memory = True
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
        self._in_flight, self._stage = self._stage, CopyStage(position=self._stage.position)
        ledger, producers = self.memory.ledger, self.memory.producers
        return replace(
            self._in_flight.changes(),
            writers=ledger.take_touched(),
            forgotten_writers=ledger.take_forgotten(),
            producers=producers.take_touched(),
            forgotten_producers=producers.take_forgotten(),
        )

    def finish_commit(self) -> None:
        """Show what was committed."""
        stage, self._in_flight = self._in_flight, None
        assert stage is not None, "nothing is on its way to the disk"
        if stage.log_id is not None:
            self.partitions = Partitions([Partition() for _ in stage.cleared])
        for number, start in stage.cleared.items():
            self.partitions[number].clear(start)
        for number, end in stage.cut.items():
            self.partitions[number].cut(end)
        for run in stage.runs:
            info = RunInfo(run.first_offset, run.count, run.timestamp_ns, len(run.body))
            self.partitions[run.partition].extend(info)
        for number, start in stage.starts.items():
            self.partitions[number].trim(start)
        apply_cursors(self.cursors, tuple(stage.forgotten), stage.moved())
        self.committed_position = stage.position
