"""What a snapshot costs the master that gives it: ``python -m benchmarks.store_snapshot``.

A fresh clone, in a process of its own, takes a store of a million entries. Meanwhile the master
puts, one after the other, and waits for each receipt. Told are how long the clone takes, by how
much the master's memory grows at most, and how long its puts take.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from peermesh import Backend, Endpoint, Store

NAME: Final = "large"
ENTRIES: Final = 1_000_000
VALUE: Final = "v" * 50
PAUSE_SECONDS: Final = 0.002
GROWTH_GOAL_MIB: Final = 64.0
LATENCY_GOAL_MS: Final = 50.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    backend: str
    seconds: float
    growth_mib: float
    p50_ms: float
    p99_ms: float
    max_ms: float

    def __str__(self) -> str:
        """Write one row."""
        return (
            f"| {self.backend} | {self.seconds:.1f} s | {self.growth_mib:.0f} MiB |"
            f" {self.p50_ms:.1f} ms | {self.p99_ms:.1f} ms | {self.max_ms:.0f} ms |"
        )


def resident_mib() -> float:
    """Weigh this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


async def take(port: int) -> None:
    """Be the clone: take the store, and say when it is there."""
    async with Endpoint() as endpoint:
        store = await endpoint.attach_clone(NAME)
        await endpoint.peer("127.0.0.1", port)
        assert await store.await_idle(timeout=600)
        print(time.monotonic(), flush=True)


async def fill(store: Store, entries: int) -> None:
    """Put everything."""
    for number in range(entries - 1):
        await store.put(number, VALUE)
    await (await store.put(entries - 1, VALUE)).applied()


async def measure(backend: Backend, path: str, entries: int) -> Figures:
    """Give a snapshot, and look at what that costs."""
    options = {"path": path} if backend is Backend.SQLite else {}
    async with Endpoint() as endpoint:
        port = await endpoint.listen()
        async with endpoint.attach_master(NAME, backend, **options) as store:
            await fill(store, entries)
            gc.collect()
            before, most = resident_mib(), 0.0
            latencies: list[float] = []
            command = [sys.executable, "-m", "benchmarks.store_snapshot", "--take", str(port)]
            process = await trio.lowlevel.open_process(command, stdout=-1)
            began = time.monotonic()
            while process.poll() is None:
                asked = time.perf_counter()
                await (await store.put(len(latencies) % entries, VALUE)).applied()
                latencies.append((time.perf_counter() - asked) * 1e3)
                most = max(most, resident_mib())
                await trio.sleep(PAUSE_SECONDS)
            assert process.stdout is not None, command
            ended = float(await process.stdout.receive_some())
    latencies.sort()
    p99 = latencies[math.ceil(len(latencies) * 0.99) - 1]
    p50 = latencies[len(latencies) // 2]
    growth = most - before
    return Figures(backend.value, ended - began, growth, p50, p99, latencies[-1])


def main() -> None:
    """Read the command line, and tell whether the goals are met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store_snapshot")
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--take", type=int, metavar="PORT", help="internal: be the clone")
    options = parser.parse_args()
    if options.take is not None:
        trio.run(take, options.take)
        return
    print("| backend | snapshot taken in | master grew by | put p50 | put p99 | put max |")
    print("| --- | --- | --- | --- | --- | --- |")
    is_met = True
    for backend in (Backend.Memory, Backend.SQLite):
        with tempfile.TemporaryDirectory() as directory:
            path = str(Path(directory) / "store.db")
            figures = trio.run(measure, backend, path, options.entries)
        print(figures, flush=True)
        is_met &= figures.growth_mib < GROWTH_GOAL_MIB and figures.p99_ms < LATENCY_GOAL_MS
    sys.exit(0 if is_met else f"missed: less than {GROWTH_GOAL_MIB} MiB, {LATENCY_GOAL_MS} ms")


if __name__ == "__main__":
    main()
