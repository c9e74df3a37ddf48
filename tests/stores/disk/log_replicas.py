"""Files of log replicas, as tests fill them: a journal, its runs, cuts, and partial snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from stores.disk.founding import Founding
from stores.disk.lazy_rows import Books, Checkpoint
from stores.disk.log_replica import LoadedLogReplica, SQLiteLogReplica
from stores.disk.machine_meta import Meta
from stores.disk.rows import PLAIN
from stores.disk.seals import Vault
from stores.group.clock import Times
from stores.group.effects import Persist, Snapshot
from stores.group.entries import ActionEntry, Entry, LeadEntry, TimeEntry, VotersEntry
from stores.group.machine import Append as Appends
from stores.group.positions import START, Position
from stores.log.bodies import ChangeRetention, Write
from stores.log.kept_runs import KeptRun, RunPlace
from stores.log.machine import LogMachine
from stores.log.messages import Append, ForgetConsumer, MoveCursor, Request, Requests, Trim
from stores.log.partitions import Retention
from stores.replica.logs.reading import filled
from stores.sealing import StorageKeys
from stores.table.bodies import Register, Registration
from tests.stores.disk.files import FOUNDING
from tests.stores.disk.replicas import DISMISSED, GROUP, VOTERS, WRITER
from wire.encoding import encode

PARTITIONS = 2

Step = Callable[[SQLiteLogReplica], None]


class LogReplica(SQLiteLogReplica):
    """A log replica's file to which steps are committed."""

    def commit(self, step: Step) -> None:
        step(self)

    def load(self, founding: Founding = FOUNDING) -> LoadedLogReplica:
        return super().load(founding)


class LogReplicaKind:
    """A log replica's file."""

    remedy = "Move it away, and not its ballot, and start the replica anew"
    tables = ("journal", "machine_meta", "runs", "books", "head")

    def __init__(self, keys: StorageKeys | None) -> None:
        self.keys = keys

    def make(self, path: Path, **options: Any) -> LogReplica:
        codec = PLAIN if self.keys is None else Vault(path, self.keys)
        return LogReplica(path, codec, **options)

    def load(self, backend: LogReplica) -> object:
        return state_of(backend, backend.load())

    def commits(self, count: int) -> Iterator[tuple[Step, object]]:
        return LogReplicaModel(Random(1)).steps(count)

    def is_right(self, found: Any, expected: Any) -> bool:
        """Tell whether it is as expected, or ends earlier, which its ballot's mark notices."""
        shorter = expected[1][: len(found[1])]
        return bool(found[:2] == (expected[0], shorter) and found[3:] == expected[3:])


def state_of(backend: SQLiteLogReplica, loaded: LoadedLogReplica) -> tuple[object, ...]:
    """Give all that was loaded, as it is and with the whole journal applied."""
    machine, meta = LogMachine(), loaded.meta
    if loaded.parts:
        machine.install(loaded.parts)
    before = contents(machine, backend)
    later = loaded.entries[meta.applied.index - meta.floor.index :]
    apply_all(machine, later, meta.applied.index)
    return meta, loaded.entries, contents(machine, backend), before


def contents(machine: LogMachine, backend: SQLiteLogReplica | None = None) -> object:
    """Give the applied state, with what is in its runs; the file has some of that alone."""
    positions = [(number, span.start) for number, span in enumerate(machine.partitions.spans())]
    runs = machine.gather(positions, 1 << 60)
    places = [run for run in runs if isinstance(run, RunPlace)]
    read: list[KeptRun] = []
    while backend is not None and (more := backend.read(places[len(read) :])):
        read += more  # It ends at a damaged one, and raises if that is the first.
    found = filled(runs, read)
    assert len(found) == len(runs), "the file has all runs"
    return machine.digest(), found


def apply_all(machine: LogMachine, entries: list[Entry], index: int) -> None:
    for entry in entries:
        index += 1
        if isinstance(entry, ActionEntry):
            machine.apply(Position(entry.term, index), entry.body)


class LogReplicaModel:
    """What a log replica's file should have in it, and what its runner does to it."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.term = 1
        self.entries: list[Entry] = []
        """All that ever were, those below the floor too."""
        self.committed = 0
        self.machine = LogMachine(partition_count=PARTITIONS)
        self.machine.use_file()
        self.now = Times(1, 10**18)
        self.request = self.sequence = 0
        self.number: int | None = None
        self.meta = Meta()
        self.before = contents(self.machine)
        """Of the machine as the file has it, without the journal."""

    def position(self, index: int) -> Position:
        return Position(self.entries[index - 1].term, index) if index else START

    def state(self) -> tuple[object, ...]:
        machine = LogMachine()
        apply_all(machine, self.entries, 0)
        return self.meta, self.entries[self.meta.floor.index :], contents(machine), self.before

    def steps(self, count: int) -> Iterator[tuple[Step, object]]:
        """Give steps, each with the state behind it: between them there is every kind."""
        self.meta = replace(self.meta, group=GROUP)
        yield lambda replica: replica.join(GROUP), self.state()
        for number in range(count - 1):
            if number % 9 == 6:
                step = self.install()
            elif number % 5 == 4:
                step = self.cut()
            elif number % 3 == 2:
                step = self.checkpoint()
            else:
                step = self.append()
            yield step, self.state()

    def append(self) -> Step:
        keep, entries = len(self.entries), self.some_entries()
        self.commit(self.chance.randint(self.committed, len(self.entries)))
        return lambda replica: replica.persist(Persist(1, None, keep, entries))

    def cut(self) -> Step:
        """Follow another leader, which lacks what was not committed."""
        keep = self.chance.randint(self.committed, max(self.committed, len(self.entries) - 1))
        self.lose(keep)
        entries = self.some_entries()
        return lambda replica: replica.persist(Persist(1, None, keep, entries))

    def install(self) -> Step:
        """Take another leader's state, of which the file has a part."""
        after = self.committed
        self.lose(after)
        self.some_entries()
        self.commit(len(self.entries))
        at, index = self.position(self.committed), self.committed
        times = Times(index, index)
        parts = tuple(self.machine.freeze(after))
        self.before = contents(self.machine)
        self.meta = Meta(GROUP, at, VOTERS, at, times, index, dismissed=DISMISSED)
        entries = self.some_entries()
        snapshot = Snapshot(at, VOTERS, times, parts, after, DISMISSED)
        write = Persist(1, snapshot, index, entries)
        return lambda replica: replica.persist(write)

    def checkpoint(self) -> Step:
        index = self.committed
        at = self.position(index)
        floor = self.position(self.chance.randint(self.meta.floor.index, index))
        times = Times(index, index)
        self.meta = Meta(GROUP, floor, VOTERS, at, times, index, dismissed=DISMISSED)
        point = Checkpoint(at, times, floor, VOTERS, dismissed=DISMISSED)
        parts = self.machine.beside_rows()
        self.before = contents(self.machine)
        starts, producers = self.machine.partitions.starts(), self.machine.take_producers()
        return lambda replica: replica.checkpoint(Books(point, parts, starts, producers))

    def lose(self, keep: int) -> None:
        """Have another term, with the entries up to an index."""
        del self.entries[keep:]
        self.machine.undo()
        self.commit(keep)
        self.term += 1
        rows = {row.writer: row for row in self.machine._writers.rows()}
        self.request = rows[WRITER].last_request if WRITER in rows else 0
        self.number = rows[WRITER].number if WRITER in rows else None
        self.entries.append(LeadEntry(self.term, self.now))

    def commit(self, index: int) -> None:
        for number in range(self.committed, index):
            entry = self.entries[number]
            if isinstance(entry, ActionEntry):
                answer = self.machine.apply(Position(entry.term, number + 1), entry.body)
                if isinstance(answer, Registration):
                    self.number = answer.number
        self.committed = index

    def some_entries(self) -> tuple[Entry, ...]:
        """Append some, and give all that a new term brings."""
        start = len(self.entries)
        if start and isinstance(self.entries[-1], LeadEntry):
            start -= 1
        for _ in range(self.chance.randint(1, 4)):
            self.entry()
        return tuple(self.entries[start:])

    def entry(self) -> None:
        drawn = self.chance.random()
        if drawn < 0.1:
            self.entries.append(VotersEntry(self.term, VOTERS, DISMISSED))
        elif drawn < 0.2:
            self.entries.append(TimeEntry(self.term, self.now))
        else:
            self.now = Times(self.now.elapsed_ns + 5, self.now.stamp_ns + 5)
            self.ask(drawn)

    def ask(self, drawn: float) -> None:
        request: object = Register(WRITER)
        if self.number is not None:
            request = ChangeRetention(Retention(count=9 + len(self.entries)))
            if drawn > 0.25:
                requests = tuple(self.request_() for _ in range(self.chance.randint(2, 6)))
                asked = Requests(WRITER, self.request + 1, self.request, requests)
                self.request += len(requests)
                request = Write(self.number, asked)
        judgement = self.machine.judge(request, self.now)
        if isinstance(judgement, Appends):
            self.entries.append(ActionEntry(self.term, judgement.body))
            self.machine.stage(Position(self.term, len(self.entries)), judgement.body)

    def request_(self) -> Request:
        chance, partition = self.chance, self.chance.randrange(PARTITIONS)
        end = self.machine.partitions[partition].end
        match chance.randrange(12):
            case 0:
                return MoveCursor("consumer", ((partition, chance.randint(0, end)),))
            case 1:
                return ForgetConsumer("consumer")
            case 2:
                return Trim(partition, chance.randint(0, end // 3))
        self.sequence += 1
        producer = chance.choice((None, "p", "q"))
        value = encode(chance.randbytes(chance.choice((0, 300, 3_000, 9_000))))
        return Append(partition, producer, self.sequence, (None, value))
