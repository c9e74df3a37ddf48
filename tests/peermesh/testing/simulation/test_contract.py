"""One contract of TCP, held against the simulated network and against the kernel's.

What is written here is what Linux does on loopback; the simulation has to do the same.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from handshake.credentials import Credentials
from handshake.secret import ClusterSecret

Runner = Callable[[Callable[[], object]], None]
LOCALHOST = "127.0.0.1"


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[trio.SocketStream, trio.SocketStream]]:
    """Give both ends of a fresh connection: who dialled, and who accepted."""
    async with await listening() as listener:
        dialled = await trio.open_tcp_stream(LOCALHOST, port_of(listener))
        accepted = await listener.accept()
        async with dialled, accepted:
            yield dialled, accepted


async def listening(port: int = 0, backlog: int | None = None) -> trio.SocketListener:
    (listener,) = await trio.open_tcp_listeners(port, host=LOCALHOST, backlog=backlog)
    return listener


def port_of(listener: trio.SocketListener) -> int:
    port: int = listener.socket.getsockname()[1]
    return port


async def read_all(stream: trio.SocketStream) -> bytes:
    return b"".join([data async for data in stream])


async def fill(stream: trio.SocketStream) -> int:
    """Write until nothing more goes."""
    size = 0
    with trio.move_on_after(0.5):
        while True:
            size += await stream.socket.send(bytes(65_536))
    return size


def reset(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


async def broken(stream: trio.SocketStream) -> int | None:
    """Read until the connection breaks; give the error's number."""
    with pytest.raises(trio.BrokenResourceError) as caught:
        await read_all(stream)
    return number_of(caught.value)


async def broken_writing(stream: trio.SocketStream) -> int | None:
    """Write until the connection breaks; give the error's number."""
    with pytest.raises(trio.BrokenResourceError) as caught:
        await write_forever(stream)
    return number_of(caught.value)


async def write_forever(stream: trio.SocketStream) -> None:
    with trio.fail_after(5):
        while True:
            await stream.send_all(bytes(65_536))


def number_of(error: trio.BrokenResourceError) -> int | None:
    assert isinstance(error.__cause__, OSError)
    return error.__cause__.errno


def test_bytes_go_both_ways(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, far):
            for stream, other, text in ((near, far, b"question"), (far, near, b"answer")):
                await stream.send_all(text)
                got = b""
                while len(got) < len(text):
                    got += await other.receive_some(100)
                assert got == text

    over_the_network(contract)


def test_a_reader_takes_no_more_than_it_asks_for(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, far):
            await near.send_all(b"abcdef")
            await near.send_eof()
            got = []
            while data := await far.receive_some(4):
                got.append(data)
            assert b"".join(got) == b"abcdef"
            assert max(map(len, got)) <= 4

    over_the_network(contract)


def test_the_addresses_of_both_ends_agree(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, far):
            assert near.socket.getsockname() == far.socket.getpeername()
            assert near.socket.getpeername() == far.socket.getsockname()
            assert far.socket.getsockname()[0] == LOCALHOST

    over_the_network(contract)


def test_port_0_is_a_free_port_and_a_port_in_use_is_refused(over_the_network: Runner):
    async def contract() -> None:
        async with await listening() as one, await listening() as other:
            port = port_of(one)
            assert 0 < port != port_of(other) > 0
            with pytest.raises(OSError, match=f"Errno {errno.EADDRINUSE}"):
                await listening(port)
        again = await listening(port)
        await again.aclose()

    over_the_network(contract)


def test_an_address_of_another_machine_cannot_be_bound(over_the_network: Runner):
    async def contract() -> None:
        with pytest.raises(OSError, match=f"Errno {errno.EADDRNOTAVAIL}"):
            await trio.open_tcp_listeners(0, host="192.0.2.1")

    over_the_network(contract)


def test_where_nobody_listens_a_connection_is_refused(over_the_network: Runner):
    async def contract() -> None:
        listener = await listening()
        port = port_of(listener)
        await listener.aclose()
        with pytest.raises(OSError, match="all attempts to connect") as caught:
            await trio.open_tcp_stream(LOCALHOST, port)
        group = caught.value.__cause__
        assert isinstance(group, ExceptionGroup)
        assert isinstance(group.exceptions[0], ConnectionRefusedError)

    over_the_network(contract)


def test_the_end_of_one_direction_leaves_the_other_open(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, far):
            await near.send_all(b"the last")
            await near.send_eof()
            assert await read_all(far) == b"the last"
            await far.send_all(b"and yet")
            await far.send_eof()
            assert await read_all(near) == b"and yet"
            assert await near.receive_some(1) == b""

    over_the_network(contract)


def test_who_ended_its_direction_cannot_send(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, _):
            await near.send_eof()
            with pytest.raises(trio.ClosedResourceError):
                await near.send_all(b"too late")
            with pytest.raises(BrokenPipeError):
                await near.socket.send(b"too late")

    over_the_network(contract)


def test_what_was_sent_before_a_close_arrives(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, far):
            await near.send_all(bytes(100_000))
            await near.aclose()
            assert len(await read_all(far)) == 100_000

    over_the_network(contract)


def test_closing_with_something_unread_is_a_reset(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, far):
            await near.send_all(b"unread")
            assert await far.receive_some(1) == b"u"
            await far.aclose()
            assert await broken(near) == errno.ECONNRESET

    over_the_network(contract)


def test_after_a_reset_reading_fails_once_and_then_is_at_the_end(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, far):
            reset(far)
            assert await broken(near) == errno.ECONNRESET
            assert await near.receive_some(1) == b""
            with pytest.raises(BrokenPipeError):
                await near.socket.send(b"x")

    over_the_network(contract)


def test_writing_to_a_reader_who_is_gone_breaks(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, far):
            await far.aclose()
            assert await read_all(near) == b""
            assert await broken_writing(near) == errno.EPIPE

    over_the_network(contract)


def test_writing_after_a_reset_breaks(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, far):
            reset(far)
            assert await broken_writing(near) in (errno.ECONNRESET, errno.EPIPE)

    over_the_network(contract)


def test_a_writer_waits_for_its_reader(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, far):
            size = await fill(near)
            assert size > 65_536
            received = 0
            while received < size:
                received += len(await far.receive_some())
            await near.send_all(b"room again")
            await near.send_eof()
            assert await read_all(far) == b"room again"

    over_the_network(contract)


def test_much_arrives_whole_and_in_order(over_the_network: Runner):
    async def contract() -> None:
        data = bytes(range(256)) * 8_192
        async with pair() as (near, far), trio.open_nursery() as nursery:

            async def send() -> None:
                await near.send_all(data)
                await near.send_eof()

            nursery.start_soon(send)
            assert await read_all(far) == data

    over_the_network(contract)


def test_many_connections_do_not_mix(over_the_network: Runner):
    async def contract() -> None:
        async def echo(stream: trio.SocketStream) -> None:
            async for data in stream:
                await stream.send_all(data)

        async def ask(port: int, number: int) -> None:
            async with await trio.open_tcp_stream(LOCALHOST, port) as stream:
                await stream.send_all(b"%d" % number)
                await stream.send_eof()
                assert await read_all(stream) == b"%d" % number

        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(trio.serve_tcp, echo, 0)
            async with trio.open_nursery() as askers:
                for number in range(50):
                    askers.start_soon(ask, port_of(listeners[0]), number)
            nursery.cancel_scope.cancel()

    over_the_network(contract)


def test_a_connection_stands_before_it_is_accepted(over_the_network: Runner):
    async def contract() -> None:
        async with await listening() as listener:
            stream = await trio.open_tcp_stream(LOCALHOST, port_of(listener))
            await stream.send_all(b"early")
            await stream.aclose()
            accepted = await listener.accept()
            assert await read_all(accepted) == b"early"
            await accepted.aclose()

    over_the_network(contract)


def test_closing_a_listener_resets_those_it_did_not_accept(over_the_network: Runner):
    async def contract() -> None:
        listener = await listening()
        stream = await trio.open_tcp_stream(LOCALHOST, port_of(listener))
        await listener.aclose()
        assert await broken(stream) == errno.ECONNRESET
        await stream.aclose()

    over_the_network(contract)


def test_closing_wakes_whoever_waits(over_the_network: Runner):
    async def contract() -> None:
        async with pair() as (near, _), trio.open_nursery() as nursery:

            async def wait() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await near.receive_some(1)

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked(0.01)
            near.socket.close()

    over_the_network(contract)


def test_closing_a_listener_wakes_who_accepts(over_the_network: Runner):
    async def contract() -> None:
        listener = await listening()
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await listener.accept()

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked(0.01)
            listener.socket.close()

    over_the_network(contract)


def test_a_dial_that_is_given_up_leaves_nothing_behind(over_the_network: Runner):
    async def contract() -> None:
        async with await listening() as listener:
            with trio.move_on_after(0):
                await trio.open_tcp_stream(LOCALHOST, port_of(listener))
            stream = await trio.open_tcp_stream(LOCALHOST, port_of(listener))
            await stream.send_all(b"whole")
            await stream.send_eof()
            got = b""
            while not got:
                accepted = await listener.accept()
                try:
                    got = await read_all(accepted)
                except trio.BrokenResourceError:
                    pass
                await accepted.aclose()
            assert got == b"whole"
            await stream.aclose()

    over_the_network(contract)


def test_a_name_that_nobody_has_is_an_error_and_localhost_is_here(over_the_network: Runner):
    async def contract() -> None:
        async with await listening() as listener:
            stream = await trio.open_tcp_stream("localhost", port_of(listener))
            await stream.aclose()
        with pytest.raises(socket.gaierror):
            await trio.open_tcp_stream("nobody.invalid", 1)

    over_the_network(contract)


def test_tls_goes_over_it(over_the_network: Runner):
    async def contract() -> None:
        credentials = Credentials.from_secret(ClusterSecret.generate(), "node")
        async with pair() as (near, far), trio.open_nursery() as nursery:
            client = trio.SSLStream(near, credentials.client_context(), https_compatible=True)
            server = trio.SSLStream(
                far, credentials.server_context(), server_side=True, https_compatible=True
            )
            nursery.start_soon(server.do_handshake)
            await client.do_handshake()
            assert isinstance(client.getpeercert(binary_form=True), bytes)
            await client.send_all(b"secret")
            got = b""
            while got != b"secret":
                got += await server.receive_some()

    over_the_network(contract)
