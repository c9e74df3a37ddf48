"""One connection through a link: two sockets, and a pipe each way. Decides nothing."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Final

import trio

from net.wakeup import Wakeup
from peermesh.testing.conditions import Conditions
from peermesh.testing.faults import Direction
from peermesh.testing.links.pipe import Ending, Pipe

_LINGER_NOT: Final = struct.pack("ii", 1, 0)
"""Closing a socket with this breaks its connection: the other end gets RST instead of FIN."""


def break_off(sock: trio.socket.SocketType) -> None:
    """Close a socket so that its other end gets a reset."""
    with contextlib.suppress(OSError):  # if the connection is broken already
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    sock.close()


class Lane:
    """One direction: from a socket through a pipe into another socket."""

    def __init__(
        self, source: trio.socket.SocketType, sink: trio.socket.SocketType, pipe: Pipe
    ) -> None:
        """Carry nothing yet."""
        self.pipe = pipe
        self.bytes_passed = 0
        self.has_ended = False
        self._source = source
        self._sink = sink
        self._wakeup = Wakeup()
        self._sending = trio.CancelScope()

    def change(self, conditions: Conditions) -> None:
        """Stand under other conditions, bytes included that wait for room in the sink's system."""
        self.pipe.change(conditions, trio.current_time())
        self._sending.cancel()
        self._wakeup.wake()

    def abort(self) -> None:
        """Tell the receiver that the sender is gone, when its time has come."""
        self.pipe.abort(trio.current_time())
        self._wakeup.wake()

    async def receive(self) -> None:
        """Feed the pipe until the sender ends."""
        while True:
            now = trio.current_time()
            size = self.pipe.read_size(now)
            if not size:
                await self._wait_until(self.pipe.read_at(now))
                continue
            try:
                data = await self._source.recv(size)
            except OSError:
                self.abort()
                return
            now = trio.current_time()
            if not data:
                self.pipe.end(now)
                self._wakeup.wake()
                return
            self.pipe.receive(data, now)
            self._wakeup.wake()

    async def send(self) -> Ending:
        """Empty the pipe, until it ends, or the receiver is gone (``OSError``)."""
        while True:
            what = self.pipe.peek(trio.current_time())
            if what is None:
                await self._wait_until(self.pipe.wake_at())
            elif isinstance(what, Ending):
                self.pipe.advance(0)
                return what
            else:
                await self._send(what)

    async def _send(self, data: memoryview) -> None:
        with trio.CancelScope() as self._sending:
            sent = await self._sink.send(data)
            self.pipe.advance(sent)
            self.bytes_passed += sent
            self._wakeup.wake()

    def close_sink(self) -> None:
        """Tell the receiver that nothing more comes."""
        self.has_ended = True
        self._sink.shutdown(socket.SHUT_WR)

    async def _wait_until(self, time: float) -> None:
        # A time that has come since needs no special case: the scope ends at once.
        with trio.CancelScope(deadline=time):
            await self._wakeup.wait()


class Connection:
    """Both directions of one connection, until they have ended or it breaks."""

    def __init__(
        self, near: trio.socket.SocketType, far: trio.socket.SocketType, pipes: tuple[Pipe, Pipe]
    ) -> None:
        """Join the socket of who dialled, ``near``, to that of the target, ``far``."""
        self._sockets = (near, far)
        self._forth = Lane(near, far, pipes[0])
        self._back = Lane(far, near, pipes[1])

    def lane(self, way: Direction) -> Lane:
        """Give the lane of one direction."""
        return self._forth if way is Direction.FORTH else self._back

    async def run(self) -> bool:
        """Carry bytes both ways; give whether it ended in order, rather than with a reset."""
        is_orderly = False
        try:
            async with trio.open_nursery() as nursery:
                for lane, other in ((self._forth, self._back), (self._back, self._forth)):
                    nursery.start_soon(lane.receive)
                    nursery.start_soon(self._send, lane, other, nursery.cancel_scope)
            is_orderly = self._forth.has_ended and self._back.has_ended
        finally:
            for sock in self._sockets:
                if is_orderly:
                    sock.close()
                else:
                    break_off(sock)
        return is_orderly

    async def _send(self, lane: Lane, other: Lane, scope: trio.CancelScope) -> None:
        try:
            while await lane.send() is Ending.END:
                # It is not over: if the receiver breaks off now, the sender is still to be told.
                lane.close_sink()
                if other.has_ended:
                    break
            scope.cancel()
        except OSError:
            # The receiver is gone. What tells the sender goes the other way, in its time.
            other.abort()
