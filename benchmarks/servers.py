"""What stores of other kinds have in common, as ``benchmarks.replicas`` asks them; and Redis.

All are asked in one way: over one connection to who leads, which has as many commands under way as
the server takes, in the server's own protocol. So a client in Python costs as little as it can.
"""

from __future__ import annotations

import socket
import subprocess
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Final, TypeVar

import trio

from net.wakeup import Wakeup
from wire.encoding import encode
from wire.values import Value

START_SECONDS: Final = 60.0
FLUSH_COUNT: Final = 256
"""Commands that gather at most before they are sent, if their caller never waits."""


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


class ServerStore(ABC):
    """One connection to a server, with many commands under way."""

    under_way_max: int

    def __init__(self, stream: trio.SocketStream) -> None:
        """Speak over ``stream``."""
        self._stream = stream
        self._out: list[bytes] = []
        self._open = 0
        self._written, self._heard = Wakeup(), Wakeup()

    async def _room(self) -> None:
        """Wait until one more command may be under way; now and then, let others work."""
        if len(self._out) >= FLUSH_COUNT:
            await trio.lowlevel.checkpoint()
        while self._open >= self.under_way_max:
            await self._heard.wait()

    def _send(self, request: bytes) -> Answer:
        """Have one more command under way."""
        self._say(request)
        self._open += 1
        return Answer()

    def _say(self, data: bytes) -> None:
        self._out.append(data)
        self._written.wake()

    def _answer(self, answer: Answer) -> None:
        answer.resolve()
        self._open -= 1

    async def write(self) -> None:
        """Send what gathers in a turn."""
        while True:
            while self._out:
                out, self._out = self._out, []
                await self._stream.send_all(b"".join(out))
            await self._written.wait()

    async def read(self) -> None:
        """Take in answers."""
        data = b""
        while chunk := await self._stream.receive_some(1 << 16):
            data = self.take(data + chunk)
            self._heard.wake()
        raise ConnectionError("the server has closed the connection")

    @abstractmethod
    def take(self, data: bytes) -> bytes:
        """Take in all that is whole, and give the rest."""

    @abstractmethod
    async def put(self, key: str, value: Value) -> Answer:
        """Set a key."""

    async def await_idle(self, timeout: float) -> bool:
        """Wait for all answers."""
        with trio.move_on_after(timeout):
            while self._open:
                await self._heard.wait()
        return not self._open


StoreT = TypeVar("StoreT", bound=ServerStore)


@asynccontextmanager
async def speaking(make: Callable[[trio.SocketStream], StoreT], port: int) -> AsyncIterator[StoreT]:
    """Have a connection to a server at ``port`` as long as the block."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream, trio.open_nursery() as nursery:
        store = make(stream)
        nursery.start_soon(store.write)
        nursery.start_soon(store.read)
        yield store
        nursery.cancel_scope.cancel()


class RedisStore(ServerStore):
    """Redis takes commands one after the other, and answers in their order."""

    under_way_max = 16_384
    """As many as one of our own handles has."""

    def __init__(self, stream: trio.SocketStream) -> None:
        """Speak over ``stream``."""
        super().__init__(stream)
        self._waiting: deque[Answer] = deque()

    async def _command(self, *words: bytes) -> Answer:
        await self._room()
        head = b"*%d\r\n" % len(words)
        parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
        answer = self._send(head + b"".join(parts))
        self._waiting.append(answer)
        return answer

    def take(self, data: bytes) -> bytes:
        """Take in answers: each of these commands is answered with one line."""
        *lines, rest = data.split(b"\r\n")
        for line in lines:
            assert not line.startswith(b"-"), line
            self._answer(self._waiting.popleft())
        return rest

    async def put(self, key: str, value: Value) -> Answer:
        """Set a key."""
        return await self._command(b"SET", key.encode(), encode(value))

    async def increment(self, key: str) -> Answer:
        """Add one."""
        return await self._command(b"INCR", key.encode())

    async def push(self, key: str, value: Value) -> Answer:
        """Append to a list."""
        return await self._command(b"RPUSH", key.encode(), encode(value))

    async def erase(self, key: str) -> Answer:
        """Remove a key."""
        return await self._command(b"DEL", key.encode())

    async def compare_and_set(self, key: str, value: Value, revision: None) -> Answer:
        """Set a key that is missing."""
        return await self._command(b"SETNX", key.encode(), encode(value))


@asynccontextmanager
async def redis(directory: str, *, is_durable: bool) -> AsyncIterator[RedisStore]:
    """Run Redis, and give it. If durable it syncs its file with each turn of its loop."""
    (port,) = free_ports(1)
    kept = ("--appendonly", "yes", "--appendfsync", "always") if is_durable else ()
    command = ("redis-server", "--port", str(port), "--dir", directory, "--save", "", *kept)
    async with running(command, ports=[port]), speaking(RedisStore, port) as store:
        yield store
