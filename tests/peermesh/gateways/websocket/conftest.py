"""A gateway at one end of a mesh of three endpoints, and what its clients say."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio_websocket import WebSocketConnection, wrap_client_stream

from peermesh import Endpoint
from peermesh.gateways import WebSocketGateway, serve_websocket
from peermesh.testing.nurseries import open_serving_nursery
from peermesh.testing.time_limits import limit


@dataclass(frozen=True, slots=True)
class Line:
    """A gateway, and an endpoint two hops away."""

    gateway: WebSocketGateway
    near: Endpoint
    far: Endpoint


@asynccontextmanager
async def open_line(**options: Any) -> AsyncIterator[Line]:
    async with Endpoint() as near, Endpoint() as middle, Endpoint() as far:
        port = await middle.listen()
        assert await near.peer("127.0.0.1", port)
        assert await far.peer("127.0.0.1", port)
        assert await near.await_peer(far.node_id())
        async with serve_websocket(near, **options) as gateway:
            yield Line(gateway, near, far)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    async with open_line() as found:
        yield found


class Client:
    """A client in trio, which says and hears JSON."""

    def __init__(self, socket: WebSocketConnection) -> None:
        self.socket = socket

    async def say(self, found: object) -> None:
        await self.socket.send_message(found if isinstance(found, str) else json.dumps(found))

    async def hear(self) -> Any:
        with trio.fail_after(limit(20)):
            return json.loads(await self.socket.get_message())

    async def publish(self, topic: str, text: str) -> None:
        await self.say({"topic": topic, "@data-type": "string", "data": text})


@asynccontextmanager
async def open_socket(
    gateway: WebSocketGateway,
    *,
    path: str = "/v1/messages/json",
    tls: ssl.SSLContext | None = None,
    **headers: str,
) -> AsyncIterator[Client]:
    """Connect; raises ``ConnectionRejected``."""
    stream: trio.abc.Stream = await trio.open_tcp_stream(gateway.host, gateway.port)
    if tls is not None:
        stream = trio.SSLStream(stream, tls, server_hostname="peermesh", https_compatible=True)
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    try:
        async with open_serving_nursery() as nursery:
            socket = await wrap_client_stream(
                nursery, stream, gateway.address, path, extra_headers=sent
            )
            yield Client(socket)
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        raise group.exceptions[0] from None
    finally:
        await trio.aclose_forcefully(stream)


@asynccontextmanager
async def open_client(
    gateway: WebSocketGateway, *topics: str, **options: Any
) -> AsyncIterator[Client]:
    """Connect, subscribe, and wait for the acknowledgement."""
    async with open_socket(gateway, **options) as client:
        await client.say(topics)
        assert (await client.hear())["type"] == "ack"
        yield client
        with trio.move_on_after(limit(5)):
            await client.socket.aclose()
