"""A file has one owner: a second one is refused, and takes nothing from the first."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from stores.log.changes import LogChanges
from stores.log.runs import Run
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
    with pytest.raises(BackendFailure, match="one replica at a time"):
        make_store(path).open()
    assert another_process_finds(path) == "SQLITE_BUSY"
    first.close()
    assert another_process_finds(path) == "READ"


def test_a_second_keeper_of_a_process_takes_no_lock_off_the_first(make_log, tmp_path):
    path = tmp_path / "log.db"
    first = make_log(path)
    first.load_keeper(1, 1)
    with pytest.raises(BackendFailure, match="one keeper or follower at a time"):
        make_log(path).load_keeper(1, 1)
    assert another_process_finds(path) == "SQLITE_BUSY"
    first.close()
    assert another_process_finds(path) == "READ"


def test_a_file_that_was_refused_is_locked_no_longer(make_log, tmp_path):
    path = tmp_path / "log.db"
    first = make_log(path)
    first.load_keeper(1, 1)
    runs = [Run(0, number, 1, 5, b"x") for number in range(1_000)]
    first.commit(LogChanges(runs=runs))
    first.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET timestamp = 6 WHERE id = 1")
    connection.close()
    with pytest.raises(BackendFailure, match="damaged") as refused:
        make_log(path).load_keeper(1, 1)
    assert refused.tb is not None, "which may hold what it met"
    assert another_process_finds(path) == "READ"
