"""A log replica's file: each run once, a journal that refers to it, snapshots of the rest."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stores.disk.lazy_rows import Books, Checkpoint
from stores.group.clock import Times
from stores.group.effects import Persist, Snapshot, StageParts
from stores.group.entries import ActionEntry, Entry, LeadEntry
from stores.group.positions import START, Position
from stores.log.bodies import Begun, Performed, Produced
from stores.log.codec import LogCodec
from stores.log.kept_runs import KeptRun, RunPlace
from stores.log.machine import LogMachine
from stores.log.messages import Trimmed
from stores.log.parts import HeadPart, PlacedPart, ProducersPart, RunsPart
from stores.log.producers import ProducerRow
from stores.log.runs import Run
from stores.outcomes import Applied, Outcome
from stores.sealing import StorageKeys
from stores.table.bodies import Registered
from tests.stores.disk.log_replicas import (
    LogReplica,
    LogReplicaKind,
    LogReplicaModel,
    apply_all,
    contents,
)
from tests.stores.disk.replicas import GROUP, VOTERS, WRITER
from wire.encoding import encode
from wire.errors import BackendFailure

STEPS = 60


@pytest.fixture(params=["plain", "sealed"])
def kind(request: pytest.FixtureRequest, keys: StorageKeys) -> LogReplicaKind:
    return LogReplicaKind(keys if request.param == "sealed" else None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_done_to_a_file_all_of_it_comes_back(
    kind: LogReplicaKind, path: Path, seed: int
) -> None:
    backend = kind.make(path)
    kind.load(backend)
    for number, (step, state) in enumerate(LogReplicaModel(Random(seed)).steps(STEPS)):
        backend.commit(step)
        if number % 3 == 0:
            backend.close()
            backend = kind.make(path)
            assert kind.load(backend) == state, number
    backend.close()


# -- by itself -------------------------------------------------------------------------------------


def value_of(number: int) -> bytes:
    return encode(b"entry %d " % number * 9)


def performed(number: int, partition: int = 0, **fields: Any) -> ActionEntry:
    """Give the entry of an append with this offset, the only one of its request."""
    body = encode((None, value_of(number)))
    run = Run(partition, number, 1, 10**18 + number, body)
    outcome = Outcome(number + 1, number + 1, Applied(number))
    return ActionEntry(1, Performed(WRITER, number, (outcome,), (run,), number, **fields))


BEGUN = ActionEntry(1, Begun(1, Registered(WRITER, 0, None)))


def filled(backend: LogReplica, count: int) -> LogMachine:
    """Write so many appends, and give the machine that has applied them."""
    backend.load()
    entries: list[Entry] = [BEGUN, *map(performed, range(count))]
    backend.join(GROUP)
    backend.persist(Persist(1, None, 0, tuple(entries)))
    machine = LogMachine()
    apply_all(machine, entries, 0)
    return machine


def point(index: int, floor: int) -> Checkpoint:
    at = Position(1, floor) if floor else START
    return Checkpoint(Position(1, index), Times(index, index), at, VOTERS)


def books(checkpoint: Checkpoint, machine: LogMachine) -> Books:
    starts = machine.partitions.starts()
    return Books(checkpoint, machine.beside_rows(), starts, machine.take_producers())


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def test_a_run_is_stored_once_with_the_entry_that_it_came_with(path: Path) -> None:
    with closing(LogReplica(path)) as backend:
        filled(backend, 3)
    assert rows(path, "SELECT id, term, entry, elapsed FROM runs") == [
        (0, 1, 2, 0),
        (1, 1, 3, 1),
        (2, 1, 4, 2),
    ]
    (journal,) = rows(path, "SELECT body FROM journal")
    assert value_of(1) not in journal[0]
    assert path.read_bytes().count(value_of(1)) == 1


def test_a_run_stays_while_the_journal_refers_to_it(path: Path) -> None:
    with closing(LogReplica(path)) as backend:
        machine = filled(backend, 4)
        trim = ActionEntry(1, Trimmed(((0, 3),)))
        backend.persist(Persist(1, None, 5, (trim,)))
        apply_all(machine, [trim], 5)
        backend.checkpoint(books(point(6, 0), machine))
    assert len(rows(path, "SELECT id FROM runs")) == 4
    with closing(LogReplica(path)) as backend:
        loaded = backend.load()
        assert loaded.entries == [BEGUN, *map(performed, range(4)), trim]
        again = LogMachine()
        again.install(loaded.parts)
        assert again.digest() == machine.digest()
        backend.checkpoint(books(point(6, 3), machine))
    assert rows(path, "SELECT entry FROM runs") == [(4,), (5,)]


def test_a_checkpoint_writes_what_changed_alone(path: Path) -> None:
    with closing(LogReplica(path)) as backend:
        machine = filled(backend, 2)
        backend.checkpoint(books(point(3, 0), machine))
    before = dict(rows(path, "SELECT number, body FROM books"))
    with closing(LogReplica(path)) as backend:
        backend.load()
        move = performed(2, moved=(("c", ((0, 1),)),))
        backend.persist(Persist(1, None, 3, (move,)))
        apply_all(machine, [move], 3)
        backend.checkpoint(books(point(4, 0), machine))
    after = dict(rows(path, "SELECT number, body FROM books"))
    assert set(before) == {1, 2}
    assert set(after) == {1, 2, 3}
    assert before[1] != after[1]


def test_a_snapshot_brings_the_runs_that_the_file_lacks(path: Path) -> None:
    with closing(LogReplica(path)) as backend:
        machine = filled(backend, 3)
        lost = performed(3)
        backend.persist(Persist(1, None, 4, (lost,)))
        more = [performed(number) for number in (3, 4)]
        apply_all(machine, more, 4)
        parts = list(machine.freeze(4))
        assert sum(len(part.runs) for part in parts if isinstance(part, RunsPart)) == 2
        at = Position(1, 6)
        backend.persist(Persist(1, Snapshot(at, VOTERS, Times(6, 6), tuple(parts), 4), 6, ()))
    with closing(LogReplica(path)) as backend:
        loaded = backend.load()
        again = LogMachine()
        again.install(loaded.parts)
        assert again.digest() == machine.digest()
        assert loaded.entries == []
        assert loaded.meta.floor == at


def test_entries_that_are_cut_are_kept_in_a_file_if_that_may_lose_what_was_acknowledged(
    kind: LogReplicaKind, path: Path
) -> None:
    with closing(kind.make(path)) as backend:
        filled(backend, 3)
        backend.persist(Persist(1, None, 3, (LeadEntry(9, Times(1, 1)),)), forced_after=1)
    (kept,) = path.parent.glob("log.db.lost-1")
    with closing(kind.make(kept)) as lost:
        loaded = lost.load()
        assert loaded.entries == [performed(2)]
        assert loaded.meta.floor == Position(1, 3)
    with closing(kind.make(path)) as backend:
        assert backend.load().entries[-1] == LeadEntry(9, Times(1, 1))


def test_what_a_snapshot_replaces_is_kept_in_a_file_if_that_may_lose_what_was_acknowledged(
    kind: LogReplicaKind, path: Path
) -> None:
    with closing(kind.make(path)) as backend:
        filled(backend, 3)
        snapshot = Snapshot(Position(9, 9), VOTERS, Times(9, 9), (HeadPart(Position(9, 9)),), 3)
        backend.persist(Persist(1, snapshot, 9, ()), forced_after=1)
    (kept,) = path.parent.glob("log.db.lost-1")
    with closing(kind.make(kept)) as lost:
        loaded = lost.load()
        assert loaded.entries == [performed(2)]
        assert loaded.meta.floor == Position(1, 3)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE runs SET entry = 4 WHERE id = 1", "table runs: partition 0, offset 1"),
        ("UPDATE runs SET elapsed = 4 WHERE id = 1", "table runs: partition 0, offset 1"),
        ("UPDATE runs SET term = -1 WHERE id = 1", "table runs"),
        ("DELETE FROM runs WHERE id = 1", "one of entry 3 is missing"),
        ("INSERT INTO runs SELECT 9, 1, 1, 1, 9, 1, 1, body FROM runs LIMIT 1", "its head is"),
    ],
)
def test_a_run_that_is_not_what_its_entry_brought_is_noticed(
    path: Path, statement: str, told: str
) -> None:
    with closing(LogReplica(path)) as backend:
        filled(backend, 3)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    with closing(LogReplica(path)) as backend, pytest.raises(BackendFailure, match=told):
        backend.load()


def put_row(path: Path, row: tuple[Any, ...]) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def test_a_run_of_no_entry_is_noticed(path: Path) -> None:
    with closing(LogReplica(path)) as backend:
        filled(backend, 2)
    (row,) = rows(path, "SELECT * FROM runs WHERE id = 1")
    with closing(LogReplica(path)) as backend:
        backend.load()
        backend.persist(Persist(1, None, 2, ()))
    put_row(path, row)
    with closing(LogReplica(path)) as backend, pytest.raises(BackendFailure, match="of no entry"):
        backend.load()


def test_a_run_of_an_entry_that_was_cut_off_is_noticed(path: Path) -> None:
    with closing(LogReplica(path)) as backend:
        filled(backend, 2)
    (row,) = rows(path, "SELECT * FROM runs WHERE id = 1")
    with closing(LogReplica(path)) as backend:
        backend.load()
        later = ActionEntry(2, performed(1).body)
        backend.persist(Persist(1, None, 2, (later,)))
    assert rows(path, "SELECT term, entry FROM runs WHERE id = 1") == [(2, 3)]
    put_row(path, row)
    with closing(LogReplica(path)) as backend, pytest.raises(BackendFailure, match="another entry"):
        backend.load()


def test_a_run_of_another_groups_file_is_noticed(tmp_path: Path) -> None:
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    with closing(LogReplica(first)) as backend:
        filled(backend, 1)
    with closing(LogReplica(second)) as backend:
        backend.load()
        backend.join(bytes(16))
        backend.persist(Persist(1, None, 0, (BEGUN, performed(0))))
    (row,) = rows(first, "SELECT * FROM runs")
    put_row(second, row)
    with closing(LogReplica(second)) as backend, pytest.raises(BackendFailure, match="table runs"):
        backend.load()


def places(backend: LogReplica, machine: LogMachine) -> list[RunPlace]:
    return [run.place for run in machine.gather([(0, 0)], 1 << 60)]


def test_loading_reads_no_entries_and_damage_in_them_is_noticed_when_they_are_read(
    kind: LogReplicaKind, path: Path
) -> None:
    with closing(kind.make(path)) as backend:
        machine = filled(backend, 3)
        backend.checkpoint(books(point(4, 4), machine))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET body = zeroblob(length(body)) WHERE id = 1")
    with closing(kind.make(path)) as backend:
        again = LogMachine()
        again.install(backend.load().parts)
        runs = again.gather([(0, 0)], 1 << 60)
        assert all(isinstance(run, RunPlace) for run in runs)
        assert places(backend, again) == places(backend, machine)
        assert [run.entries() for run in backend.read(places(backend, again)[::2])] == [
            (None, value_of(0)),
            (None, value_of(2)),
        ]
        assert len(backend.read(places(backend, again))) == 1, "what is before it can be read"
        with pytest.raises(BackendFailure, match="table runs: partition 0, offset 1"):
            backend.read(places(backend, again)[1:])
    with (
        closing(kind.make(path, is_integrity_checked=True)) as backend,
        pytest.raises(BackendFailure, match="table runs: partition 0, offset 1"),
    ):
        backend.load()


@pytest.mark.parametrize("column", ["timestamp", "elapsed"])
def test_a_head_that_was_altered_is_noticed_when_it_is_loaded(path: Path, column: str) -> None:
    with closing(LogReplica(path)) as backend:
        backend.checkpoint(books(point(4, 4), filled(backend, 3)))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE runs SET {column} = {column} + 1 WHERE id = 2")
    with closing(LogReplica(path)) as backend, pytest.raises(BackendFailure, match="its head is"):
        backend.load()


def test_a_run_that_is_not_the_one_that_is_asked_for_is_noticed(path: Path) -> None:
    with closing(LogReplica(path)) as backend:
        machine = filled(backend, 2)
        wrong = replace(places(backend, machine)[1], position=Position(2, 3))
        with pytest.raises(BackendFailure, match=r"partition 0, offset 1: it is another one"):
            backend.read([wrong])


def producing(number: int, producer: str) -> ActionEntry:
    return performed(number, produced=(Produced(producer, number, 0, number),))


def stored(backend: LogReplica) -> dict[int, bytes]:
    query = "SELECT number, body FROM books"
    return dict(backend.file.connection.execute(query).fetchall())


def test_a_checkpoint_writes_the_producers_that_changed_and_no_other(
    kind: LogReplicaKind, path: Path
) -> None:
    with closing(kind.make(path)) as backend:
        machine = filled(backend, 0)
        machine.use_file()
        names = [f"p{number}" for number in range(600)]
        entries = [producing(number, name) for number, name in enumerate(names)]
        backend.persist(Persist(1, None, 1, tuple(entries)))
        apply_all(machine, [*entries], 1)
        backend.checkpoint(books(point(601, 601), machine))
        before = stored(backend)
        later = [producing(600, "p7"), producing(601, "p3"), producing(602, "new")]
        backend.persist(Persist(1, None, 601, tuple(later)))
        apply_all(machine, [*later], 601)
        backend.checkpoint(books(point(604, 604), machine))
        after = stored(backend)
        assert len(before.keys() - after.keys()) == 2
        assert len(after.keys() - before.keys()) == 3
        assert sum(before[each] == after[each] for each in before.keys() & after.keys()) >= 598
        known = list(machine._producers.rows())
    with closing(kind.make(path)) as backend:
        again = LogMachine()
        again.install(backend.load().parts)
        assert list(again._producers.rows()) == known
        assert [row.name for row in known][-3:] == ["p7", "p3", "new"]
        assert stored(backend) == after


def test_a_file_in_which_producers_had_records_in_common_is_read(
    kind: LogReplicaKind, path: Path
) -> None:
    rows = [ProducerRow(f"p{number}", (), number + 1) for number in range(3)]
    rows += [ProducerRow(f"q{number}", ((number, 0, number),), number) for number in range(3)]
    with closing(kind.make(path)) as backend:
        machine = filled(backend, 3)
        backend.checkpoint(books(point(4, 0), machine))
        with backend._committing() as connection:
            earlier = [ProducersPart(tuple(rows[:4])), ProducersPart(tuple(rows[4:]))]
            bodies = enumerate(map(LogCodec().encode_part, earlier), 5)
            backend._books.put(connection, [(b"%08d" % at, body) for at, body in bodies])
    for _ in range(2):
        with closing(kind.make(path)) as backend:
            again = LogMachine()
            again.install(backend.load().parts)
            assert list(again._producers.rows()) == rows
            assert len(backend._books.names(b"0")) == 2, "the head, and writers"
            assert len(backend._books.names(b"p")) == 6


def test_a_state_that_is_installed_has_its_own_producers_alone(
    kind: LogReplicaKind, path: Path
) -> None:
    rows = [ProducerRow(name, ((1, 0, 0),), 1) for name in ("b", "a")]
    with closing(kind.make(path)) as backend:
        machine = filled(backend, 0)
        machine.use_file()
        entries = (producing(0, "gone"), producing(1, "a"))
        backend.persist(Persist(1, None, 1, entries))
        apply_all(machine, [*entries], 1)
        backend.checkpoint(books(point(3, 0), machine))
        mine = [part for part in machine.freeze(3) if not isinstance(part, ProducersPart)]
        snapshot = Snapshot(
            Position(1, 3), VOTERS, Times(3, 3), (*mine, ProducersPart(tuple(rows))), 3
        )
        backend.persist(Persist(2, snapshot, 3, ()))
    with closing(kind.make(path)) as backend:
        again = LogMachine()
        again.install(backend.load().parts)
        assert list(again._producers.rows()) == rows


def test_runs_that_were_let_go_are_left_out_of_what_is_read(path: Path) -> None:
    with closing(LogReplica(path)) as backend:
        machine = filled(backend, 4)
        wanted = places(backend, machine)
        trim = ActionEntry(1, Trimmed(((0, 3),)))
        backend.persist(Persist(1, None, 5, (trim,)))
        apply_all(machine, [trim], 5)
        kept = Books(point(6, 6), machine.beside_rows(), (2,))
        backend.checkpoint(kept)
        assert [run.first_offset for run in backend.read(wanted)] == [2, 3]
        backend.checkpoint(books(point(6, 6), machine))
        assert [run.first_offset for run in backend.read(wanted)] == [3]


def staged(backend: LogReplica, *runs: KeptRun, is_first: bool = True) -> None:
    backend.stage(StageParts(1, is_first, (RunsPart(runs),)))


@pytest.mark.parametrize("before", [0, 1, 4])
def test_what_arrived_of_a_snapshot_counts_with_the_snapshot_and_not_before(
    kind: LogReplicaKind, path: Path, before: int
) -> None:
    machine = LogMachine()
    apply_all(machine, [BEGUN, *map(performed, range(6))], 0)
    runs = [run for run in machine.gather([(0, before)], 1 << 60) if isinstance(run, KeptRun)]
    with closing(kind.make(path)) as backend:
        begun = filled(backend, before)
        staged(backend, *runs[:2])
    with closing(kind.make(path)) as backend:
        again = LogMachine()
        loaded = backend.load()
        query = "SELECT name FROM sqlite_schema WHERE name = 'arriving'"
        assert not backend.file.connection.execute(query).fetchall(), "it makes room at once"
        again.install(loaded.parts)
        apply_all(again, loaded.entries, 0)
        assert contents(again, backend) == contents(begun)
        assert backend.read([run.place for run in runs]) == []
        staged(backend, *runs[1:])
        staged(backend, *runs[:1])
        staged(backend, *runs[1:], is_first=False)
        parts = [*machine.beside_rows(), PlacedPart([run.place for run in runs])]
        at = Position(1, 7)
        snapshot = Snapshot(at, VOTERS, Times(7, 7), tuple(parts), before + 1)
        backend.persist(Persist(1, snapshot, 7, ()))
        assert backend.read([run.place for run in runs]) == runs
    with closing(kind.make(path)) as backend:
        again = LogMachine()
        again.install(backend.load().parts)
        assert contents(again, backend) == contents(machine)


def test_a_snapshot_of_which_not_all_has_arrived_is_refused(path: Path) -> None:
    machine = LogMachine()
    apply_all(machine, [BEGUN, *map(performed, range(6))], 0)
    runs = [run for run in machine.gather([(0, 0)], 1 << 60) if isinstance(run, KeptRun)]
    with closing(LogReplica(path)) as backend:
        filled(backend, 0)
        staged(backend, *runs[:5])
        parts = [*machine.beside_rows(), PlacedPart([run.place for run in runs])]
        snapshot = Snapshot(Position(1, 7), VOTERS, Times(7, 7), tuple(parts), 1)
        with pytest.raises(BackendFailure, match="table arriving: 5 of 6 runs"):
            backend.persist(Persist(1, snapshot, 7, ()))


def test_the_file_of_another_log_is_refused(path: Path) -> None:
    with closing(LogReplica(path, name="trips")) as backend:
        backend.load()
    other = LogReplica(path, name="orders")
    with closing(other), pytest.raises(BackendFailure, match="belongs to trips, not to orders"):
        other.load()


def test_one_thread_reads_while_another_commits(kind: LogReplicaKind, path: Path) -> None:
    with closing(kind.make(path)) as backend:
        machine = filled(backend, 20)
        wanted, found = places(backend, machine), list[int]()

        def read() -> None:
            for _ in range(50):
                found.append(len(backend.read(wanted)))

        reader = threading.Thread(target=read)
        reader.start()
        for number in range(20, 60):
            backend.persist(Persist(1, None, number + 1, (performed(number),)))
        reader.join()
        assert found == [20] * 50


def test_after_it_was_closed_it_says_so(kind: LogReplicaKind, path: Path) -> None:
    backend = kind.make(path)
    machine = filled(backend, 1)
    backend.close()
    with pytest.raises(BackendFailure, match="is closed"):
        backend.read(places(backend, machine))
    with pytest.raises(BackendFailure, match="is closed"):
        backend.persist(Persist(1, None, 2, (performed(1),)))


def test_an_empty_path_is_refused() -> None:
    with pytest.raises(BackendFailure, match="needs the option path"):
        LogReplica("")
