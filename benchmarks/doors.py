"""The doors beside each other: the same work in trio, in asyncio, in uvloop, and in threads.

trio and asyncio have the same colours, so that one coroutine is measured in both. At the other end
is always trio, in a process of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

import peermesh
from benchmarks.harness import Benchmark, Goal, Variant, alone, rate
from benchmarks.mixes import PREFIX, Reader, mixed
from benchmarks.role import Task
from benchmarks.sqlite_floors import KEYS
from benchmarks.store import IDLE_SECONDS, NAME
from benchmarks.workload import Disorder, payloads
from peermesh import EndpointId, aio

Work = Callable[[Any, Task, Callable[[], Awaitable[None]]], Awaitable[None]]
"""Works with the API of a door, and waits until it is dismissed."""


async def publish(api: Any, task: Task, dismissed: Callable[[], Awaitable[None]]) -> None:
    """Await one call for each message."""
    source = mixed(task.options["mix"], task.count, task.size)
    async with api.Endpoint() as endpoint:
        assert await endpoint.peer("127.0.0.1", task.last_met["port"])
        assert await endpoint.await_subscribed(PREFIX)
        task.introduce()
        began = time.monotonic_ns()
        for topic, payload in source:
            await endpoint.publish(topic, payload)
        task.report(began_ns=began)
        await dismissed()


async def read(api: Any, task: Task, dismissed: Callable[[], Awaitable[None]]) -> None:
    """Await one call of ``get`` for each message."""
    reader = Reader(task)
    async with api.Endpoint() as endpoint:
        subscriber = endpoint.subscribe(PREFIX)
        port = await endpoint.listen()
        task.introduce(port=port, node_id=str(endpoint.node_id()))
        while not reader.take(*await subscriber.get()):
            pass
        task.report(ended_ns=time.monotonic_ns(), taken=reader.taken)
        await dismissed()


async def put(api: Any, task: Task, dismissed: Callable[[], Awaitable[None]]) -> None:
    """Put one after the other without waiting, until the store is idle."""
    values = payloads(task.size)
    async with api.Endpoint() as endpoint, endpoint.attach_clone(NAME) as clone:
        await _join(endpoint, task)
        assert await clone.await_idle()
        task.introduce()
        began = time.monotonic_ns()
        for number in range(task.count):
            await clone.put(f"key{number % KEYS}", values[number % len(values)])
        assert await clone.await_idle(timeout=IDLE_SECONDS)
        task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=task.count)
        await dismissed()


async def look_up(api: Any, task: Task, dismissed: Callable[[], Awaitable[None]]) -> None:
    """Read a key again and again from a clone."""
    value = payloads(task.size)[0]
    async with api.Endpoint() as endpoint, endpoint.attach_clone(NAME) as clone:
        await _join(endpoint, task)
        await clone.put("key", value)
        assert await clone.await_idle(timeout=IDLE_SECONDS)
        task.introduce()
        began = time.monotonic_ns()
        for number in range(task.count):
            if await clone.get("key") != value:
                raise Disorder(number, "another value")
        task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=task.count)
        await dismissed()


async def _join(endpoint: Any, task: Task) -> None:
    assert await endpoint.peer("127.0.0.1", task.last_met["port"])
    assert await endpoint.await_peer(EndpointId.parse(task.last_met["node_id"]))


WORK: Final[dict[str, Work]] = {"publish": publish, "read": read, "put": put, "look_up": look_up}


async def in_trio(task: Task) -> None:
    """Do what the options say, in trio."""
    await WORK[task.options["work"]](peermesh, task, task.dismissed_async)


def in_asyncio(task: Task) -> None:
    """Do what the options say, in asyncio."""
    asyncio.run(_in_asyncio(task))


def in_uvloop(task: Task) -> None:
    """Do what the options say, in uvloop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_in_asyncio(task))


async def _in_asyncio(task: Task) -> None:
    dismissed = partial(asyncio.to_thread, task.dismissed)
    await WORK[task.options["work"]](aio, task, dismissed)


SMALL: Final = 100
HERE: Final = "benchmarks.doors"
SUBSCRIBE: Final = "benchmarks.mixes:subscribe"
PUBLISH: Final = "benchmarks.mixes:publish"
MASTER: Final = "benchmarks.store:master"
BLOCKING: Final = "benchmarks.mixes:publish_blocking"
DOORS: Final = (("trio", None), ("asyncio", None), ("uvloop", "uvloop"))


def _variants() -> Iterator[Variant]:
    for count, often in ((1, 600_000), (64, 400_000)):
        topics = f"{count} topic" + ("s" if count > 1 else "")
        options = {"mix": f"turn {count}"}
        for door, needs in DOORS:
            ours = f"{HERE}:in_{door}"
            for work, roles in (("publish", (SUBSCRIBE, ours)), ("read", (ours, PUBLISH))):
                name = f"{work} in {door}, {topics}"
                said = {**options, "work": work}
                yield Variant(name, roles, rate, "messages/s", often, SMALL, said, needs)
        yield Variant(
            f"publish in threads, {topics}",
            (SUBSCRIBE, BLOCKING),
            rate,
            "messages/s",
            often,
            SMALL,
            options,
        )
    for work, what, measure, often in (
        ("put", "pipelined puts", rate, 100_000),
        ("look_up", "gets of a clone", alone_of_two, 400_000),
    ):
        for door, needs in DOORS:
            roles = (MASTER, f"{HERE}:in_{door}")
            name = f"{what} in {door}"
            yield Variant(name, roles, measure, "a second", often, SMALL, {"work": work}, needs)


def alone_of_two(facts: Any) -> dict[str, float]:
    """Rate of the process that was started last."""
    return alone({**facts, "cpu_seconds": facts["cpu_seconds"][-1:]})


def _goals() -> Iterator[Goal]:
    for topics in ("1 topic", "64 topics"):
        for work, least in (("publish", 0.65), ("read", 0.6)):
            for door in ("asyncio", "uvloop"):
                against = f"{work} in trio, {topics}"
                yield Goal(f"{work} in {door}, {topics}", against, at_least=least)
        yield Goal(f"publish in threads, {topics}", f"publish in trio, {topics}", at_least=0.8)
    for what in ("pipelined puts", "gets of a clone"):
        for door in ("asyncio", "uvloop"):
            yield Goal(f"{what} in {door}", f"{what} in trio", at_least=0.6)


BENCHMARK: Final = Benchmark(
    "doors",
    "The same work in trio, in asyncio with two kinds of loop, and in threads",
    tuple(_variants()),
    tuple(_goals()),
)
