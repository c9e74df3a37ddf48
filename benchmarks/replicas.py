"""Stores beside each other: a master and its clone, groups of one and three, and other systems.

The mixes are what users do: most writes wait for their receipts, keys come in no order, and
commands of several kinds follow each other.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import trio

import peermesh
from benchmarks.etcd import etcd
from benchmarks.harness import (
    Benchmark,
    Facts,
    Figures,
    Goal,
    Variant,
    rate_of_last,
    round_trip,
)
from benchmarks.role import Task
from benchmarks.servers import ServerStore, redis
from benchmarks.workload import VOTERS, Disorder, payloads
from benchmarks.zookeeper import zookeeper
from peermesh import Backend, Receipt, ReplicaStore, Store, Value

NAME: Final = "benchmark"
KEYS: Final = 20_000
TASKS: Final = 64
PERIOD: Final = 4_099
"""Keys after which a random order of them begins anew: a prime, as the number of values is one."""

AWAITED: Final = 1_000
"""Receipts that gather before each of them is awaited."""

IDLE_SECONDS: Final = 90.0

AnyStore = Store | ReplicaStore
Mix = Callable[[AnyStore, Task], Awaitable[None]]


def _keys() -> list[str]:
    numbers = Random(1).choices(range(KEYS), k=PERIOD)
    return [f"key{number}" for number in numbers]


def _values(size: int) -> list[Value]:
    """Give values of all types that users store most, of about a size."""
    text = "x" * size
    kinds: list[Value] = [
        *(text, text.encode(), size, 0.5, True, None),
        *((text[: size // 2], 1, 2.5), {"name": text[: size // 2], "port": 53}),
    ]
    return kinds


async def _applied(receipts: list[Receipt]) -> None:
    for receipt in receipts:
        await receipt.applied()
    receipts.clear()


# -- mixes -----------------------------------------------------------------------------------------


async def runs(store: AnyStore, task: Task) -> None:
    """Put one after the other without waiting, until all of it is there."""
    values = payloads(task.size)
    for number in range(task.count):
        await store.put(f"key{number % KEYS}", values[number % len(values)])
    assert await store.await_idle(timeout=IDLE_SECONDS)
    last = task.count - 1
    is_ours = isinstance(store, Store | ReplicaStore)
    if is_ours and await store.get(f"key{last % KEYS}") != values[last % len(values)]:
        raise Disorder(last, "an old value")


async def random_keys(store: AnyStore, task: Task) -> None:
    """Put values of all types under keys in no order, and await each receipt, many at a time."""
    receipts: list[Receipt] = []
    pairs = zip(cycle(_keys()), cycle(_values(task.size)), strict=False)
    for key, value in islice(pairs, task.count):
        receipts.append(await store.put(key, value))
        if len(receipts) == AWAITED:
            await _applied(receipts)
    await _applied(receipts)


async def tasks(store: AnyStore, task: Task) -> None:
    """Put from many tasks, each of which waits for its own receipt before it puts again."""
    value, keys = payloads(task.size)[0], _keys()

    async def work(first: int) -> None:
        for number in range(first, task.count, TASKS):
            await (await store.put(keys[number % PERIOD], value)).applied()

    async with trio.open_nursery() as nursery:
        for first in range(TASKS):
            nursery.start_soon(work, first)


async def in_turn(store: AnyStore, task: Task) -> None:
    """Put, increment, push and erase in turn, and await each receipt, many at a time."""
    value = payloads(task.size)[0]
    receipts: list[Receipt] = []
    for number, key in enumerate(islice(cycle(_keys()), task.count)):
        match number % 4:
            case 0:
                receipts.append(await store.put(key, value))
            case 1:
                receipts.append(await store.increment("count " + key))
            case 2:
                receipts.append(await store.push("list " + key, number))
            case _:
                receipts.append(await store.erase("list " + key))
        if len(receipts) == AWAITED:
            await _applied(receipts)
    await _applied(receipts)


async def compare_and_set(store: AnyStore, task: Task) -> None:
    """Set keys on the condition that they are missing, many under way at once."""
    value = payloads(task.size)[0]
    receipts: list[Receipt] = []
    for number in range(task.count):
        receipts.append(await store.compare_and_set(f"new{number}", value, None))
        if len(receipts) == AWAITED:
            await _applied(receipts)
    await _applied(receipts)


async def get(store: AnyStore, task: Task) -> None:
    """Read one after the other."""
    await _fill(store, task.size)
    await _timed(task, _get_all(store, task))


async def _get_all(store: AnyStore, task: Task) -> None:
    for key in islice(cycle(_keys()), task.count):
        await store.get(key)


async def scan(store: AnyStore, task: Task) -> None:
    """Go through all entries in the order of keys, again and again."""
    await _fill(store, task.size)
    await _timed(task, _scan_all(store, task))


async def _scan_all(store: AnyStore, task: Task) -> None:
    for _ in range(task.count // KEYS):
        async for _ in store.entries(prefix="key"):
            pass


async def one(store: AnyStore, task: Task) -> None:
    """Put, and wait until it is applied, again and again."""
    value = payloads(task.size)[0]
    task.introduce()
    trips = []
    for _ in range(task.count):
        began = time.monotonic_ns()
        await (await store.put("key", value)).applied()
        trips.append(time.monotonic_ns() - began)
    task.report(trips_ns=trips)


async def _fill(store: AnyStore, size: int) -> None:
    value = payloads(size)[0]
    for number in range(KEYS):
        await store.put(f"key{number}", value)
    assert await store.await_idle(timeout=IDLE_SECONDS)


MIXES: Final[dict[str, Mix]] = {
    "runs": runs,
    "random keys": random_keys,
    "64 tasks": tasks,
    "in turn": in_turn,
    "compare and set": compare_and_set,
}
UNTIMED: Final[dict[str, Mix]] = {"get": get, "scan": scan, "one put": one}
"""They say themselves when their time begins."""


# -- roles -----------------------------------------------------------------------------------------


async def _timed(task: Task, work: Awaitable[None]) -> None:
    task.introduce()
    began = time.monotonic_ns()
    await work
    task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=task.count)


@asynccontextmanager
async def _attached(
    endpoint: peermesh.Endpoint, task: Task, directory: str
) -> AsyncIterator[AnyStore]:
    options: dict[str, Any] = {}
    backend = Backend[task.options.get("backend", "Memory")]
    if backend is Backend.SQLite:
        options["path"] = Path(directory, "store.db")
    if (voters := task.options.get("voters")) is None:
        async with endpoint.attach_master(NAME, backend, **options) as master:
            yield master
        return
    async with endpoint.attach_replica(
        NAME, voters=tuple(voters), backend=backend, **options
    ) as replica:
        yield replica


async def work(task: Task) -> None:
    """Attach a store here, and go through a mix; with other voters once they elected a leader."""
    name = task.options["mix"]
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        async with peermesh.Endpoint(name="a") as endpoint:
            for met in task.met:
                assert await endpoint.peer("127.0.0.1", met["port"])
            async with _attached(endpoint, task, directory) as store:
                if isinstance(store, ReplicaStore):
                    await store.await_leader(IDLE_SECONDS)
                    await (await store.put("first", 0)).applied()
                if name in UNTIMED:
                    await UNTIMED[name](store, task)
                else:
                    await _timed(task, MIXES[name](store, task))
                await task.dismissed_async()


async def serve(task: Task) -> None:
    """Run a server of another kind here, and go through a mix."""
    name, kind = task.options["mix"], task.options["server"]
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        async with _server(kind, directory, task.options["backend"]) as server:
            # It has the calls that its mixes make, and no others.
            store = cast("AnyStore", server)
            if name in UNTIMED:
                await UNTIMED[name](store, task)
            else:
                await _timed(task, MIXES[name](store, task))
            await task.dismissed_async()


def _server(kind: str, directory: str, backend: str) -> AbstractAsyncContextManager[ServerStore]:
    if kind == "redis":
        return redis(directory, is_durable=backend == "SQLite")
    if kind == "zookeeper trio":
        return zookeeper(directory, len(VOTERS), ["key", *(f"key{at}" for at in range(KEYS))])
    return etcd(directory, len(VOTERS) if kind == "etcd trio" else 1)


async def follow(task: Task) -> None:
    """Have a clone of the store, which is told of all."""
    async with peermesh.Endpoint(name="b") as endpoint:
        port = await endpoint.listen()
        async with endpoint.attach_clone(NAME):
            task.introduce(port=port)
            task.report()
            await task.dismissed_async()


async def vote(task: Task) -> None:
    """Have another voter of the same group."""
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        name = VOTERS[1 + len(task.met)]
        async with peermesh.Endpoint(name=name) as endpoint:
            port = await endpoint.listen()
            for met in task.met:
                assert await endpoint.peer("127.0.0.1", met["port"])
            async with _attached(endpoint, task, directory):
                task.introduce(port=port)
                task.report()
                await task.dismissed_async()


# -- variants --------------------------------------------------------------------------------------

COUNTS: Final = {
    "runs": 300_000,
    "random keys": 100_000,
    "64 tasks": 40_000,
    "in turn": 40_000,
    "compare and set": 40_000,
    "get": 200_000,
    "scan": 200_000,
    "one put": 2_000,
}
MEMORY_ONLY: Final = frozenset({"get", "scan"})
"""Reads are served from memory, whatever the backend is."""

SIZE: Final = 100

SERVERS: Final = {
    "redis": "redis-server",
    "etcd": "etcd",
    "etcd trio": "etcd",
    "zookeeper trio": "java",
}
"""The programs that other kinds of stores take."""

WANTED: Final = {
    ("random keys", "SQLite"): 110_000.0,
    ("64 tasks", "SQLite"): 40_000.0,
    ("in turn", "Memory"): 80_000.0,
}
"""Commands a second of a store with a clone in another process."""

WANTED_TRIO: Final = {
    ("runs", "etcd trio"): 2.5,
    ("runs", "zookeeper trio"): 10.0,
    ("random keys", "etcd trio"): 1.5,
}
"""So many times as fast a durable group of three is to be, in the same round."""

ZOOKEEPER_SECONDS: Final = 90
"""How long three virtual machines of Java may take on a busy machine, and making the keys."""

SHARES: Final = {"etcd": 5, "java": 10}
"""So much less these get to do, by program: they take some thousands of puts a second."""


def _variant(kind: str, mix: str, backend: str) -> Variant:
    options: dict[str, Any] = {"mix": mix, "backend": backend}
    roles = ["benchmarks.replicas:work"]
    if kind == "alone":
        options["voters"] = VOTERS[:1]
    elif kind == "trio":
        options["voters"] = VOTERS
        roles = ["benchmarks.replicas:vote", "benchmarks.replicas:vote", *roles]
    elif kind == "with a clone":
        roles = ["benchmarks.replicas:follow", *roles]
    elif kind in SERVERS:
        options["server"] = kind
        roles = ["benchmarks.replicas:serve"]
    measure = _round_trip if mix == "one put" else rate_of_last
    unit = "µs" if mix == "one put" else "a second"
    name, program = _name(kind, mix, backend), SERVERS.get(kind)
    count = COUNTS[mix] // SHARES.get(program or "", 1)
    variant = Variant(name, roles, measure, unit, count, SIZE, options, program=program)
    if program != "java":
        return variant
    return replace(variant, needs="pyspark", start_seconds=ZOOKEEPER_SECONDS)


def _kinds(mix: str, backend: str) -> list[str]:
    """Give what is measured of a mix: reads need no others, and etcd has none but puts."""
    kinds = ["master", "alone"]
    if mix in MEMORY_ONLY:
        return kinds
    kinds += ["with a clone", "trio", "redis"]
    if backend == "SQLite" and mix != "in turn":
        kinds += ["etcd", "etcd trio", "zookeeper trio"]
    return kinds


def _round_trip(facts: Facts) -> Figures:
    figures = round_trip({**facts, "cpu_seconds": [0.0, facts["cpu_seconds"][-1]]})
    return {name: figures[name] for name in ("p50 µs", "p99 µs")}


def _name(kind: str, mix: str, backend: str) -> str:
    return f"{mix}, {backend.lower()}, {kind}"


_KINDS: Final = [
    (mix, backend)
    for mix in COUNTS
    for backend in ("Memory", "SQLite")
    if backend == "Memory" or mix not in MEMORY_ONLY
]


def _goals(mix: str, backend: str) -> list[Goal]:
    master, alone_, trio_ = (_name(kind, mix, backend) for kind in ("master", "alone", "trio"))
    if mix == "one put":
        return [Goal(alone_, master, at_most=1.0), Goal(trio_, alone_, at_most=3.3)]
    least = 0.6 if backend == "SQLite" else 0.35
    reads = mix in MEMORY_ONLY
    return [
        Goal(alone_, master, at_least=1.0),
        *([] if reads else [Goal(trio_, alone_, at_least=least)]),
        *_beside(mix, backend),
    ]


def _beside(mix: str, backend: str) -> list[Goal]:
    """Compare with others; what is wanted stands where issue 19 says so."""
    goals = [Goal(_name("with a clone", mix, backend), at_least=WANTED.get((mix, backend)))]
    for kind in _kinds(mix, backend):
        if kind in SERVERS:
            ours = _name("trio" if kind.endswith("trio") else "alone", mix, backend)
            least = WANTED_TRIO.get((mix, kind)) if backend == "SQLite" else None
            goals.append(Goal(ours, _name(kind, mix, backend), at_least=least))
    return [] if mix in MEMORY_ONLY else goals


BENCHMARK: Final = Benchmark(
    "replicas",
    "Mixes of commands, values of 100 bytes, at stores of one process and of three",
    [_variant(kind, mix, backend) for mix, backend in _KINDS for kind in _kinds(mix, backend)],
    [goal for mix, backend in _KINDS for goal in _goals(mix, backend)],
)
