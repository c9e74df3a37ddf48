"""Accepting: what makes room for what, over real sockets, and what a lack of files does to it."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from net import acceptor as acceptor_module
from net.acceptor import Acceptor, Arrival, RestingStream
from net.network import Network
from peermesh.testing.time_limits import limit
from tests import waiting
from wire.errors import MeshError

ROOT = Path(__file__).parent.parent.parent
HOST = "127.0.0.1"
CREDENTIALS = Credentials.from_secret(ClusterSecret(bytes(range(20))))


class Port:
    """An acceptor whose connections echo, and are members once they have said ``member``."""

    def __init__(self, acceptor: Acceptor) -> None:
        self.acceptor = acceptor
        self.number = 0
        self.said: list[bytes] = []

    async def serve(self, nursery: trio.Nursery) -> None:
        listeners = await self.acceptor.network.listen(HOST, 0)
        self.number = listeners[0].socket.getsockname()[1]
        nursery.start_soon(self.acceptor.serve, listeners, self.handle, nursery.start_soon)

    async def handle(self, arrival: Arrival) -> None:
        try:
            stream = RestingStream(await arrival.secure(), arrival)
            while data := bytes(await stream.receive_some()):
                self.said.append(data)
                if data == b"member":
                    arrival.prove()
                if data == b"polite":
                    arrival.farewell = lambda reason: self.said.append(reason.encode())
                if data == b"at work":
                    arrival.work()
                    await trio.sleep_forever()
                await stream.send_all(data)
        except (MeshError, trio.BrokenResourceError):
            pass

    @property
    def counts(self) -> tuple[int, int]:
        return self.acceptor.arrivals.newcomers, self.acceptor.arrivals.members

    async def dial(self, said: bytes = b"", host: str = HOST) -> trio.SocketStream:
        """Connect, and wait until it is counted; until what was said is answered, too."""
        before = self.acceptor.accepted
        stream = await trio.open_tcp_stream(HOST, self.number, local_address=host)
        await until(lambda: self.acceptor.accepted > before)
        if said:
            await stream.send_all(said)
            assert await stream.receive_some() == said
        return stream


async def until(truth: Callable[[], bool]) -> None:
    with trio.fail_after(limit()):
        await waiting.until(truth)


@asynccontextmanager
async def port(credentials: Credentials | None = None, **limits: int) -> AsyncIterator[Port]:
    with trio.fail_after(limit()):
        async with trio.open_nursery() as nursery:
            made = Port(Acceptor(Network(credentials, allow_plain=False), **limits))
            await made.serve(nursery)
            yield made
            nursery.cancel_scope.cancel()


async def is_closed(stream: trio.SocketStream) -> bool:
    try:
        return await stream.receive_some() == b""
    except trio.BrokenResourceError:
        return True


async def is_served(stream: trio.SocketStream) -> bool:
    await stream.send_all(b"?")
    return await stream.receive_some() == b"?"


async def test_the_oldest_newcomer_makes_room_for_the_next() -> None:
    async with port(newcomers_max=3) as here, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(await here.dial()) for _ in range(9)]
        assert here.counts == (3, 0)
        assert here.acceptor.accepted == 9
        assert [await is_closed(each) for each in silent[:6]] == [True] * 6
        assert await is_served(silent[-1])


async def test_a_crowd_of_one_address_costs_no_other_address_its_place() -> None:
    async with port(newcomers_max=3) as here, AsyncExitStack() as stack:
        other = await stack.enter_async_context(await here.dial(host="127.0.0.2"))
        for _ in range(9):
            await stack.enter_async_context(await here.dial())
        assert await is_served(other)


async def test_one_that_speaks_stays_among_silent_ones_of_its_own_address() -> None:
    async with port(newcomers_max=3) as here, AsyncExitStack() as stack:
        one = await stack.enter_async_context(await here.dial(b"in the middle"))
        for _ in range(9):
            await stack.enter_async_context(await here.dial())
        assert await is_served(one)


async def test_a_connection_that_has_proven_itself_makes_no_room_for_newcomers() -> None:
    async with port(newcomers_max=2) as here, AsyncExitStack() as stack:
        members = [await stack.enter_async_context(await here.dial(b"member")) for _ in range(3)]
        for _ in range(6):
            await stack.enter_async_context(await here.dial(b"hello"))
        assert here.counts == (2, 3)
        assert [await is_served(each) for each in members] == [True] * 3


async def test_strangers_at_a_tls_port_hear_nothing_and_members_get_in() -> None:
    async with port(CREDENTIALS, newcomers_max=3) as here, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(await here.dial()) for _ in range(9)]
        member = await Network(CREDENTIALS, allow_plain=False).open(HOST, here.number)
        async with member:
            assert await is_served(member)
            assert here.counts[1] == 1
            assert [await is_closed(each) for each in silent[:7]] == [True] * 7


async def test_a_resting_member_of_the_same_address_makes_room_for_a_new_one() -> None:
    async with port(members_max=3) as here, AsyncExitStack() as stack:
        other = await stack.enter_async_context(await here.dial(b"member", host="127.0.0.2"))
        first = await stack.enter_async_context(await here.dial(b"member"))
        second = await stack.enter_async_context(await here.dial(b"member"))
        assert await is_served(first)
        third = await stack.enter_async_context(await here.dial(b"member"))
        assert await is_closed(second), "it rested longest"
        assert [await is_served(each) for each in (other, first, third)] == [True] * 3
        assert here.counts == (0, 3)


async def test_members_at_work_stay_and_a_new_one_is_refused() -> None:
    async with port(members_max=2) as here, AsyncExitStack() as stack:
        for _ in range(2):
            busy = await stack.enter_async_context(await here.dial(b"member"))
            await busy.send_all(b"at work")
        await until(lambda: here.said.count(b"at work") == 2)
        one_more = await stack.enter_async_context(await here.dial())
        await one_more.send_all(b"member")
        await is_closed(one_more)
        assert here.counts == (0, 2)


async def test_a_connection_knows_whether_it_was_admitted() -> None:
    acceptor = Acceptor(Network(None, allow_plain=False), members_max=1)
    (listener,) = await trio.open_tcp_listeners(0, host=HOST)
    made: list[Arrival] = []
    async with listener, AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(
                await trio.testing.open_stream_to_socket_listener(listener)
            )
            stream = await stack.enter_async_context(await listener.accept())
            made.append(Arrival(acceptor, stream, None))
            acceptor.arrivals.arrive(made[-1], HOST)
        first, second, third = made
        assert first.prove() is True
        assert first.prove() is True, "it has a place"
        assert second.prove() is False, "there is none, and the other one is at work"
        first.rest()
        assert third.prove() is True, "the first one makes room"
        assert first.scope.cancel_called
        assert second.scope.cancel_called
        assert not third.scope.cancel_called
        assert second.prove() is True, "it is on its way out, as it was told"


async def test_a_member_that_proves_itself_again_needs_no_more_room() -> None:
    async with port(members_max=1) as here:
        async with await here.dial(b"member") as member:
            for _ in range(3):
                await member.send_all(b"member")
                assert await member.receive_some() == b"member"
        await until(lambda: here.counts == (0, 0))


async def test_what_makes_room_may_say_so_and_not_for_long(monkeypatch) -> None:
    monkeypatch.setattr(acceptor_module, "LAST_WORDS_SECONDS", 0.01)
    async with port(newcomers_max=4) as here, AsyncExitStack() as stack:
        polite = [await stack.enter_async_context(await here.dial(b"polite")) for _ in range(4)]
        await stack.enter_async_context(await here.dial())
        assert here.said[-1] == acceptor_module.CROWDED.encode()
        assert await is_closed(polite[0])


async def test_of_many_that_make_room_few_have_last_words(monkeypatch) -> None:
    monkeypatch.setattr(acceptor_module, "LAST_WORDS_SECONDS", 1e9)
    async with port(newcomers_max=4) as here, AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(await here.dial(b"polite"))
        for _ in range(3):
            await stack.enter_async_context(await here.dial(b"x"))
        assert here.said.count(acceptor_module.CROWDED.encode()) == 1


async def test_one_that_is_gone_leaves_its_last_words_to_another(monkeypatch) -> None:
    monkeypatch.setattr(acceptor_module, "LAST_WORDS_SECONDS", 1e9)
    async with port(newcomers_max=12) as here, AsyncExitStack() as stack:
        polite = [await stack.enter_async_context(await here.dial(b"polite")) for _ in range(12)]

        async def crowd(count: int) -> int:
            for _ in range(count):
                here.acceptor.end_newcomer()
                await trio.lowlevel.checkpoint()
            return here.said.count(acceptor_module.CROWDED.encode())

        assert await crowd(5) == 3, "a quarter of twelve"
        before = here.acceptor._leaving
        await polite[0].aclose()
        await until(lambda: here.acceptor._leaving < before)
        assert await crowd(3) == 4


async def test_what_the_mesh_reads_from_has_spoken_once_a_byte_came() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host=HOST)
    async with listener, await trio.testing.open_stream_to_socket_listener(listener) as left:
        arrival = Arrival(Acceptor(Network(None, allow_plain=False)), await listener.accept(), None)
        transport = await arrival.transport()
        assert not arrival.has_spoken()
        await left.send_all(b"x")
        assert await transport.receive() == b"x"
        assert arrival.has_spoken()
        transport.close()


async def test_as_many_bytes_are_received_as_are_asked_for() -> None:
    async with port() as here, await here.dial() as stream:
        (listener,) = await trio.open_tcp_listeners(0, host=HOST)
        async with listener, await trio.testing.open_stream_to_socket_listener(listener) as left:
            right = await listener.accept()
            arrival = Arrival(here.acceptor, right, None)
            async with right:
                await left.send_all(b"abc")
                resting = RestingStream(right, arrival)
                assert await resting.receive_some(2) == b"ab"
                assert await resting.receive_some() == b"c"
        assert await is_served(stream)


async def test_all_acceptors_of_a_process_share_the_files_of_newcomers(monkeypatch) -> None:
    monkeypatch.setattr(acceptor_module, "files_max", lambda: 19)
    async with port() as one, port() as other, AsyncExitStack() as stack:
        for _ in range(9):
            await stack.enter_async_context(await one.dial())
        assert one.counts == (4, 0)
        for count in range(1, 3):
            await stack.enter_async_context(await other.dial())
            assert (one.counts, other.counts) == ((4 - count, 0), (count, 0))


async def test_members_take_half_of_the_files_at_most(monkeypatch) -> None:
    monkeypatch.setattr(acceptor_module, "files_max", lambda: 9)
    async with port() as here, AsyncExitStack() as stack:
        for _ in range(6):
            await stack.enter_async_context(await here.dial(b"member"))
        assert here.counts == (0, 4)


async def test_a_member_that_rests_gives_its_file_if_there_is_no_newcomer() -> None:
    async with port() as here, AsyncExitStack() as stack:
        first = await stack.enter_async_context(await here.dial(b"member"))
        second = await stack.enter_async_context(await here.dial(b"member"))
        ended = acceptor_module._end_one()
        assert await is_closed(first)
        await ended.gone.wait()
        assert await is_served(second)
        newcomer = await stack.enter_async_context(await here.dial())
        assert acceptor_module._end_one() is not None
        assert await is_closed(newcomer)
        assert await is_served(second), "newcomers go first"


async def test_who_asks_is_told_of_each_end_and_its_reason() -> None:
    told: list[str] = []
    ended: list[Arrival] = []

    def note(arrival: Arrival, reason: str) -> None:
        ended.append(arrival)
        told.append(reason)

    made = Port(
        Acceptor(
            Network(None, allow_plain=False),
            newcomers_max=1,
            members_max=1,
            on_crowded=note,
        )
    )
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        await made.serve(nursery)
        for said in (b"x", b"member", b"member"):
            await stack.enter_async_context(await made.dial(said))
        assert told == [acceptor_module.CROWDED, acceptor_module.FULL]
        assert [each.address and each.address[0] for each in ended] == [HOST, HOST]
        assert made.acceptor.end_resting() is ended[-1]
        assert len(set(ended)) == 3
        assert told[2:] == [acceptor_module.FULL]
        assert made.acceptor.end_resting() is None
        nursery.cancel_scope.cancel()


async def test_a_connection_is_kept_alive_by_the_system_if_that_is_asked() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host=HOST)
    async with listener, await trio.testing.open_stream_to_socket_listener(listener) as stream:
        arrival = Arrival(Acceptor(Network(None, allow_plain=False)), stream, None)
        arrival.keep_alive(7)
        options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE)]
        options += [(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)]
        assert [stream.getsockopt(*each) for each in options] == [1, 7]


async def test_without_room_and_without_a_connection_to_end_the_log_says_so(
    caplog, autojump_clock
) -> None:
    acceptor = Acceptor(Network(None, allow_plain=False))
    acceptor_module._acceptors().add(acceptor)
    before = trio.current_time()
    await acceptor._wait_for_room(OSError(errno.EMFILE, "no files"))
    assert trio.current_time() - before == pytest.approx(acceptor_module.SCARCE_SECONDS)
    (record,) = caplog.records
    assert record.getMessage() == "no room for another connection: [Errno 24] no files"


async def test_the_file_of_a_connection_that_does_not_end_is_not_waited_for_without_end(
    autojump_clock,
) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host=HOST)
    async with listener, await trio.testing.open_stream_to_socket_listener(listener) as stream:
        acceptor = Acceptor(Network(None, allow_plain=False))
        acceptor_module._acceptors().add(acceptor)
        arrival = Arrival(acceptor, stream, None)
        acceptor.arrivals.arrive(arrival, HOST)
        before = trio.current_time()
        await acceptor._wait_for_room(OSError(errno.EMFILE, "no files"))
        assert trio.current_time() - before == pytest.approx(acceptor_module.SCARCE_SECONDS)
        assert acceptor.arrivals.newcomers == 0, "it was told to end"


class Stumbling:
    """A listener whose first ``accept`` fails."""

    def __init__(self, listener: trio.SocketListener, number: int) -> None:
        self.socket = listener.socket
        self._listener = listener
        self._numbers = [number]

    async def accept(self) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        if self._numbers:
            raise OSError(self._numbers.pop(), "stumbled")
        return await self._listener.accept()


@pytest.mark.parametrize(
    "number", [errno.ECONNABORTED, errno.EPROTO, errno.EMFILE, errno.ENFILE, errno.ENOMEM]
)
async def test_an_accept_that_fails_is_tried_again(number: int, caplog, autojump_clock) -> None:
    async with trio.open_nursery() as nursery:
        here = Port(Acceptor(Network(None, allow_plain=False)))
        (listener,) = await here.acceptor.network.listen(HOST, 0)
        here.number = listener.socket.getsockname()[1]
        nursery.start_soon(
            here.acceptor.serve, [Stumbling(listener, number)], here.handle, nursery.start_soon
        )
        stream = await trio.open_tcp_stream(HOST, here.number)
        async with stream:
            await stream.send_all(b"hello")
            with trio.CancelScope(shield=True):
                assert await stream.receive_some() == b"hello"
        nursery.cancel_scope.cancel()
    is_scarce = number not in (errno.ECONNABORTED, errno.EPROTO)
    assert ("stumbled" in caplog.text) == is_scarce


async def test_an_error_that_is_the_listeners_own_ends_accepting_and_closes_it() -> None:
    here = Port(Acceptor(Network(None, allow_plain=False)))
    (listener,) = await here.acceptor.network.listen(HOST, 0)
    with pytest.raises(ExceptionGroup) as raised:
        async with trio.open_nursery() as nursery:
            await here.acceptor.serve(
                [Stumbling(listener, errno.EINVAL)], here.handle, nursery.start_soon
            )
    assert raised.group_contains(OSError, match="stumbled", depth=2)
    assert listener.socket.fileno() == -1


OUT_OF_FILES = """
    import resource, socket, sys
    import trio
    from net.acceptor import Acceptor
    from net.network import Network

    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    async def handle(arrival):
        stream = await arrival.secure()
        while data := await stream.receive_some():
            await stream.send_all(data)

    async def main():
        acceptor = Acceptor(Network(None, allow_plain=False))
        listeners = await acceptor.network.listen("127.0.0.1", 0)
        print(listeners[0].socket.getsockname()[1], flush=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(acceptor.serve, listeners, handle, nursery.start_soon)
            await trio.to_thread.run_sync(sys.stdin.readline)
            held = []
            try:
                while True:
                    held.append(socket.socket())
            except OSError:
                print("none left, beside", acceptor.arrivals.newcomers, flush=True)
            await trio.to_thread.run_sync(sys.stdin.readline)
            nursery.cancel_scope.cancel()

    trio.run(main)
"""


async def test_without_files_a_newcomer_makes_room_and_no_more_than_one() -> None:
    command = [sys.executable, "-c", textwrap.dedent(OUT_OF_FILES)]
    process = subprocess.Popen(  # noqa: ASYNC220 - it takes no time, and is talked with in threads
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process, trio.fail_after(limit()):

        async def line() -> bytes:
            return await trio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)

        def go_on() -> None:
            process.stdin.write(b"\n")
            process.stdin.flush()

        number = int(await line())
        async with AsyncExitStack() as stack:

            async def dial() -> trio.SocketStream:
                stream = await trio.open_tcp_stream(HOST, number)
                return await stack.enter_async_context(stream)

            newcomers = [await dial() for _ in range(2)]
            assert [await is_served(each) for each in newcomers] == [True] * 2
            go_on()
            assert await line() == b"none left, beside 2\n"
            third = await dial()
            assert await is_served(third)
            assert await is_closed(newcomers[0])
            assert await is_served(newcomers[1])
            go_on()
        assert await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True) == 0
