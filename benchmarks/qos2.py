"""The QoS-2 broker: deliveries a second, each exactly once, beside mosquitto with paho-mqtt.

All clients of a variant are one process, so that they share one interpreter on both sides. Our
protocol has one message in flight for each connection; mosquitto is measured with one, and with
twenty, its default. mosquitto keeps messages in memory, and writes them when it ends: compare it
with what ours does in memory, and know what a disk costs beside it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio

from benchmarks.harness import Benchmark, Figures, Goal, Variant
from benchmarks.role import Task
from benchmarks.servers import free_ports, running
from benchmarks.workload import MARKS, Disorder, payloads
from peermesh import Endpoint
from peermesh.brokers.qos2 import Consumer, Place, Ports, Publisher, open_broker


def delivered(facts: Mapping[str, Any]) -> Figures:
    """Deliveries a second, and what broker and clients worked for each."""
    seconds = (facts["ended_ns"] - facts["began_ns"]) / 1e9
    count = facts["taken"]
    broker, clients = (each * 1e6 / count for each in facts["cpu_seconds"])
    return {"per second": count / seconds, "cpu µs out": clients, "cpu µs between": broker}


def check(number: int, data: bytes, size: int) -> None:
    """Check that this is the message of a pair that comes now; raises ``Disorder``."""
    if len(data) != size or data[0] != number % MARKS:
        raise Disorder(number, data)


# Ours.


async def broker(task: Task) -> None:
    """Serve, from a folder or from memory."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder=Path(folder) if task.options["on_disk"] else None)
        async with (
            Endpoint() as endpoint,
            open_broker(endpoint, place, Ports("127.0.0.1", 0, 0)) as on,
        ):
            task.introduce(publishers=on.publisher_port, consumers=on.consumer_port)
            task.report()
            await task.dismissed_async()


async def clients(task: Task) -> None:
    """Publish and consume with so many pairs, each on a topic of its own."""
    at, pairs = task.last_met, task.options["pairs"]
    each, made = task.count // pairs, payloads(task.size)

    async def publish(number: int) -> None:
        async with Publisher(f"publisher-{number}", at["publishers"]) as out:
            for message in range(each):
                await out.publish(message + 2, f"topic-{number}", made[message % MARKS])

    async def consume(number: int, is_ready: trio.Event, may_go: trio.Event) -> None:
        name = f"topic-{number}"
        async with Publisher(f"publisher-{number}", at["publishers"]) as out:
            await out.publish(1, name, b"first")
        async with Consumer(f"consumer-{number}", name, at["consumers"]) as source:
            await source.get()
            await source.done()
            is_ready.set()
            await may_go.wait()
            for message in range(each):
                check(message, (await source.get()).payload, task.size)
                await source.done()

    may_go, ready = trio.Event(), [trio.Event() for _ in range(pairs)]
    async with trio.open_nursery() as nursery:
        for number in range(pairs):
            nursery.start_soon(consume, number, ready[number], may_go)
        for event in ready:
            await event.wait()
        task.introduce()
        began = time.monotonic_ns()
        may_go.set()
        for number in range(pairs):
            nursery.start_soon(publish, number)
    task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=pairs * each)
    await task.dismissed_async()


# mosquitto.


async def mosquitto(task: Task) -> None:
    """Serve with mosquitto, as Debian has it, with so many messages in flight for a client."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mosquitto.conf"
        file.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
            f"max_inflight_messages {task.options['window']}\nuser root\n"
        )
        async with running(["mosquitto", "-c", str(file)], ports=[port]) as (pid,):
            task.cpu_clock = lambda: cpu_seconds(pid)
            task.introduce(port=port)
            task.report()
            await task.dismissed_async()


def cpu_seconds(pid: int) -> float:
    """Read the processor time of another process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def paho(task: Task) -> None:
    """Publish and consume with so many pairs of paho's clients, which have a thread each."""
    from benchmarks.paho_clients import pairs_of_clients

    pairs_of_clients(task)


def _ours(name: str, pairs: int, count: int, *, on_disk: bool) -> Variant:
    return Variant(
        name, ("benchmarks.qos2:broker", "benchmarks.qos2:clients"), delivered, "deliveries/s",
        count, 100, {"pairs": pairs, "on_disk": on_disk},
    )  # fmt: skip


def _mosquitto(name: str, pairs: int, count: int, window: int) -> Variant:
    return Variant(
        name, ("benchmarks.qos2:mosquitto", "benchmarks.qos2:paho"), delivered, "deliveries/s",
        count, 100, {"pairs": pairs, "window": window}, "paho", "mosquitto",
    )  # fmt: skip


BENCHMARK: Final = Benchmark(
    "qos2",
    "The QoS-2 broker: 100 bytes, each exactly once; broker in one process, all clients in another",
    (
        _mosquitto("mosquitto, 1 in flight, 1 pair", 1, 2_000, 1),
        _mosquitto("mosquitto, 1 in flight, 16 pairs", 16, 4_800, 1),
        _mosquitto("mosquitto, 20 in flight, 16 pairs", 16, 9_600, 20),
        _ours("in memory, 1 pair", 1, 400, on_disk=False),
        _ours("in memory, 16 pairs", 16, 1_600, on_disk=False),
        _ours("on disk, 1 pair", 1, 400, on_disk=True),
        _ours("on disk, 16 pairs", 16, 1_600, on_disk=True),
    ),
    (
        Goal("in memory, 1 pair", "mosquitto, 1 in flight, 1 pair"),
        Goal("in memory, 16 pairs", "mosquitto, 1 in flight, 16 pairs"),
        Goal("in memory, 16 pairs", "mosquitto, 20 in flight, 16 pairs"),
        Goal("on disk, 16 pairs", "mosquitto, 20 in flight, 16 pairs"),
    ),
)
