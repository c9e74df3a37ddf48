"""Stores of earlier releases become replicas: checked and upgraded, or refused and left alone."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stores.disk.replica import VERSION
from stores.disk.rows import PLAIN
from stores.disk.seals import Vault
from stores.disk.table_rows import table_rows
from stores.disk.table_state import TableState
from stores.epochs import term_of
from stores.group.clock import Times
from stores.group.effects import Persist
from stores.group.entries import TimeEntry
from stores.group.positions import Position
from stores.outcomes import WriterRow
from stores.sealing import StorageKeys
from stores.table import Columns
from tests.stores.disk.files import FOUNDING
from tests.stores.disk.replicas import ReplicaKind
from wire.errors import BackendFailure

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "0.1.0"


@pytest.fixture(params=["plain", "sealed"])
def keys_or_none(request: pytest.FixtureRequest, keys: StorageKeys) -> StorageKeys | None:
    return keys if request.param == "sealed" else None


@pytest.fixture
def kind(keys_or_none: StorageKeys | None) -> ReplicaKind:
    return ReplicaKind(keys_or_none)


@pytest.fixture
def path(tmp_path: Path, keys_or_none: StorageKeys | None) -> Path:
    """Give a store of the first release."""
    path = tmp_path / "store.db"
    name = "store.db" if keys_or_none is None else "store-encrypted.db"
    shutil.copyfile(FIXTURES / name, path)
    path.chmod(0o600)
    return path


@dataclass
class Old:
    """What a master of the first release found."""

    epoch: int
    revision: int
    columns: Columns
    writers: tuple[WriterRow, ...]


def before(path: Path, keys: StorageKeys | None) -> Old:
    """Read a copy of its rows, as they were."""
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    rows = table_rows(PLAIN if keys is None else Vault(copy, keys), None)
    with closing(sqlite3.connect(copy)) as connection:
        rows.enter(connection, str(copy), is_new=False)
        columns, writers = TableState(rows).load(connection)
    return Old(rows.facts["epoch"], rows.facts["revision"], columns, writers)


def ask(path: Path, question: str) -> Any:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchone()


def test_all_goes_along_and_the_group_begins_where_the_store_was(
    path: Path, kind: ReplicaKind
) -> None:
    old = before(path, kind.keys)
    version = ask(path, "PRAGMA user_version")
    with closing(kind.make(path)) as replica:
        loaded = replica.load(FOUNDING)
    at = Position(term_of(old.epoch) + 1, old.revision)
    assert old.revision
    assert (loaded.meta.floor, loaded.meta.applied, loaded.meta.reached) == (at, at, at.index)
    assert loaded.meta.voters == (FOUNDING.member,)
    assert loaded.meta.group == FOUNDING.group
    assert loaded.meta.times == Times(FOUNDING.now_ns, FOUNDING.now_ns)
    assert loaded.entries == []
    assert (loaded.revision, loaded.columns) == (old.revision, old.columns)
    assert list(loaded.writers) == list(old.writers)
    assert ask(path, "PRAGMA user_version") == (VERSION,)
    kept = path.with_name(f"{path.name}.schema{version[0]}")
    assert ask(kept, "PRAGMA user_version") == version
    assert before(kept, kind.keys).columns == old.columns


def test_an_upgraded_store_goes_on_as_a_replica(path: Path, kind: ReplicaKind) -> None:
    with closing(kind.make(path)) as replica:
        begun = replica.load(FOUNDING)
        entries = tuple(TimeEntry(begun.meta.floor.term, Times(each, 1)) for each in range(3))
        replica.persist(Persist(1, None, begun.meta.floor.index, entries))
    with closing(kind.make(path)) as replica:
        again = replica.load(FOUNDING)
    assert again.meta == begun.meta
    assert again.entries == list(entries)


def test_without_room_for_a_copy_the_option_is_asked_for(
    path: Path, kind: ReplicaKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, old = ask(path, "PRAGMA user_version"), before(path, kind.keys)
    path.with_name("copy.db").unlink()
    none = type(shutil.disk_usage("/"))(1, 1, 0)
    with monkeypatch.context() as patch:
        patch.setattr("stores.disk.sqlite.shutil.disk_usage", lambda _: none)
        replica = kind.make(path)
        with closing(replica), pytest.raises(BackendFailure, match="option upgrade=True, which"):
            replica.load(FOUNDING)
        assert ask(path, "PRAGMA user_version") == version
        with closing(kind.make(path, upgrade=True)) as replica:
            assert replica.load(FOUNDING).columns == old.columns
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_damaged_store_is_refused_and_left_as_it_was(path: Path, kind: ReplicaKind) -> None:
    version = ask(path, "PRAGMA user_version")
    table = "store" if kind.keys is None else "entries"
    column = "value" if kind.keys is None else "body"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = zeroblob(length({column}))")
    replica = kind.make(path)
    with closing(replica), pytest.raises(BackendFailure, match=rf"is damaged \(table {table}"):
        replica.load(FOUNDING)
    assert ask(path, "PRAGMA user_version") == version
    assert ask(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'journal'") == (0,)


def test_a_newer_file_is_refused_with_both_numbers(path: Path, kind: ReplicaKind) -> None:
    known = f"{ask(path, 'PRAGMA user_version')[0]} and {VERSION}"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    replica = kind.make(path)
    with (
        closing(replica),
        pytest.raises(
            BackendFailure, match=rf"has the format {VERSION + 1}, and this version reads {known}:"
        ),
    ):
        replica.load(FOUNDING)
