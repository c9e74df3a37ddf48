"""Files of replicas, as tests fill them: a journal that is written, cut and replaced, and rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import cbor2

from stores.actions import Action, ClearCommand, EraseCommand, PutCommand, WriterId
from stores.disk.lazy_rows import Checkpoint, Slice
from stores.disk.machine_meta import Meta
from stores.disk.replica import LoadedReplica, ReplicaRows, SQLiteReplica
from stores.disk.rows import PLAIN
from stores.disk.seals import Vault
from stores.group.clock import Times
from stores.group.effects import Persist, Snapshot
from stores.group.entries import ActionEntry, Entry, LeadEntry, TimeEntry, VotersEntry
from stores.group.positions import START, MemberId, Position
from stores.outcomes import Applied, Outcome, WriterRow
from stores.persistence import Census, Changes, Rows
from stores.sealing import StorageKeys
from stores.table import Columns, Entry as StoredEntry, Table
from tests.stores.disk.files import FOUNDING, GROUP
from tests.stores.disk.slicing import net_changes, sliced
from wire.identifiers import EndpointId, EntityId

WRITER = WriterId.of(EntityId(EndpointId(b"w" * 16), 1), 1)
VOTERS = (MemberId("a", 1), MemberId("b", 2))
DISMISSED = ("c", "d")

Step = Callable[[ReplicaRows], None]


class TestBodies:
    """Actions of stores as bytes."""

    __test__ = False

    def encode(self, body: object) -> bytes:
        match body:
            case PutCommand(expiry_ns=expiry, pairs=pairs):
                return cbor2.dumps([0, expiry, list(pairs)])
            case EraseCommand(keys=keys):
                return cbor2.dumps([1, None, list(keys)])
            case ClearCommand():
                return cbor2.dumps([2, None, []])
        raise AssertionError(body)

    def decode(self, data: bytes) -> Action:
        kind, expiry, items = cbor2.loads(data)
        match kind:
            case 0:
                return PutCommand(WRITER, 1, expiry, items)
            case 1:
                return EraseCommand(WRITER, 1, items)
            case 2:
                return ClearCommand(WRITER, 1)
        raise ValueError(kind)


BODIES = TestBodies()


class Replica(SQLiteReplica):
    """A replica's file to which steps are committed."""

    def commit(self, step: Step) -> None:
        step(self)


class ReplicaKind:
    """A replica's file."""

    remedy = "Move it away, and not its ballot, and start the replica anew"

    def __init__(self, keys: StorageKeys | None) -> None:
        self.keys = keys
        rows = ("store", "writers", "meta") if keys is None else ("entries", "writers", "head")
        self.tables = ("journal", "machine_meta", *rows)

    def make(self, path: Path, **options: Any) -> Replica:
        codec = PLAIN if self.keys is None else Vault(path, self.keys)
        return Replica(path, BODIES, codec, **options)

    def load(self, backend: Replica) -> object:
        return state_of(backend.load(FOUNDING))

    def commits(self, count: int) -> Iterator[tuple[Step, object]]:
        return ReplicaModel(Random(1)).steps(count)

    def is_right(self, found: Any, expected: Any) -> bool:
        """Tell whether it is as expected, or ends earlier, which its ballot's mark notices."""
        shorter = expected[1][: len(found[1])]
        return bool(found[:2] == (expected[0], shorter) and found[3:] == expected[3:])


def state_of(loaded: LoadedReplica) -> tuple[object, ...]:
    """Give all that was loaded, rows as they are and with the whole journal applied."""
    meta = loaded.meta
    table = Table(loaded.columns.copy(), loaded.revision)
    apply_all(table, loaded.entries[meta.applied.index - meta.floor.index :])
    state = table.revision, table.columns
    return meta, loaded.entries, state, loaded.writers, loaded.columns


def apply_all(table: Table, entries: Sequence[Entry]) -> None:
    for entry in entries:
        if isinstance(entry, ActionEntry):
            assert isinstance(entry.body, PutCommand | EraseCommand | ClearCommand)
            table.apply(entry.body)


class ReplicaModel:
    """What a replica's file should have in it, and what its runner does to it."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.term = 1
        self.entries: list[Entry] = []
        """All that ever were, those below the floor too."""
        self.committed = 0
        self.table = Table()
        self.frozen = Columns()
        """What the rows have once all slices are written."""
        self.is_cleared = False
        """Whether all that was frozen is gone since."""
        self.slices: deque[Slice] = deque()
        self.meta = Meta()
        self.columns = Columns()
        """The rows, as the slices so far have left them."""
        self.writers: tuple[WriterRow, ...] = ()

    def position(self, index: int) -> Position:
        return Position(self.entries[index - 1].term, index) if index else START

    def state(self) -> tuple[object, ...]:
        table = Table()
        apply_all(table, self.entries)
        kept = self.entries[self.meta.floor.index :]
        columns = self.columns.copy()
        return self.meta, kept, (table.revision, table.columns), self.writers, columns

    def steps(self, count: int) -> Iterator[tuple[Step, object]]:
        """Give steps, each with the state behind it: between them there is every kind."""
        self.meta = replace(self.meta, group=GROUP)
        yield lambda replica: replica.join(GROUP), self.state()
        for number in range(count - 1):
            if number % 9 == 6:
                step = self.install()
            elif number % 4 == 3:
                step = self.cut()
            elif number % 3 == 2 and self.slices:
                step = self.slice_alone()
            else:
                step = self.append()
            yield step, self.state()

    def append(self) -> Step:
        keep, entries = len(self.entries), self.some_entries()
        self.entries += entries
        rows = self.next_slice()
        self.commit(self.chance.randint(self.committed, len(self.entries)))
        return lambda replica: replica.persist(Persist(1, None, keep, tuple(entries)), rows)

    def cut(self) -> Step:
        """Follow another leader, which lacks what was not committed."""
        keep = self.chance.randint(self.committed, max(self.committed, len(self.entries) - 1))
        del self.entries[keep:]
        return self.append_in_new_term(keep, None, ())

    def install(self) -> Step:
        """Take another leader's state in place of all."""
        del self.entries[self.committed :]
        self.term += 1
        self.entries += self.some_entries()
        self.commit(len(self.entries))
        at, index = self.position(self.committed), self.committed
        self.slices.clear()
        self.writers = (self.writer(),)
        self.meta = Meta(GROUP, at, VOTERS, at, Times(index, index), index, b"installed", DISMISSED)
        columns = self.table.columns
        self.columns, self.frozen, self.is_cleared = columns.copy(), columns.copy(), False
        keys, census = list(columns), Census.of(columns)
        parts = [
            Changes(0, rows=Rows.of(columns, keys[at : at + 5])) for at in range(0, len(keys), 5)
        ]
        parts.append(Changes(self.table.revision, writers=self.writers, census=census))
        snapshot = Snapshot(at, VOTERS, Times(index, index), (), dismissed=DISMISSED)
        return self.append_in_new_term(index, snapshot, parts)

    def append_in_new_term(
        self, keep: int, snapshot: Snapshot | None, parts: Sequence[Changes]
    ) -> Step:
        self.term += 1
        entries = [LeadEntry(self.term, Times(keep, keep)), *self.some_entries()]
        self.entries += entries
        write = Persist(1, snapshot, keep, tuple(entries))
        return lambda replica: replica.persist(write, installed=parts, machine=self.meta.machine)

    def slice_alone(self) -> Step:
        rows = self.next_slice()
        assert rows is not None
        return lambda replica: replica.checkpoint(rows)

    def next_slice(self) -> Slice | None:
        if not self.slices and self.committed > self.meta.applied.index:
            self.freeze()
        if not self.slices:
            return None
        rows = self.slices.popleft()
        point, index = rows.checkpoint, rows.checkpoint.applied.index
        if self.chance.random() < 0.5:  # Its rows are of a later state.
            rows = replace(rows, reached=self.committed)
        reached = max(self.meta.reached, index, rows.reached)
        self.meta = replace(self.meta, reached=reached)
        self.write(rows.changes)
        if rows.is_last:
            self.writers = tuple(rows.changes.writers)
            place = point.floor, point.voters, point.applied, point.times, reached
            self.meta = Meta(GROUP, *place, point.machine, point.dismissed)
        return rows

    def write(self, changes: Changes) -> None:
        self.columns = Columns() if changes.is_cleared else self.columns
        for key, value, revision, expiry in changes.rows:
            self.columns.set(key, StoredEntry(value, revision, expiry))
        for key in changes.erased:
            self.columns.discard(key)

    def freeze(self) -> None:
        index = self.committed
        changes, past = net_changes(
            self.frozen, self.table, self.writer(), is_cleared=self.is_cleared
        )
        self.frozen, self.is_cleared = self.table.columns.copy(), False
        floor = self.position(self.chance.randint(self.meta.floor.index, index))
        at = self.position(index)
        point = Checkpoint(at, Times(index, index), floor, VOTERS, b"%d" % index, DISMISSED)
        self.slices.extend(sliced(point, changes, past, 3))

    def writer(self) -> WriterRow:
        number = self.committed
        return WriterRow(WRITER, number, (Outcome(number, number, Applied(1)),), number)

    def commit(self, index: int) -> None:
        newly = self.entries[self.committed : index]
        self.committed = index
        apply_all(self.table, newly)
        if any(isinstance(getattr(entry, "body", None), ClearCommand) for entry in newly):
            self.is_cleared = True

    def some_entries(self) -> list[Entry]:
        return [self.entry() for _ in range(self.chance.randint(1, 5))]

    def entry(self) -> Entry:
        chance, term = self.chance, self.term
        drawn = chance.random()
        if drawn < 0.1:
            return VotersEntry(term, VOTERS, DISMISSED)
        if drawn < 0.2:
            return TimeEntry(term, Times(1, 2))
        if drawn < 0.25:
            return ActionEntry(term, ClearCommand(WRITER, 1))
        keys = [b"%d" % chance.randrange(40) for _ in range(4)]
        if drawn < 0.4:
            return ActionEntry(term, EraseCommand(WRITER, 1, keys))
        values = [chance.randbytes(chance.choice((1, 20, 300, 6_000))) for _ in keys]
        pairs = [item for pair in zip(keys, values, strict=True) for item in pair]
        expiry = chance.choice((None, 10**18 + len(self.entries)))
        return ActionEntry(term, PutCommand(WRITER, 1, expiry, pairs))
