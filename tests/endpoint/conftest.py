"""A mesh of real sockets in one process, and a peer made of bare bytes that does what it likes."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from endpoint import Endpoint, StatusCode, Subscriber
from endpoint.link.connection import Connection
from endpoint.replicas.logs.log import Log
from endpoint.replicas.logs.log_receipts import AppendReceipt
from handshake.effects import Failed
from peermesh.testing.hostile import SMALL_ID, HostilePeer, encoded, open_hostile
from peermesh.testing.time_limits import limit
from tests.waiting import until
from wire.codec import encode_header
from wire.framing import NodeFrame
from wire.identifiers import EndpointId
from wire.messages import NodeHeader, PackedType

# Endpoints of other processes that dial again may find that their port is ours now. On Linux each
# process can have a loopback address of its own.
_PID = os.getpid()
_IS_LINUX = sys.platform == "linux"
HOST = f"127.{_PID >> 16 & 127}.{_PID >> 8 & 255}.{_PID & 255 or 1}" if _IS_LINUX else "127.0.0.1"

GREAT_ID = EndpointId(b"\xff" * 16)


def distances(root: int, links: list[tuple[int, int]]) -> dict[int, int]:
    found, frontier = {root: 0}, deque([root])
    while frontier:
        here = frontier.popleft()
        for pair in links:
            if here in pair:
                there = pair[1] if pair[0] == here else pair[0]
                if there not in found:
                    found[there] = found[here] + 1
                    frontier.append(there)
    return found


def is_held(endpoint: Endpoint, topic: str = "/t", kind: PackedType = PackedType.BYTES) -> bool:
    """Tell whether what an endpoint publishes on a topic waits for a full place elsewhere."""
    header = encode_header(NodeHeader(kind, endpoint.node_id(), None, topic))
    return bool(endpoint.loop.holds.holders(header))


async def gather(subscriber: Subscriber, count: int) -> list:
    return [await subscriber.get() for _ in range(count)]


class World:
    """Endpoints that live as long as the test's block."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.closing = trio.Event()
        self.ports: dict[Endpoint, int] = {}

    @property
    def endpoints(self) -> list[Endpoint]:
        return list(self.ports)

    async def add(self, **settings: object) -> Endpoint:
        """Start an endpoint that listens."""
        return await self.adopt(Endpoint(**settings))

    async def adopt(self, endpoint: Endpoint) -> Endpoint:
        """Start an endpoint that was made already, and have it listen."""
        await self._nursery.start(self._live, endpoint)
        self.ports[endpoint] = await endpoint.listen(HOST)
        return endpoint

    async def _live(self, endpoint: Endpoint, task_status: trio.TaskStatus) -> None:
        async with endpoint:
            task_status.started()
            await self.closing.wait()

    async def grow(self, count: int, links: Iterable[tuple[int, int]]) -> list[Endpoint]:
        """Start endpoints, and peer them all at once."""
        fresh = [await self.add() for _ in range(count)]
        async with trio.open_nursery() as nursery:
            for left, right in links:
                nursery.start_soon(self.peer, fresh[left], fresh[right])
        return fresh

    async def peer(self, left: Endpoint, right: Endpoint) -> None:
        assert await left.peer(HOST, self.ports[right], timeout=limit())

    async def known(self) -> None:
        """Wait until everybody knows everybody, with all that they want."""
        everybody = self.endpoints
        digests = lambda: {endpoint.loop.core.digest() for endpoint in everybody}  # noqa: E731 - it is asked again and again
        await until(lambda: len(digests()) == 1)


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    with trio.fail_after(limit()):
        async with trio.open_nursery() as nursery:
            world = World(nursery)
            try:
                yield world
            finally:
                world.closing.set()


@asynccontextmanager
async def open_raw(
    endpoint: Endpoint, port: int, local: EndpointId = SMALL_ID, **words: Any
) -> AsyncIterator[HostilePeer]:
    """Connect a hostile peer; if it greets, wait until the endpoint has it for a peer."""
    async with open_hostile((HOST, port), local, **words) as raw:
        if raw.remote is not None:
            await until(lambda: local in endpoint.loop.peerings)
        yield raw


@asynccontextmanager
async def besieged(**settings: object) -> AsyncIterator[SimpleNamespace]:
    """Give a hub under attack, and a friend who must not notice."""
    async with open_world() as world:
        hub, friend = await world.add(**settings), await world.add()
        await world.peer(friend, hub)
        ear, mouth = friend.subscribe("/check"), hub.subscribe("/check")
        await world.known()
        status = hub.subscribe_status()
        connection = hub.loop.peerings[friend.node_id()].connection

        async def check() -> None:
            """The hub and its friend still hear each other, over the connection they had."""
            await hub.publish("/check", "from the hub")
            await friend.publish("/check", "from the friend")
            assert await ear.get() == ("/check", "from the hub")
            assert await mouth.get() == ("/check", "from the friend")
            await until(lambda: list(hub.loop.peerings) == [friend.node_id()])
            await until(lambda: len(hub.loop._connections) == 1)
            assert hub.loop.peerings[friend.node_id()].connection is connection
            assert len(hub.loop.greeter) == 0

        fields = {"world": world, "hub": hub, "friend": friend, "status": status, "check": check}
        yield SimpleNamespace(port=world.ports[hub], **fields)


class OwnedClock:
    """The watch of one endpoint in the test's hands: its seconds pass when the test says so."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._now = trio.current_time()
        self._peerings = endpoint.loop.peerings
        self._watch = endpoint.loop.watch
        self._looked_at: set[Connection] = set()
        endpoint.loop.watch = lambda now: None

    async def advance(self, seconds: int, *silent: EndpointId) -> None:
        """Let seconds pass, and in each the answers of all peers that are not silent."""
        for _ in range(seconds):
            connections = {
                each.connection: each.connection.bytes_received
                for each in self._peerings.values()
                if each.peer not in silent and each.connection in self._looked_at
            }
            # The first look at a peer begins to watch it, and asks nothing.
            self._looked_at |= {each.connection for each in self._peerings.values()}
            self._now += 1.0
            self._watch(self._now)
            if silent:
                await trio.testing.wait_all_tasks_blocked()
            for connection, received in connections.items():
                await _until_answered(connection, received)


async def _until_answered(connection: Connection, received: int) -> None:
    await until(lambda: not connection.peer or connection.bytes_received != received)


async def events_until(status, *codes: StatusCode) -> list:
    """Give all events up to the first one with one of these codes."""
    events = [await status.get()]
    while events[-1].status not in codes:
        events.append(await status.get())
    return events


class Producer:
    """Appends to a log without a pause, and remembers what was acknowledged."""

    def __init__(self, log: Log, name: str | None) -> None:
        self.log = log
        self.name = name
        self.asked: list[tuple[int, AppendReceipt]] = []
        self.is_over = False

    @property
    def acknowledged(self) -> int:
        return sum(receipt.is_resolved for _, receipt in self.asked)

    async def run(self) -> None:
        number = 0
        while not self.is_over:
            number += 1
            receipt = await self._append(number)
            self.asked.append((number, receipt))
            if number % 64 == 0:
                await receipt.applied()

    async def repeat_all(self) -> None:
        """Ask again for what is remembered, as after a restart: it is all there already."""
        for number, receipt in self.asked[-1_000:]:
            again = await self._append(number)
            assert await again.applied() == await receipt.applied()
            assert again.is_repeated()

    async def _append(self, number: int) -> AppendReceipt:
        sequence = None if self.name is None else number
        return await self.log.append(self.value(number), producer=self.name, sequence=sequence)

    def value(self, number: int) -> str:
        return f"{self.name} {number}"


async def check_appended(log: Log, producers: list[Producer]) -> None:
    """End the producers: all that they appended is in its place, and nothing is there twice."""
    for producer in producers:
        producer.is_over = True
    places = {}
    for producer in producers:
        for number, receipt in producer.asked:
            place = await receipt.applied()
            places[place.partition, place.offset] = producer.value(number)
    assert len(places) == sum(len(each.asked) for each in producers)
    found = {}
    for partition, span in (await log.offsets()).items():
        offset = 0
        while offset < span.end:
            for entry in await log.read(partition, offset):
                found[partition, entry.offset] = entry.value
                offset = entry.offset + 1
    assert found == places
    assert len(set(found.values())) == len(found)


@pytest.fixture
def kit() -> SimpleNamespace:
    """Give what tests of the real engine share: they cannot import each other."""
    return SimpleNamespace(
        host=HOST,
        small_id=SMALL_ID,
        great_id=GREAT_ID,
        world=open_world,
        raw=open_raw,
        besieged=besieged,
        encoded=encoded,
        until=until,
        events_until=events_until,
        distances=distances,
        is_held=is_held,
        gather=gather,
        Producer=Producer,
        check_appended=check_appended,
        clock=OwnedClock,
        patience=limit(),
        is_node=lambda message: isinstance(message, NodeFrame),
        is_refused=lambda verdict: isinstance(verdict, Failed),
    )
