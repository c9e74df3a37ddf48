"""The longest step of the loop in each phase of a large store: ``python -m benchmarks.steps``.

Both copies of the store are observed, and a group of three elects another leader over as many keys.

Steps are measured in processor time of the loop's thread, so that the figures hold on a busy
machine; the collector of cycles is in them. No step is to take more than 100 ms: peers count the
silence of an endpoint in ticks of that length.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

import peermesh
from benchmarks.workload import payloads
from peermesh import Backend, ReplicaStore, Store

NAME: Final = "steps"
VOTERS: Final = ("a", "b", "c")
KEYS: Final = 1_000_000
WINDOW: Final = 10_000
"""Receipts under way: what a program that does not wait for them piles up is its own doing."""

LONGEST_MS: Final = 100.0
IDLE_SECONDS: Final = 300.0

AnyStore = Store | ReplicaStore


@dataclass(slots=True, eq=False)
class Steps(trio.abc.Instrument):
    """Times each step of a task, in processor time."""

    longest_ns: int = 0
    where: str = ""
    _began_ns: int = 0
    rows: list[tuple[str, float, str]] = field(default_factory=list)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Start the clock."""
        self._began_ns = time.thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Keep the longest one."""
        took_ns = time.thread_time_ns() - self._began_ns
        if took_ns > self.longest_ns:
            self.longest_ns, self.where = took_ns, task.name

    @asynccontextmanager
    async def phase(self, name: str) -> AsyncIterator[None]:
        """Say what the longest step of a block was; the block's own begins with a step anew."""
        await trio.lowlevel.checkpoint()
        self.longest_ns, self.where = 0, ""
        yield
        await trio.lowlevel.checkpoint()
        took_ms = self.longest_ns / 1e6
        self.rows.append((name, took_ms, self.where))
        print(f"{took_ms:8.1f} ms  {name:<40} {self.where.rpartition('.')[2]}", flush=True)


async def _idle(*stores: AnyStore) -> None:
    for store in stores:
        assert await store.await_idle(timeout=IDLE_SECONDS)


async def _fill(store: AnyStore, count: int) -> None:
    values = payloads(20)
    for number in range(count):
        receipt = await store.put(f"key{number:07}", values[number % len(values)])
        if number % WINDOW == 0:
            await receipt.applied()
    await _idle(store)


async def _observe(store: AnyStore) -> None:
    """Take all events, as a program does that keeps a copy of its own."""
    with store.events() as events:
        async for _ in events:
            pass


async def measure(steps: Steps, count: int, path: Path) -> None:
    """Go through the phases of a master and its clone."""
    async with (
        peermesh.Endpoint(name="a") as first,
        peermesh.Endpoint(name="b") as second,
        trio.open_nursery() as nursery,
    ):
        assert await second.peer("127.0.0.1", await first.listen())
        master = await first.attach_master(NAME, Backend.SQLite, path=path)
        nursery.start_soon(_observe, master)
        async with steps.phase("fill"):
            await _fill(master, count)
        async with steps.phase("the rows follow"):
            await trio.sleep(3)
        async with steps.phase("a clone takes a snapshot"):
            clone = await second.attach_clone(NAME)
            nursery.start_soon(_observe, clone)
            await _idle(clone)
        async with steps.phase("scan a page"):
            async for _ in clone.entries(prefix="key00000"):
                pass
        async with steps.phase("overwrite a tenth"):
            await _fill(master, count // 10)
            await trio.sleep(2)
        async with steps.phase("compare replicas"):
            await master.verify(timeout=60)
        await master.close()
        async with steps.phase("load"):
            master = await first.attach_master(NAME, Backend.SQLite, path=path)
        nursery.start_soon(_observe, master)
        async with steps.phase("the clone is back"):
            await _idle(clone, master)
        await master.close()
        async with steps.phase("promote a clone into a file"):
            await clone.promote(Backend.SQLite, path=path.with_name("clone.db"), force=True)
        async with steps.phase("clear"):
            await (await clone.clear()).applied()
            await _idle(clone)
            await trio.sleep(2)


async def measure_group(steps: Steps, count: int) -> None:
    """Go through the phases of a group of three, in memory, that loses its leader."""
    async with AsyncExitStack() as stack:
        members = [await stack.enter_async_context(peermesh.Endpoint(name=name)) for name in VOTERS]
        for number, member in enumerate(members):
            port = await member.listen()
            for other in members[number + 1 :]:
                assert await other.peer("127.0.0.1", port)
        nursery = await stack.enter_async_context(trio.open_nursery())
        stores = [await member.attach_replica(NAME, voters=VOTERS) for member in members]
        for store in stores:
            await store.await_leader(timeout=IDLE_SECONDS)
            nursery.start_soon(_observe, store)
        lead = next(number for number, store in enumerate(stores) if store.is_leader())
        async with steps.phase("fill a group of three"):
            await _fill(stores[lead], count)
            await _idle(*stores)
        await stores.pop(lead).close()
        async with steps.phase("elect another leader"):
            for store in stores:
                await (await store.put("key", "value")).applied()
            await _idle(*stores)


async def run(count: int) -> Steps:
    """Give what was found."""
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    with tempfile.TemporaryDirectory(prefix="peermesh-bench-") as directory:
        await measure(steps, count, Path(directory, "store.db"))
    await measure_group(steps, count)
    return steps


def main() -> int:
    """Measure; give 1 if a step took too long."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("--keys", type=int, default=KEYS, help=f"default: {KEYS}")
    steps = trio.run(run, parser.parse_args().keys)
    return int(any(took_ms > LONGEST_MS for _, took_ms, _ in steps.rows))


if __name__ == "__main__":
    raise SystemExit(main())
