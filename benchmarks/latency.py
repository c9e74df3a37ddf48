"""Request and reply: the time of a round trip of 100 bytes, on one core and on any."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Any, Final

import trio

import peermesh
from benchmarks.harness import Benchmark, Facts, Figures, Goal, Variant, round_trip
from benchmarks.role import Task
from benchmarks.workload import TOPIC, Disorder, messages
from peermesh import EndpointId

REQUEST: Final = f"{TOPIC}/request"
REPLY: Final = f"{TOPIC}/reply"
BULK: Final = f"{TOPIC}/bulk"
LARGE: Final = 10_240
BULK_COUNT: Final = 50 * 1024 * 1024 // LARGE


async def reply(task: Task) -> None:
    """Answer each request with itself."""
    async with peermesh.Endpoint() as endpoint:
        with endpoint.subscribe(REQUEST) as requests:
            port = await endpoint.listen()
            task.introduce(port=port, node_id=str(endpoint.node_id()))
            for _ in range(task.count):
                _, data = await requests.get()
                await endpoint.publish(REPLY, data)
            task.report()
            await task.dismissed_async()


async def request(task: Task) -> None:
    """Time each round trip."""
    async with peermesh.Endpoint() as endpoint:
        with endpoint.subscribe(REPLY) as replies:
            assert await endpoint.peer("127.0.0.1", task.last_met["port"])
            assert await endpoint.await_peer(EndpointId.parse(task.last_met["node_id"]))
            task.introduce()
            task.report(trips_ns=await _ask(endpoint, replies, task))
            await task.dismissed_async()


async def _ask(endpoint: peermesh.Endpoint, replies: peermesh.Subscriber, task: Task) -> list[int]:
    """Ask, and wait for the answer, again and again; give the nanoseconds of each time."""
    trips: list[int] = []
    for payload in messages(task.count, task.size):
        began = time.monotonic_ns()
        await endpoint.publish(REQUEST, payload)
        _, data = await replies.get()
        trips.append(time.monotonic_ns() - began)
        if data != payload:
            raise Disorder(len(trips) - 1, data)
    return trips


async def want(task: Task) -> None:
    """Subscribe to what the process that asks publishes besides, and never read it."""
    async with peermesh.Endpoint() as endpoint:
        with endpoint.subscribe(BULK):
            port = await endpoint.listen()
            task.introduce(port=port, pid=os.getpid())
            task.report()
            await task.dismissed_async()


async def request_beside(task: Task) -> None:
    """Time each round trip beside another peer: an idle one, or a stopped one that wants 50 MB."""
    other, answering = task.met
    async with peermesh.Endpoint() as endpoint:
        with endpoint.subscribe(REPLY) as replies:
            for each in task.met:
                assert await endpoint.peer("127.0.0.1", each["port"])
            assert await endpoint.await_peer(EndpointId.parse(answering["node_id"]))
            assert await endpoint.await_subscribed(BULK)
            task.introduce()
            async with trio.open_nursery() as nursery:
                if task.options.get("stopped"):
                    os.kill(other["pid"], signal.SIGSTOP)
                    nursery.start_soon(_publish_bulk, endpoint)
                try:
                    trips = await _ask(endpoint, replies, task)
                finally:
                    os.kill(other["pid"], signal.SIGCONT)
                nursery.cancel_scope.cancel()
            task.report(trips_ns=trips)
        await task.dismissed_async()


async def _publish_bulk(endpoint: peermesh.Endpoint) -> None:
    for payload in messages(BULK_COUNT, LARGE):
        await endpoint.publish(BULK, payload)


def slow_end(facts: Facts) -> Figures:
    """Give the slow end of all round trips first."""
    figures = round_trip(facts)
    return {"p99 µs": figures.pop("p99 µs"), **figures}


KINDS: Final = {
    "bare loop": ("benchmarks.floors:echo_bare", "benchmarks.floors:ask_bare", None),
    "trio socket": ("benchmarks.floors:echo_socket", "benchmarks.floors:ask_socket", None),
    "peermesh": ("benchmarks.latency:reply", "benchmarks.latency:request", None),
    "zmq REQ/REP": ("benchmarks.peers:reply_zmq", "benchmarks.peers:request_zmq", "zmq"),
    "zenoh": ("benchmarks.peers:reply_zenoh", "benchmarks.peers:request_zenoh", "zenoh"),
}
PLACES: Final = {"one core": {"core": 0}, "any core": {}}
BESIDE: Final = (
    "benchmarks.latency:want", "benchmarks.latency:reply", "benchmarks.latency:request_beside",
)  # fmt: skip
ASLEEP: Final = {"environment": {"PEERMESH_BUSY_POLL_MICROSECONDS": "0"}}
"""As endpoints were without busy polling; on one core they are in any case."""


def _variant(kind: str, name: str, options: Mapping[str, Any]) -> Variant:
    first, second, needs = KINDS[kind]
    roles = (first, second)
    return Variant(name, roles, round_trip, "µs", 5_000, 100, options=options, needs=needs)


def _variants() -> tuple[Variant, ...]:
    kinds = [
        _variant(kind, f"{kind}, {place}", options)
        for place, options in PLACES.items()
        for kind in KINDS
    ]
    beside = [
        Variant(f"slow end beside {what}", BESIDE, slow_end, "µs", 5_000, 100, options)
        for what, options in (("an idle peer", {}), ("a stopped peer", {"stopped": True}))
    ]
    return (*kinds, _variant("peermesh", "peermesh asleep, any core", ASLEEP), *beside)


def _goals(place: str) -> tuple[Goal, ...]:
    mesh = f"peermesh, {place}"
    return (
        Goal(mesh, f"trio socket, {place}", at_most=1.5),
        Goal(mesh, f"bare loop, {place}"),
        Goal(mesh, f"zmq REQ/REP, {place}"),
        Goal(mesh, f"zenoh, {place}"),
    )


BENCHMARK: Final = Benchmark(
    "latency",
    "Request and reply of 100 bytes, two processes",
    _variants(),
    (
        *_goals("one core"),
        *_goals("any core"),
        Goal("peermesh asleep, any core", "trio socket, any core"),
        Goal("slow end beside a stopped peer", "slow end beside an idle peer", at_most=1.2),
    ),
)
