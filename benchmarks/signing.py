"""What signing costs: the same messages, puts and round trips, unsigned and signed."""

from __future__ import annotations

import time
from typing import Final

from benchmarks.harness import Benchmark, Goal, Variant, rate, round_trip
from benchmarks.pubsub import publishing
from benchmarks.role import Task
from benchmarks.workload import TOPIC, messages

SIGNED: Final = {"environment": {"PEERMESH_SIGN": "true"}}

PUBSUB: Final = ("benchmarks.pubsub:subscribe", "benchmarks.pubsub:publish")
SCATTERED: Final = ("benchmarks.pubsub:subscribe", "benchmarks.signing:publish_scattered")
RELAYED: Final = (PUBSUB[0], "benchmarks.relay:relay", PUBSUB[1])
LATENCY: Final = ("benchmarks.latency:reply", "benchmarks.latency:request")
STORE: Final = ("benchmarks.store:master", "benchmarks.store:put")


async def publish_scattered(task: Task) -> None:
    """Publish each message on another topic than the one before, so that each is a frame."""
    async with publishing(task) as endpoint:
        began = time.monotonic_ns()
        for number, payload in enumerate(messages(task.count, task.size)):
            await endpoint.publish(f"{TOPIC}/{number % 2}", payload)
        task.report(began_ns=began)


def _pair(name: str, roles: tuple[str, ...], count: int, size: int) -> tuple[Variant, Variant]:
    is_latency = roles is LATENCY
    unit = "µs" if is_latency else "puts/s" if roles is STORE else "messages/s"
    measure = round_trip if is_latency else rate
    return (
        Variant(f"{name}, unsigned", roles, measure, unit, count, size),
        Variant(f"{name}, signed", roles, measure, unit, count, size, SIGNED),
    )


KINDS: Final = {
    "100 B": (PUBSUB, 1_000_000, 100),
    "10 KB": (PUBSUB, 50_000, 10_000),
    "a frame each": (SCATTERED, 4_000, 100),
    "relayed 100 B": (RELAYED, 1_000_000, 100),
    "put": (STORE, 100_000, 100),
    "round trip": (LATENCY, 2_000, 100),
}

BENCHMARK: Final = Benchmark(
    "signing",
    "Unsigned and signed: a signature for each frame, checked at each endpoint, relays too",
    tuple(variant for name, kind in KINDS.items() for variant in _pair(name, *kind)),
    tuple(Goal(f"{name}, signed", f"{name}, unsigned") for name in KINDS),
)
