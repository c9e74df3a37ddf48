"""Redis and etcd as stores, for the mixes of ``benchmarks.replicas``: both as durable as they get.

Redis syncs its file with each turn of its loop (``appendfsync always``), and takes commands one
after the other over one connection. etcd is spoken to over its gateway of JSON, as Python has no
client of it here: each of its 64 connections has one request under way.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from net.wakeup import Wakeup
from wire.encoding import encode
from wire.values import Value

CONNECTIONS: Final = 64
START_SECONDS: Final = 20.0


class Answer:
    """What a server says of one command."""

    def __init__(self) -> None:
        """Wait for it."""
        self._wakeup = Wakeup()
        self._is_there = False

    def resolve(self) -> None:
        """Note that it is there."""
        self._is_there = True
        self._wakeup.wake()

    async def applied(self) -> None:
        """Wait for it."""
        while not self._is_there:
            await self._wakeup.wait()


def free_ports(count: int) -> list[int]:
    """Find ports that nothing listens at."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@asynccontextmanager
async def running(*commands: Sequence[str], ports: Sequence[int]) -> AsyncIterator[list[int]]:
    """Run servers until they listen, and as long as the block; give their process ids."""
    pids = []
    with ExitStack() as stack:
        for command in commands:
            process = _start(command)
            pids.append(process.pid)
            stack.callback(process.wait)
            stack.callback(process.kill)
        with trio.fail_after(START_SECONDS):
            for port in ports:
                while not await _listens(port):  # noqa: ASYNC110 - another process begins to
                    await trio.sleep(0.02)
        yield pids


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)


async def _listens(port: int) -> bool:
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True


class RedisStore:
    """One connection, with as many commands under way as come."""

    def __init__(self, stream: trio.SocketStream) -> None:
        """Speak over ``stream``."""
        self._stream = stream
        self._out: list[bytes] = []
        self._waiting: deque[Answer] = deque()
        self._written, self._heard = Wakeup(), Wakeup()

    async def _ask(self, *words: bytes) -> Answer:
        head = b"*%d\r\n" % len(words)
        self._out.append(head + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))
        answer = Answer()
        self._waiting.append(answer)
        self._written.wake()
        if len(self._out) % 256 == 0:
            await trio.lowlevel.checkpoint()
        return answer

    async def write(self) -> None:
        """Send what gathers in a turn."""
        while True:
            while self._out:
                out, self._out = self._out, []
                await self._stream.send_all(b"".join(out))
            await self._written.wait()

    async def read(self) -> None:
        """Take in answers: each of these commands is answered with one line, or one string."""
        rest = b""
        while chunk := await self._stream.receive_some(1 << 16):
            *lines, rest = (rest + chunk).split(b"\r\n")
            for line in lines:
                assert not line.startswith(b"-"), line
                self._waiting.popleft().resolve()
            self._heard.wake()

    async def put(self, key: str, value: Value) -> Answer:
        """Set a key."""
        return await self._ask(b"SET", key.encode(), encode(value))

    async def increment(self, key: str) -> Answer:
        """Add one."""
        return await self._ask(b"INCR", key.encode())

    async def push(self, key: str, value: Value) -> Answer:
        """Append to a list."""
        return await self._ask(b"RPUSH", key.encode(), encode(value))

    async def erase(self, key: str) -> Answer:
        """Remove a key."""
        return await self._ask(b"DEL", key.encode())

    async def compare_and_set(self, key: str, value: Value, revision: None) -> Answer:
        """Set a key that is missing."""
        return await self._ask(b"SETNX", key.encode(), encode(value))

    async def await_idle(self, timeout: float) -> bool:
        """Wait for all answers."""
        with trio.move_on_after(timeout):
            while self._waiting:
                await self._heard.wait()
        return not self._waiting


@asynccontextmanager
async def redis(directory: str, *, is_durable: bool) -> AsyncIterator[RedisStore]:
    """Run Redis, and give it."""
    (port,) = free_ports(1)
    kept = ("--appendonly", "yes", "--appendfsync", "always") if is_durable else ()
    command = ("redis-server", "--port", str(port), "--dir", directory, "--save", "", *kept)
    async with running(command, ports=[port]):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream, trio.open_nursery() as nursery:
            store = RedisStore(stream)
            nursery.start_soon(store.write)
            nursery.start_soon(store.read)
            yield store
            nursery.cancel_scope.cancel()


class EtcdStore:
    """As many connections as requests are under way."""

    def __init__(self) -> None:
        """Have no connection yet."""
        self._todo, self._jobs = trio.open_memory_channel[tuple[bytes, Answer]](CONNECTIONS)
        self._open = 0
        self._heard = Wakeup()

    async def serve(self, port: int) -> None:
        """Send one request after the other over a connection."""
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            async for request, answer in self._jobs:
                await stream.send_all(request)
                await _read_response(stream)
                answer.resolve()
                self._open -= 1
                self._heard.wake()

    async def _ask(self, path: str, content: object) -> Answer:
        body = json.dumps(content).encode()
        head = f"POST /v3/kv/{path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
        answer = Answer()
        self._open += 1
        await self._todo.send((head.encode() + body, answer))
        return answer

    async def put(self, key: str, value: Value) -> Answer:
        """Set a key."""
        return await self._ask("put", {"key": _text(key.encode()), "value": _text(encode(value))})

    async def compare_and_set(self, key: str, value: Value, revision: None) -> Answer:
        """Set a key that is missing."""
        name = _text(key.encode())
        compare = {"key": name, "target": "VERSION", "version": 0}
        put = {"requestPut": {"key": name, "value": _text(encode(value))}}
        return await self._ask("txn", {"compare": [compare], "success": [put]})

    async def await_idle(self, timeout: float) -> bool:
        """Wait for all answers."""
        with trio.move_on_after(timeout):
            while self._open:
                await self._heard.wait()
        return not self._open


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def _read_response(stream: trio.SocketStream) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await _some(stream)
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), data
    size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < size:
        body += await _some(stream)


async def _some(stream: trio.SocketStream) -> bytes:
    chunk = await stream.receive_some(1 << 16)
    assert chunk, "etcd has closed the connection"
    return bytes(chunk)


@asynccontextmanager
async def etcd(directory: str, members: int) -> AsyncIterator[EtcdStore]:
    """Run so many members of etcd, and speak to the first one."""
    ports = free_ports(2 * members)
    clients, peers = ports[:members], ports[members:]
    cluster = ",".join(f"m{at}=http://127.0.0.1:{port}" for at, port in enumerate(peers))
    commands = [
        (
            *("etcd", "--name", f"m{at}", "--data-dir", str(Path(directory, f"m{at}"))),
            *("--listen-client-urls", f"http://127.0.0.1:{client}"),
            *("--advertise-client-urls", f"http://127.0.0.1:{client}"),
            *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-cluster", cluster),
        )
        for at, (client, peer) in enumerate(zip(clients, peers, strict=True))
    ]
    async with running(*commands, ports=clients), trio.open_nursery() as nursery:
        store = EtcdStore()
        for _ in range(CONNECTIONS):
            nursery.start_soon(store.serve, clients[0])
        with trio.fail_after(START_SECONDS):
            await (await store.put("first", 0)).applied()
        yield store
        nursery.cancel_scope.cancel()
