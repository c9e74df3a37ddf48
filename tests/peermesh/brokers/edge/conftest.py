"""A broker, its registry and its clients; and a ZooKeeper server, where there are Java and jars."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import trio

from peermesh.brokers.edge import (
    Host,
    Options,
    Publisher,
    RemoteRegistry,
    Subscriber,
    open_edge_broker,
)
from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.edge.zookeepers import ZooKeeper, jars
from tests.ports import free_port
from tests.waiting import a_moment


class World:
    """A broker with the embedded registry, and a registry client."""

    def __init__(self, host: Host, registry: RemoteRegistry) -> None:
        self.host = host
        self.broker = host.broker
        self.registry = registry

    def publisher(self, **options) -> Publisher:
        return Publisher(self.registry, **options)

    def subscriber(self) -> Subscriber:
        return Subscriber(self.registry)

    def channel(self, topic: str):
        found = [each for each in self.broker.statistics().channels if each.topic == topic]
        return found[0] if found else None

    def state(self, topic: str) -> str:
        channel = self.channel(topic)
        return channel.state if channel is not None else "closed"

    async def members(self, path: str, *clients) -> None:
        """Wait until just these are registered there."""
        wanted = sorted(client.id.hex() for client in clients)
        with trio.fail_after(limit()):
            while await self.registry.children(path) != wanted:
                await a_moment()


@asynccontextmanager
async def _world(*, seconds: float = 60, **options) -> AsyncIterator[World]:
    """Raise a broker; ``seconds`` are what a test may take at most, however busy the machine is."""
    with trio.fail_after(limit(seconds)):
        async with open_edge_broker(options=Options(**options)) as host:
            async with RemoteRegistry([host.registry_address]) as registry:
                await host.broker.active()
                yield World(host, registry)


async def _until(is_true: Callable[[], object], timeout: float | None = None) -> None:
    """Wait for a truth."""
    with trio.fail_after(limit() if timeout is None else timeout):
        while not is_true():
            # Real time: what is waited for happens in sockets.
            with trio.move_on_after(0.01):
                await trio.sleep_forever()


async def _take(subscriber: Subscriber, count: int) -> list[tuple[str, object]]:
    return [await subscriber.get(limit()) for _ in range(count)]


class Kit:
    """What the tests use."""

    world = staticmethod(_world)
    until = staticmethod(_until)
    take = staticmethod(_take)


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.fixture(scope="module")
def zookeeper(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ZooKeeper]:
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"), jars())
    server.start()
    yield server
    server.kill()


@pytest.fixture(name="free_port")
def one_port() -> int:
    return free_port()


@pytest.fixture
def free_ports() -> Callable[[int], list[int]]:
    return lambda count: [free_port() for _ in range(count)]
