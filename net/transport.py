"""Bytes in and out of one connection: a bare socket where that is possible, any trio stream else.

A bare socket reads and writes without a checkpoint where none is needed, and can send at once, in
the caller's step: that halves the latency of a trio stream. TLS is in ``net.tls``. All
raise ``trio.BrokenResourceError`` when the connection is lost, and nothing else.
"""

from __future__ import annotations

import fcntl
import os
import socket
import termios
from collections.abc import Callable
from functools import cache
from sys import byteorder
from typing import Final, Protocol

import trio

from net import forking
from wire.limits import JOIN_SIZE, MIB

RECEIVE_SIZE: Final = 128 * 1024
"""Bytes read at once. Twice as many took twice the time: the buffer then comes from the system."""


GATHER_COUNT: Final = 1_000
"""Pieces that the system gathers at once: Linux takes up to 1,024."""

BYTES_RECEIVED_AT: Final = 128
"""Where ``struct tcp_info`` of Linux has ``tcpi_bytes_received``, eight bytes long."""

INFO_SIZE: Final = BYTES_RECEIVED_AT + 8
"""Bytes of that structure that are asked for."""

KEPT_SIZE: Final = 8 * MIB
"""Bytes that may lie free in the process and wait for the next reads: as much as passes through a
relay that works without a pause."""


@cache
def keep_freed_memory() -> None:
    """Have the C library keep what reads have freed, instead of giving it back at once.

    glibc gives back what is free beyond twice the largest block freed so far (``mallopt(3)``, on
    ``M_MMAP_THRESHOLD``), and has to ask for it again, page by page, each cleared and faulted in:
    a sixth of a relay's time. So one large block is freed here; untouched, it costs microseconds.
    Other C libraries do not mind.
    """
    bytes(KEPT_SIZE // 2)


def cores() -> int:
    """Count the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Transport(Protocol):
    """What a connection needs of the network."""

    sends_now: bool
    """Whether ``send_now`` ever sends anything."""
    has_more: bool
    """Whether more is there to read, most likely: the last read took all that it had room for."""
    polls: bool
    """Whether ``receive_now`` is worth asking again soon: the other side may work meanwhile."""
    peer_name: str | None
    """What the other side's verified certificate calls it; ``None`` without TLS."""

    @property
    def bytes_sent(self) -> int:
        """Count what the system has taken so far."""

    def unacknowledged(self) -> int:
        """Count the bytes that the system has taken and the other side's has not acknowledged."""

    async def receive(self) -> bytes:
        """Wait for bytes, and let other tasks run; ``b""`` at the end."""

    def receive_now(self) -> bytes | None:
        """Give what is there without waiting; ``None`` if that is nothing."""

    def send_now(self, data: bytes) -> int:
        """Send what goes without waiting; give the number of bytes that went."""

    async def send_pieces(self, pieces: list[bytes | memoryview]) -> None:
        """Send everything, in order. May use up the list."""

    def close(self) -> None:
        """End the connection at once."""


class Readiness(Protocol):
    """Waits for sockets: ``trio.lowlevel``, or a simulated network for its own."""

    async def wait_readable(self, sock: socket.socket, /) -> None:
        """Wait until reading gives something."""

    async def wait_writable(self, sock: socket.socket, /) -> None:
        """Wait until writing takes something."""

    def notify_closing(self, sock: socket.socket, /) -> None:
        """Wake whoever waits for a socket that is about to be closed."""


class SocketTransport:
    """A TCP socket, used directly: the kernel's, or one that behaves like it."""

    peer_name: str | None = None

    def __init__(self, sock: socket.socket, readiness: Readiness = trio.lowlevel) -> None:
        """Own the socket from now on."""
        keep_freed_memory()
        self._readiness = readiness
        self.polls = readiness is trio.lowlevel and cores() > 1
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self.sends_now = True
        self.has_more = False
        self.bytes_sent = 0

    @property
    def has_received(self) -> bool:
        """Tell whether the other side has ever sent a byte, read or not."""
        return has_received(self._socket)

    def unacknowledged(self) -> int:
        """Ask the system; where it does not say, everything counts as acknowledged."""
        try:
            return int.from_bytes(fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(4)), byteorder)
        except (OSError, TypeError, ValueError):
            return 0

    async def receive(self) -> bytes:
        """Wait for bytes."""
        while True:
            try:
                await self._readiness.wait_readable(self._socket)
            except (trio.ClosedResourceError, OSError, ValueError) as error:
                raise trio.BrokenResourceError(f"the connection was lost: {error}") from error
            chunk = self.receive_now()
            if chunk is not None:
                return chunk

    def receive_now(self) -> bytes | None:
        """Give what is there; a full read is worth another one without asking the system first."""
        try:
            chunk = self._socket.recv(RECEIVE_SIZE)
        except BlockingIOError:
            self.has_more = False
            return None
        except (OSError, ValueError) as error:
            raise trio.BrokenResourceError(f"the connection was lost: {error}") from error
        self.has_more = len(chunk) == RECEIVE_SIZE
        return chunk

    def send_now(self, data: bytes) -> int:
        """Send what the system takes at once."""
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error
        self.bytes_sent += sent
        return sent

    async def send_pieces(self, pieces: list[bytes | memoryview]) -> None:
        """Send everything, waiting only when the system takes no more.

        Small pieces are joined; the system gathers large ones itself, which saves a copy.
        """
        if sum(map(len, pieces)) < JOIN_SIZE * len(pieces):
            pieces = [b"".join(pieces)]
        at = 0
        while at < len(pieces):
            try:
                sent = self._socket.sendmsg(pieces[at : at + GATHER_COUNT])
            except BlockingIOError:
                await self._wait_writable()
                continue
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error
            self.bytes_sent += sent
            while at < len(pieces) and sent >= len(pieces[at]):
                sent -= len(pieces[at])
                at += 1
            if sent:
                pieces[at] = memoryview(pieces[at])[sent:]
                await self._wait_writable()

    async def _wait_writable(self) -> None:
        try:
            await self._readiness.wait_writable(self._socket)
        except (trio.ClosedResourceError, OSError, ValueError) as error:
            raise trio.BrokenResourceError("the connection was closed here") from error

    def close(self) -> None:
        """Close the socket, and wake whoever waits for it."""
        if self._socket.fileno() >= 0:
            self._readiness.notify_closing(self._socket)
            self._socket.close()


class StreamTransport:
    """Any trio stream that has no socket."""

    sends_now = False
    has_more = polls = False
    peer_name: str | None = None

    def __init__(self, stream: trio.abc.Stream) -> None:
        """Own the stream from now on."""
        self._stream = stream
        self.bytes_sent = 0

    def unacknowledged(self) -> int:
        """Give zero: a stream does not say."""
        return 0

    async def receive(self) -> bytes:
        """Wait for bytes."""
        try:
            return bytes(await self._stream.receive_some(RECEIVE_SIZE))
        except trio.ClosedResourceError as error:
            raise trio.BrokenResourceError("the connection was closed here") from error

    def receive_now(self) -> bytes | None:
        """Give nothing: a stream can only be awaited."""
        return None

    def send_now(self, data: bytes) -> int:
        """Send nothing: a stream can only be awaited."""
        return 0

    async def send_pieces(self, pieces: list[bytes | memoryview]) -> None:
        """Send everything."""
        data = b"".join(pieces)
        try:
            await self._stream.send_all(data)
        except trio.ClosedResourceError as error:
            raise trio.BrokenResourceError("the connection was closed here") from error
        self.bytes_sent += len(data)

    def close(self) -> None:
        """End the connection without a farewell: the mesh has said its own."""
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()


MakeTransport = Callable[[trio.abc.Stream], Transport]
"""Gives what the mesh reads and writes by; the stream is of no use any more."""


def transport_of(stream: trio.abc.Stream) -> Transport:
    """Use the bare socket of a stream of the kernel's; any other stream as it is."""
    if not isinstance(stream, trio.SocketStream):
        return StreamTransport(stream)
    bare = socket.socket(fileno=os.dup(stream.socket.fileno()))
    stream.socket.close()
    forking.own(bare)
    return SocketTransport(bare)


def has_received(sock: socket.socket | trio.socket.SocketType) -> bool:
    """Tell whether the other side has ever sent a byte, read or not; false where Linux is not."""
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_SIZE)
    except (OSError, AttributeError):
        return False
    return info[BYTES_RECEIVED_AT:] > bytes(8)
