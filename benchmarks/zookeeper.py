"""ZooKeeper as a store for ``benchmarks.replicas``: its own protocol, over one connection.

The server is in the jars that PySpark brings. Its protocol is spoken by hand, as the client that
Python has (kazoo) takes longer over a request than the server does.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from benchmarks.servers import (
    START_SECONDS,
    Answer,
    ServerStore,
    free_ports,
    running,
    speaking,
)
from wire.encoding import encode
from wire.values import Value

_CREATE: Final = 1
_SET_DATA: Final = 5
_ALL_RIGHTS: Final = 31
_ANY_VERSION: Final = -1
_SESSION_MS: Final = 30_000

_CONFIG: Final = """\
dataDir={folder}
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
tickTime=2000
initLimit=10
syncLimit=5
"""


def _text(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


_RIGHTS: Final = struct.pack(">ii", 1, _ALL_RIGHTS) + _text(b"world") + _text(b"anyone")


class ZooKeeperStore(ServerStore):
    """A session: requests are answered in their order."""

    under_way_max = 1_000
    """The server reads no further than so many (``globalOutstandingLimit``)."""

    def __init__(self, stream: trio.SocketStream) -> None:
        """Speak over ``stream``."""
        super().__init__(stream)
        self._number = 0
        self._waiting: deque[Answer] = deque()
        hello = struct.pack(">iqiq", 0, 0, _SESSION_MS, 0) + _text(bytes(16)) + b"\0"
        self._say(_text(hello))
        self._is_welcome = False

    async def _request(self, kind: int, content: bytes) -> Answer:
        await self._room()
        self._number += 1
        answer = self._send(_text(struct.pack(">ii", self._number, kind) + content))
        self._waiting.append(answer)
        return answer

    def take(self, data: bytes) -> bytes:
        """Take in answers; the first one welcomes the session."""
        at = 0
        while len(data) - at >= 4:
            (size,) = struct.unpack_from(">i", data, at)
            if len(data) - at < 4 + size:
                break
            if self._is_welcome:
                _, _, error = struct.unpack_from(">iqi", data, at + 4)
                assert error == 0, f"ZooKeeper has refused: {error}"
                self._answer(self._waiting.popleft())
            self._is_welcome = True
            at += 4 + size
        return data[at:]

    async def put(self, key: str, value: Value) -> Answer:
        """Set a key that is there."""
        content = _text(b"/" + key.encode()) + _text(encode(value))
        return await self._request(_SET_DATA, content + struct.pack(">i", _ANY_VERSION))

    async def compare_and_set(self, key: str, value: Value, revision: None) -> Answer:
        """Set a key that is missing."""
        content = _text(b"/" + key.encode()) + _text(encode(value))
        return await self._request(_CREATE, content + _RIGHTS + struct.pack(">i", 0))


@asynccontextmanager
async def zookeeper(
    directory: str, members: int, keys: Iterable[str]
) -> AsyncIterator[ZooKeeperStore]:
    """Run so many members of ZooKeeper, make the keys, and speak to the one that leads."""
    ports = free_ports(3 * members)
    clients, peers, votes = (ports[at::3] for at in range(3))
    cluster = "".join(
        f"server.{at}=127.0.0.1:{peer}:{vote}\n"
        for at, (peer, vote) in enumerate(zip(peers, votes, strict=True), 1)
    )
    commands = [
        _command(Path(directory, f"member{at}"), at, port, cluster)
        for at, port in enumerate(clients, 1)
    ]
    async with (
        running(*commands, ports=clients),
        speaking(ZooKeeperStore, await _leading(clients)) as store,
    ):
        for key in keys:
            await store.compare_and_set(key, None, None)
        assert await store.await_idle(START_SECONDS)
        yield store


def _command(folder: Path, number: int, port: int, cluster: str) -> tuple[str, ...]:
    """Write the files of a member, and say how it is started."""
    folder.mkdir()
    (folder / "myid").write_text(str(number))
    config = folder / "zoo.cfg"
    config.write_text(_CONFIG.format(folder=folder, port=port) + cluster)
    home, spark = os.environ.get("JAVA_HOME"), importlib.util.find_spec("pyspark")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    assert java is not None
    assert spark is not None
    assert spark.origin is not None
    jars = Path(spark.origin).parent / "jars"
    server = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    options = ("-Xmx512m", "-Dzookeeper.admin.enableServer=false")
    return (java, *options, "-cp", f"{jars}/*", server, str(config))


async def _leading(ports: list[int]) -> int:
    """Wait for all members, and give the port of the one that leads."""
    with trio.fail_after(START_SECONDS):
        while True:
            modes = {port: await _mode(port) for port in ports}
            leading = [port for port, mode in modes.items() if mode == "leader"]
            if leading and None not in modes.values():
                return leading[0]
            await trio.sleep(0.1)


async def _mode(port: int) -> str | None:
    """Ask a member what it is."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"srvr")
        said = b""
        while chunk := await stream.receive_some(4_096):
            said += chunk
    lines = said.decode().splitlines()
    return next((line.removeprefix("Mode: ") for line in lines if line.startswith("Mode")), None)
