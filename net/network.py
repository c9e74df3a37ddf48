"""Opening connections and listening: TCP, with TLS where there are credentials."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import trio

from handshake.certificates import unreadable
from handshake.credentials import Credentials, peer_name
from handshake.exposure import Protection, decide_protection
from handshake.principals import UNPROVEN, Principal, certified
from handshake.refusals import peer_not_trusted
from handshake.secret import ClusterSecret
from handshake.trust import Refreshed, Trust
from net import forking
from net.tls import TLSStream, TLSTransport
from net.transport import MakeTransport, Transport, transport_of
from wire.addresses import PORT_MAX, join_address, split_address
from wire.errors import (
    AddressInUse,
    AddressInvalid,
    CredentialsError,
    InsecureAddress,
    LimitExceeded,
    MeshError,
    PeerNotTrusted,
    PeerUnavailable,
)

BACKLOG: Final = 4_096
"""Connections that the system accepts ahead of us, as many as Linux allows: a mesh that restarts
dials all at once, and a connection beyond would be tried again only after a second. They take no
files."""

FILES_DEFAULT: Final = 1_048_576
"""Files that a process may have open where the system says nothing about it."""

TLS_TIMEOUT_SECONDS: Final = 10.0
"""For the handshake of TLS, as for ours. Half of it would do where both sides have a processor to
themselves; on a busy or slow machine they wait for one. A silent connection keeps no member out
meanwhile: the oldest newcomer makes room."""

REFRESH_SECONDS: Final = 10.0
"""How often changed certificate files are looked for, besides at each new connection."""

Stream = trio.SocketStream | TLSStream
"""A connection: bare, or with both sides authenticated."""

_TAKEN: Final = (errno.EADDRINUSE, errno.EACCES)

_SCARCE: Final = (errno.EMFILE, errno.ENFILE)

NO_FILES: Final = (
    "this process may open no more files and connections: close some, or raise its limit"
    " (ulimit -n)"
)
"""What is said instead of advice about an address that has nothing to do with it."""


class Network:
    """The rules of one endpoint for connections: where plain TCP may be, and how TLS is done."""

    def __init__(  # noqa: PLR0913 - three of them are one network's
        self,
        credentials: Credentials | None,
        *,
        allow_plain: bool,
        open_stream: Callable[..., Awaitable[trio.SocketStream]] | None = None,
        open_listeners: Callable[..., Awaitable[list[trio.SocketListener]]] | None = None,
        make_transport: MakeTransport = transport_of,
        stakes: str = "read and write the mesh",
        on_refresh: Callable[[CredentialsError | None], object] = lambda _: None,
    ) -> None:
        """Use TLS with these credentials, or none. The functions that open do as trio's do.

        ``make_transport`` has to know the sockets of their streams, and of those that are accepted.
        ``stakes`` is what an exposed port would let anybody do. ``on_refresh`` is told when changed
        credentials are in force, or why they cannot be.
        """
        self._open_stream = open_stream or trio.open_tcp_stream
        self._open_listeners = open_listeners or trio.open_tcp_listeners
        self._make_transport = make_transport
        self._allow_plain = allow_plain
        self._stakes = stakes
        self._on_refresh = on_refresh
        self._trust = Trust(credentials)
        self._uses = 0

    def adopt(self, secret: ClusterSecret) -> None:
        """Get into the mesh of a secret, unless this is in another one already.

        Raises ``CredentialsError``.
        """
        fresh = Credentials.from_secret(secret)
        if self.credentials is None and not self._uses:
            self._trust = Trust(fresh)
        elif self.credentials is None or self.credentials.authority != fresh.authority:
            raise CredentialsError(
                "the join ticket is of another mesh than this endpoint, or the endpoint is in use"
                " already: make an endpoint with the ticket's secret, or without any"
            )

    @property
    def credentials(self) -> Credentials | None:
        """Give the credentials in force."""
        return self._trust.credentials

    def check(self, address: str) -> Protection:
        """Raise ``InsecureAddress`` if plain TCP at this address would let strangers in."""
        return decide_protection(
            address,
            has_credentials=self._trust.credentials is not None,
            allow_plain=self._allow_plain,
            stakes=self._stakes,
        )

    @property
    def is_refreshable(self) -> bool:
        """Tell whether the credentials may change."""
        return self.credentials is not None and self.credentials.files is not None

    async def refresh_forever(self) -> None:
        """Look at the files even while nobody connects, so that a mistake is told soon."""
        while True:
            await trio.sleep(REFRESH_SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """Use changed credentials for all new connections."""
        try:
            found = self._trust.refresh()
        except CredentialsError as error:
            self._on_refresh(error)
        else:
            if found is Refreshed.RELOADED:
                self._on_refresh(None)

    async def listen(self, address: str, port: int) -> list[trio.SocketListener]:
        """Listen; raises ``AddressInvalid``, ``AddressInUse`` or ``InsecureAddress``.

        ``LimitExceeded`` says that this process may open no more files.
        """
        if address.count(":") == 1 and split_address(address) is not None:
            host, _, digits = address.partition(":")
            raise AddressInvalid(
                f"{address!r} is no host: the port is an argument of its own, as in"
                f" listen({host!r}, {digits})"
            )
        try:
            self.check(address)
        except InsecureAddress:
            await self._check_exists(address)  # Nothing is exposed by a name that does not exist.
            raise
        if not 0 <= port <= PORT_MAX:
            raise AddressInUse(f"{port} is no port: choose up to {PORT_MAX}, or 0 for a free one")
        self._uses += 1  # From now on: a ticket must not come in between.
        try:
            listeners = await self._open_listeners(port, host=address, backlog=BACKLOG)
        except (OSError, ValueError, OverflowError) as error:
            self._uses -= 1
            raise _no_listener(address, port, error) from error
        for listener in listeners:
            forking.own(listener.socket)
        return listeners

    async def _check_exists(self, host: str) -> None:
        """Raise ``AddressInvalid`` for a name that cannot be resolved."""
        try:
            await trio.socket.getaddrinfo(host or None, 0)
        except (OSError, ValueError) as error:
            raise _no_listener(host, 0, error) from error

    async def connect(self, address: str, port: int) -> Transport:
        """Open a connection; raises ``OSError``, or ``MeshError`` when trust is lacking."""
        return self.transport(await self.open(address, port))

    async def open(self, address: str, port: int) -> Stream:
        """Open a connection as ``connect`` does, for those who want trio's stream."""
        self.check(address)
        if not 0 < port <= PORT_MAX:  # The system would take the rest of a division.
            raise PeerUnavailable(f"{port} is no port: give the one that the peer listens at")
        self._uses += 1
        stream = await self._open_stream(address, port)
        forking.own(stream.socket)
        self.refresh()
        return await self._shake(stream, self._trust.client, server_side=False)

    async def secure(self, stream: trio.SocketStream) -> Stream:
        """Take a connection over that another program dialled; raises as ``connect`` does."""
        forking.own(stream.socket)
        self.refresh()
        return await self._shake(stream, self._trust.server, server_side=True)

    def transport(self, stream: Stream) -> Transport:
        """Give what the mesh reads and writes by; the stream is of no use any more."""
        if isinstance(stream, TLSStream):
            return TLSTransport(stream, self._make_transport(stream.transport_stream))
        return self._make_transport(stream)

    def principal(self, secured: Stream | Transport) -> Principal:
        """Give the principal of a connection that ``secure`` has taken over."""
        if self.credentials is None or isinstance(secured, trio.SocketStream):
            return UNPROVEN
        return certified(secured.peer_name, can_trust_names=self.credentials.can_trust_names)

    async def _shake(
        self, stream: trio.SocketStream, context: ssl.SSLContext | None, *, server_side: bool
    ) -> Stream:
        if context is None:
            return stream
        secure = TLSStream(stream, context, server_side=server_side)
        try:
            with trio.fail_after(TLS_TIMEOUT_SECONDS):
                await secure.do_handshake()
            secure.peer_name = _name_of_peer(secure)
        except trio.TooSlowError:
            stream.socket.close()
            raise PeerUnavailable(
                f"the TLS handshake took longer than {TLS_TIMEOUT_SECONDS:g} s: does the other side"
                " have credentials, too?"
            ) from None
        except trio.BrokenResourceError as error:
            stream.socket.close()
            if isinstance(error.__cause__, ssl.SSLError):
                raise peer_not_trusted(error.__cause__) from error
            raise
        except BaseException:
            stream.socket.close()
            raise
        return secure


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Give an error, and all that it was made of."""
    yield error
    for each in (*getattr(error, "exceptions", ()), error.__cause__):
        if each is not None:
            yield from causes_of(each)


def is_out_of_files(error: BaseException) -> bool:
    """Tell whether an error says that no more files and connections may be opened."""
    return any(isinstance(each, OSError) and each.errno in _SCARCE for each in causes_of(error))


def _no_listener(host: str, port: int, error: Exception) -> MeshError:
    where, detail = join_address(host, port), getattr(error, "strerror", None) or error
    numbers = {each.errno for each in causes_of(error) if isinstance(each, OSError)}
    if is_out_of_files(error):
        return LimitExceeded(f"cannot listen at {where} ({detail}): {NO_FILES}")
    if not numbers.isdisjoint(_TAKEN):
        advice = "choose another port, or 0 for a free one"
        return AddressInUse(f"cannot listen at {where} ({detail}): {advice}")
    advice = "give a name or an address of this machine, or 127.0.0.1"
    return AddressInvalid(f"no such address here: {host!r} ({detail}): {advice}")


def _name_of_peer(secure: TLSStream) -> str | None:
    """Read the name in the certificate that the handshake has verified."""
    certificate = secure.peer_certificate()
    try:
        return None if certificate is None else peer_name(certificate)
    except unreadable() as error:
        raise PeerNotTrusted(
            f"the name in the peer's certificate cannot be read ({error}): issue it another one"
        ) from error


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
