"""Logs: acknowledged appends from another process, and reads at the keeper and from elsewhere."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import peermesh
from benchmarks.harness import (
    START_SECONDS,
    Benchmark,
    Goal,
    Variant,
    alone,
    rate,
    rate_of_last,
)
from benchmarks.role import Task
from benchmarks.workload import VOTERS, Disorder, payloads
from peermesh import Backend, EndpointId, Log, ReplicaLog

NAME: Final = "benchmark"
BATCH_COUNT: Final = 256
"""Entries of a batch, and rows in one transaction of the floor."""

READ_COUNT: Final = 4_096
"""Entries that a reader takes at most at a time."""


async def keeper(task: Task) -> None:
    """Keep the log, in memory or in a file, with as many entries as the options say."""
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        options: dict[str, Any] = {}
        backend = Backend[task.options.get("backend", "Memory")]
        if backend is Backend.SQLite:
            options["path"] = Path(directory, "log.db")
        async with (
            peermesh.Endpoint() as endpoint,
            endpoint.attach_log(NAME, backend=backend, **options) as log,
        ):
            if task.options.get("is_filled"):
                await _fill(log, task)
            task.introduce(port=await endpoint.listen(), node_id=str(endpoint.node_id()))
            task.report()
            await task.dismissed_async()


async def _fill(log: Log, task: Task) -> None:
    values = payloads(task.size)
    for start in range(0, task.count, BATCH_COUNT):
        numbers = range(start, min(start + BATCH_COUNT, task.count))
        await log.append_batch([values[number % len(values)] for number in numbers])
    assert await log.await_idle()


async def _peer(endpoint: peermesh.Endpoint, task: Task) -> None:
    assert await endpoint.peer("127.0.0.1", task.last_met["port"])
    assert await endpoint.await_peer(EndpointId.parse(task.last_met["node_id"]))


async def append(task: Task) -> None:
    """Append one after the other, until the keeper has acknowledged all of them."""
    values = payloads(task.size)
    async with peermesh.Endpoint() as endpoint, endpoint.attach_log_proxy(NAME) as log:
        await _peer(endpoint, task)
        await log.partition_count()
        task.introduce()
        began = time.monotonic_ns()
        for number in range(task.count):
            receipt = await log.append(values[number % len(values)])
        last = await receipt.applied()
        ended = time.monotonic_ns()
        if last.offset != task.count - 1:
            raise Disorder(task.count - 1, last)
        task.report(began_ns=began, ended_ns=ended, taken=task.count)
        await task.dismissed_async()


async def append_at_group(task: Task) -> None:
    """Append one after the other at a replica, until a majority has all of them on the disk."""
    values = payloads(task.size)
    async with _replica(task, VOTERS[0]) as (_, log):
        await log.await_leader(START_SECONDS)
        assert (await (await log.append(values[0])).applied()).offset == 0
        task.introduce()
        began = time.monotonic_ns()
        for number in range(1, task.count + 1):
            receipt = await log.append(values[number % len(values)])
        last = await receipt.applied()
        ended = time.monotonic_ns()
        if last.offset != task.count:
            raise Disorder(task.count, last)
        task.report(began_ns=began, ended_ns=ended, taken=task.count)
        await task.dismissed_async()


async def vote(task: Task) -> None:
    """Vote, and do nothing else."""
    async with _replica(task, VOTERS[1 + len(task.met)]) as (endpoint, _):
        task.introduce(port=await endpoint.listen())
        task.report()
        await task.dismissed_async()


@asynccontextmanager
async def _replica(task: Task, name: str) -> AsyncIterator[tuple[peermesh.Endpoint, ReplicaLog]]:
    voters = tuple(task.options["voters"])
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        path = Path(directory, "log.db")
        async with (
            peermesh.Endpoint(name=name) as endpoint,
            endpoint.attach_log_replica(
                NAME, voters=voters, backend=Backend.SQLite, path=path
            ) as log,
        ):
            for met in task.met:
                assert await endpoint.peer("127.0.0.1", met["port"])
            yield endpoint, log


async def append_batches(task: Task) -> None:
    """Append the same in batches."""
    async with peermesh.Endpoint() as endpoint, endpoint.attach_log_proxy(NAME) as log:
        await _peer(endpoint, task)
        await log.partition_count()
        task.introduce()
        began = time.monotonic_ns()
        await _fill(log, task)
        ended = time.monotonic_ns()
        assert (await log.offsets())[0].end == task.count
        task.report(began_ns=began, ended_ns=ended, taken=task.count)
        await task.dismissed_async()


async def _read_all(log: Log, task: Task) -> None:
    """Read everything, in order, and tell how long that took."""
    values, offset = payloads(task.size), 0
    began = time.monotonic_ns()
    while offset < task.count:
        entries = await log.read(0, offset, READ_COUNT)
        if not entries or entries[0].value != values[offset % len(values)]:
            raise Disorder(offset, entries[:1])
        offset = entries[-1].offset + 1
    task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=task.count)


async def read_remote(task: Task) -> None:
    """Read everything from another process, without a copy."""
    async with peermesh.Endpoint() as endpoint, endpoint.attach_log_proxy(NAME) as log:
        await _peer(endpoint, task)
        await log.partition_count()
        task.introduce()
        await _read_all(log, task)
        await task.dismissed_async()


async def read_local(task: Task) -> None:
    """Read everything at the keeper itself."""
    async with peermesh.Endpoint() as endpoint, endpoint.attach_log(NAME) as log:
        await _fill(log, task)
        task.introduce()
        await _read_all(log, task)
        await task.dismissed_async()


KEEPER: Final = "benchmarks.log:keeper"
APPEND: Final = (KEEPER, "benchmarks.log:append")
BATCHES: Final = (KEEPER, "benchmarks.log:append_batches")
ROWS: Final = ("benchmarks.sqlite_floors:append_rows",)
SQLITE: Final = {"backend": "SQLite"}
FILLED: Final = {"is_filled": True}
GROUP: Final = "benchmarks.log:append_at_group"
VOTE: Final = "benchmarks.log:vote"
ALONE: Final = {"voters": VOTERS[:1]}
TRIO: Final = {"voters": VOTERS}

BENCHMARK: Final = Benchmark(
    "log",
    "A keeper in one process and a proxy in another, entries of 100 bytes in one partition; groups"
    " append at their leader, on disk",
    (
        Variant("append, memory", APPEND, rate, "appends/s", 200_000, 100),
        Variant("append, SQLite", APPEND, rate, "appends/s", 200_000, 100, SQLITE),
        Variant("append, group of one", (GROUP,), rate_of_last, "appends/s", 200_000, 100, ALONE),
        Variant("append, trio", (VOTE, VOTE, GROUP), rate_of_last, "appends/s", 200_000, 100, TRIO),
        Variant("append batches, SQLite", BATCHES, rate, "entries/s", 300_000, 100, SQLITE),
        Variant("sqlite3 alone", ROWS, alone, "rows/s", 300_000, 100),
        Variant(
            "read by a proxy", (KEEPER, "benchmarks.log:read_remote"), rate, "entries/s",
            300_000, 100, FILLED,
        ),
        Variant(
            "read at the keeper", ("benchmarks.log:read_local",), alone, "entries/s", 300_000, 100
        ),
    ),
    (
        Goal("append, SQLite", "append, memory"),
        Goal("append, trio", "append, group of one", at_least=0.6),
        Goal("append batches, SQLite", "sqlite3 alone"),
        Goal("read by a proxy", "read at the keeper"),
    ),
)  # fmt: skip
