"""The edge broker: messages a second through a topic's own channel, beside a bare trio relay."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import Final

import trio

from benchmarks.harness import Benchmark, Facts, Figures, Goal, Variant, alone
from benchmarks.role import Task
from benchmarks.workload import MARKS, Disorder, messages, payloads
from peermesh.brokers.edge import Publisher, RemoteRegistry, Subscriber, open_edge_broker

RECEIVE_SIZE: Final = 128 * 1024
SUBSCRIBERS: Final = 4


def through_a_channel(task: Task) -> None:
    """Publisher, broker and subscriber in one process, over loopback."""
    trio.run(_through_a_channel, task)


async def _through_a_channel(task: Task) -> None:
    made = payloads(task.size)
    async with (
        open_edge_broker() as host,
        RemoteRegistry([host.registry_address]) as registry,
        Publisher(registry) as publisher,
        Subscriber(registry) as subscriber,
    ):
        await subscriber.subscribe("bench")
        await publisher.send("bench", b"first")
        await subscriber.get()
        await _be_direct(publisher, subscriber)

        async def send() -> None:
            for number in range(task.count):
                await publisher.send("bench", made[number % MARKS])

        async with trio.open_nursery() as nursery:
            task.introduce()
            began = time.monotonic_ns()
            nursery.start_soon(send)
            for number in range(task.count):
                _, data = await subscriber.get()
                if len(data) != task.size or data[0] != number % MARKS:
                    raise Disorder(number, data)
            ended = time.monotonic_ns()
        task.report(began_ns=began, ended_ns=ended, taken=task.count)
        task.dismissed()


async def _be_direct(*clients: Publisher | Subscriber) -> None:
    """Wait until nothing goes by the default channel any more."""
    while not all(client.statistics()[0].is_direct for client in clients):  # noqa: ASYNC110 - nobody tells
        await trio.sleep(0.01)


def through_all_subscribers(task: Task) -> None:
    """One message at a time, from its sending until every one of four subscribers has it."""
    trio.run(_through_all_subscribers, task)


async def _through_all_subscribers(task: Task) -> None:
    made = payloads(task.size)
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(open_edge_broker())
        registry = RemoteRegistry([host.registry_address])
        await stack.enter_async_context(registry)
        publisher = await stack.enter_async_context(Publisher(registry))
        nursery = await stack.enter_async_context(trio.open_nursery())
        readers = []
        for _ in range(SUBSCRIBERS):
            reader = await stack.enter_async_context(Subscriber(registry))
            await reader.subscribe("bench")
            readers.append(reader)
        await publisher.send("bench", b"first")
        await _be_direct(publisher, *readers)
        for reader in readers:
            nursery.start_soon(_read_forever, reader)
        trips = []
        task.introduce()
        for number in range(task.count):
            began = time.monotonic_ns()
            await publisher.send("bench", made[number % MARKS])
            await publisher.flush()
            trips.append(time.monotonic_ns() - began)
        task.report(trips_ns=trips)
        task.dismissed()
        nursery.cancel_scope.cancel()


async def _read_forever(reader: Subscriber) -> None:
    async for _ in reader:
        pass


def acknowledged(facts: Facts) -> Figures:
    """Give the middle and the slow end of all waits for an acknowledgement, in microseconds."""
    trips = sorted(facts["trips_ns"])
    (taken,) = facts["cpu_seconds"]
    middle, slow = trips[len(trips) // 2], trips[len(trips) * 99 // 100]
    return {
        "p50 µs": middle / 1e3,
        "p99 µs": slow / 1e3,
        "cpu µs out": taken * 1e6 / len(trips),
    }


def through_a_relay(task: Task) -> None:
    """The floor: a relay that copies bytes, and a reader that cuts them at the known size."""
    trio.run(_through_a_relay, task)


async def _through_a_relay(task: Task) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    streams: list[trio.SocketStream] = []
    first, both = trio.Event(), trio.Event()

    async def relay(stream: trio.SocketStream) -> None:
        streams.append(stream)
        first.set()
        if len(streams) == 2:
            both.set()
            while chunk := await streams[0].receive_some(RECEIVE_SIZE):
                await streams[1].send_all(chunk)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, relay, listeners)
        source = await trio.open_tcp_stream("127.0.0.1", port)
        await first.wait()
        sink = await trio.open_tcp_stream("127.0.0.1", port)
        await both.wait()

        async def send() -> None:
            batch: list[bytes] = []
            for payload in messages(task.count, task.size):
                batch.append(payload)
                if len(batch) * task.size >= RECEIVE_SIZE:
                    await source.send_all(b"".join(batch))
                    batch.clear()
            await source.send_all(b"".join(batch))

        task.introduce()
        began = time.monotonic_ns()
        nursery.start_soon(send)
        rest, number = b"", 0
        while number < task.count:
            rest += await sink.receive_some(RECEIVE_SIZE)
            at = 0
            while at + task.size <= len(rest):
                if rest[at] != number % MARKS:
                    raise Disorder(number, rest[at : at + task.size])
                at += task.size
                number += 1
            rest = rest[at:]
        task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=task.count)
        task.dismissed()
        nursery.cancel_scope.cancel()


BENCHMARK: Final = Benchmark(
    "edge",
    "The edge broker: one topic's channel, 100 bytes, publisher and subscriber in its process",
    (
        Variant(
            "a relay of bytes", ("benchmarks.edge:through_a_relay",), alone, "messages/s", 300_000,
            100,
        ),
        Variant(
            "a channel", ("benchmarks.edge:through_a_channel",), alone, "messages/s", 300_000, 100
        ),
        Variant(
            "acknowledged by four", ("benchmarks.edge:through_all_subscribers",), acknowledged,
            "µs", 3_000, 100,
        ),
    ),
    (Goal("a channel", "a relay of bytes", at_least=0.06),),
)  # fmt: skip
