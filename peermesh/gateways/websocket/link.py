"""A link to a real Zeek, or Broker: its WebSocket server is dialled, with the same dialogue."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Self
from urllib.parse import urlsplit

import trio
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    WebSocketConnection,
    wrap_client_stream,
)

from endpoint import arguments
from endpoint.dialer import causes
from endpoint.endpoint import Endpoint
from endpoint.pubsub.gateway_client import GatewayClient
from handshake.exposure import check_plain
from handshake.refusals import peer_not_trusted
from net.network import causes_of
from peermesh.gateways.websocket.carrying import FAULTS, QUEUEING, Carrier, Counts
from peermesh.gateways.websocket.limits import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    OPENING_SECONDS,
    RECEIVE_SIZE,
    TEXT_SIZE_MAX,
)
from peermesh.gateways.websocket.session import PATH, Session, subscription
from peermesh.gateways.websocket.texts import Texts
from peermesh.testing.nurseries import open_serving_nursery
from wire.addresses import PORT_MAX, join_address

PORTS: Final = {"ws": 80, "wss": 443}
"""The ports that a URL of each scheme means if it names none."""

STAKES: Final = "read what the mesh sends to Zeek, and publish in its place"


class Target(NamedTuple):
    """Where Zeek serves its messages."""

    host: str
    port: int
    path: str
    is_secure: bool

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read ``ws://HOST:PORT`` or ``wss://…``; without a path it is Broker's own.

        Raises ``ValueError``.
        """
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r:.100} is no address of Zeek: write ws://127.0.0.1:27759")
        if parts.username is not None:
            raise ValueError("give a token in a file, and not in the address")
        port = PORTS[parts.scheme] if parts.port is None else parts.port
        if not 0 < port <= PORT_MAX:
            raise ValueError(f"{port} is no port")
        path = PATH if parts.path in ("", "/") else parts.path
        return cls(parts.hostname, port, path, parts.scheme == "wss")


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """What has become of a link."""

    kind: Literal["connected", "disconnected", "error"]
    text: str
    """The id of the endpoint there, or what is wrong."""


class ZeekLink:
    """Joins topics of a mesh to a Zeek, and back, for as long as it runs."""

    def __init__(  # noqa: PLR0913 - keywords, one for each thing to say
        self,
        endpoint: Endpoint,
        url: str,
        *,
        to_zeek: Sequence[str] = (),
        from_zeek: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
        allow_plain: bool = False,
        token: str | None = None,
        notice: Callable[[LinkEvent], object] = lambda _: None,
    ) -> None:
        """Send what begins with ``to_zeek``, and publish what Zeek has under ``from_zeek``.

        Of ``wss://`` the server is verified by ``tls``, else by the authorities of the system.
        ``notice`` is told what becomes of the link. Raises ``ValueError`` for an address that is
        none, and ``InsecureAddress`` for ``ws://`` beyond loopback, unless ``allow_plain``.
        """
        self._endpoint = endpoint
        self._target = Target.parse(url)
        self._to_zeek, self._from_zeek = tuple(to_zeek), tuple(from_zeek)
        self._tls = tls
        self._headers = [] if token is None else [(b"Authorization", f"Bearer {token}".encode())]
        self._notice = notice
        self._texts = Texts(*endpoint.settings.shape())
        self.counts: Final = Counts()
        if not self._target.is_secure:
            check_plain(self._target.host, allow_plain=allow_plain, stakes=STAKES)

    async def run(self) -> None:
        """Dial, and dial again, until cancelled. What comes meanwhile waits, up to a limit.

        It ends with the endpoint. Raises what ``client`` does.
        """
        with self.client() as client:
            await self.carry(client)

    def client(self) -> GatewayClient:
        """Make the reader of the mesh; its block raises ``NotAllowed`` and ``LimitExceeded``.

        There is one for all connections: what Zeek has published is never sent back to it.
        """
        label = f"the link to {join_address(*self._target[:2])}"
        return GatewayClient(self._endpoint.loop, self._to_zeek, QUEUEING, self._texts.find, label)

    async def carry(self, client: GatewayClient) -> None:
        """Do as ``run``, within the block of ``client``."""
        pause = BACKOFF_SECONDS_MIN
        while self._endpoint.loop.is_open:
            try:
                async with self._connected() as socket:
                    session = await self._open(socket)
                    pause = BACKOFF_SECONDS_MIN
                    reason = await Carrier(
                        socket, session, client, self.counts, self._tell_error
                    ).run()
            except (ValueError, OSError, trio.TooSlowError, *_FAILURES) as error:
                reason = _shown(error)
            self._notice(LinkEvent("disconnected", reason))
            await trio.sleep(pause)
            pause = min(2 * pause, BACKOFF_SECONDS_MAX)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[WebSocketConnection]:
        """Connect; raises what dialling, TLS and the other side's refusal raise."""
        host, port, path, is_secure = self._target
        with trio.fail_after(OPENING_SECONDS):
            bare = await trio.open_tcp_stream(host, port)
        stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] = bare
        try:
            if is_secure:
                context = self._tls or ssl.create_default_context()
                stream = trio.SSLStream(bare, context, server_hostname=host, https_compatible=True)
                with trio.fail_after(OPENING_SECONDS):
                    await stream.do_handshake()
            async with open_serving_nursery() as nursery:
                with trio.fail_after(OPENING_SECONDS):
                    socket = await wrap_client_stream(
                        nursery,
                        stream,
                        join_address(host, port),
                        path,
                        extra_headers=self._headers,
                        max_message_size=TEXT_SIZE_MAX,
                        receive_buffer_size=RECEIVE_SIZE,
                    )
                yield socket
        except BaseExceptionGroup as group:
            causes = [each for each in causes_of(group) if isinstance(each, _FAILURES)]
            if not causes:
                raise
            raise causes[0] from group
        finally:
            await trio.aclose_forcefully(stream)

    async def _open(self, socket: WebSocketConnection) -> Session:
        session = Session(*self._endpoint.settings.shape(), self._permit)
        with trio.fail_after(OPENING_SECONDS):
            await socket.send_message(subscription(self._from_zeek))
            endpoint = session.acknowledged(await socket.get_message())
        self._notice(LinkEvent("connected", endpoint))
        return session

    def _permit(self, topic: str) -> None:
        self._endpoint.loop.core.authorisation.check_publish(topic)

    def _tell_error(self, text: str) -> None:
        self._notice(LinkEvent("error", text))


_FAILURES: Final = (ConnectionRejected, ssl.SSLError, *FAULTS)


def _shown(error: Exception) -> str:
    match error:
        case ConnectionRejected():
            return f"it answers with the status {error.status_code}: is {PATH} served there?"
        case ConnectionClosed():
            return "it closed the connection before it acknowledged the topics"
        case trio.TooSlowError():
            return f"it does not answer within {OPENING_SECONDS:g} s"
        case trio.BrokenResourceError(__cause__=ssl.SSLError() as cause):
            return str(peer_not_trusted(cause))
        case _:
            return causes(error) or type(error).__name__


@asynccontextmanager
async def open_link(  # noqa: PLR0913 - keywords, one for each thing to say
    endpoint: Endpoint,
    url: str,
    *,
    to_zeek: Sequence[str],
    from_zeek: Sequence[str],
    tls: ssl.SSLContext | None,
    allow_plain: bool,
    token: str | None,
    callback: Callable[[LinkEvent], object] | None,
) -> AsyncIterator[ZeekLink]:
    """Open what ``peermesh.gateways.link_zeek`` promises."""
    if not isinstance(endpoint, Endpoint):
        raise TypeError(f"endpoint={endpoint!r:.80} is {type(endpoint).__name__}: give an endpoint")
    arguments.text("url", url)

    def notice(event: LinkEvent) -> None:
        if callback is not None:
            endpoint.loop.callbacks.call(callback, event)

    link = ZeekLink(
        endpoint,
        url,
        to_zeek=arguments.topics("to_zeek", tuple(to_zeek)) if to_zeek else (),
        from_zeek=arguments.topics("from_zeek", tuple(from_zeek)) if from_zeek else (),
        tls=tls,
        allow_plain=allow_plain,
        token=None if token is None else arguments.text("token", token),
        notice=notice,
    )
    with link.client() as client:
        async with open_serving_nursery() as nursery:
            nursery.start_soon(link.carry, client)
            yield link
