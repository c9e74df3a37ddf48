"""TLS beside plain TCP: messages a second, the time of a round trip, and peerings a second."""

from __future__ import annotations

import os
import time
from typing import Final

import peermesh
from benchmarks import latency, pubsub
from benchmarks.harness import Benchmark, Facts, Figures, Goal, Variant, rate, round_trip, work
from benchmarks.role import Task
from peermesh import ClusterSecret

SECRET: Final = ClusterSecret(bytes(range(20)))


def _protect(task: Task) -> None:
    """Give all endpoints of this process credentials, or none."""
    if task.options["tls"]:
        os.environ["PEERMESH_SECRET"] = SECRET.text()


async def publish(task: Task) -> None:
    """Publish, by whatever the variant says."""
    _protect(task)
    await pubsub.publish(task)


async def subscribe(task: Task) -> None:
    """Read message by message."""
    _protect(task)
    await pubsub.subscribe(task)


async def reply(task: Task) -> None:
    """Answer each request with itself."""
    _protect(task)
    await latency.reply(task)


async def request(task: Task) -> None:
    """Time each round trip."""
    _protect(task)
    await latency.request(task)


async def accept(task: Task) -> None:
    """Be dialled."""
    _protect(task)
    async with peermesh.Endpoint() as endpoint:
        task.introduce(port=await endpoint.listen())
        task.report()
        await task.dismissed_async()


async def dial(task: Task) -> None:
    """Peer and unpeer, again and again."""
    _protect(task)
    async with peermesh.Endpoint() as endpoint:
        where = ("127.0.0.1", task.last_met["port"])
        assert await endpoint.peer(*where, retry=0)  # What is loaded or made once is there now.
        assert await endpoint.unpeer(*where)
        task.introduce()
        began = time.monotonic_ns()
        for _ in range(task.count):
            assert await endpoint.peer(*where, retry=0)
            assert await endpoint.unpeer(*where)
        task.report(began_ns=began, ended_ns=time.monotonic_ns())
        await task.dismissed_async()


def peerings(facts: Facts) -> Figures:
    """Give peerings a second, one after the other."""
    seconds = (facts["ended_ns"] - facts["began_ns"]) / 1e9
    return {"per second": facts["count"] / seconds, **work(facts, facts["count"])}


WAYS: Final = {"plain": {"tls": False}, "TLS": {"tls": True}}


def _roles(*names: str) -> tuple[str, ...]:
    return tuple(f"benchmarks.tls:{name}" for name in names)


def _variants() -> tuple[Variant, ...]:
    talk, ask, meet = _roles("subscribe", "publish"), _roles("reply", "request"), ("accept", "dial")
    found = []
    for way, options in WAYS.items():
        found += [
            Variant(f"100 B, {way}", talk, rate, "messages/s", 500_000, 100, options),
            Variant(f"10 KB, {way}", talk, rate, "messages/s", 50_000, 10_000, options),
            Variant(f"round trip, {way}", ask, round_trip, "µs", 3_000, 100, options),
            Variant(f"peerings, {way}", _roles(*meet), peerings, "peerings/s", 300, 0, options),
        ]
    return tuple(found)


BENCHMARK: Final = Benchmark(
    "tls",
    "TLS 1.3 with both sides authenticated, beside plain TCP, two processes",
    _variants(),
    (
        Goal("100 B, TLS", "100 B, plain", at_least=0.5),
        Goal("10 KB, TLS", "10 KB, plain", at_least=0.3),
        Goal("round trip, TLS", "round trip, plain", at_most=2),
        Goal("peerings, TLS", "peerings, plain"),
    ),
)
