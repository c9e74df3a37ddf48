"""Stores: puts from a clone in another process, the time until one is visible, gets, filling."""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import trio

import peermesh
from benchmarks.harness import Benchmark, Facts, Figures, Goal, Variant, alone, rate, round_trip
from benchmarks.latency import ASLEEP
from benchmarks.role import Task
from benchmarks.sqlite_floors import KEYS
from benchmarks.workload import Disorder, payloads
from peermesh import Backend, EndpointId
from stores.disk.store_keys import generate_key
from stores.sealing import StorageKeys

NAME: Final = "benchmark"
IDLE_SECONDS: Final = 90.0


async def master(task: Task) -> None:
    """Hold the master, in memory or in a file, with as many entries as the options say."""
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        options: dict[str, Any] = {}
        backend = Backend[task.options.get("backend", "Memory")]
        if backend is Backend.SQLite:
            options["path"] = Path(directory, "store.db")
            if task.options.get("is_encrypted"):
                options["keys"] = StorageKeys((generate_key(),))
        async with (
            peermesh.Endpoint() as endpoint,
            endpoint.attach_master(NAME, backend, **options) as store,
        ):
            if task.options.get("is_filled"):
                for number in range(task.count):
                    await store.put(f"key{number}", payloads(task.size)[0])
                assert await store.await_idle(timeout=IDLE_SECONDS)
            task.introduce(port=await endpoint.listen(), node_id=str(endpoint.node_id()))
            task.report()
            await task.dismissed_async()


async def _peer(endpoint: peermesh.Endpoint, task: Task) -> None:
    assert await endpoint.peer("127.0.0.1", task.last_met["port"])
    assert await endpoint.await_peer(EndpointId.parse(task.last_met["node_id"]))


async def put(task: Task) -> None:
    """Put one after the other without waiting, until the store is idle and all of it is visible."""
    values = payloads(task.size)
    async with peermesh.Endpoint() as endpoint, endpoint.attach_clone(NAME) as clone:
        await _peer(endpoint, task)
        assert await clone.await_idle()
        task.introduce()
        began = time.monotonic_ns()
        for number in range(task.count):
            await clone.put(f"key{number % KEYS}", values[number % len(values)])
        assert await clone.await_idle(timeout=IDLE_SECONDS)
        ended = time.monotonic_ns()
        last = task.count - 1
        if await clone.get(f"key{last % KEYS}") != values[last % len(values)]:
            raise Disorder(last, "an old value")
        assert len(await clone.keys()) == min(task.count, KEYS)
        task.report(began_ns=began, ended_ns=ended, taken=task.count)
        await task.dismissed_async()


async def put_one(task: Task) -> None:
    """Put, and wait until the master has applied it and the clone shows it, again and again."""
    values = payloads(task.size)
    async with peermesh.Endpoint() as endpoint, endpoint.attach_clone(NAME) as clone:
        await _peer(endpoint, task)
        assert await clone.await_idle()
        task.introduce()
        trips = []
        for number in range(task.count):
            value = values[number % len(values)]
            began = time.monotonic_ns()
            receipt = await clone.put("key", value)
            await receipt.applied()
            seen = await clone.get("key")
            trips.append(time.monotonic_ns() - began)
            if seen != value:
                raise Disorder(number, seen)
        task.report(trips_ns=trips)
        await task.dismissed_async()


async def get(task: Task) -> None:
    """Read one after the other from a clone."""
    value = payloads(task.size)[0]
    async with peermesh.Endpoint() as endpoint, endpoint.attach_clone(NAME) as clone:
        await _peer(endpoint, task)
        assert await clone.await_idle(timeout=IDLE_SECONDS)
        task.introduce()
        began = time.monotonic_ns()
        for number in range(task.count):
            if await clone.get(f"key{number}") != value:
                raise Disorder(number, "another value")
        task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=task.count)
        await task.dismissed_async()


async def fill(task: Task) -> None:
    """Attach a clone to a master that is full, and wait until it has everything."""
    async with peermesh.Endpoint() as endpoint:
        await _peer(endpoint, task)
        task.introduce()
        began = time.monotonic_ns()
        async with endpoint.attach_clone(NAME) as clone:
            assert await clone.await_idle(timeout=IDLE_SECONDS)
            ended = time.monotonic_ns()
            assert len(await clone.keys()) == task.count
            task.report(began_ns=began, ended_ns=ended, taken=task.count)
            await task.dismissed_async()


class _Steps(trio.abc.Instrument):
    """Takes the time of the longest step: from one wait of the loop for others to the next."""

    def __init__(self) -> None:
        """Start with none."""
        self.longest_ns = 0
        self._began_ns = time.monotonic_ns()

    def after_io_wait(self, timeout: float) -> None:
        """Note that a step begins."""
        self._began_ns = time.monotonic_ns()

    def before_io_wait(self, timeout: float) -> None:
        """Note that it ends."""
        self.longest_ns = max(self.longest_ns, time.monotonic_ns() - self._began_ns)


async def read_all(task: Task) -> None:
    """Compare, fill, list and sort a full store, and look how long the loop stood still."""
    async with peermesh.Endpoint() as left, peermesh.Endpoint() as right:
        assert await right.peer("127.0.0.1", await left.listen())
        async with left.attach_master(NAME) as master, right.attach_clone(NAME) as clone:
            for number in range(task.count):
                await master.put(f"key{number}", payloads(task.size)[0])
            assert await clone.await_idle(timeout=IDLE_SECONDS)
            task.introduce()
            gc.collect()
            trio.lowlevel.add_instrument(steps := _Steps())
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(clone.verify, IDLE_SECONDS)
            assert len(await clone.items()) == task.count
            assert len(await clone.scan()) == 1_000
            async with peermesh.Endpoint() as third:
                assert await third.peer("127.0.0.1", await left.listen())
                async with third.attach_proxy(NAME) as proxy:
                    assert len(await proxy.keys()) == task.count
            trio.lowlevel.remove_instrument(steps)
            task.report(longest_ns=steps.longest_ns)
            await task.dismissed_async()


def _longest(facts: Facts) -> Figures:
    """Time of the longest step, in ms."""
    return {"longest": facts["longest_ns"] / 1e6}


def _seconds(facts: Facts) -> Figures:
    """Time of the whole, in seconds."""
    return {"seconds": (facts["ended_ns"] - facts["began_ns"]) / 1e9}


MASTER: Final = "benchmarks.store:master"
PUT: Final = (MASTER, "benchmarks.store:put")
SQLITE: Final = {"backend": "SQLite"}
FILLED: Final = {"is_filled": True}
ENCRYPTED: Final = {"backend": "SQLite", "is_encrypted": True}
GET: Final = (MASTER, "benchmarks.store:get")
FLOOR: Final = ("benchmarks.floors:echo_socket", "benchmarks.floors:ask_socket")

BENCHMARK: Final = Benchmark(
    "store",
    "A master in one process and a clone in another, values of 100 bytes",
    (
        Variant("put, memory", PUT, rate, "puts/s", 300_000, 100),
        Variant("put, SQLite", PUT, rate, "puts/s", 300_000, 100, SQLITE),
        Variant("put, encrypted", PUT, rate, "puts/s", 300_000, 100, ENCRYPTED),
        Variant(
            "sqlite3 alone",
            ("benchmarks.sqlite_floors:upsert_rows",),
            alone,
            "puts/s",
            300_000,
            100,
        ),
        Variant(
            "put to visible", (MASTER, "benchmarks.store:put_one"), round_trip, "µs", 3_000, 100
        ),
        Variant(
            "put to visible, asleep",
            (MASTER, "benchmarks.store:put_one"),
            round_trip,
            "µs",
            3_000,
            100,
            ASLEEP,
        ),
        Variant("trio socket round trip", FLOOR, round_trip, "µs", 3_000, 100),
        Variant("get at a clone", GET, rate, "gets/s", 100_000, 100, FILLED),
        Variant("get, encrypted", GET, rate, "gets/s", 100_000, 100, {**ENCRYPTED, **FILLED}),
        Variant(
            "first fill", (MASTER, "benchmarks.store:fill"), _seconds, "s", 100_000, 100, FILLED
        ),
        Variant(
            "longest step of reading all",
            ("benchmarks.store:read_all",),
            _longest,
            "ms",
            100_000,
            100,
        ),
    ),
    (
        Goal("put, memory", at_least=250_000),
        Goal("put, SQLite", at_least=150_000),
        Goal("put, SQLite", "sqlite3 alone"),
        Goal("put, encrypted", "put, SQLite", at_least=0.6),
        Goal("put to visible", "trio socket round trip", at_most=2.5),
        Goal("put to visible, asleep", "trio socket round trip"),
        Goal("get at a clone", at_least=500_000),
        Goal("get, encrypted", "get at a clone", at_least=0.9),
        Goal("first fill", at_most=0.25),
        Goal("longest step of reading all", at_most=50),
    ),
)
