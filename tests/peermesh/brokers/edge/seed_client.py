"""A client that is written from the words of the seed: it knows the tree's paths and formats.

It reads the tree by whatever it is given: for ZooKeeper, by kazoo alone.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, NamedTuple

import trio

from peermesh.brokers.edge import messages
from peermesh.brokers.edge.messages import (
    TTL,
    Accepted,
    Attach,
    Attached,
    Beat,
    ControlMessage,
    Detach,
    Hello,
    Taken,
    Void,
    Welcome,
    expect,
)
from tests.waiting import a_moment
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import RemoteProtocolError
from wire.framing import (
    VERSION_MAX,
    VERSION_MIN,
    FrameDecoder,
    NodeFrame,
    encode_node,
    encode_preamble,
)
from wire.limits import FRAME_SIZE_MAX
from wire.messages import Preamble
from wire.values import Value

Read = Callable[[str], Awaitable[str | None]]
"""Reads a node of the tree; ``None`` if there is no such node."""

_AGAIN: Final = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}
_MOVED: Final = (OSError, trio.BrokenResourceError, EOFError, RemoteProtocolError)
"""What an address of a broker that is gone leads to: look it up again."""


@contextmanager
def zookeeper_reader(hosts: str) -> Iterator[Callable[[str], str | None]]:
    """Give a function that reads a node of ZooKeeper, for as long as it takes."""
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoNodeError

    quiet = logging.Logger("seed", logging.CRITICAL)  # A connection that is lost is meant to be.
    client = KazooClient(hosts, connection_retry=_AGAIN, command_retry=_AGAIN, logger=quiet)
    client.start()

    def read(path: str) -> str | None:
        try:
            return str(client.retry(client.get, path)[0].decode())
        except NoNodeError:
            return None

    try:
        yield read
    finally:
        client.stop()
        client.close()


class Place(NamedTuple):
    """Where to connect to, and whose channel should be there: the topic's, or the default one."""

    host: str
    port: int
    here: str


async def seed_address(read: Read, topic: str, side: str) -> Place:
    """Find the topic's receiver (``pub``) or sender (``sub``), or else the default one."""
    at, here = await read(f"/topics/{topic}/{side}"), topic
    if at in {None, "null"}:
        assert await read(f"/topics/{topic}") in {None, "null"}
        data, here = await read("/topics"), ""
        while data in {None, "null"}:  # "just wait for certain amount of time and try again"
            data = await read("/topics")
        assert data is not None
        receiver, sender = data.split("\n")
        assert receiver != sender
        at = receiver if side == "pub" else sender
    assert at is not None
    host, _, port = at.rpartition(":")
    return Place(host, int(port), here)


class _Line:
    """A connection to the broker."""

    def __init__(self, stream: trio.SocketStream, client: bytes) -> None:
        self.stream = stream
        self.client = client
        self._decoder = FrameDecoder(FRAME_SIZE_MAX)

    async def tell(self, message: ControlMessage) -> None:
        await self.stream.send_all(messages.write(message))

    async def hear(self) -> NodeFrame | ControlMessage:
        """Wait for what is more than a sign of life; answer those."""
        while True:
            while (frame := self._decoder.next_frame()) is None:
                chunk = await self.stream.receive_some()
                if not chunk:
                    raise EOFError
                self._decoder.feed(bytes(chunk))
            if isinstance(frame, NodeFrame):
                return frame
            if isinstance(frame, Preamble):
                continue
            message = messages.read(frame)
            if not isinstance(message, Beat):
                return message
            await self.tell(message)


@asynccontextmanager
async def _connected(read: Read, topic: str, side: str, client: bytes) -> AsyncIterator[_Line]:
    host, port, here = await seed_address(read, topic, side)
    async with await trio.open_tcp_stream(host, port) as stream:
        line = _Line(stream, client)
        await stream.send_all(encode_preamble(Preamble(VERSION_MIN, VERSION_MAX)))
        await line.tell(Hello(client, here))
        expect(await line.hear(), Welcome)
        yield line


async def seed_publish(read: Read, topic: str, said: Value) -> None:
    """Publish one message with a connection for it alone, and wait until all have it."""
    client = uuid.uuid4().bytes
    pieces, _ = encode_node(client, TTL, 1, (topic.encode(),), b"", [encode(said)])
    while True:
        try:
            async with _connected(read, topic, "pub", client) as line:
                await line.stream.send_all(b"".join(pieces))
                while expect(await line.hear(), Accepted).sequence != 1:
                    pass
                return
        except _MOVED:
            await a_moment()


async def seed_receive(
    read: Read,
    topic: str,
    said: Value,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Subscribe to a topic, and take what comes until it is this; it has to come once."""
    client, is_attached = uuid.uuid4().bytes, False
    while True:
        try:
            async with _connected(read, topic, "sub", client) as line:
                await line.tell(Attach(topic, is_known=False))
                attached = expect(await line.hear(), Attached)
                is_attached = True
                task_status.started()
                await _take_until(line, attached, said)
                return
        except _MOVED:
            if is_attached:
                raise  # No broker ends meanwhile.
            await a_moment()


async def _take_until(line: _Line, attached: Attached, said: Value) -> None:
    position, wanted = attached.position - 1, encode(said)
    got: list[bytes] = []
    while wanted not in got:
        message = await line.hear()
        if isinstance(message, NodeFrame):
            got = [bytes(payload) for payload in message.payloads()]
            assert all(isinstance(decode(payload), tuple) for payload in got)
            position += message.count
        else:
            expect(message, Void)
            position += 1
        await line.tell(Taken(attached.topic, attached.incarnation, position))
    assert got.count(wanted) == 1
    await line.tell(Detach(attached.topic))
    await line.stream.send_eof()
    async for _ in line.stream:  # Until the broker has read the last word.
        pass


async def seed_exchange(read: Read, topic: str, said: Value) -> None:
    """Subscribe, publish one message, and get it."""
    async with trio.open_nursery() as nursery:
        await nursery.start(seed_receive, read, topic, said)
        await seed_publish(read, topic, said)
