"""Logs of one group in the test's hands: as ``tests.stores.replica.test_core`` has it of stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stores.effects import Resolve
from stores.group.codec import GroupCodec
from stores.group.effects import Persist, StageParts
from stores.group.entries import ActionEntry
from stores.group.positions import Position
from stores.log.bodies import Performed
from stores.log.codec import LogCodec
from stores.log.kept_runs import KeptRun, RunPlace
from stores.log.machine import LogMachine
from stores.outcomes import Applied, Refused
from stores.replica.beginning import Beginning, World
from stores.replica.effects import ReadRuns, ToDisk
from stores.replica.logs.books import BookKeeper
from stores.replica.logs.core import LogCore
from stores.replica.logs.reading import filled
from stores.replica.roster import Roster
from tests.stores.replica.test_core import Mesh
from wire.decoding import decode
from wire.encoding import encode
from wire.identifiers import EntityId


class LogMesh(Mesh):
    """Cores of a log, and what their handles ask for; each gives its request's number."""

    codec = GroupCodec(LogCodec())
    partitions = 2

    def __init__(self, names: str = "abc", *arguments: Any, **options: Any) -> None:
        self.file_reads: dict[str, list[ReadRuns]] = {name: [] for name in names}
        self.rows: dict[str, dict[RunPlace, KeptRun]] = {name: {} for name in names}
        """The runs on each disk, where there is no file."""
        self.halted = ""
        """Whose disk does nothing, even what it was asked in the middle of a step."""
        super().__init__(names, *arguments, **options)

    def _make(
        self, entity: EntityId, roster: Roster, beginning: Beginning, world: World
    ) -> LogCore:
        machine = LogMachine("log l", self.partitions)
        core = LogCore(entity, roster, machine, self.codec, beginning, world)
        if not core.is_volatile:
            core.carrier.keeper = BookKeeper(machine, 0)
        return core

    # The disks.

    def take(self, name: str, effects: list) -> None:
        reads = [each for each in effects if isinstance(each, ReadRuns)]
        if reads:
            self.file_reads[name] += reads
        super().take(name, [each for each in effects if not isinstance(each, ReadRuns)])

    def write(self, name: str) -> None:
        """Have a disk do what it was asked."""
        while name != self.halted and (self.writes[name] or self.file_reads.get(name)):
            while self.file_reads.get(name):
                read = self.file_reads[name].pop(0)
                found = self.look_up(name, read.runs)
                self.take(name, self.cores[name].runs_read(read.token, found))
            if self.writes[name]:
                done = self.writes[name].pop(0)
                self.keep(name, done)
                self.take(name, self.cores[name].persisted(done.token))

    def work(self) -> None:
        """Pass all letters on, and have the disks do what they were asked."""
        super().work()
        while any(self.file_reads.get(name) for name in self.cores if name not in self.slow):
            for name in self.cores:
                if name not in self.slow:
                    self.write(name)
            super().work()

    def keep(self, name: str, job: ToDisk) -> None:
        """Have a disk keep what it is told to."""
        runs: list[KeptRun] = []
        match job.write:
            case Persist(keep=keep, entries=entries):
                for index, entry in enumerate(entries, keep + 1):
                    body = entry.body if isinstance(entry, ActionEntry) else None
                    if isinstance(body, Performed):
                        at = Position(entry.term, index)
                        runs += [KeptRun.of(run, at, body.elapsed_ns) for run in body.runs]
            case StageParts(parts=parts):
                runs += [run for part in parts for run in part.runs]
        self.rows[name].update((run.place, run) for run in runs)

    def look_up(self, name: str, places: Sequence[RunPlace]) -> list[KeptRun]:
        """Give what a disk has of some runs."""
        return [self.rows[name][place] for place in places]

    def lead(self) -> str:
        """Have a leader elected that serves all, and the log begin."""
        leader = super().lead()
        self.ticks_until(lambda: all(len(core.machine.partitions) for core in self.members))
        return leader

    def lead_again(self) -> str:
        """Have another one elected by those that are left; give its name."""
        self.work()
        self.ticks_until(lambda: any(core.is_leader for core in self.members))
        self.ticks_until(lambda: all(core.is_served for core in self.members))
        return next(name for name, core in self.cores.items() if core.is_leader)

    @property
    def members(self) -> list[LogCore]:
        return list(self.cores.values())

    def ticks_until(self, is_true: Callable[[], object], most: int = 200) -> None:
        for _ in range(most):
            if is_true():
                return
            self.tick()
            self.work()
        raise AssertionError([core.explain_idle() for core in self.members])

    # The handles.

    def append(
        self,
        name: str,
        value: object,
        partition: int = 0,
        source: tuple[str | None, int] = (None, 0),
    ) -> int:
        number = self.cores[name].requests.append(partition, (None, encode(value)), *source)
        self.flush(name)
        return number

    def move(self, name: str, consumer: str, *positions: tuple[int, int]) -> int:
        number = self.cores[name].requests.move_cursor(consumer, positions)
        self.flush(name)
        return number

    def write_all(self) -> None:
        """Have all disks do what they were asked."""
        for name in self.cores:
            self.write(name)

    def flush(self, name: str) -> None:
        self.take(name, self.cores[name].flush())

    def result(self, name: str, number: int) -> Applied | Refused | None:
        """Give what became of a request; none has two outcomes."""
        found = [
            outcome
            for each in self.told[name]
            if isinstance(each, Resolve)
            if (outcome := each.outcome.between(number - 1, number)) is not None
        ]
        assert len(found) <= 1, found
        return found[0].result if found else None

    def offset(self, name: str, number: int) -> int:
        """Wait for what an append came to."""
        self.ticks_until(lambda: self.result(name, number))
        result = self.result(name, number)
        assert isinstance(result, Applied), result
        return result.revision

    def entries(self, name: str, partition: int = 0) -> dict[int, object]:
        """Give what can be read at a member, from its disk as far as it is there alone."""
        machine = self.cores[name].machine
        span = machine.partitions[partition].span
        runs = machine.gather([(partition, span.start)], 1 << 60)
        places = [run for run in runs if isinstance(run, RunPlace)]
        found = filled(runs, self.look_up(name, places))
        assert len(found) == len(runs), "the disk has all runs"
        values = {
            offset: decode(value)
            for run in found
            for offset, value in enumerate(run.entries()[1::2], run.first_offset)
        }
        return {offset: values[offset] for offset in range(span.start, span.end)}

    def level(self) -> bool:
        """Tell whether all members have applied the same."""
        return len({core.machine.digest() for core in self.members}) == 1
