"""The WebSocket gateway, as its clients meet it: messages both ways, and mistakes."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import pytest
import trio
from trio_websocket import ConnectionClosed, ConnectionRejected

from peermesh import Count, Enum
from peermesh.gateways.websocket import carrying, server
from peermesh.gateways.websocket.limits import ERRORS_MAX, TEXT_SIZE_MAX
from peermesh.testing.time_limits import limit
from tests.peermesh.gateways.websocket.conftest import open_client, open_line, open_socket
from tests.waiting import until


def text(topic: str, data: str) -> dict[str, str]:
    return {"type": "data-message", "topic": topic, "@data-type": "string", "data": data}


async def test_messages_pass_both_ways_over_two_hops(line):
    with line.far.subscribe("/up/") as subscriber:
        assert await line.near.await_subscribed("/up/x")
        async with open_client(line.gateway, "/down/") as client:
            assert await line.far.await_subscribed("/down/x")
            await client.publish("/up/x", "hello")
            assert await subscriber.get(limit(20)) == ("/up/x", "hello")
            await line.far.publish("/down/x", (Count(1), Enum("e")))
            heard = await client.hear()
    assert heard == {
        "type": "data-message",
        "topic": "/down/x",
        "@data-type": "vector",
        "data": [
            {"@data-type": "count", "data": 1},
            {"@data-type": "enum-value", "data": "e"},
        ],
    }


async def test_clients_of_one_gateway_hear_each_other_and_not_themselves(line):
    async with open_client(line.gateway, "/t") as first, open_client(line.gateway, "/t") as second:
        with line.near.subscribe("/t", local=True) as beside:
            await first.publish("/t/a", "of the first")
            await second.publish("/t/b", "of the second")
            assert await second.hear() == text("/t/a", "of the first")
            assert await first.hear() == text("/t/b", "of the second")
            assert await beside.get(limit(20)) == ("/t/a", "of the first")
        await line.near.publish("/t/c", "of the endpoint")
        for client in (first, second):
            assert await client.hear() == text("/t/c", "of the endpoint")
    assert line.gateway.statistics().sent == 4


async def test_bytes_are_text_and_a_message_that_is_too_long_is_told(line):
    async with open_client(line.gateway, "/t") as client:
        await line.near.publish("/t", b"a\xff")
        await line.near.publish("/t", bytes(TEXT_SIZE_MAX + 1))
        await line.near.publish("/t", "x" * TEXT_SIZE_MAX)
        await line.near.publish("/t", "end")
        assert await client.hear() == text("/t", "a\\xff")
        for _ in range(2):
            told = await client.hear()
            assert (told["type"], told["code"]) == ("error", "messages_dropped")
        assert await client.hear() == text("/t", "end")
    assert line.gateway.statistics().dropped == 2


async def test_a_mistake_is_told_and_the_connection_stays(line):
    async with open_client(line.gateway, "/t") as client, open_client(line.gateway, "/t") as other:
        for wrong, context in [
            ("How is it going?", "input #1 contained malformed JSON"),
            (
                {"topic": "/t", "@data-type": "phone", "data": "1"},
                "input #2 contained invalid",
            ),
            ({"topic": "/<$>/t", "@data-type": "none", "data": {}}, "input #3 contained invalid"),
        ]:
            await client.say(wrong)
            told = await client.hear()
            assert told["code"] == "deserialization_failed"
            assert told["context"].startswith(context)
        await client.socket.send_message(b"binary")
        assert "input #4 contained malformed JSON" in (await client.hear())["context"]
        await client.publish("/t", "right")
        assert await other.hear() == text("/t", "right")


async def test_a_hundred_errors_in_a_row_end_a_connection_and_a_right_one_between_counts(line):
    async with open_client(line.gateway) as client:
        for _ in range(ERRORS_MAX - 1):
            await client.say("x")
        await client.publish("/t", "right")
        for _ in range(ERRORS_MAX):
            await client.say("x")
        for _ in range(2 * ERRORS_MAX - 1):
            assert (await client.hear())["type"] == "error"
        with pytest.raises(ConnectionClosed) as closed:
            await client.hear()
    assert closed.value.reason.code == carrying.MISUSED
    assert line.gateway.statistics().received == 1


@pytest.mark.parametrize(
    "first", ["x", "{}", '["/a", 1]', json.dumps(["/t"] * 1_025), '["/<$>/local"]', "[" * 100_000]
)
async def test_a_first_frame_that_names_no_topics_ends_the_connection(line, first):
    async with open_socket(line.gateway) as client:
        await client.say(first)
        assert (await client.hear())["code"] == "deserialization_failed"
        with pytest.raises(ConnectionClosed):
            await client.hear()


async def test_a_client_that_only_publishes_names_no_topics(line):
    with line.near.subscribe("", local=True) as subscriber:
        async with open_client(line.gateway) as client:
            await client.publish("/t", "x")
            assert await subscriber.get(limit(20)) == ("/t", "x")


async def test_a_first_frame_has_to_come_soon(line, monkeypatch):
    monkeypatch.setattr(server, "OPENING_SECONDS", 0.1)
    async with open_socket(line.gateway) as client:
        with pytest.raises(ConnectionClosed):
            await client.hear()
    stream = await trio.open_tcp_stream(line.gateway.host, line.gateway.port)
    async with stream:
        with trio.fail_after(limit(20)):
            assert await stream.receive_some() == b""


async def test_an_open_connection_outlives_the_time_of_its_opening(line, monkeypatch):
    monkeypatch.setattr(server, "OPENING_SECONDS", 2.0)
    async with open_client(line.gateway, "/t") as client:
        await trio.lowlevel.checkpoint()
        deadline = trio.current_time() + 2.5
        with trio.CancelScope(deadline=deadline):
            await client.socket.get_message()
        await line.near.publish("/t", "still there")
        assert await client.hear() == text("/t", "still there")


@pytest.mark.parametrize("path", ["/", "/v1/messages", "/v1/messages/json/", "/v2/messages/json"])
async def test_other_paths_are_not_there(line, path):
    with pytest.raises(ConnectionRejected) as rejected:
        async with open_socket(line.gateway, path=path):
            pass
    assert rejected.value.status_code == 404
    assert b"/v1/messages/json" in rejected.value.body
    assert (b"x-content-type-options", b"nosniff") in rejected.value.headers


async def test_one_client_too_many_is_told_to_come_later(line, monkeypatch):
    monkeypatch.setattr(server, "CLIENTS_MAX", 2)
    async with open_client(line.gateway), open_client(line.gateway):
        with pytest.raises(ConnectionRejected) as rejected:
            async with open_client(line.gateway):
                pass
        assert rejected.value.status_code == 503
        assert line.gateway.statistics().clients == 2
    with trio.fail_after(limit(20)):
        await until(lambda: not line.gateway.statistics().clients)
    async with open_client(line.gateway):
        pass


async def test_a_frame_that_is_too_long_ends_its_connection_alone(line):
    async with open_client(line.gateway, "/t") as client, open_client(line.gateway, "/t") as other:
        await client.say("x" * (TEXT_SIZE_MAX + 1))
        with pytest.raises(ConnectionClosed) as closed:
            await client.hear()
        assert closed.value.reason.code == 1009
        await line.near.publish("/t", "x")
        assert await other.hear() == text("/t", "x")


async def test_a_client_that_answers_no_ping_is_cut_off(line, monkeypatch):
    monkeypatch.setattr(carrying, "PING_SECONDS", 0.01)
    monkeypatch.setattr(carrying, "STALL_SECONDS", 0.1)
    stream = await trio.open_tcp_stream(line.gateway.host, line.gateway.port)
    async with stream:
        request = (
            "GET /v1/messages/json HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket"
            "\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        await stream.send_all(request.encode())
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 101 ")
        await stream.send_all(b"\x81\x82\0\0\0\0[]")
        with trio.fail_after(limit(20)):
            while await stream.receive_some():
                pass
    with trio.fail_after(limit(20)):
        await until(lambda: line.gateway.statistics().refused.get("stalled"))


async def test_the_end_of_the_endpoint_is_told_to_clients():
    async with open_line() as line:
        async with open_client(line.gateway, "/t") as client:
            await line.near.shutdown()
            with pytest.raises(ConnectionClosed) as closed:
                await client.hear()
    assert closed.value.reason.code == carrying.LEAVING


async def test_more_prefixes_than_a_mesh_takes_are_refused_and_harm_nobody(line):
    topics = [f"/{number:05}/{'x' * 900}" for number in range(1_000)]
    refused = 0
    async with open_client(line.gateway, "/t") as other, AsyncExitStack() as stack:
        for at in range(20):
            client = await stack.enter_async_context(open_socket(line.gateway))
            await client.say([f"/{at}{topic}" for topic in topics])
            refused += (await client.hear())["type"] == "error"
        assert refused
        await line.near.publish("/t", "still")
        assert await other.hear() == text("/t", "still")
