"""A log replica's file: each run once, a journal that refers to it, snapshots of the rest."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stores.disk.lazy_rows import Checkpoint
from stores.disk.log import SQLiteLogBackend
from stores.group.clock import Times
from stores.group.effects import Persist, Snapshot
from stores.group.entries import ActionEntry, Entry, LeadEntry
from stores.group.positions import START, Position
from stores.log.bodies import Begun, Performed
from stores.log.machine import LogMachine
from stores.log.messages import Trimmed
from stores.log.parts import RunsPart
from stores.log.runs import Run
from stores.outcomes import Applied, Outcome
from stores.sealing import StorageKeys
from stores.table.bodies import Registered
from tests.stores.disk.log_replicas import (
    LogReplica,
    LogReplicaKind,
    LogReplicaModel,
    apply_all,
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
        backend.checkpoint(point(6, 0), machine.beside_runs())
    assert len(rows(path, "SELECT id FROM runs")) == 4
    with closing(LogReplica(path)) as backend:
        loaded = backend.load()
        assert loaded.entries == [BEGUN, *map(performed, range(4)), trim]
        again = LogMachine()
        again.install(loaded.parts)
        assert again.digest() == machine.digest()
        backend.checkpoint(point(6, 3), machine.beside_runs())
    assert rows(path, "SELECT entry FROM runs") == [(4,), (5,)]


def test_a_checkpoint_writes_what_changed_alone(path: Path) -> None:
    with closing(LogReplica(path)) as backend:
        machine = filled(backend, 2)
        backend.checkpoint(point(3, 0), machine.beside_runs())
    before = dict(rows(path, "SELECT number, body FROM books"))
    with closing(LogReplica(path)) as backend:
        backend.load()
        move = performed(2, moved=(("c", ((0, 1),)),))
        backend.persist(Persist(1, None, 3, (move,)))
        apply_all(machine, [move], 3)
        backend.checkpoint(point(4, 0), machine.beside_runs())
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


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE runs SET entry = 4 WHERE id = 1", "table runs: partition 0, offset 1"),
        ("UPDATE runs SET elapsed = 4 WHERE id = 1", "table runs: partition 0, offset 1"),
        ("UPDATE runs SET term = -1 WHERE id = 1", "table runs"),
        ("DELETE FROM runs WHERE id = 1", "one of entry 3 is missing"),
        ("INSERT INTO runs SELECT 9, 1, 1, 1, 9, 1, 1, body FROM runs LIMIT 1", "of no entry"),
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


def test_the_file_of_another_log_is_refused(path: Path) -> None:
    with closing(LogReplica(path, name="trips")) as backend:
        backend.load()
    other = LogReplica(path, name="orders")
    with closing(other), pytest.raises(BackendFailure, match="belongs to trips, not to orders"):
        other.load()


def test_a_file_of_todays_log_is_refused_and_left_alone(path: Path) -> None:
    with closing(SQLiteLogBackend(path)) as old:
        old.load_keeper(1, 1)
    before = path.read_bytes()
    with closing(LogReplica(path)) as backend, pytest.raises(BackendFailure, match=r"log\.db"):
        backend.load()
    assert path.read_bytes() == before
