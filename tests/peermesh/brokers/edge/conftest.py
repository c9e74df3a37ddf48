"""A broker, its registry and its clients; and a ZooKeeper server, where there are Java and jars."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

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
from tests.ports import free_port


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
                await trio.lowlevel.checkpoint()


@asynccontextmanager
async def _world(**options) -> AsyncIterator[World]:
    with trio.fail_after(limit(60)):
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


# ZooKeeper.


class ZooKeeper:
    """A server in a process of its own."""

    def __init__(self, folder: Path, jars: Path) -> None:
        self.port = free_port()
        self.hosts = f"127.0.0.1:{self.port}"
        self._folder = folder
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home, "bin", "java")) if home else shutil.which("java")
        assert java is not None
        options = ["-Xmx256m", "-Dzookeeper.admin.enableServer=false"]
        server = "org.apache.zookeeper.server.ZooKeeperServerMain"
        config = self._folder / "zoo.cfg"
        config.write_text(
            f"tickTime=500\ndataDir={self._folder}\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nminSessionTimeout=1000\n"
        )
        self._process = subprocess.Popen(
            [java, *options, "-cp", f"{self._jars}/*", server, str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + limit(60)
        while not _answers(self.port):
            assert self._process.poll() is None, "ZooKeeper ended at once"
            assert time.monotonic() < deadline, "ZooKeeper does not answer"

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Lose all data, between a kill and a start."""
        for path in self._folder.glob("version-2/*"):
            path.unlink()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.2) as connection:
            connection.sendall(b"srvr")
            return bool(connection.recv(1))
    except OSError:
        return False


@pytest.fixture(scope="session")
def zookeeper_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "jars"


@pytest.fixture(scope="module")
def zookeeper(
    zookeeper_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeper]:
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"), zookeeper_jars)
    server.start()
    yield server
    server.kill()


@pytest.fixture(name="free_port")
def one_port() -> int:
    return free_port()


@pytest.fixture
def free_ports() -> Callable[[int], list[int]]:
    return lambda count: [free_port() for _ in range(count)]
