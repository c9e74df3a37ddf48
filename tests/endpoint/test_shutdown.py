"""Nobody gets in any more: what an endpoint was about to accept when it shut down."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint
from endpoint.tls import TLSStream
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from wire.errors import EndpointClosed

SECRET = ClusterSecret.generate()
LIMIT = 20.0


async def test_a_port_is_closed_by_a_shutdown_that_follows_at_once() -> None:
    with trio.fail_after(LIMIT):
        async with Endpoint() as endpoint:
            port = await endpoint.listen()
            await endpoint.shutdown()
            with pytest.raises(OSError, match="all attempts to connect"):
                await trio.open_tcp_stream("127.0.0.1", port)


async def test_a_port_that_is_opened_while_the_endpoint_shuts_down_is_closed() -> None:
    with trio.fail_after(LIMIT):
        async with Endpoint() as endpoint:
            opened: list[trio.SocketListener] = []
            is_asked, is_down = trio.Event(), trio.Event()

            async def open_late(*arguments: object, **options: object) -> list:
                is_asked.set()
                await is_down.wait()
                opened.extend(await trio.open_tcp_listeners(*arguments, **options))
                return opened

            async def listen() -> None:
                with pytest.raises(EndpointClosed):
                    await endpoint.listen()

            endpoint._network._open_listeners = open_late
            async with trio.open_nursery() as nursery:
                nursery.start_soon(listen)
                await is_asked.wait()
                await endpoint.shutdown()
                is_down.set()
            assert [listener.socket.fileno() for listener in opened] == [-1]


async def test_who_is_in_tls_handshake_when_the_endpoint_shuts_down_hears_nothing(kit) -> None:
    with trio.fail_after(LIMIT):
        async with Endpoint(secret=SECRET) as endpoint:
            port = await endpoint.listen()
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await kit.until(lambda: endpoint._arriving)
            await endpoint.shutdown()
            context = Credentials.from_secret(SECRET).client_context()
            tls = TLSStream(stream, context, server_side=False)
            await tls.do_handshake()
            assert await tls.receive_some() == b""
            assert not endpoint.loop.greeter
            tls.close()
