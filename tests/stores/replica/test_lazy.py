"""Rows follow a journal slice by slice, and a file is right after each commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from stores.actions import ClearCommand, PutCommand, WriterId
from stores.disk.founding import Founding
from stores.disk.replica import LoadedReplica, SQLiteReplica
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.clock import Moment
from stores.group.effects import Persist, SavePromises, SyncMarks
from stores.group.entries import VotersEntry
from stores.group.member import Member
from stores.group.member_parts import Stored
from stores.group.positions import MemberId
from stores.judgement import Request
from stores.persistence import Census
from stores.replica import kept, lazy
from stores.replica.lazy import RowKeeper, restored
from stores.requests import Requests
from stores.table import Columns
from stores.table.bodies import Register, Write
from stores.table.codec import TableCodec
from stores.table.machine import TableMachine
from wire.identifiers import EndpointId, EntityId

GROUP = b"g" * 16
OWN = MemberId("a", 1)
WRITER = WriterId.of(EntityId(EndpointId(b"w" * 16), 1), 1)
KEYS = 50
SLICE = 3


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "SLICE_ROWS", SLICE)
    monkeypatch.setattr(lazy, "SORTED_ROWS", 4 * SLICE)
    monkeypatch.setattr(kept, "KEPT_ENTRIES", 5)


@dataclass
class Single:
    """A group of one on a disk that is done at once."""

    path: Path
    states: dict[int, Columns] = field(default_factory=dict)
    """What there was at each position, in all lives of it."""
    registered: int = 0
    """The number of the writer."""
    member: Member = field(init=False)
    machine: TableMachine = field(init=False)
    keeper: RowKeeper = field(init=False)
    file: SQLiteReplica = field(init=False)

    def __post_init__(self) -> None:
        self.file = SQLiteReplica(self.path, TableCodec())
        founding = Founding(GROUP, OWN, 0)
        loaded = self.file.load(founding)
        entries = loaded.entries
        if loaded.meta.group is None:
            entries = [VotersEntry(1, (OWN,))]
            self.file.join(GROUP, entries)
        meta = loaded.meta
        stored = Stored(
            *(new_promises(OWN), NEW_SLOTS, meta.floor, meta.voters, entries),
            *(meta.applied.index, meta.times),
        )
        self.machine = TableMachine()
        self.machine.install(parts_of(loaded))
        self.keeper = RowKeeper(self.machine, meta.applied.index)
        self.member = Member(stored, self.machine, lambda least, most: least)
        self.member.state.advance(max(meta.reached, meta.applied.index))
        found, at = self.machine.snapshot(), self.machine.position.index
        assert found == self.states.get(at, found), "rows are of several states"
        self.do(self.member.start(Moment(0, 0)))

    def do(self, effects: list) -> None:
        for effect in effects:
            match effect:
                case Persist():
                    rows = self.keeper.take(effect.keep + len(effect.entries))
                    self.file.persist(effect, rows)
                    self.do(self.member.persisted(effect.token))
                case SavePromises():
                    self.do(self.member.promises_saved(effect.token))
                case SyncMarks():
                    self.do(self.member.marks_synced(effect.number))

    def ask(self, request: object) -> None:
        self.do(self.member.propose((None, 1), request))
        self.states[self.machine.position.index] = self.machine.snapshot()

    def follow(self) -> None:
        """Let a tick pass; one slice is written, if there is one."""
        self.keeper.tick(self.member, self.member.state.commit - kept.KEPT_ENTRIES)
        rows = self.keeper.take(self.member.journal.durable)
        if rows is not None:
            self.file.checkpoint(rows)

    def follow_all(self) -> None:
        """Have all rows written."""
        self.follow()
        for _ in range(lazy.CHECKPOINT_TICKS):
            self.follow()
        while self.keeper.has_slices:
            self.follow()


def parts_of(loaded: LoadedReplica) -> list:
    return list(restored(loaded.meta, loaded.revision, loaded.columns, loaded.writers))


def requests(chance: Random) -> Iterator[Request]:
    """Give what a writer asks for, at random."""
    taken: list[Request] = []
    asked = Requests(WRITER, taken.append)  # type: ignore[arg-type]  # what it asks for is no other
    while True:
        keys = [b"%d" % number for number in chance.sample(range(24, 24 + KEYS), 4)]
        encoded = [b"\x18" + bytes((int(key),)) for key in keys]
        drawn = chance.random()
        if drawn < 0.05:
            asked.clear()
        elif drawn < 0.3:
            for key in encoded:
                asked.erase(key)
        else:
            for key in encoded:
                asked.put(key, b"\x18" + bytes((chance.randrange(24, 256),)))
        asked.seal()
        yield from taken
        taken.clear()


@pytest.mark.parametrize("seed", range(12))
def test_whenever_it_stops_a_file_has_all(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        monkeypatch.setattr(lazy, "SLICE_SIZE", 9)  # two rows
    chance = Random(seed)
    wanted = requests(chance)
    single = Single(tmp_path / "store.db")
    single.ask(Register(WRITER, 0))
    number = single.member.state.commit
    last = 0
    for _ in range(60):
        for _ in range(chance.randint(0, 6)):
            request = next(wanted)
            single.ask(Write(number, (request,), last, is_vetted=True))
            last = single.machine.revision
        for _ in range(chance.randint(0, 5)):
            single.follow()
        if chance.random() < 0.3:
            expected = single.machine.snapshot(), single.machine.revision, single.machine.digest()
            single.file.close()
            single = Single(tmp_path / "store.db", single.states)
            found = single.machine.snapshot(), single.machine.revision, single.machine.digest()
            assert found == expected
    single.follow_all()
    single.file.close()
    with closing(SQLiteReplica(tmp_path / "store.db", TableCodec())) as file:
        loaded = file.load(Founding(GROUP, OWN, 0))
    assert loaded.columns == single.machine.snapshot()
    assert loaded.meta.applied.index == single.member.state.commit


def test_a_clear_is_one_slice_whatever_was_there(tmp_path: Path) -> None:
    single = Single(tmp_path / "store.db")
    single.ask(Register(WRITER, 0))
    number = single.member.state.commit
    pairs = [item for key in range(24, 124) for item in (b"\x18" + bytes((key,)), b"\x00")]
    single.ask(Write(number, (PutCommand(WRITER, 1, None, pairs),), 0, is_vetted=True))
    single.follow_all()
    single.ask(Write(number, (ClearCommand(WRITER, 101),), 0, is_vetted=True))
    single.ask(Write(number, (PutCommand(WRITER, 102, None, pairs[:2]),), 0, is_vetted=True))
    for _ in range(lazy.CHECKPOINT_TICKS):
        single.keeper.tick(single.member, 0)
    found = single.keeper.take(single.member.journal.durable)
    assert found is not None
    assert (found.is_last, found.changes.is_cleared) == (True, True)
    assert found.changes.census == Census(1, 102)
    assert list(found.changes.rows.keys) == pairs[:1]
    single.file.close()


def test_no_row_is_written_ahead_of_the_journal(tmp_path: Path) -> None:
    single = Single(tmp_path / "store.db")
    single.ask(Register(WRITER, 0))
    for _ in range(lazy.CHECKPOINT_TICKS):
        single.keeper.tick(single.member, 0)
    durable = single.member.journal.durable
    assert single.keeper.has_slices
    assert single.keeper.take(durable - 1) is None
    assert single.keeper.take(durable) is not None
    single.file.close()


def put(single: Single, values: dict[int, bytes]) -> None:
    """Put some values in one entry of the journal."""
    first = single.machine.revision + 1
    pairs = [item for key, value in values.items() for item in (b"\x18" + bytes((key,)), value)]
    request = PutCommand(WRITER, first, None, pairs)
    single.ask(Write(single.registered, (request,), first - 1, is_vetted=True))


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Single]:
    """Give a group of one whose file has all rows."""
    single = Single(tmp_path / "store.db")
    single.ask(Register(WRITER, 0))
    single.registered = single.member.state.commit
    single.follow_all()
    yield single
    single.file.close()


def of_size(size: int) -> bytes:
    """Give a value that is as large, encoded."""
    return b"\x58" + bytes((size - 2,)) + bytes(size - 2)


def test_a_slice_has_so_many_bytes_or_one_row(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy, "SLICE_ROWS", 5)
    monkeypatch.setattr(lazy, "SORTED_ROWS", 7)
    monkeypatch.setattr(lazy, "SLICE_SIZE", 100)
    sizes = [48, 48, 49, 49, 101, 48, 3, 3, 3, 3, 3, 3, 96, 3]
    put(single, {24 + at: of_size(size) for at, size in enumerate(sizes)})
    for _ in range(lazy.CHECKPOINT_TICKS):
        single.keeper.tick(single.member, 0)
    slices = []
    while single.keeper.has_slices:
        slices.append(single.keeper.take(single.member.journal.durable))
        assert slices[-1] is not None
        single.file.checkpoint(slices[-1])
    found = [[len(value) for value in each.changes.rows.values] for each in slices if each]
    # Keys have two bytes. What was put in order ends after the seventh.
    assert found == [[48, 48], [49], [49], [101], [48, 3], [3, 3, 3, 3, 3], [96], [3]]
    assert [each.is_last for each in slices if each] == [False] * 7 + [True]


def test_a_checkpoint_begins_after_so_many_bytes(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(single, {24: of_size(100)})
    entry = single.machine.traffic
    single.follow_all()
    monkeypatch.setattr(lazy, "CHECKPOINT_SIZE", 2 * entry)
    for _ in range(2):
        put(single, {24: of_size(99)})
        single.keeper.tick(single.member, 0)
        assert not single.keeper.has_slices
        put(single, {24: of_size(101)})
        single.keeper.tick(single.member, 0)
        assert single.keeper.has_slices
        single.follow()
        assert not single.keeper.has_slices


def test_entries_wait_for_rows_after_so_many_bytes(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(single, {24: of_size(100)})
    monkeypatch.setattr(lazy, "BEHIND_SIZE", single.machine.traffic)
    single.follow_all()
    put(single, {24 + number: of_size(100) for number in range(4 * SLICE)})
    assert not single.keeper.is_behind, "no checkpoint is under way"
    for _ in range(lazy.CHECKPOINT_TICKS):
        single.keeper.tick(single.member, 0)
    assert not single.keeper.is_behind, "what came before it is in its slices"
    put(single, {24: of_size(100)})
    assert not single.keeper.is_behind
    put(single, {24: of_size(3)})
    assert single.keeper.is_behind
    while single.keeper.has_slices:
        assert single.keeper.is_behind
        single.follow()
    assert not single.keeper.is_behind
