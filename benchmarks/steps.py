"""The longest step of the loop in each phase of a large store: ``python -m benchmarks.steps``.

Each copy of the store is in a process of its own, as users have them, and is observed; then a group
of three elects another leader over as many keys.

Steps are measured in processor time of the loop's thread, so that the figures hold on a busy
machine; the collector of cycles is in them. No step is to take more than 100 ms: peers count the
silence of an endpoint in ticks of that length.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import trio

import peermesh
from benchmarks.processes import ROOT
from benchmarks.workload import payloads
from peermesh import Backend, Endpoint, ReplicaStore, Store

NAME: Final = "steps"
VOTERS: Final = ("a", "b", "c")
KEYS: Final = 1_000_000
WINDOW: Final = 10_000
"""Receipts under way: what a program that does not wait for them piles up is its own doing."""

LONGEST_MS: Final = 100.0
IDLE_SECONDS: Final = 300.0

Row = tuple[str, float, str]
"""A phase, its longest step in ms, and whose it was."""


@dataclass(slots=True, eq=False)
class Steps(trio.abc.Instrument):
    """Times each step of a task, in processor time."""

    longest_ns: int = 0
    where: str = ""
    _began_ns: int = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Start the clock."""
        self._began_ns = time.thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Keep the longest one."""
        took_ns = time.thread_time_ns() - self._began_ns
        if took_ns > self.longest_ns:
            self.longest_ns, self.where = took_ns, task.name


# A process with one copy.


@dataclass(slots=True, eq=False)
class Copy:
    """A copy of the store, which does what its process is told: each method is an order."""

    endpoint: Endpoint
    nursery: trio.Nursery
    steps: Steps
    _store: Store | ReplicaStore | None = None

    @property
    def store(self) -> Store | ReplicaStore:
        """What was attached last."""
        assert self._store is not None, "attach one first"
        return self._store

    async def listen(self) -> int:
        """Give the port at which it can be reached."""
        return int(await self.endpoint.listen())

    async def peer(self, port: int) -> None:
        """Peer with another copy."""
        assert await self.endpoint.peer("127.0.0.1", port)

    async def attach_master(self, path: str) -> None:
        """Open a master, whose file may be there already."""
        self._take(await self.endpoint.attach_master(NAME, Backend.SQLite, path=Path(path)))

    async def attach_clone(self) -> None:
        """Take a snapshot, and all that comes after it."""
        self._take(await self.endpoint.attach_clone(NAME))
        await self.idle()

    async def attach_replica(self) -> bool:
        """Become one of three voters; tell whether it leads."""
        store = await self.endpoint.attach_replica(NAME, voters=VOTERS)
        self._take(store)
        await store.await_leader(timeout=IDLE_SECONDS)
        return store.is_leader()

    def _take(self, store: Store | ReplicaStore) -> None:
        self._store = store
        self.nursery.start_soon(self._observe, store)

    async def _observe(self, store: Store | ReplicaStore) -> None:
        """Take all events, as a program does that keeps a copy of its own."""
        with store.events() as events:
            async for _ in events:
                pass

    async def idle(self) -> None:
        """Wait until it has all."""
        assert await self.store.await_idle(timeout=IDLE_SECONDS)

    async def fill(self, count: int) -> None:
        """Put so many keys."""
        values = payloads(20)
        for number in range(count):
            receipt = await self.store.put(f"key{number:07}", values[number % len(values)])
            if number % WINDOW == 0:
                await receipt.applied()
        await self.idle()

    async def put(self) -> None:
        """Put one key, whatever leads by then."""
        await (await self.store.put("key", "value")).applied()

    async def scan(self) -> None:
        """Read a page."""
        async for _ in self.store.entries(prefix="key00000"):
            pass

    async def verify(self) -> None:
        """Compare the copies."""
        assert isinstance(self.store, Store)
        await self.store.verify(timeout=60)

    async def promote(self, path: str) -> None:
        """Lead from a file from now on."""
        assert isinstance(self.store, Store)
        await self.store.promote(Backend.SQLite, path=Path(path), force=True)

    async def clear(self) -> None:
        """Drop all keys."""
        await (await self.store.clear()).applied()
        await self.idle()

    async def rest(self, seconds: float) -> None:
        """Let be done what is put off."""
        await trio.sleep(seconds)

    async def close(self) -> None:
        """Close the store."""
        await self.store.close()

    async def begin(self) -> None:
        """Measure from here."""
        self.steps.longest_ns, self.steps.where = 0, ""

    async def longest(self) -> tuple[float, str]:
        """Give the longest step since, in ms, and whose it was."""
        return self.steps.longest_ns / 1e6, self.steps.where.rpartition(".")[2]


async def keep(name: str) -> None:
    """Do what comes in lines of JSON, one after the other, and answer each."""
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    async with peermesh.Endpoint(name=name) as endpoint, trio.open_nursery() as nursery:
        copy = Copy(endpoint, nursery, steps)
        async for order, given in _lines(trio.lowlevel.FdStream(sys.stdin.fileno())):
            print(json.dumps(await getattr(copy, order)(**given)), flush=True)
        nursery.cancel_scope.cancel()


async def _lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[Any]:
    unread = b""
    async for chunk in stream:
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)


# The process that tells them what to do.


@dataclass(slots=True, eq=False)
class Process:
    """One of the processes, seen from the one that started it."""

    orders: trio.abc.SendStream
    answers: AsyncIterator[Any]

    async def tell(self, order: str, **given: object) -> Any:
        """Have it do something, and give its answer."""
        await self.orders.send_all(json.dumps((order, given)).encode() + b"\n")
        return await anext(self.answers)


@dataclass(slots=True, eq=False)
class Run:
    """All processes of a run, and what was found."""

    processes: list[Process] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    @asynccontextmanager
    async def phase(self, name: str) -> AsyncIterator[None]:
        """Say what the longest step of a block was, in any process."""
        for process in self.processes:
            await process.tell("begin")
        yield
        took_ms, where = max([await process.tell("longest") for process in self.processes])
        self.rows.append((name, took_ms, where))
        print(f"{took_ms:8.1f} ms  {name:<40} {where}", flush=True)


@asynccontextmanager
async def copies(names: tuple[str, ...]) -> AsyncIterator[Run]:
    """Start a process for each name, all peers of each other; they end with the block."""
    run, ports = Run(), list[int]()
    async with trio.open_nursery() as nursery:
        for name in names:
            command = [sys.executable, "-m", "benchmarks.steps", "--copy", name]
            start = partial(trio.run_process, command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
            begun: trio.Process = await nursery.start(start)
            assert begun.stdin is not None
            assert begun.stdout is not None
            process = Process(begun.stdin, _lines(begun.stdout))
            for port in ports:
                await process.tell("peer", port=port)
            ports.append(await process.tell("listen"))
            run.processes.append(process)
        yield run
        for process in run.processes:
            await process.orders.aclose()


async def measure(run: Run, count: int, path: Path) -> None:
    """Go through the phases of a master and its clone."""
    master, clone = run.processes
    await master.tell("attach_master", path=str(path))
    async with run.phase("fill"):
        await master.tell("fill", count=count)
    async with run.phase("the rows follow"):
        await master.tell("rest", seconds=3)
    async with run.phase("a clone takes a snapshot"):
        await clone.tell("attach_clone")
    async with run.phase("scan a page"):
        await clone.tell("scan")
    async with run.phase("overwrite a tenth"):
        await master.tell("fill", count=count // 10)
        await master.tell("rest", seconds=2)
    async with run.phase("compare replicas"):
        await master.tell("verify")
    await master.tell("close")
    async with run.phase("load"):
        await master.tell("attach_master", path=str(path))
    async with run.phase("the clone is back"):
        await clone.tell("idle")
        await master.tell("idle")
    await master.tell("close")
    async with run.phase("promote a clone into a file"):
        await clone.tell("promote", path=str(path.with_name("clone.db")))
    async with run.phase("clear"):
        await clone.tell("clear")
        await clone.tell("rest", seconds=2)


async def measure_group(run: Run, count: int) -> None:
    """Go through the phases of a group of three, in memory, that loses its leader."""
    leaders, followers = list[Process](), list[Process]()

    async def attach(process: Process) -> None:
        leads = await process.tell("attach_replica")
        (leaders if leads else followers).append(process)

    async with trio.open_nursery() as nursery:
        for process in run.processes:
            nursery.start_soon(attach, process)
    (leader,) = leaders
    async with run.phase("fill a group of three"):
        await leader.tell("fill", count=count)
        for process in followers:
            await process.tell("idle")
    await leader.tell("close")
    async with run.phase("elect another leader"):
        for order in ("put", "idle"):
            for process in followers:
                await process.tell(order)


async def measure_all(count: int) -> list[Row]:
    """Give what was found."""
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        async with copies(VOTERS[:2]) as run:
            await measure(run, count, Path(directory, "store.db"))
    async with copies(VOTERS) as group:
        await measure_group(group, count)
    return run.rows + group.rows


def main() -> int:
    """Measure; give 1 if a step took too long."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("--keys", type=int, default=KEYS, help=f"default: {KEYS}")
    parser.add_argument("--copy", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.copy:
        trio.run(keep, options.copy)
        return 0
    rows = trio.run(measure_all, options.keys)
    return int(any(took_ms > LONGEST_MS for _, took_ms, _ in rows))


if __name__ == "__main__":
    raise SystemExit(main())
