"""A file has one owner: a second one is refused, and takes nothing from the first."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from stores.disk.placed_runs import PlacedRuns
from stores.disk.rows import RowDamaged
from tests.stores.disk.log_replicas import LogReplicaKind
from wire.errors import BackendFailure

ASK = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0).execute("SELECT * FROM sqlite_schema").fetchall()
except sqlite3.OperationalError as error:
    print(error.sqlite_errorname)
else:
    print("READ")
"""
"""The program of another process. The owner keeps even readers out."""


def another_process_finds(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK, path], capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


def test_a_second_replica_of_a_process_takes_no_lock_off_the_first(make_store, tmp_path):
    path = tmp_path / "store.db"
    first = make_store(path)
    first.open()
    assert another_process_finds(path) == "SQLITE_BUSY"
    with pytest.raises(BackendFailure, match=r"\(this process has it.*one replica at a time"):
        make_store(path).open()
    assert another_process_finds(path) == "SQLITE_BUSY"
    first.close()
    assert another_process_finds(path) == "READ"


@pytest.fixture(params=["plain", "sealed"])
def logs(request, keys):
    return LogReplicaKind(keys if request.param == "sealed" else None)


def test_a_second_replica_of_a_log_takes_no_lock_off_the_first(logs, tmp_path):
    path = tmp_path / "log.db"
    first = logs.make(path)
    first.load()
    with pytest.raises(BackendFailure, match="one replica at a time"):
        logs.make(path).load()
    assert another_process_finds(path) == "SQLITE_BUSY"
    first.close()
    assert another_process_finds(path) == "READ"


def test_a_file_that_was_refused_is_locked_no_longer(logs, tmp_path, monkeypatch):
    path = tmp_path / "log.db"
    first = logs.make(path)
    first.load()
    for step, _ in logs.commits(40):
        first.commit(step)
    first.close()

    def meet_damage(_, connection):
        rows = connection.execute("SELECT id FROM runs")
        raise RowDamaged(f"run {next(rows)} is damaged")

    monkeypatch.setattr(PlacedRuns, "places", meet_damage)
    with pytest.raises(BackendFailure, match="damaged") as refused:
        logs.make(path).load()
    assert refused.tb is not None, "which may hold what it met"
    assert another_process_finds(path) == "READ"


def test_a_file_whose_owner_closes_it_meanwhile_is_not_damaged(logs, tmp_path):
    path = tmp_path / "log.db"
    first, second = logs.make(path), logs.make(path)
    first.load()
    for step, _ in logs.commits(5):
        first.commit(step)
    connect = second.file.connect
    os.link(f"{path}-wal", tmp_path / "backup")  # So has a file system that keeps what is open.

    def late() -> sqlite3.Connection:
        first.close()
        return connect()

    second.file.connect = late
    assert second.load().entries
    second.close()


def test_a_log_that_cannot_be_read_is_explained(logs, tmp_path):
    path = tmp_path / "log.db"
    path.touch()
    Path(f"{path}-wal").mkdir()
    with pytest.raises(BackendFailure, match="-wal cannot be read: Is a directory"):
        logs.make(path).load()
