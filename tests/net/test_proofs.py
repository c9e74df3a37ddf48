"""What each protocol takes for a proof at a plain port: afterwards newcomers push nothing out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
import trio

from benchmarks.lockout import CLIENT_ID, HOST, KINDS, open_port
from endpoint import Endpoint
from net import acceptor as acceptor_module
from net.network import Network
from net.transport import Transport
from peermesh.brokers.edge import line as line_module
from peermesh.brokers.edge.desk import HERE
from peermesh.brokers.edge.line import Line
from peermesh.brokers.edge.messages import Hello, Welcome
from peermesh.brokers.qos2 import Ports, open_broker
from peermesh.testing.time_limits import limit
from tests.waiting import until

STRANGERS = 4
Ask = Callable[[], Awaitable[bool]]
"""Tells whether a member is still served."""


@asynccontextmanager
async def member_of_mesh(port: int) -> AsyncIterator[Ask]:
    async with Endpoint() as endpoint:
        assert await endpoint.peer(HOST, port, retry=0)
        (peer,) = endpoint.loop.peerings.values()

        async def ask() -> bool:
            received = peer.connection.bytes_received

            def is_beaten_or_over() -> bool:
                return not peer.connection.is_open or peer.connection.bytes_received != received

            await until(is_beaten_or_over)
            return peer.connection.is_open

        yield ask


class Heard:
    """A transport that notes what comes."""

    def __init__(self, transport: Transport, heard: list[object]) -> None:
        self._transport = transport
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    async def receive(self) -> bytes:
        chunk = await self._transport.receive()
        self._heard.append(chunk)
        return chunk


def edge_member(topic: str) -> Callable[[int], object]:
    @asynccontextmanager
    async def member(port: int) -> AsyncIterator[Ask]:
        transport = await Network(None, allow_plain=False).connect(HOST, port)
        heard: list[object] = []
        line = Line(Heard(transport, heard))
        line.tell(Hello(CLIENT_ID, topic))

        async def ask() -> bool:
            heard.clear()
            await until(lambda: heard or line.error is not None)  # Until the next beat.
            return line.error is None

        async with trio.open_nursery() as nursery:
            nursery.start_soon(line.serve, lambda message: heard.append(type(message)))
            await until(lambda: Welcome in heard)
            yield ask
            nursery.cancel_scope.cancel()

    return member


def talker(said: bytes, answer: bytes, again: bytes = b"") -> Callable[[int], object]:
    @asynccontextmanager
    async def member(port: int) -> AsyncIterator[Ask]:
        async with await trio.open_tcp_stream(HOST, port) as stream:

            async def ask(said: bytes = again or said) -> bool:
                heard = b""
                try:
                    await stream.send_all(said)
                    while answer not in heard:
                        chunk = await stream.receive_some()
                        if not chunk:
                            return False
                        heard += chunk
                except trio.BrokenResourceError:
                    return False
                return True

            assert await ask(said)
            yield ask

    return member


MEMBERS = {
    "mesh": member_of_mesh,
    "edge": edge_member(""),
    "registry": edge_member(HERE),
    "webhdfs": talker(
        b"GET /webhdfs/v1/?op=LISTSTATUS HTTP/1.1\r\nHost: localhost\r\n\r\n", b"FileStatuses"
    ),
    "qos2": talker(b"BEGIN a\nx\nEND\nPUBREL\n", b"PUBCOMP\n"),
    "qos2 consumer": talker(b"LOGIN shop ids\n", b"OK", b"UNSUBSCRIBE a\n"),
}


def test_every_port_is_tried() -> None:
    assert MEMBERS.keys() >= set(KINDS)


@asynccontextmanager
async def port_for(kind: str) -> AsyncIterator[int]:
    if kind != "qos2 consumer":
        async with open_port(kind, None) as port:
            yield port
        return
    ports = Ports(publishers=0, consumers=0)
    async with Endpoint() as endpoint, open_broker(endpoint, None, ports) as broker:
        yield broker.consumer_port


@pytest.mark.parametrize("kind", MEMBERS)
async def test_one_that_has_proven_itself_outlives_newcomers(kind: str, monkeypatch) -> None:
    monkeypatch.setattr(acceptor_module, "files_max", lambda: 4)  # Room for a single newcomer.
    monkeypatch.setattr(acceptor_module, "LAST_WORDS_SECONDS", 0.0)
    monkeypatch.setattr(line_module, "BEAT_SECONDS", 0.02)
    with trio.fail_after(limit()):
        async with (
            port_for(kind) as port,
            MEMBERS[kind](port) as is_served,
            AsyncExitStack() as stack,
        ):
            crowd = [await trio.open_tcp_stream(HOST, port) for _ in range(STRANGERS)]
            for stranger in crowd:
                await stack.enter_async_context(stranger)
            for stranger in crowd[:-1]:
                await read_to_the_end(stranger)  # It made room for the next.
            assert await is_served()


async def read_to_the_end(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        while await stream.receive_some():
            pass
