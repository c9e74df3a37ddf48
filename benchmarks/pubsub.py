"""Publish and subscribe: messages a second, from the first call to the last one that was read."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import cycle, islice
from typing import Final

import peermesh
import peermesh.blocking
from benchmarks.harness import Benchmark, Facts, Figures, Goal, Variant, rate, work
from benchmarks.role import Task
from benchmarks.workload import MARKS, TOPIC, Disorder, Expected, event, events, messages, payloads
from peermesh import EndpointId

BATCH_COUNT: Final = 1_000
"""Messages in one call of ``publish_batch``: about as many as it handles together."""

SMALL_BATCH_COUNT: Final = 100
"""The same where a call's own cost shows."""


# The two ends, in trio.


@asynccontextmanager
async def subscribing(task: Task) -> AsyncIterator[peermesh.Subscriber]:
    """Listen and subscribe, and say where; stay until dismissed."""
    async with peermesh.Endpoint() as endpoint:
        with endpoint.subscribe(TOPIC) as subscriber:
            port = await endpoint.listen()
            task.introduce(port=port, node_id=str(endpoint.node_id()))
            yield subscriber
            await task.dismissed_async()


@asynccontextmanager
async def publishing(task: Task) -> AsyncIterator[peermesh.Endpoint]:
    """Peer with the endpoint met last, and wait for the first one's subscription to be known."""
    async with peermesh.Endpoint() as endpoint:
        assert await endpoint.peer("127.0.0.1", task.last_met["port"])
        assert await endpoint.await_peer(EndpointId.parse(task.met[0]["node_id"]))
        task.introduce()
        yield endpoint
        await task.dismissed_async()


async def publish(task: Task) -> None:
    """Await one call for each message."""
    async with publishing(task) as endpoint:
        began = time.monotonic_ns()
        for payload in messages(task.count, task.size):
            await endpoint.publish(TOPIC, payload)
        task.report(began_ns=began)


async def subscribe(task: Task) -> None:
    """Read message by message."""
    async with subscribing(task) as subscriber:
        taken, size = 0, task.size
        async for _, data in subscriber:
            if len(data) != size or data[0] != taken % MARKS:
                raise Disorder(taken, data)
            taken += 1
            if taken == task.count:
                break
        task.report(ended_ns=time.monotonic_ns(), taken=taken)


async def publish_batches(task: Task, batch_count: int = BATCH_COUNT) -> None:
    """Await one call for many messages on any topics."""
    source = cycle([(TOPIC, payload) for payload in payloads(task.size)])
    async with publishing(task) as endpoint:
        began = time.monotonic_ns()
        for start in range(0, task.count, batch_count):
            batch = list(islice(source, min(batch_count, task.count - start)))
            await endpoint.publish_batch(batch)
        task.report(began_ns=began)


async def publish_small_batches(task: Task) -> None:
    """Await one call for some messages on any topics."""
    await publish_batches(task, SMALL_BATCH_COUNT)


async def publish_batches_on_topic(task: Task) -> None:
    """Await one call for many messages on one topic."""
    source = messages(task.count, task.size)
    async with publishing(task) as endpoint:
        publisher = endpoint.publisher(TOPIC)
        began = time.monotonic_ns()
        while batch := list(islice(source, BATCH_COUNT)):
            await publisher.publish_batch(batch)
        task.report(began_ns=began)


async def subscribe_batches(task: Task) -> None:
    """Wait for a message, and take all others that are there, too."""
    async with subscribing(task) as subscriber:
        taken, expected = 0, Expected(task.size)
        while taken < task.count:
            batch = await subscriber.get_batch()
            expected.check(batch)
            taken += len(batch)
        task.report(ended_ns=time.monotonic_ns(), taken=taken)


async def publish_events(task: Task) -> None:
    """Await one call for each event, which has to be encoded."""
    async with publishing(task) as endpoint:
        began = time.monotonic_ns()
        for value in events(task.count):
            await endpoint.publish(TOPIC, value)
        task.report(began_ns=began)


async def subscribe_events(task: Task) -> None:
    """Read event by event, each decoded."""
    async with subscribing(task) as subscriber:
        taken = 0
        async for _, data in subscriber:
            if data[1][1][0] != taken % MARKS:
                raise Disorder(taken, data)
            taken += 1
            if taken == task.count:
                break
        if data != event((taken - 1) % MARKS):
            raise Disorder(taken - 1, data)
        task.report(ended_ns=time.monotonic_ns(), taken=taken)


# The two ends, in plain Python.


@contextmanager
def publishing_blocking(task: Task) -> Iterator[peermesh.blocking.Endpoint]:
    """Peer, and wait for the subscription to be known."""
    with peermesh.blocking.Endpoint() as endpoint:
        assert endpoint.peer("127.0.0.1", task.last_met["port"])
        assert endpoint.await_peer(EndpointId.parse(task.met[0]["node_id"]))
        task.introduce()
        yield endpoint
        task.dismissed()


def publish_blocking(task: Task) -> None:
    """Call once for each message."""
    with publishing_blocking(task) as endpoint:
        began = time.monotonic_ns()
        for payload in messages(task.count, task.size):
            endpoint.publish(TOPIC, payload)
        task.report(began_ns=began)


def subscribe_blocking(task: Task) -> None:
    """Read message by message."""
    with peermesh.blocking.Endpoint() as endpoint, endpoint.subscribe(TOPIC) as subscriber:
        port = endpoint.listen()
        task.introduce(port=port, node_id=str(endpoint.node_id()))
        taken, size = 0, task.size
        for _, data in subscriber:
            if len(data) != size or data[0] != taken % MARKS:
                raise Disorder(taken, data)
            taken += 1
            if taken == task.count:
                break
        task.report(ended_ns=time.monotonic_ns(), taken=taken)
        task.dismissed()


def codec_rate(facts: Facts) -> Figures:
    """Events a second that the slower of encoding and decoding allows."""
    slower_ns = max(facts["encoding_ns"], facts["decoding_ns"])
    return {"per second": facts["count"] / slower_ns * 1e9, **work(facts, facts["count"])}


SMALL: Final = 100
LARGE: Final = 10_000
FLOOR: Final = ("benchmarks.floors:receive", "benchmarks.floors:send")
MESH: Final = ("benchmarks.pubsub:subscribe", "benchmarks.pubsub:publish")
BLOCKING: Final = ("benchmarks.pubsub:subscribe_blocking", "benchmarks.pubsub:publish_blocking")


def _variant(
    name: str, roles: tuple[str, str], count: int, size: int, needs: str | None = None
) -> Variant:
    return Variant(name, roles, rate, "messages/s", count, size, needs=needs)


def _peer(name: str, roles: str, count: int, size: int, needs: str) -> Variant:
    sink, source = (f"benchmarks.peers:{role}" for role in roles.split())
    return _variant(name, (sink, source), count, size, needs)


BENCHMARK: Final = Benchmark(
    "pubsub",
    "Publish and subscribe, two processes",
    (
        _variant("floor 100 B", FLOOR, 2_000_000, SMALL),
        _variant("publish 100 B", MESH, 1_000_000, SMALL),
        _variant(
            "publish_batch 100 B",
            ("benchmarks.pubsub:subscribe_batches", "benchmarks.pubsub:publish_batches"),
            2_000_000,
            SMALL,
        ),
        _variant(
            "publish_batch of 100, 100 B",
            ("benchmarks.pubsub:subscribe_batches", "benchmarks.pubsub:publish_small_batches"),
            2_000_000,
            SMALL,
        ),
        _variant(
            "Publisher.publish_batch 100 B",
            ("benchmarks.pubsub:subscribe_batches", "benchmarks.pubsub:publish_batches_on_topic"),
            2_000_000,
            SMALL,
        ),
        _variant("blocking 100 B", BLOCKING, 1_000_000, SMALL),
        _peer("zmq PUSH/PULL 100 B", "pull push", 500_000, SMALL, "zmq"),
        _peer(
            "zmq PUB/SUB 100 B", "subscribe_two_frames publish_two_frames", 200_000, SMALL, "zmq"
        ),
        _peer(
            "zmq PUB/SUB one frame 100 B",
            "subscribe_one_frame publish_one_frame",
            500_000,
            SMALL,
            "zmq",
        ),
        _peer("zenoh 100 B", "subscribe_zenoh publish_zenoh", 500_000, SMALL, "zenoh"),
        _variant("floor 10 KB", FLOOR, 150_000, LARGE),
        _variant("publish 10 KB", MESH, 100_000, LARGE),
        _variant("blocking 10 KB", BLOCKING, 100_000, LARGE),
        _peer("zmq PUSH/PULL 10 KB", "pull push", 50_000, LARGE, "zmq"),
        _peer("zmq PUB/SUB 10 KB", "subscribe_two_frames publish_two_frames", 50_000, LARGE, "zmq"),
        _peer(
            "zmq PUB/SUB one frame 10 KB",
            "subscribe_one_frame publish_one_frame",
            50_000,
            LARGE,
            "zmq",
        ),
        _peer("zenoh 10 KB", "subscribe_zenoh publish_zenoh", 100_000, LARGE, "zenoh"),
        Variant(
            "codec event",
            ("benchmarks.floors:decode_events", "benchmarks.floors:encode_events"),
            codec_rate,
            "events/s",
            400_000,
        ),
        Variant(
            "publish event",
            ("benchmarks.pubsub:subscribe_events", "benchmarks.pubsub:publish_events"),
            rate,
            "events/s",
            300_000,
        ),
    ),
    (
        Goal("publish 100 B", "floor 100 B", at_least=0.5),
        Goal("publish 10 KB", "floor 10 KB", at_least=0.5),
        Goal("publish_batch 100 B", "publish 100 B", at_least=2),
        Goal("publish_batch of 100, 100 B", "publish 100 B"),
        Goal("Publisher.publish_batch 100 B", "publish 100 B", at_least=2),
        Goal("blocking 100 B", "publish 100 B", at_least=0.7),
        Goal("blocking 10 KB", "publish 10 KB", at_least=0.7),
        Goal("publish event", "codec event", at_least=0.8),
        Goal("publish 100 B", "zmq PUB/SUB 100 B", at_least=1.4),
        Goal("publish 100 B", "zmq PUB/SUB one frame 100 B", at_least=1.4),
        Goal("publish 10 KB", "zmq PUB/SUB 10 KB", at_least=1.4),
        Goal("publish 10 KB", "zmq PUB/SUB one frame 10 KB", at_least=1.4),
        Goal("publish 100 B", "zenoh 100 B", at_least=1),
        Goal("publish 10 KB", "zenoh 10 KB"),
        Goal("publish 100 B", "zmq PUSH/PULL 100 B", at_least=1),
        Goal("publish 10 KB", "zmq PUSH/PULL 10 KB", at_least=1),
    ),
)
