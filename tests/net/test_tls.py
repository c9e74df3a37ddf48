"""TLS over real sockets: whatever the sizes, both ways at once, and every end told apart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from net.tls import TLSStream, TLSTransport
from net.transport import transport_of
from peermesh.testing.time_limits import limit

CREDENTIALS = Credentials.from_secret(ClusterSecret(bytes(range(20))), "one")


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[TLSStream, TLSStream]]:
    """Two ends that have shaken hands."""
    with trio.fail_after(limit()):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with listener:
            port = listener.socket.getsockname()[1]
            near = await trio.open_tcp_stream("127.0.0.1", port)
            far = await listener.accept()
        left = TLSStream(near, CREDENTIALS.client_context(), server_side=False)
        right = TLSStream(far, CREDENTIALS.server_context(), server_side=True)
        async with left, right:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(left.do_handshake)
                nursery.start_soon(right.do_handshake)
            yield left, right


async def take(stream: TLSStream, size: int) -> bytes:
    taken = b""
    while len(taken) < size:
        taken += await stream.receive_some()
    return taken


async def test_both_ends_speak_tls_1_3_and_know_each_other() -> None:
    async with pair() as (left, right):
        await left.send_all(b"hello")
        assert await take(right, 5) == b"hello"
        assert left.session.tls.version() == right.session.tls.version() == "TLSv1.3"
        assert left.peer_certificate() == right.peer_certificate() is not None


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 1_000_000])
async def test_what_is_sent_arrives_both_ways_at_once(size: int) -> None:
    data = bytes(index % 251 for index in range(size))
    async with pair() as ends:
        taken: dict[TLSStream, bytes] = {}

        async def hear(end: TLSStream) -> None:
            taken[end] = await take(end, size)

        async with trio.open_nursery() as nursery:
            for end in ends:
                nursery.start_soon(end.send_all, memoryview(data))
                nursery.start_soon(hear, end)
        assert set(taken.values()) == {data}


async def test_a_read_gives_all_records_that_have_come_and_no_more_than_was_asked_for() -> None:
    async with pair() as (left, right):
        await left.send_all(bytes(40_000))
        assert len(await right.receive_some(7)) == 7
        rest = await take(right, 40_000 - 7)
        assert rest == bytes(40_000 - 7)


async def test_the_end_of_the_connection_is_the_end_of_the_stream() -> None:
    async with pair() as (left, right):
        await left.send_all(b"last words")
        left.close()
        assert await take(right, 10) == b"last words"
        assert await right.receive_some() == b""


async def test_bytes_that_were_changed_on_the_way_end_it() -> None:
    async with pair() as (left, right):
        # A record of application data that no key of theirs has sealed.
        await left.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(trio.BrokenResourceError, match="BAD_RECORD_MAC"):
            await right.receive_some()


async def test_a_stream_that_is_closed_says_so() -> None:
    async with pair() as (left, _):
        left.close()
        with pytest.raises(trio.ClosedResourceError):
            await left.send_all(b"too late")
        with pytest.raises(trio.ClosedResourceError):
            await left.receive_some()


# The mesh's transport.


@asynccontextmanager
async def transports() -> AsyncIterator[tuple[TLSTransport, TLSTransport]]:
    async with pair() as (left, right):
        first, second = (
            TLSTransport(each, transport_of(each.transport_stream)) for each in (left, right)
        )
        yield first, second
        for end in (first, second):
            end.close()


async def drain(transport: TLSTransport, size: int) -> bytes:
    taken = bytearray()
    while len(taken) < size:
        taken += await transport.receive()
    return bytes(taken)


async def test_what_the_system_did_not_take_at_once_goes_before_all_that_follows() -> None:
    """As a connection does: what did not go is queued, in front of everything else."""
    data = bytes(index % 251 for index in range(300_000))
    rounds, sent = 0, b""
    async with transports() as (left, right):
        assert left.sends_now
        queued: list[bytes | memoryview] = []
        while not queued:
            gone = left.send_now(data)
            sent += data
            rounds += 1
            if gone < len(data):
                queued.append(data[gone:])
        assert left.send_now(b"not yet") == 0
        queued.append(b"and on")
        taken: list[bytes] = []

        async def hear() -> None:
            taken.append(await drain(right, len(sent) + 6))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear)
            nursery.start_soon(left.send_pieces, queued)
        assert taken == [sent + b"and on"]
        assert left.bytes_sent > len(sent)
        assert left.send_now(b"free again") == 10
        assert await drain(right, 10) == b"free again"


async def test_a_transport_tells_the_end_and_a_break_apart() -> None:
    async with transports() as (left, right):
        left.close()
        assert await right.receive() == b""
        with pytest.raises(trio.BrokenResourceError):
            await left.receive()
        with pytest.raises(trio.BrokenResourceError):
            left.send_now(b"too late")
