"""Nobody gets in any more: what an endpoint was about to accept when it shut down."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint
from endpoint.tasks import Tasks
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from net.tls import TLSStream
from peermesh.testing.time_limits import limit
from wire.errors import EndpointClosed

SECRET = ClusterSecret.generate()


async def test_a_port_is_closed_by_a_shutdown_that_follows_at_once() -> None:
    with trio.fail_after(limit()):
        async with Endpoint() as endpoint:
            port = await endpoint.listen()
            await endpoint.shutdown()
            with pytest.raises(OSError, match="all attempts to connect"):
                await trio.open_tcp_stream("127.0.0.1", port)


async def test_a_port_that_is_opened_while_the_endpoint_shuts_down_is_closed() -> None:
    with trio.fail_after(limit()):
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
    with trio.fail_after(limit()):
        async with Endpoint(secret=SECRET) as endpoint:
            port = await endpoint.listen()
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await kit.until(lambda: endpoint._acceptor.arrivals.newcomers)
            await endpoint.shutdown()
            context = Credentials.from_secret(SECRET).client_context()
            tls = TLSStream(stream, context, server_side=False)
            await tls.do_handshake()
            assert await tls.receive_some() == b""
            assert not endpoint.loop.greeter
            tls.close()


async def test_who_is_cancelled_can_still_put_things_in_order() -> None:
    """The block's tasks are cancelled, and the endpoint works on until the block is left."""
    with trio.fail_after(limit()):
        async with Endpoint() as other, other.attach_master("s") as master:
            subscriber = other.subscribe("farewell")
            port = await other.listen()
            with trio.CancelScope() as scope:
                async with Endpoint() as endpoint, endpoint.attach_clone("s") as clone:
                    assert await endpoint.peer("127.0.0.1", port, timeout=limit())
                    assert await endpoint.await_peer(other.node_id(), timeout=limit())
                    try:
                        await clone.put("mine", 1)
                        assert await clone.await_idle(timeout=limit())
                        scope.cancel()
                        await trio.sleep_forever()
                    finally:
                        with trio.CancelScope(shield=True):
                            for key in ("mine", "others"):
                                await (await clone.erase(key)).applied()
                            await endpoint.publish("farewell", "bye")
            assert scope.cancelled_caught
            assert await subscriber.get() == ("farewell", "bye")
            assert not await master.keys()


async def test_an_accepted_connection_outlives_the_cancelled_block_too() -> None:
    with trio.fail_after(limit()):
        async with Endpoint() as other:
            # With less room its publisher would wait for a reader that comes when it is done.
            subscriber = other.subscribe("farewell", queue_size=10_001)
            with trio.CancelScope() as scope:
                async with Endpoint() as endpoint:
                    assert await other.peer("127.0.0.1", await endpoint.listen(), timeout=limit())
                    assert await endpoint.await_peer(other.node_id(), timeout=limit())
                    scope.cancel()
                    try:
                        await trio.lowlevel.checkpoint()
                    finally:
                        with trio.CancelScope(shield=True):
                            for number in range(10_000):
                                await endpoint.publish("farewell", number)
            assert [(await subscriber.get())[1] for _ in range(10_000)] == list(range(10_000))


async def test_a_task_that_is_started_when_the_endpoint_has_ended_ends_too() -> None:
    with trio.fail_after(limit()):
        async with trio.open_nursery() as nursery:
            tasks = Tasks()
            tasks.begin(nursery)
            tasks.start(trio.sleep_forever)
            tasks.end()
            tasks.start(trio.sleep_forever)
