"""Publish and subscribe on many topics: messages a second when each message may have another topic.

A sender that has one topic only is the easiest there is; users have many. Each mix is an order of
topics, and all systems publish the same messages in the same order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import cycle, islice
from random import Random
from typing import Final

import trio

import peermesh
from benchmarks.harness import Benchmark, Goal, Variant, rate
from benchmarks.pubsub import publishing, publishing_blocking
from benchmarks.role import Task
from benchmarks.tls import SECRET
from benchmarks.workload import Disorder, payloads

PERIOD: Final = 4_096
"""Messages after which an order of topics begins anew. It has no factor in common with the number
of payloads, so that each topic meets all of them."""

PREFIX: Final = "benchmark/"
SLOW: Final = "slow"
FILL_SECONDS: Final = 0.5
"""Until the queue of a slow reader is full, and its publisher waits."""

HALVES: Final = (f"{PREFIX}even/", f"{PREFIX}odd/")


def order(mix: str) -> list[str]:
    """Give the topics of a mix in the order in which they are published: a period of it."""
    kind, _, number = mix.partition(" ")
    count = int(number)
    topics = [f"{HALVES[place % 2]}{place}" for place in range(count)]
    chance = Random(1)
    match kind:
        case "turn":
            return topics
        case "random":
            return chance.choices(topics, k=PERIOD)
        case "zipf":
            weights = [1 / rank for rank in range(1, count + 1)]
            return chance.choices(topics, weights, k=PERIOD)
    raise ValueError(f"{mix!r}: it is turn, random or zipf, and a number of topics")


def mixed(mix: str, count: int, size: int) -> Iterator[tuple[str, bytes]]:
    """Give so many messages of a mix with their topics."""
    return islice(zip(cycle(order(mix)), cycle(payloads(size)), strict=False), count)


class Reader:
    """Checks that the messages of a mix come whole and in their order, each on its topic."""

    def __init__(self, task: Task, prefix: str = PREFIX) -> None:
        """Expect all messages, or those whose topic has the prefix."""
        source = mixed(task.options["mix"], task.count, task.size)
        self._expected = (pair for pair in source if pair[0].startswith(prefix))
        topics = islice(cycle(order(task.options["mix"])), task.count)
        self._left = sum(topic.startswith(prefix) for topic in topics)
        self.taken = 0

    def take(self, topic: str, data: object) -> bool:
        """Check the next message; true if it was the last one. Raises ``Disorder``."""
        expected_topic, payload = next(self._expected)
        if topic != expected_topic or data != payload:
            raise Disorder(self.taken, (topic, data))
        self.taken += 1
        self._left -= 1
        return not self._left


async def publish(task: Task) -> None:
    """Await one call for each message."""
    source = mixed(task.options["mix"], task.count, task.size)
    async with publishing(task) as endpoint:
        began = time.monotonic_ns()
        for topic, payload in source:
            await endpoint.publish(topic, payload)
        task.report(began_ns=began)


async def publish_beside(task: Task) -> None:
    """Await one call for each message, while another task publishes for a slow reader."""
    source = mixed(task.options["mix"], task.count, task.size)
    payload = payloads(task.size)[0]
    async with publishing(task) as endpoint, trio.open_nursery() as nursery:

        async def publish_slow() -> None:
            while True:
                await endpoint.publish(SLOW, payload)

        nursery.start_soon(publish_slow)
        await trio.sleep(FILL_SECONDS)
        began = time.monotonic_ns()
        for topic, text in source:
            await endpoint.publish(topic, text)
        task.report(began_ns=began)
        nursery.cancel_scope.cancel()


def publish_blocking(task: Task) -> None:
    """Call once for each message, in plain Python."""
    source = mixed(task.options["mix"], task.count, task.size)
    with publishing_blocking(task) as endpoint:
        began = time.monotonic_ns()
        for topic, payload in source:
            endpoint.publish(topic, payload)
        task.report(began_ns=began)


async def subscribe(task: Task) -> None:
    """Read message by message: all with one subscriber, or each half with its own.

    With ``slow``, another subscriber reads a message a second of a topic of its own.
    """
    prefixes = task.options.get("prefixes", [PREFIX])
    readers = [Reader(task, prefix) for prefix in prefixes]
    async with peermesh.Endpoint() as endpoint:
        subscribers = [endpoint.subscribe(prefix) for prefix in prefixes]
        port = await endpoint.listen()
        task.introduce(port=port, node_id=str(endpoint.node_id()))
        async with trio.open_nursery() as beside:
            if task.options.get("slow"):
                beside.start_soon(_read_slowly, endpoint.subscribe(SLOW))
            async with trio.open_nursery() as nursery:
                for subscriber, reader in zip(subscribers, readers, strict=True):
                    nursery.start_soon(_read, subscriber, reader)
            beside.cancel_scope.cancel()
        ended = time.monotonic_ns()
        task.report(ended_ns=ended, taken=sum(reader.taken for reader in readers))
        await task.dismissed_async()


async def _read(subscriber: peermesh.Subscriber, reader: Reader) -> None:
    async for topic, data in subscriber:
        if reader.take(topic, data):
            break


async def _read_slowly(subscriber: peermesh.Subscriber) -> None:
    while True:
        await subscriber.get()
        await trio.sleep(1)


MESH: Final = ("benchmarks.mixes:subscribe", "benchmarks.mixes:publish")
BESIDE: Final = ("benchmarks.mixes:subscribe", "benchmarks.mixes:publish_beside")
BLOCKING: Final = ("benchmarks.mixes:subscribe", "benchmarks.mixes:publish_blocking")
RELAYED: Final = (MESH[0], "benchmarks.relay:relay", MESH[1])
ZMQ: Final = ("benchmarks.mixed_peers:subscribe_zmq", "benchmarks.mixed_peers:publish_zmq")
ZENOH: Final = ("benchmarks.mixed_peers:subscribe_zenoh", "benchmarks.mixed_peers:publish_zenoh")

SMALL: Final = 100
MIDDLE: Final = 1_000
LARGE: Final = 10_000

PROTECTED: Final = {"environment": {"PEERMESH_SECRET": SECRET.text()}}
SIGNED: Final = {"environment": {"PEERMESH_SIGN": "true"}}

SIZES: Final = {SMALL: ("100 B", 200_000), MIDDLE: ("1 KB", 100_000), LARGE: ("10 KB", 20_000)}
MANY: Final = 1_000_000
"""Messages of 100 B where one topic is all there is: fewer would be over at once."""


def _variant(
    what: str,
    mix: str,
    roles: tuple[str, ...] = MESH,
    size: int = SMALL,
    count: int = 0,
    needs: str | None = None,
    **options: object,
) -> Variant:
    text, usual = SIZES[size]
    name = f"{what} {text}".strip()
    return Variant(
        name, roles, rate, "messages/s", count or usual, size, {"mix": mix, **options}, needs
    )


def _variants() -> Iterator[Variant]:
    for count, often in ((1, MANY), (2, 0), (8, 0), (64, 0), (1_000, 0)):
        plural = "topic" if count == 1 else "topics"
        yield _variant(f"{count:,} {plural}", f"turn {count}", count=often)
    yield _variant("64 at random", "random 64")
    yield _variant("Zipf of 1,000", "zipf 1000")
    yield _variant("two subscribers, 64 topics", "turn 64", prefixes=HALVES)
    yield _variant("64 topics beside a slow reader", "turn 64", BESIDE, slow=True)
    yield _variant("blocking, 64 topics", "turn 64", BLOCKING)
    yield _variant("relayed, 64 topics", "turn 64", RELAYED)
    yield _variant("TLS, 64 topics", "turn 64", **PROTECTED)
    yield _variant("signed, 64 topics", "turn 64", count=20_000, **SIGNED)
    for count, often in ((1, 500_000), (64, 0)):
        plural = "topic" if count == 1 else "topics"
        mix = f"turn {count}"
        yield _variant(f"zmq one frame, {count} {plural}", mix, ZMQ, count=often, needs="zmq")
        yield _variant(f"zenoh, {count} {plural}", mix, ZENOH, count=often, needs="zenoh")
    for size in (MIDDLE, LARGE):
        yield _variant("1 topic", "turn 1", size=size)
        yield _variant("64 topics", "turn 64", size=size)
        yield _variant("relayed, 64 topics", "turn 64", RELAYED, size)
        yield _variant("zmq one frame, 64 topics", "turn 64", ZMQ, size, needs="zmq")
        yield _variant("zenoh, 64 topics", "turn 64", ZENOH, size, needs="zenoh")


BENCHMARK: Final = Benchmark(
    "mixes",
    "Publish and subscribe on mixes of topics, two processes",
    tuple(_variants()),
    (
        Goal("64 topics 100 B", "zmq one frame, 64 topics 100 B", at_least=1.4),
        Goal("64 topics 100 B", "zenoh, 64 topics 100 B", at_least=2),
        Goal("64 topics 100 B", "1 topic 100 B", at_least=0.6),
        Goal("1,000 topics 100 B", "1 topic 100 B", at_least=0.35),
        Goal("64 at random 100 B", "1 topic 100 B"),
        Goal("Zipf of 1,000 100 B", "1 topic 100 B"),
        Goal("two subscribers, 64 topics 100 B", "64 topics 100 B"),
        Goal("64 topics beside a slow reader 100 B", "64 topics 100 B", at_least=0.9),
        Goal("blocking, 64 topics 100 B", "64 topics 100 B", at_least=0.8),
        Goal("relayed, 64 topics 100 B", "64 topics 100 B", at_least=0.8),
        Goal("TLS, 64 topics 100 B", "64 topics 100 B"),
        Goal("signed, 64 topics 100 B", "64 topics 100 B"),
        Goal("64 topics 1 KB", "zmq one frame, 64 topics 1 KB"),
        Goal("64 topics 10 KB", "zenoh, 64 topics 10 KB", at_least=0.8),
        Goal("64 topics 10 KB", "1 topic 10 KB", at_least=0.9),
        Goal("relayed, 64 topics 10 KB", "64 topics 10 KB"),
    ),
)
