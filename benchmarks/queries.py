"""Stores beyond puts: compare and set, pages in the order of keys, and fifty who watch."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Final

import trio

import peermesh
from benchmarks.harness import Benchmark, Goal, Variant, alone, rate
from benchmarks.role import Task
from benchmarks.store import MASTER, NAME
from benchmarks.workload import payloads
from peermesh import Batch, Bookmark, Commit, EndpointId

PAGE: Final = 1_000
"""Entries in a page, or rows fetched at once."""

WATCHERS: Final = 50
IDLE_SECONDS: Final = 90.0


async def _peer(endpoint: peermesh.Endpoint, task: Task) -> None:
    assert await endpoint.peer("127.0.0.1", task.last_met["port"])
    assert await endpoint.await_peer(EndpointId.parse(task.last_met["node_id"]))


async def compare_and_set(task: Task) -> None:
    """Set keys on the condition that nobody set them before, many under way at once."""
    value = payloads(task.size)[0]
    async with peermesh.Endpoint() as endpoint, endpoint.attach_clone(NAME) as clone:
        await _peer(endpoint, task)
        assert await clone.await_idle()
        task.introduce()
        began = time.monotonic_ns()
        for number in range(task.count):
            receipt = await clone.compare_and_set(f"key{number}", value, None)
        await receipt.applied()
        task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=task.count)
        assert len(await clone.keys()) == task.count
        await task.dismissed_async()


def compare_and_set_sqlite(task: Task) -> None:
    """Insert rows on the condition that they are missing, in memory, with nothing but sqlite3."""
    value = payloads(task.size)[0]
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE store (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
    task.introduce()
    began = time.monotonic_ns()
    for number in range(task.count):
        statement = "INSERT INTO store VALUES (?, ?) ON CONFLICT DO NOTHING"
        connection.execute(statement, (f"key{number}".encode(), value))
    ended = time.monotonic_ns()
    connection.close()
    task.report(began_ns=began, ended_ns=ended, taken=task.count)
    task.dismissed()


async def scan(task: Task) -> None:
    """Go through all entries in the order of keys, page after page, sorting them first."""
    async with peermesh.Endpoint() as endpoint, endpoint.attach_clone(NAME) as clone:
        await _peer(endpoint, task)
        assert await clone.await_idle(timeout=IDLE_SECONDS)
        task.introduce()
        began = time.monotonic_ns()
        count = 0
        async for _ in clone.entries(prefix="key"):
            count += 1
        task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=count)
        assert count == task.count
        await task.dismissed_async()


def scan_sqlite(task: Task) -> None:
    """Select all rows in the order of their keys, page after page, from a file."""
    value = payloads(task.size)[0]
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        connection = sqlite3.connect(Path(directory, "floor.db"), isolation_level=None)
        connection.execute("CREATE TABLE store (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        connection.execute("BEGIN")
        rows = ((f"key{number}".encode(), value) for number in range(task.count))
        connection.executemany("INSERT INTO store VALUES (?, ?)", rows)
        connection.execute("COMMIT")
        task.introduce()
        began = time.monotonic_ns()
        count, last = 0, b""
        while True:
            statement = "SELECT * FROM store WHERE key > ? ORDER BY key LIMIT ?"
            found = connection.execute(statement, (last, PAGE)).fetchall()
            if not found:
                break
            count += len(found)
            last = found[-1][0]
        ended = time.monotonic_ns()
        connection.close()
        assert count == task.count
        task.report(began_ns=began, ended_ns=ended, taken=count)
        task.dismissed()


async def watch(task: Task) -> None:
    """Have fifty watches of one clone told of every put of that clone."""
    value = payloads(task.size)[0]

    async def follow(*, task_status: trio.TaskStatus[None]) -> None:
        with clone.watch() as items:
            assert isinstance(await items.get(), Bookmark)
            task_status.started()
            told = 0
            async for item in items:
                told += isinstance(item, Commit)
                if told == task.count:
                    return

    async with peermesh.Endpoint() as endpoint, endpoint.attach_clone(NAME) as clone:
        await _peer(endpoint, task)
        assert await clone.await_idle()
        async with trio.open_nursery() as nursery:
            for _ in range(WATCHERS):
                await nursery.start(follow)
            task.introduce()
            began = time.monotonic_ns()
            for number in range(task.count):
                await clone.put(f"key{number}", value)
        task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=task.count)
        await task.dismissed_async()


async def batches(task: Task) -> None:
    """Move between two accounts under a guard, a batch each, many under way at once."""
    async with peermesh.Endpoint() as endpoint, endpoint.attach_clone(NAME) as clone:
        await _peer(endpoint, task)
        await (await clone.put("from", task.count)).applied()
        await (await clone.put("to", 0)).applied()
        move = Batch().if_exists("from").decrement("from", 1).increment("to", 1)
        task.introduce()
        began = time.monotonic_ns()
        for _ in range(task.count):
            receipt = await clone.batch(move)
        await receipt.applied()
        task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=task.count)
        assert await clone.get("to") == task.count
        await task.dismissed_async()


CAS: Final = (MASTER, "benchmarks.queries:compare_and_set")
CAS_ALONE: Final = ("benchmarks.queries:compare_and_set_sqlite",)
SCAN: Final = (MASTER, "benchmarks.queries:scan")
SCAN_ALONE: Final = ("benchmarks.queries:scan_sqlite",)
FILLED: Final = {"is_filled": True}

BENCHMARK: Final = Benchmark(
    "queries",
    "A master in one process and a clone in another, in memory, values of 100 bytes",
    (
        Variant("compare and set", CAS, rate, "sets/s", 30_000, 100),
        Variant("insert, sqlite3 alone", CAS_ALONE, alone, "sets/s", 30_000, 100),
        Variant(
            "guarded batch of two",
            (MASTER, "benchmarks.queries:batches"),
            rate,
            "batches/s",
            20_000,
            100,
        ),
        Variant("scan", SCAN, rate, "entries/s", 100_000, 100, FILLED),
        Variant("select, sqlite3 alone", SCAN_ALONE, alone, "entries/s", 100_000, 100),
        Variant(
            "told to 50 watches",
            (MASTER, "benchmarks.queries:watch"),
            rate,
            "commits/s",
            4_000,
            100,
        ),
    ),
    (
        Goal("compare and set", "insert, sqlite3 alone"),
        Goal("scan", "select, sqlite3 alone"),
    ),
)
