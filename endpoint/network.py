"""Opening connections and listening: TCP, with TLS where there are credentials."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from endpoint.transport import StreamTransport, Transport, transport_of
from handshake.credentials import Credentials, check_address, peer_not_trusted
from wire.errors import AddressInUse, PeerUnavailable

BACKLOG: Final = 128
"""Connections that the system accepts ahead of us: a mesh that restarts dials all at once."""

PORT_MAX: Final = 65_535

FILES_DEFAULT: Final = 1_048_576
"""Files that a process may have open where the system says nothing about it."""

TLS_TIMEOUT_SECONDS: Final = 10.0
"""For the handshake of TLS, as for ours."""

_TAKEN: Final = (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL)


class Network:
    """The rules of one endpoint for connections: where plain TCP may be, and how TLS is done."""

    def __init__(
        self,
        credentials: Credentials | None,
        *,
        allow_plain: bool,
        open_stream: Callable[..., Awaitable[trio.SocketStream]],
        open_listeners: Callable[..., Awaitable[list[trio.SocketListener]]],
    ) -> None:
        """Use TLS with these credentials, or none. The functions are trio's, or do as those do."""
        self._open_stream = open_stream
        self._open_listeners = open_listeners
        self._credentials = credentials
        self._allow_plain = allow_plain
        self._server = credentials.server_context() if credentials is not None else None
        self._client = credentials.client_context() if credentials is not None else None

    def check(self, address: str) -> None:
        """Raise ``InsecureAddress`` if plain TCP at this address would let strangers in."""
        check_address(address, self._credentials, allow_plain=self._allow_plain)

    async def listen(self, address: str, port: int) -> list[trio.SocketListener]:
        """Listen; raises ``AddressInUse`` or ``InsecureAddress``."""
        self.check(address)
        if not 0 <= port <= PORT_MAX:
            raise AddressInUse(f"{port} is no port: choose up to {PORT_MAX}, or 0 for a free one")
        try:
            return await self._open_listeners(port, host=address, backlog=BACKLOG)
        except (OSError, ValueError, OverflowError) as error:
            causes = [error, *getattr(error, "exceptions", ())]
            is_taken = any(getattr(cause, "errno", None) in _TAKEN for cause in causes)
            advice = "choose another port, or 0 for a free one" if is_taken else "check the address"
            detail = getattr(error, "strerror", None) or error
            text = f"cannot listen at {address}:{port} ({detail}): {advice}"
            raise AddressInUse(text) from error

    async def connect(self, address: str, port: int) -> Transport:
        """Open a connection; raises ``OSError``, or ``MeshError`` when trust is lacking."""
        self.check(address)
        if not 0 < port <= PORT_MAX:  # The system would take the rest of a division.
            raise PeerUnavailable(f"{port} is no port: give the one that the peer listens at")
        stream = await self._open_stream(address, port)
        return await self._secure(stream, self._client, server_side=False)

    async def accept(self, stream: trio.SocketStream) -> Transport:
        """Take a connection over that somebody else dialled."""
        return await self._secure(stream, self._server, server_side=True)

    async def _secure(
        self, stream: trio.SocketStream, context: ssl.SSLContext | None, *, server_side: bool
    ) -> Transport:
        if context is None:
            return transport_of(stream)
        secure = trio.SSLStream(stream, context, server_side=server_side, https_compatible=True)
        try:
            with trio.fail_after(TLS_TIMEOUT_SECONDS):
                await secure.do_handshake()
        except trio.BrokenResourceError as error:
            stream.socket.close()
            if isinstance(error.__cause__, ssl.SSLError):
                raise peer_not_trusted(error.__cause__) from error
            raise
        except BaseException:
            stream.socket.close()
            raise
        return StreamTransport(secure)


def files_max() -> int:
    """Give how many files this process may have open; a system that sets no limit has many."""
    try:
        import resource
    except ImportError:  # pragma: no cover - it is Windows, which has no such limit
        return FILES_DEFAULT
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return FILES_DEFAULT if soft == resource.RLIM_INFINITY else soft


def remote_address(stream: trio.SocketStream) -> tuple[str, int] | None:
    """Say where a connection comes from, while it still stands."""
    try:
        host, port, *_ = stream.socket.getpeername()
    except OSError:
        return None
    return (host, port)
