"""What SQLite alone can do: the floors of what stores and logs write to disk.

One table, WAL, FULL, many rows in a transaction, and nothing beside it: no mesh, no revisions, no
checksums, no receipts.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.role import Task
from benchmarks.workload import payloads

BATCH_COUNT: Final = 256
"""Rows in a transaction: as many as one action of a store holds."""

KEYS: Final = 100_000
"""Different keys: the size of a store after a long run of puts."""


def upsert_rows(task: Task) -> None:
    """Write values of keys, as stores do."""
    values = payloads(task.size)
    _write(
        task,
        table="(key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID",
        row=lambda number: (f"key{number % KEYS}".encode(), values[number % len(values)]),
        expected=min(task.count, KEYS),
    )


def append_rows(task: Task) -> None:
    """Write values one after the other, as logs do."""
    values = payloads(task.size)
    _write(
        task,
        table="(offset INTEGER PRIMARY KEY, value BLOB)",
        row=lambda number: (number, values[number % len(values)]),
        expected=task.count,
    )


def _write(
    task: Task, *, table: str, row: Callable[[int], tuple[object, bytes]], expected: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        connection = sqlite3.connect(Path(directory, "floor.db"), isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"CREATE TABLE floor {table}")
        task.introduce()
        began = time.monotonic_ns()
        for start in range(0, task.count, BATCH_COUNT):
            rows = [row(number) for number in range(start, min(start + BATCH_COUNT, task.count))]
            connection.execute("BEGIN")
            connection.executemany("INSERT OR REPLACE INTO floor VALUES (?, ?)", rows)
            connection.execute("COMMIT")
        ended = time.monotonic_ns()
        (count,) = connection.execute("SELECT count(*) FROM floor").fetchone()
        connection.close()
        assert count == expected
        task.report(began_ns=began, ended_ns=ended, taken=task.count)
        task.dismissed()
