"""Accepts the connections of all listeners, so that those that prove nothing keep no member out.

Every connection counts from the moment it is accepted, before TLS. ``arrivals`` decides which one
ends when there are too many; here it is ended. Accepting never waits for room.
"""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol
from weakref import WeakSet

import trio

from net.arrivals import Arrivals
from net.network import Network, Stream, files_max, remote_address
from net.tls import TLSStream
from net.transport import SocketTransport, Transport, has_received
from wire.logs import logger_of

logger = logger_of("peermesh.net")

NEWCOMERS_MAX: Final = 1_024
"""Connections that have proven nothing, of one acceptor: a handshake takes milliseconds, so that so
many are under way only where a thousand members come back at once, or where strangers stay."""

NEWCOMERS_SHARE: Final = 4
"""One of so many files that the process may open is for newcomers, of all acceptors together."""

MEMBERS_SHARE: Final = 2
"""One of so many files is for members of one acceptor. What is left is for stores, logs and
connections that the process opens itself."""

LAST_WORDS_SECONDS: Final = 1.0
"""How long a connection that makes room may take to be told why."""

LEAVING_SHARE: Final = 4
"""One of so many newcomers may be at its last words. More are closed without: their files are
needed."""

SCARCE_SECONDS: Final = 0.1
"""The pause when the system has no room for another connection, and none here can make some."""

CROWDED: Final = "too many connections have proven nothing, and this was the oldest: try again"
"""What a connection that makes room is told, or the log."""

FULL: Final = "there are too many connections, and all are at work: try again later"
"""What a connection is told that has proven itself and finds no room."""

_SCARCE: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_GONE: Final = (
    errno.ECONNABORTED,
    errno.EPERM,
    errno.EPROTO,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
)
"""Errors of ``accept`` that are the new connection's own: accept(2) has them tried again."""


class Arrival:
    """A connection that was accepted, and how it says that it has proven itself."""

    def __init__(
        self, acceptor: Acceptor, stream: trio.SocketStream, address: tuple[str, int] | None
    ) -> None:
        self.address: Final = address
        """Where it comes from; ``None`` if it is gone already."""
        self.farewell: Callable[[str], object] | None = None
        """Called with the reason when the connection has to make room, in the place of a cut; the
        connection has ``LAST_WORDS_SECONDS`` to end."""
        self.scope: Final = trio.CancelScope()
        self.gone: Final = trio.Event()
        self.is_leaving = False
        """Whether it is at its last words."""
        self._acceptor = acceptor
        self._stream = stream
        self._has_spoken: Callable[[], bool] = lambda: has_received(stream.socket)

    async def secure(self) -> Stream:
        """Shake hands in TLS where there are credentials, which makes it a member.

        Raises ``OSError``, ``MeshError`` and ``trio.BrokenResourceError``.
        """
        stream = await self._acceptor.network.secure(self._stream)
        if isinstance(stream, TLSStream) and not self.prove():
            await trio.lowlevel.checkpoint()
        return stream

    async def transport(self) -> Transport:
        """Do as ``secure`` does, and give what the mesh reads and writes by."""
        transport = self._acceptor.network.transport(await self.secure())
        if isinstance(transport, SocketTransport):
            self._has_spoken = lambda: transport.has_received
        return transport

    def prove(self) -> bool:
        """Make it a member: it does not count as a newcomer any more. May be called again.

        False if there are too many members, none of which rests: then it ends.
        """
        return self._acceptor.admit(self)

    def rest(self) -> None:
        """Note that nothing is under way: it may make room for another member."""
        self._acceptor.arrivals.rest(self)

    def work(self) -> None:
        """Note that something is under way."""
        self._acceptor.arrivals.work(self)

    def has_spoken(self) -> bool:
        """Tell whether the other side has ever sent a byte."""
        return self._has_spoken()

    def keep_alive(self, seconds: int) -> None:
        """Have the system look for a machine that is gone after such a silence; ``OSError``."""
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds)

    def close(self) -> None:
        """Close the socket, unless it was handed on."""
        self._stream.socket.close()


Handle = Callable[[Arrival], Awaitable[None]]


class Start(Protocol):
    """Starts a task, as ``trio.Nursery.start_soon`` does."""

    def __call__(self, function: Callable[..., Awaitable[None]], /, *arguments: object) -> None: ...


class RestingStream(trio.abc.Stream):
    """A stream whose connection rests while it waits for the other side, to send or to take."""

    def __init__(self, stream: trio.abc.Stream, arrival: Arrival) -> None:
        self._stream = stream
        self._arrival = arrival
        self._waits = 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Wait for bytes."""
        with self._resting():
            return await self._stream.receive_some(max_bytes)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything."""
        with self._resting():
            await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room for something."""
        with self._resting():
            await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """End the connection."""
        await self._stream.aclose()

    @contextmanager
    def _resting(self) -> Iterator[None]:
        if not self._waits:
            self._arrival.rest()
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._arrival.work()


class Acceptor:
    """Accepts for the listeners of one endpoint, broker or gateway."""

    def __init__(
        self,
        network: Network,
        *,
        newcomers_max: int | None = None,
        members_max: int = sys.maxsize,
        on_crowded: Callable[[Arrival, str], object] = lambda _arrival, _reason: None,
    ) -> None:
        """Accept by the rules of ``network``.

        The two limits hold as far as files allow; there may be ``NEWCOMERS_MAX`` newcomers without
        another word. ``on_crowded`` is told of each connection that
        has to end for lack of room, and why.
        """
        self.network: Final = network
        self.arrivals: Final[Arrivals[Arrival]] = Arrivals()
        self._newcomers_max = NEWCOMERS_MAX if newcomers_max is None else newcomers_max
        self._members_max = members_max
        self._on_crowded = on_crowded
        self._leaving = 0
        self.accepted = 0
        """Connections so far."""

    async def serve(
        self, listeners: list[trio.SocketListener], handle: Handle, start: Start
    ) -> None:
        """Accept until cancelled, and close the listeners then.

        ``handle`` gets each connection in a task made by ``start``; when it returns, or has to make
        room and is cancelled, the connection is closed.
        """
        _acceptors().add(self)
        try:
            async with trio.open_nursery() as nursery:
                for listener in listeners:
                    nursery.start_soon(self._accept, listener, handle, start)
        finally:
            for listener in listeners:
                listener.socket.close()

    @trio.lowlevel.enable_ki_protection  # Ctrl-C is the main task's; see endpoint.tasks.
    async def _accept(self, listener: trio.SocketListener, handle: Handle, start: Start) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if error.errno in _SCARCE:
                    # The system looks for a file before it looks whether a connection waits.
                    await trio.lowlevel.wait_readable(listener.socket)
                    await self._wait_for_room(error)
                elif error.errno not in _GONE:
                    raise
                continue
            self._make_room()
            address = remote_address(stream)
            arrival = Arrival(self, stream, address)
            self.arrivals.arrive(arrival, "" if address is None else address[0])
            self.accepted += 1
            start(self._run, arrival, handle)

    async def _wait_for_room(self, error: OSError) -> None:
        """Have a newcomer of this process end, or a member that rests; wait for its file."""
        ended = _end_one()
        if ended is None:
            logger.warning("no room for another connection: %s", error)
            await trio.sleep(SCARCE_SECONDS)
            return
        with trio.move_on_after(SCARCE_SECONDS):
            await ended.gone.wait()

    async def _run(self, arrival: Arrival, handle: Handle) -> None:
        try:
            with arrival.scope:
                await handle(arrival)
        finally:
            self._leaving -= arrival.is_leaving
            self.arrivals.leave(arrival)
            arrival.close()
            arrival.gone.set()

    def _make_room(self) -> None:
        """End what a connection that was just accepted has no room beside."""
        share = files_max() // NEWCOMERS_SHARE
        while self.arrivals.newcomers >= min(self._newcomers_max, share):
            self.end_newcomer()
        while sum(each.arrivals.newcomers for each in _acceptors()) >= share:
            _largest().end_newcomer()

    def end_resting(self) -> Arrival | None:
        """End the member that rests longest, if one does."""
        resting = self.arrivals.member_to_end()
        if resting is not None:
            self._end(resting, FULL)
        return resting

    def end_newcomer(self) -> Arrival | None:
        """End the newcomer whose turn it is, if there is one."""
        oldest = self.arrivals.newcomer_to_end(Arrival.has_spoken)
        if oldest is not None:
            self._end(oldest, CROWDED)
        return oldest

    def admit(self, arrival: Arrival) -> bool:
        """Make a newcomer a member, for which one that rests may have to end; see ``prove``."""
        if not self.arrivals.is_newcomer(arrival):
            return True  # It has proven itself before, or is on its way out.
        members_max = min(self._members_max, files_max() // MEMBERS_SHARE)
        if self.arrivals.members >= members_max:
            resting = self.arrivals.member_to_end(arrival)
            self._end(arrival if resting is None else resting, FULL)
            if resting is None:
                return False
        self.arrivals.prove(arrival)
        return True

    def _end(self, arrival: Arrival, reason: str) -> None:
        self.arrivals.leave(arrival)
        self._on_crowded(arrival, reason)
        if arrival.farewell is None or self._leaving >= self._newcomers_max / LEAVING_SHARE:
            arrival.scope.cancel()
            return
        self._leaving += 1
        arrival.is_leaving = True
        arrival.scope.deadline = trio.current_time() + LAST_WORDS_SECONDS
        arrival.farewell(reason)


_acceptors_of_run: Final[trio.lowlevel.RunVar[WeakSet[Acceptor]]] = trio.lowlevel.RunVar(
    "_acceptors_of_run"
)


def _acceptors() -> WeakSet[Acceptor]:
    """Give all acceptors of this run of trio: they share the files of the process."""
    try:
        return _acceptors_of_run.get()
    except LookupError:
        acceptors = WeakSet[Acceptor]()
        _acceptors_of_run.set(acceptors)
        return acceptors


def _largest() -> Acceptor:
    """Give the acceptor with most newcomers."""
    return max(_acceptors(), key=lambda each: each.arrivals.newcomers)


def _end_one() -> Arrival | None:
    """End one connection of this process to get its file: a newcomer, else one that rests."""
    resting = (each.end_resting() for each in _acceptors())
    return _largest().end_newcomer() or next((each for each in resting if each is not None), None)
