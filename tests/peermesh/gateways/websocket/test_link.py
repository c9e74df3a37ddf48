"""A link to a Zeek: what it carries, what it does not send back, and how it comes back itself."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from trio_websocket import serve_websocket as serve_bare

from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh import Endpoint
from peermesh.errors import InsecureAddress, NotAllowed
from peermesh.gateways import serve_websocket
from peermesh.gateways.websocket import link as link_module
from peermesh.gateways.websocket.link import Target, ZeekLink
from peermesh.testing.time_limits import limit


@asynccontextmanager
async def linked(endpoint, url, **options):
    """Run a link, and give a function that waits for an event of a kind, and gives its text."""
    send, receive = trio.open_memory_channel(1_000)

    async def event(kind: str) -> str:
        with trio.fail_after(limit(30)):
            async for found in receive:
                if found.kind == kind:
                    return found.text
        raise AssertionError

    link = ZeekLink(endpoint, url, notice=send.send_nowait, **options)
    async with send, receive, trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        yield event
        nursery.cancel_scope.cancel()


async def test_messages_pass_both_ways_and_none_goes_back():
    async with (
        Endpoint() as here,
        Endpoint() as neighbour,
        Endpoint() as zeek,
        serve_websocket(zeek) as gateway,
        linked(here, gateway.url, to_zeek=["/t"], from_zeek=["/t"]) as event,
    ):
        assert await neighbour.peer("127.0.0.1", await here.listen())
        assert await event("connected") == str(zeek.node_id())
        with (
            neighbour.subscribe("/t") as mesh_side,
            zeek.subscribe("/t", local=True) as zeek_side,
        ):
            assert await here.await_subscribed("/t")
            assert await neighbour.await_subscribed("/t")
            await neighbour.publish("/t/1", "from the mesh")
            assert await zeek_side.get(limit(20)) == ("/t/1", "from the mesh")
            await zeek.publish("/t/2", "from zeek")
            assert await zeek_side.get(limit(20)) == ("/t/2", "from zeek")
            assert await mesh_side.get(limit(20)) == ("/t/2", "from zeek")
            # Whatever went in a circle would be before these.
            await zeek.publish("/t/3", "end")
            await neighbour.publish("/t/4", "end")
            assert await mesh_side.get(limit(20)) == ("/t/3", "end")
            assert {await zeek_side.get(limit(20)) for _ in range(2)} == {
                ("/t/3", "end"),
                ("/t/4", "end"),
            }
            assert (mesh_side.available(), zeek_side.available()) == (0, 0)


async def test_only_the_topics_that_were_named_pass():
    async with (
        Endpoint() as here,
        Endpoint() as zeek,
        serve_websocket(zeek) as gateway,
        linked(here, gateway.url, to_zeek=["/out/"], from_zeek=["/in/"]) as event,
    ):
        await event("connected")
        with here.subscribe("", local=True) as mine, zeek.subscribe("/out/", local=True) as theirs:
            await here.publish("/in/x", 1)
            await here.publish("/out/x", 2)
            assert await theirs.get(limit(20)) == ("/out/x", 2)
            await zeek.publish("/out/y", 3)
            await zeek.publish("/in/y", 4)
            assert await mine.get(limit(20)) == ("/in/x", 1)
            assert await mine.get(limit(20)) == ("/out/x", 2)
            assert await mine.get(limit(20)) == ("/in/y", 4)


async def test_it_dials_again_and_what_waited_meanwhile_arrives(monkeypatch):
    monkeypatch.setattr(link_module, "BACKOFF_SECONDS_MIN", 0.01)
    monkeypatch.setattr(link_module, "BACKOFF_SECONDS_MAX", 0.05)

    async def serve(
        zeek: Endpoint, port: int, end: trio.Event, *, task_status: trio.TaskStatus[int]
    ) -> None:
        async with serve_websocket(zeek, port=port) as gateway:
            task_status.started(gateway.port)
            await end.wait()

    end = trio.Event()
    async with Endpoint() as here, Endpoint() as zeek, trio.open_nursery() as nursery:
        port = await nursery.start(serve, zeek, 0, end)
        subscriber = zeek.subscribe("/t", local=True)
        async with linked(here, f"ws://127.0.0.1:{port}", to_zeek=["/t"]) as event:
            await event("connected")
            await here.publish("/t", 1)
            assert await subscriber.get(limit(20)) == ("/t", 1)
            end.set()
            await event("disconnected")
            for number in range(2, 5):
                await here.publish("/t", number)
            await nursery.start(serve, zeek, port, trio.Event())
            await event("connected")
            for number in range(2, 5):
                assert await subscriber.get(limit(20)) == ("/t", number)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def serving(handler):
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve_bare, handler, "127.0.0.1", 0, None)
        yield f"ws://127.0.0.1:{server.port}"
        nursery.cancel_scope.cancel()


async def test_what_is_wrong_with_a_message_is_told_here_and_not_there(monkeypatch):
    heard = []

    async def zeek(request) -> None:
        socket = await request.accept()
        assert json.loads(await socket.get_message()) == ["/t"]
        await socket.send_message('{"type": "ack", "endpoint": "some", "version": "2.8"}')
        await socket.send_message("nonsense")
        await socket.send_message('{"type": "error", "code": "c", "context": "why"}')
        await socket.send_message('{"topic": "/t", "@data-type": "count", "data": 5}')
        heard.append(await socket.get_message())

    async with Endpoint() as here, serving(zeek) as url:
        with here.subscribe("/t", local=True) as subscriber:
            async with linked(here, url, to_zeek=["/up"], from_zeek=["/t"]) as event:
                assert await event("connected") == "some"
                assert "malformed JSON" in await event("error")
                assert await event("error") == "c: why"
                assert int((await subscriber.get(limit(20))).data) == 5
                await here.publish("/up", "x")
                await event("disconnected")
    assert json.loads(heard[0])["data"] == "x"


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("[]", "acknowledges nothing"),
        ('{"type": "error", "code": "x", "context": "no"}', "acknowledges nothing"),
        (None, "it closed the connection before"),
    ],
)
async def test_who_acknowledges_nothing_is_no_zeek(first, reason):
    async def other(request) -> None:
        socket = await request.accept()
        await socket.get_message()
        if first is not None:
            await socket.send_message(first)
            await trio.sleep_forever()

    async with Endpoint() as here, serving(other) as url:
        async with linked(here, url, from_zeek=["/t"]) as event:
            assert reason in await event("disconnected")


async def test_other_services_are_told_from_a_zeek(monkeypatch):
    monkeypatch.setattr(link_module, "OPENING_SECONDS", 0.5)

    async def nowhere(request) -> None:
        await request.reject(404)

    async with Endpoint() as here:
        async with serving(nowhere) as url, linked(here, url, from_zeek=["/t"]) as event:
            assert "it answers with the status 404" in await event("disconnected")
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        async with linked(here, f"ws://127.0.0.1:{port}", from_zeek=["/t"]) as event:
            assert await event("disconnected") == "it does not answer within 0.5 s"
            await listener.aclose()
            with trio.fail_after(limit(30)):
                while "refused" not in await event("disconnected"):
                    pass


def called(name: str, secret: bytes) -> Credentials:
    made = Credentials.from_secret(ClusterSecret(secret * 20), name)
    return replace(made, can_trust_names=True)


async def test_over_tls_both_sides_are_verified():
    mine, other = called("link", b"a"), called("link", b"b")
    async with (
        Endpoint() as here,
        Endpoint() as zeek,
        serve_websocket(zeek, credentials=called("zeek", b"a")) as gateway,
    ):
        tls = mine.client_context()
        async with linked(here, gateway.url, from_zeek=["/t"], tls=tls) as event:
            await event("connected")
        for context in (other.client_context(), None):
            async with linked(here, gateway.url, from_zeek=["/t"], tls=context) as event:
                assert "certificate" in await event("disconnected")


async def test_a_token_is_sent():
    token = "a-token-of-some-length"
    async with (
        Endpoint() as here,
        Endpoint() as zeek,
        serve_websocket(zeek, token=token) as gateway,
    ):
        async with linked(here, gateway.url, from_zeek=["/t"], token=token) as event:
            await event("connected")
        async with linked(here, gateway.url, from_zeek=["/t"], token=token * 2) as event:
            assert "401" in await event("disconnected")


async def test_messages_that_do_not_wait_are_told_of(monkeypatch):
    monkeypatch.setattr(link_module, "QUEUEING", replace(link_module.QUEUEING, queue_size=16))
    monkeypatch.setattr(link_module, "BACKOFF_SECONDS_MIN", 0.01)
    async with Endpoint() as here, Endpoint() as zeek:
        async with serve_websocket(zeek) as probe:
            port = probe.port
        async with linked(here, f"ws://127.0.0.1:{port}", to_zeek=["/t"]) as event:
            await event("disconnected")
            for number in range(100):
                await here.publish("/t", number)
            with zeek.subscribe("/t", local=True) as subscriber:
                async with serve_websocket(zeek, port=port):
                    assert "84 messages were dropped" in await event("error")
                    for number in range(84, 100):
                        assert await subscriber.get(limit(20)) == ("/t", number)


async def test_topics_that_the_mesh_does_not_send_here_end_it():
    roles = {"names": {"a": "a"}, "roles": {"a": {"subscribe": ["/in/"]}}}
    async with Endpoint(credentials=called("a", b"a"), roles=roles) as here:
        link = ZeekLink(here, "ws://127.0.0.1:1", to_zeek=["/out/"])
        with pytest.raises(NotAllowed):
            await link.run()


async def test_it_ends_with_its_endpoint():
    async with Endpoint() as zeek, serve_websocket(zeek) as gateway:
        async with trio.open_nursery() as nursery:
            async with Endpoint() as here:
                connected = trio.Event()
                link = ZeekLink(here, gateway.url, to_zeek=["/t"], notice=lambda _: connected.set())
                nursery.start_soon(link.run)
                await connected.wait()


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("ws://127.0.0.1:27759", ("127.0.0.1", 27759, "/v1/messages/json", False)),
        ("ws://zeek.example", ("zeek.example", 80, "/v1/messages/json", False)),
        ("wss://zeek.example/", ("zeek.example", 443, "/v1/messages/json", True)),
        ("wss://[::1]:5/v2/other", ("::1", 5, "/v2/other", True)),
    ],
)
def test_an_address_is_read(url, target):
    assert Target.parse(url) == target


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:27759", "http://a", "ws://", "ws://a:0", "ws://a:99999", "ws://a:x", "ws://a?b",
     "ws://a#b", "ws://user:word@a"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValueError, match=r".") as refused:
        Target.parse(url)
    assert "word" not in str(refused.value)


async def test_plain_beyond_loopback_is_refused():
    async with Endpoint() as here:
        for host in ("192.0.2.1", "zeek.example"):
            with pytest.raises(InsecureAddress):
                ZeekLink(here, f"ws://{host}:27759", to_zeek=["/t"])
            ZeekLink(here, f"ws://{host}:27759", to_zeek=["/t"], allow_plain=True)
            ZeekLink(here, f"wss://{host}:27759", to_zeek=["/t"])
