"""TLS on a TCP stream: like trio's own stream for it, but it says why it refuses somebody.

When a handshake fails, trio drops the alert that OpenSSL has written for the other side, who is
left with the end of a connection and no reason. Here it is sent. Besides, a read gives all records
that have come, instead of one.
"""

from __future__ import annotations

import ssl
from typing import Final, NoReturn

import trio

RECEIVE_SIZE: Final = 64 * 1024
"""Bytes taken from the network at once: four records of the largest size."""

ALERT_SECONDS: Final = 1.0
"""How long an alert may take. It fits into what the system buffers, unless it is out of memory."""


ALERT: Final = bytes((21, 3, 3, 0, 2, 2, 70))
"""A record with the fatal alert protocol_version: to those who speak no TLS OpenSSL says nothing,
and they would not know why."""


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
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._sending = trio.StrictFIFOLock()
        self.peer_name: str | None = None
        """What the other side's certificate calls it; set by whoever has verified it."""

    async def do_handshake(self) -> None:
        """Shake hands; raises ``BrokenResourceError``, with OpenSSL's error as its cause."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            except ssl.SSLError as error:
                await self._break(error, ALERT)
            else:
                return await self._flush()

    def peer_certificate(self) -> bytes | None:
        """Give the other side's certificate in DER, after the handshake."""
        return self._tls.getpeercert(binary_form=True)

    def version(self) -> str | None:
        """Give the version of TLS that is spoken."""
        return self._tls.version()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes; ``b""`` at the end."""
        await trio.lowlevel.checkpoint_if_cancelled()
        size_max = RECEIVE_SIZE if max_bytes is None else max_bytes
        while True:
            try:
                data = self._read(size_max)
            except ssl.SSLWantReadError:
                await self._flush()  # What is read may ask for an answer, such as a fresh key.
                await self._fill()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            except ssl.SSLError as error:
                await self._break(error)
            else:
                await trio.lowlevel.cancel_shielded_checkpoint()
                return data

    def _read(self, size_max: int) -> bytes:
        """Give all that has come; raises what OpenSSL raises if it is nothing."""
        pieces = [self._tls.read(size_max)]
        size = len(pieces[0])
        while 0 < size < size_max:
            try:
                pieces.append(self._tls.read(size_max - size))
            except ssl.SSLError:
                break  # Whatever it is comes again with the next read.
            size += len(pieces[-1])
            if not pieces[-1]:
                break
        return b"".join(pieces)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything."""
        async with self._sending:
            with memoryview(data) as view:
                if view:
                    try:
                        self._tls.write(view)
                    except ssl.SSLError as error:
                        raise trio.BrokenResourceError(str(error)) from error
            await self._send_out()

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

    async def _fill(self) -> None:
        chunk = await self.transport_stream.receive_some(RECEIVE_SIZE)
        if chunk:
            self._incoming.write(chunk)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            async with self._sending:
                await self._send_out()

    async def _send_out(self) -> None:
        if self._outgoing.pending:
            await self.transport_stream.send_all(self._outgoing.read())

    async def _break(self, error: ssl.SSLError, alert: bytes = b"") -> NoReturn:
        """Tell the other side, with an alert of ours where OpenSSL has written none; and raise."""
        alert = self._outgoing.read() or alert
        with trio.move_on_after(ALERT_SECONDS):
            try:
                async with self._sending:
                    await self.transport_stream.send_all(alert)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # Nobody is there to be told.
        raise trio.BrokenResourceError(str(error)) from error
