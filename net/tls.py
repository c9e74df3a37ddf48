"""TLS on a TCP connection: for trio's streams, and for the mesh's own transport.

When a handshake fails, trio's own stream drops the alert that OpenSSL has written for the other
side, who is left with the end of a connection and no reason. Here it is sent. Besides, a read gives
all records that have come instead of one, and the mesh's transport sends in the caller's step.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final, NoReturn

import trio

from handshake.refusals import peer_not_trusted
from net.transport import Transport

RECEIVE_SIZE: Final = 64 * 1024
"""Bytes that a stream takes from the network at once: four records of the largest size."""

RECORD_SIZE: Final = 16 * 1024
"""Bytes of plaintext in the largest record. To ask for more only makes ``ssl`` allocate more."""

ALERT_SECONDS: Final = 1.0
"""How long an alert may take. It fits into what the system buffers, unless it is out of memory."""

ALERT: Final = bytes((21, 3, 3, 0, 2, 2, 70))
"""A record with the fatal alert protocol_version: to those who speak no TLS OpenSSL says nothing,
and they would not know why."""


class Session:
    """TLS between two buffers: bytes of the network in and out, and plain ones. Never waits."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        """Begin before the handshake."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls: Final = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)

    def feed(self, chunk: bytes) -> None:
        """Take bytes from the network; ``b""`` is its end."""
        if chunk:
            self._incoming.write(chunk)
        else:
            self._incoming.write_eof()

    def take_outgoing(self) -> bytes:
        """Give what has to go to the network."""
        return self._outgoing.read()

    def read(self, size_max: int | None = None) -> bytes:
        """Give all that has come, or so much of it; ``b""`` at the end.

        Raises ``ssl.SSLWantReadError`` if there is nothing yet, and ``ssl.SSLError``.
        """
        left = float("inf") if size_max is None else size_max
        pieces: list[bytes] = []
        while left > 0:
            try:
                piece = self.tls.read(int(min(left, RECORD_SIZE)))
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                break
            except ssl.SSLError:
                if not pieces:
                    raise
                break  # Whatever it is comes again with the next read.
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def seal(self, data: bytes | bytearray | memoryview) -> bytes:
        """Encrypt; give all that has to go to the network. Raises ``BrokenResourceError``."""
        if data:
            try:
                self.tls.write(data)
            except ssl.SSLError as error:
                raise trio.BrokenResourceError(str(error)) from error
        return self._outgoing.read()


class TLSStream(trio.abc.Stream):
    """A stream with both sides authenticated, once ``do_handshake`` has returned.

    One task may read while another one writes. It ends as the stream below ends: who needs to know
    whether the other side meant to end has to be told so inside.
    """

    def __init__(
        self, stream: trio.SocketStream, context: ssl.SSLContext, *, server_side: bool
    ) -> None:
        """Own the stream from now on."""
        self.transport_stream = stream
        self.session = Session(context, server_side=server_side)
        self._sending = trio.StrictFIFOLock()
        self.peer_name: str | None = None
        """What the other side's certificate calls it; set by whoever has verified it."""

    async def do_handshake(self) -> None:
        """Shake hands; raises ``BrokenResourceError``, with OpenSSL's error as its cause."""
        while True:
            try:
                self.session.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                self.session.feed(await self.transport_stream.receive_some(RECEIVE_SIZE))
            except ssl.SSLError as error:
                await self._break(error, ALERT)
            else:
                return await self._flush()

    def peer_certificate(self) -> bytes | None:
        """Give the other side's certificate in DER, after the handshake."""
        return self.session.tls.getpeercert(binary_form=True)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes; ``b""`` at the end.

        It waits for nobody who sends: two ends that only send would never read. What OpenSSL has to
        answer, a fresh key for instance, goes out before the next data of ours.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            try:
                data = self.session.read(RECEIVE_SIZE if max_bytes is None else max_bytes)
            except ssl.SSLWantReadError:
                self.session.feed(await self.transport_stream.receive_some(RECEIVE_SIZE))
            except ssl.SSLError as error:
                await self._break(error)
            else:
                await trio.lowlevel.cancel_shielded_checkpoint()
                return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything."""
        async with self._sending:
            await self.transport_stream.send_all(self.session.seal(data))

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room for something."""
        async with self._sending:
            await self.transport_stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """End the connection, without a farewell."""
        await self.transport_stream.aclose()

    def close(self) -> None:
        """End the connection in this step."""
        self.transport_stream.socket.close()

    async def _flush(self) -> None:
        async with self._sending:
            if data := self.session.take_outgoing():
                await self.transport_stream.send_all(data)

    async def _break(self, error: ssl.SSLError, alert: bytes = b"") -> NoReturn:
        """Tell the other side, with an alert of ours where OpenSSL has written none; and raise."""
        alert = self.session.take_outgoing() or alert
        with trio.move_on_after(ALERT_SECONDS):
            try:
                async with self._sending:
                    await self.transport_stream.send_all(alert)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # Nobody is there to be told.
        raise trio.BrokenResourceError(str(error)) from error


class TLSTransport:
    """What a connection of the mesh needs of the network, over a stream that has shaken hands."""

    has_more = False

    def __init__(self, stream: TLSStream, inner: Transport) -> None:
        """Go on with the session of a stream, by the transport that was made of what is below."""
        self._session = stream.session
        self._inner = inner
        self._rest = b""
        self._is_ahead = False
        self.sends_now, self.polls = self._inner.sends_now, self._inner.polls
        self.peer_name = stream.peer_name

    @property
    def bytes_sent(self) -> int:
        """What the system has taken so far, as it was encrypted."""
        return self._inner.bytes_sent

    def unacknowledged(self) -> int:
        """Count as the transport below does."""
        return self._inner.unacknowledged()

    async def receive(self) -> bytes:
        """Wait for bytes."""
        while (chunk := self._read()) is None:
            self._session.feed(await self._inner.receive())
        return chunk

    def receive_now(self) -> bytes | None:
        """Give what is there."""
        while (chunk := self._read()) is None:
            sealed = self._inner.receive_now()
            if sealed is None:
                return None
            self._session.feed(sealed)
        return chunk

    def _read(self) -> bytes | None:
        """Decrypt. What OpenSSL has to answer goes out before the next data of ours."""
        try:
            return self._session.read()
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLError as error:
            with suppress(trio.BrokenResourceError):
                self._inner.send_now(self._session.take_outgoing())
            refusal = peer_not_trusted(error)
            raise trio.BrokenResourceError(str(refusal)) from refusal

    def send_now(self, data: bytes) -> int:
        """Send what goes without waiting; give the number of bytes that went.

        What was encrypted cannot be taken back. If the system does not take all of it, all but one
        byte is said to have gone: the caller sends that one next, and then the rest goes before.
        """
        if self._rest:
            return 0
        sealed = self._session.seal(data)
        sent = self._inner.send_now(sealed)
        if sent == len(sealed):
            return len(data)
        self._rest, self._is_ahead = sealed[sent:], True
        return len(data) - 1

    async def send_pieces(self, pieces: list[bytes | memoryview]) -> None:
        """Send everything, in order. May use up the list."""
        data = b"".join(pieces)
        if self._is_ahead:
            data, self._is_ahead = data[1:], False
        rest, self._rest = self._rest, b""
        sealed = self._session.seal(data)
        await self._inner.send_pieces([rest, sealed] if rest else [sealed])

    def close(self) -> None:
        """End the connection at once, without a farewell: the mesh has said its own."""
        self._inner.close()
