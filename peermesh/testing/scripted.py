"""Connections without a network: what is read was written before, one piece every so often.

For what serves a connection, in virtual time (``trio.testing.MockClock``): a client that says one
byte a second takes no time at all there, and each run is the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio


class ScriptedTransport:
    """An ``net.transport.Transport`` that gives its pieces, and then the end.

    It takes whatever is sent, and counts it; while ``is_stuck``, sending waits for ever.
    """

    sends_now = False
    has_more = polls = False
    peer_name: str | None = None

    def __init__(self, pieces: Iterable[bytes], seconds: float = 0.0) -> None:
        """Give one piece each so many seconds."""
        self._pieces = iter(pieces)
        self._seconds = seconds
        self.bytes_sent = 0
        self.is_stuck = False
        self.is_closed = False

    async def receive(self) -> bytes:
        """Give the next piece when its time has come; ``b""`` behind the last."""
        await trio.sleep(self._seconds)
        return next(self._pieces, b"")

    def receive_now(self) -> bytes | None:
        """Give nothing before its time."""
        return None

    def send_now(self, data: bytes) -> int:
        """Send nothing: it can only be awaited."""
        return 0

    async def send_pieces(self, pieces: list[bytes | memoryview]) -> None:
        """Take everything, unless stuck."""
        await trio.lowlevel.checkpoint()
        if self.is_stuck:
            await trio.sleep_forever()
        self.bytes_sent += sum(map(len, pieces))

    def close(self) -> None:
        """End the connection."""
        self.is_closed = True


class ScriptedStream(trio.abc.Stream):
    """The same as a stream, which passes for that of a socket."""

    def __init__(self, pieces: Iterable[bytes], seconds: float = 0.0) -> None:
        """Give one piece each so many seconds."""
        self.socket = ScriptedTransport(pieces, seconds)
        """What is below: it knows whether the connection was closed, and can be stuck."""
        self.sent = bytearray()

    def setsockopt(self, *_option: object) -> None:
        """There are no options."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Give the next piece, whatever its size."""
        return await self.socket.receive()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Take everything, unless stuck."""
        await self.socket.send_pieces([bytes(data)])
        self.sent += data

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once, unless stuck."""
        await self.socket.send_pieces([])

    async def aclose(self) -> None:
        """End the connection."""
        self.socket.close()
        await trio.lowlevel.checkpoint()
