"""Uploads through the WebHDFS gateway, beside SQLite alone writing the same chunks to the disk."""

from __future__ import annotations

import http.client
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import peermesh
from benchmarks.harness import Benchmark, Facts, Figures, Goal, Variant, alone, rate
from benchmarks.role import Task
from benchmarks.workload import payloads
from peermesh.gateways import serve_webhdfs

CHUNK_SIZE: Final = 256 * 1024
CHUNKS: Final = 512
"""128 MiB in all."""

BATCH_COUNT: Final = 8
"""Chunks in a transaction."""

MEGABYTES: Final = CHUNK_SIZE / 1e6


def floor(task: Task) -> None:
    """Write chunks, eight in a transaction, WAL and FULL."""
    values = payloads(task.size)
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        connection = sqlite3.connect(Path(directory, "floor.db"), isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE floor (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        task.introduce()
        began = time.monotonic_ns()
        for start in range(0, task.count, BATCH_COUNT):
            connection.execute("BEGIN")
            for number in range(start, min(start + BATCH_COUNT, task.count)):
                row = (b"%08d" % number, values[number % len(values)])
                connection.execute("INSERT INTO floor VALUES (?, ?)", row)
            connection.execute("COMMIT")
        ended = time.monotonic_ns()
        connection.close()
        task.report(began_ns=began, ended_ns=ended, taken=task.count)
        task.dismissed()


async def gateway(task: Task) -> None:
    """Serve a store, on disk or in memory."""
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        place: dict[str, Any] = {}
        if task.options["disk"]:
            place = {"backend": peermesh.Backend.SQLite, "path": str(Path(directory, "files.db"))}
        async with (
            peermesh.Endpoint() as endpoint,
            await endpoint.attach_master("files", **place) as store,
            serve_webhdfs(store) as served,
        ):
            task.introduce(host=served.host, port=served.port)
            task.report()
            await task.dismissed_async()


def client(task: Task) -> None:
    """Upload one file, as a client does that has been redirected."""
    values = payloads(task.size)

    def body() -> Iterator[bytes]:
        for number in range(task.count):
            yield values[number % len(values)]

    connection = http.client.HTTPConnection(task.last_met["host"], task.last_met["port"])
    task.introduce()
    began = time.monotonic_ns()
    length = {"Content-Length": str(task.count * task.size)}
    connection.request("PUT", "/webhdfs/v1/file?op=CREATE&data=true", body(), length)
    assert connection.getresponse().read() == b""
    ended = time.monotonic_ns()
    task.report(began_ns=began, ended_ns=ended, taken=task.count)
    connection.close()
    task.dismissed()


def in_megabytes(figures: Figures) -> Figures:
    """Give megabytes a second in place of chunks, and milliseconds of processor time for one."""
    times = {
        name.replace("µs", "ms"): figure / 1e3 / MEGABYTES
        for name, figure in figures.items()
        if name != "per second"
    }
    return {"per second": figures["per second"] * MEGABYTES, **times}


def floor_figures(facts: Facts) -> Figures:
    """Give those of SQLite."""
    return in_megabytes(alone(facts))


def upload_figures(facts: Facts) -> Figures:
    """Give those of a client and a gateway."""
    return in_megabytes(rate(facts))


ROLES: Final = ("benchmarks.uploads:gateway", "benchmarks.uploads:client")

BENCHMARK: Final = Benchmark(
    "uploads",
    "Uploads of a file through the WebHDFS gateway, beside SQLite alone with the same chunks",
    (
        Variant("sqlite3 alone", ("benchmarks.uploads:floor",), floor_figures, "MB/s",
                CHUNKS, CHUNK_SIZE),
        Variant("a store on disk", ROLES, upload_figures, "MB/s", CHUNKS, CHUNK_SIZE,
                {"disk": True}, needs="h11"),
        Variant("a store in memory", ROLES, upload_figures, "MB/s", CHUNKS, CHUNK_SIZE,
                {"disk": False}, needs="h11"),
    ),
    (
        Goal("a store on disk", "sqlite3 alone", at_least=0.5),
    ),
)  # fmt: skip
