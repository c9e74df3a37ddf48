"""What strangers say to the WebSocket gateway costs it nothing else, and no traceback."""

from __future__ import annotations

import logging

import pytest
import trio

from peermesh.testing.time_limits import limit
from tests.peermesh.gateways.websocket.conftest import open_client
from tests.waiting import until

REQUEST = (
    b"GET /v1/messages/json HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
PING = b"\x89\x81\0\0\0\0x"


@pytest.mark.parametrize(
    ("first", "answer"),
    [
        (b"\x16\x03\x01\0\0", b"HTTP/1.1 400 "),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 400 "),
        (REQUEST.replace(b"x\r\nC", b"\x8d\r\nC"), b""),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000, b"HTTP/1.1 400 "),
        (REQUEST.replace(b"13", b"12"), b"HTTP/1.1 426 "),
    ],
)
async def test_what_is_no_request_is_refused(line, first, answer, caplog):
    async with open_client(line.gateway, "/t") as neighbour:
        stream = await trio.open_tcp_stream(line.gateway.host, line.gateway.port)
        async with stream:
            heard = b""
            with trio.fail_after(limit(30)):
                try:
                    await stream.send_all(first)
                    while some := await stream.receive_some():
                        heard += some
                except trio.BrokenResourceError:
                    pass
            assert heard.startswith(answer) or not heard
        await line.near.publish("/t", "x")
        assert (await neighbour.hear())["data"] == "x"
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_pings_while_a_connection_is_closed_are_no_mistake_of_ours(line, caplog):
    for _ in range(5):
        stream = await trio.open_tcp_stream(line.gateway.host, line.gateway.port)
        async with stream:
            await stream.send_all(REQUEST)
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 101 ")
            with trio.fail_after(limit(30)):
                try:
                    await stream.send_all(b"\x81\x81\0\0\0\0x" + PING)
                    while True:
                        await stream.send_all(PING)
                        with trio.move_on_after(0.01):
                            if not await stream.receive_some():
                                break
                except trio.BrokenResourceError:
                    pass
    with trio.fail_after(limit(30)):
        await until(lambda: line.gateway.statistics().refused.get("connection"))
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
