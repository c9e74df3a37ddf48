"""Links between real sockets: plain services of the standard library, and streams of trio."""

from __future__ import annotations

import asyncio
import select
import socket
import socketserver
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

import pytest
import trio
import trio.testing

from peermesh.testing.faults import (
    Delay,
    Direction,
    Duplication,
    Loss,
    Partition,
    RateLimit,
    Reordering,
    Reset,
    SlowClose,
    Unsupported,
)
from peermesh.testing.links import (
    ConnectionEnded,
    ConnectionJoined,
    ConnectionOpened,
    ConnectionRefused,
    ConnectionReset,
    FaultApplied,
    LinkHealed,
    link as link_module,
    open_link,
)

HOST = "127.0.0.1"


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(4096):
            self.request.sendall(data)


@contextmanager
def echo_server():
    with socketserver.ThreadingTCPServer((HOST, 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@asynccontextmanager
async def open_ends(*faults, notice=lambda event: None):
    """A link, and the two ends of a connection through it."""
    joined = trio.Event()

    def hear(event):
        notice(event)
        if isinstance(event, ConnectionJoined):
            joined.set()

    (listener,) = await trio.open_tcp_listeners(0, host=HOST)
    target = listener.socket.getsockname()[:2]
    async with listener, open_link(*target, notice=hear) as link:
        for fault in faults:
            await link.apply(fault)
        near = await trio.open_tcp_stream(link.host, link.port)
        far = await listener.accept()
        await joined.wait()
        async with near, far:
            yield link, near, far


async def receive(stream, size):
    data = b""
    while len(data) < size:
        part = await stream.receive_some(size - len(data))
        assert part, f"it ended after {data!r}"
        data += part
    return data


async def assert_reset(stream):
    with pytest.raises(trio.BrokenResourceError) as caught:  # noqa: PT012 - bytes may come before
        while await stream.receive_some():
            pass
    assert isinstance(caught.value.__cause__, ConnectionResetError)


async def fill(stream):
    """Send until nothing more goes in, and nobody moves anything on."""
    size = 0
    is_full = False
    while not is_full:
        with suppress(BlockingIOError):
            while True:
                size += stream.socket._sock.send(bytes(65536))
        await trio.testing.wait_all_tasks_blocked(0.05)
        is_full = not select.select([], [stream.socket], [], 0)[1]
    return size


# What passes.


@pytest.mark.parametrize(
    "faults", [(), (Delay(0.01, 0.01),), (Loss(0.1),), (RateLimit(100_000), SlowClose(0.05))]
)
async def test_a_plain_service_works_through_a_link(faults):
    sent = bytes(range(256)) * 40
    with echo_server() as port:
        async with open_link(HOST, port) as link:
            for fault in faults:
                await link.apply(fault)
            async with await trio.open_tcp_stream(HOST, link.port) as stream:
                await stream.send_all(sent)
                assert await receive(stream, len(sent)) == sent
                await stream.send_eof()
                assert await stream.receive_some() == b""
            done = link.statistics()
    assert (done.accepted, done.bytes_forth, done.bytes_back) == (1, len(sent), len(sent))


async def test_a_service_of_asyncio_works_through_a_link():
    async def serve(ready):
        async def answer(reader, writer):
            writer.write((await reader.read())[::-1])
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            answered.set()

        answered = asyncio.Event()
        async with await asyncio.start_server(answer, HOST, 0) as server:
            ready(server.sockets[0].getsockname()[1])
            await answered.wait()

    send, port_of = trio.open_memory_channel[int](1)
    ready = partial(trio.from_thread.run_sync, send.send_nowait)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, lambda: asyncio.run(serve(ready)))
        async with open_link(HOST, await port_of.receive()) as link:
            async with await trio.open_tcp_stream(HOST, link.port) as stream:
                await stream.send_all(b"half-closed")
                await stream.send_eof()
                assert await receive(stream, 11) == b"desolc-flah"
                assert await stream.receive_some() == b""


@pytest.mark.parametrize("faults", [(), (Delay(0.005, 0.005),)])
async def test_its_ends_are_streams_like_any_others(faults):
    async with trio.open_nursery() as nursery:
        finish = trio.Event()

        async def keep(task_status):
            async with open_ends(*faults) as (_, near, far):
                task_status.started((near, far))
                await finish.wait()

        await trio.testing.check_half_closeable_stream(partial(nursery.start, keep), None)
        finish.set()


async def test_bytes_do_not_come_before_their_delay():
    async with open_ends(Delay(0.2)) as (_, near, far):
        began = trio.current_time()
        await near.send_all(b"x")
        await receive(far, 1)
        assert trio.current_time() - began >= 0.2


async def test_each_direction_has_its_own_faults():
    async with open_ends() as (link, near, far):
        await link.apply(Delay(60), direction=Direction.FORTH)
        await near.send_all(b"late")
        await far.send_all(b"early")
        assert await receive(near, 5) == b"early"
        assert link.faults(Direction.FORTH) == (Delay(60),)
        assert link.faults(Direction.BACK) == link.faults(Direction.BOTH) == ()
        assert link.statistics().bytes_forth == 0
        await link.heal()
        assert await receive(far, 4) == b"late"


async def test_a_slow_receiver_slows_its_sender():
    async with open_ends() as (_, near, far):
        size = await fill(near)
        assert len(await receive(far, size)) == size


# Partitions.


async def test_a_one_way_partition_holds_one_way_until_it_is_healed():
    async with open_ends() as (link, near, far):
        await link.apply(Partition(), direction=Direction.FORTH)
        await near.send_all(b"held")
        await near.send_eof()
        for _ in range(3):
            await far.send_all(b"passes")
            assert await receive(near, 6) == b"passes"
        assert link.statistics().bytes_forth == 0
        await link.heal(direction=Direction.FORTH)
        assert await receive(far, 4) == b"held"
        assert await far.receive_some() == b""


async def test_not_even_what_waits_for_a_slow_receiver_passes_a_partition():
    async with open_ends() as (link, near, far):
        size = await fill(near)
        await link.apply(Partition())
        passed = link.statistics().bytes_forth
        assert len(await receive(far, passed)) == passed
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert link.statistics().bytes_forth == passed < size
        await link.heal()
        assert len(await receive(far, size - passed)) == size - passed


@pytest.mark.parametrize("direction", Direction)
async def test_who_connects_through_a_partition_hears_nothing_until_it_is_healed(direction):
    with echo_server() as port:
        async with open_link(HOST, port) as link:
            await link.apply(Partition(), direction=direction)
            async with await trio.open_tcp_stream(HOST, link.port) as stream:
                await stream.send_all(b"x")
                await trio.testing.wait_all_tasks_blocked(0.05)
                done = link.statistics()
                assert (done.standing, done.bytes_forth, done.bytes_back) == (1, 0, 0)
                await link.heal()
                assert await receive(stream, 1) == b"x"


async def test_a_reset_does_not_pass_a_partition_either():
    async with open_ends() as (link, near, far):
        await link.apply(Partition(), direction=Direction.BACK)
        link_module.break_off(far.socket)
        await near.send_all(b"x")  # What it would be answered with, is held.
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert link.statistics().standing == 1
        await link.heal()
        await assert_reset(near)


# Ends.


async def test_a_reset_breaks_both_ends_and_lets_new_connections_through():
    async with open_ends() as (link, near, far):
        await link.apply(Reset())
        await assert_reset(near)
        await assert_reset(far)
        async with await trio.open_tcp_stream(HOST, link.port) as again:
            await again.send_all(b"x")
            assert link.faults(Direction.BOTH) == ()


async def test_a_reset_breaks_what_the_system_has_accepted_and_we_have_not_seen_yet():
    async with open_ends() as (link, _, _):
        # Without a checkpoint in between.
        with socket.create_connection((HOST, link.port)) as waiting:
            await link.apply(Reset())
            with pytest.raises(ConnectionResetError):
                await trio.to_thread.run_sync(waiting.recv, 1)


@pytest.mark.parametrize(
    ("fault", "direction"),
    [
        (Duplication(0.1), Direction.BOTH),
        (Reordering(0.1), Direction.FORTH),
        (Reset(), Direction.FORTH),
    ],
)
async def test_what_a_stream_of_bytes_cannot_show_is_refused_with_the_reason(fault, direction):
    async with open_link(HOST, 1) as link:
        with pytest.raises(Unsupported, match=r"the link proxy cannot do .*: (it passes|a conn)"):
            await link.apply(fault, direction=direction)
        assert link.faults(direction) == ()


async def test_a_lifetime_breaks_each_connection_when_it_has_come():
    events = []
    with echo_server() as port:
        async with open_link(HOST, port, notice=events.append) as link:
            await link.apply(Reset(after_seconds=0.05))
            assert link.faults(Direction.BOTH) == (Reset(after_seconds=0.05),)
            for _ in range(2):
                async with await trio.open_tcp_stream(HOST, link.port) as stream:
                    await assert_reset(stream)
            await link.heal()
            assert link.faults(Direction.BOTH) == ()
            async with await trio.open_tcp_stream(HOST, link.port) as stream:
                await stream.send_all(b"x")
                assert await receive(stream, 1) == b"x"
    assert [event for event in events if isinstance(event, ConnectionReset)] == [
        ConnectionReset(1),
        ConnectionReset(2),
    ]


@pytest.mark.parametrize("ends", ["near", "far"])
async def test_who_breaks_off_is_told_to_the_other_end(ends):
    async with open_ends() as (link, near, far):
        broken, other = (near, far) if ends == "near" else (far, near)
        link_module.break_off(broken.socket)
        await assert_reset(other)
    assert link.statistics().reset == 1


async def test_a_slow_close_is_seen_when_it_is_healed():
    async with open_ends(SlowClose(60)) as (link, near, far):
        await near.send_all(b"last words")
        await near.send_eof()
        assert await receive(far, 10) == b"last words"
        await far.send_all(b"still here")
        assert await receive(near, 10) == b"still here"
        await link.heal()
        assert await far.receive_some() == b""


async def test_a_target_that_is_not_there_is_a_reset_and_may_be_elsewhere():
    events = []
    with echo_server() as port:
        gone = await trio.open_tcp_listeners(0, host=HOST)
        closed = gone[0].socket.getsockname()[1]
        await gone[0].aclose()
        async with open_link(HOST, closed, notice=events.append) as link:
            async with await trio.open_tcp_stream(HOST, link.port) as stream:
                await assert_reset(stream)
            link.target = (HOST, port)
            async with await trio.open_tcp_stream(HOST, link.port) as stream:
                await stream.send_all(b"x")
                assert await receive(stream, 1) == b"x"
    assert events[0] == ConnectionOpened(1)
    assert isinstance(events[1], ConnectionRefused)
    assert link.statistics().refused == 1


async def test_more_connections_than_a_link_may_have_are_reset(monkeypatch):
    monkeypatch.setattr(link_module, "CONNECTIONS_MAX", 1)
    async with open_ends() as (link, near, far):
        with pytest.raises((OSError, trio.BrokenResourceError)):
            async with await trio.open_tcp_stream(HOST, link.port) as one_more:
                await receive(one_more, 1)
        await near.send_all(b"x")
        assert await receive(far, 1) == b"x"


async def test_what_happens_is_told_in_order():
    events = []
    async with open_ends(notice=events.append) as (link, near, far):
        await link.apply(Delay(0.001), direction=Direction.BACK)
        await link.heal()
        await near.send_eof()
        await far.send_eof()
        assert await far.receive_some() == await near.receive_some() == b""
        await trio.testing.wait_all_tasks_blocked()
    assert events == [
        ConnectionOpened(1),
        ConnectionJoined(1),
        FaultApplied(Delay(0.001), Direction.BACK),
        LinkHealed(Direction.BOTH),
        ConnectionEnded(1),
    ]


async def test_leaving_breaks_what_stands_and_keeps_the_error_of_the_body():
    with pytest.raises(KeyError, match="mine"):  # noqa: PT012 - it is the block that is tested
        async with open_link(HOST, 1) as link:
            port = link.port
            raise KeyError("mine")
    with pytest.raises(OSError, match="failed"):
        await trio.open_tcp_stream(HOST, port)
