"""Front ends in other protocols: WebHDFS (extra ``http``), Broker's WebSocket (``websocket``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from peermesh.names import importer
from wire.public import public

if TYPE_CHECKING:
    import ssl

    from endpoint.endpoint import Endpoint
    from handshake.accounts import AccountsSource
    from handshake.credentials import Credentials
    from handshake.keyfiles import RolesSource
    from peermesh.gateways.webhdfs.listing import FileStore
    from peermesh.gateways.webhdfs.serving import GatewayStatistics, WebHDFSGateway
    from peermesh.gateways.websocket.link import LinkEvent, ZeekLink
    from peermesh.gateways.websocket.server import WebSocketGateway, WebSocketStatistics

__all__ = [
    "GatewayStatistics",
    "LinkEvent",
    "WebHDFSGateway",
    "WebSocketGateway",
    "WebSocketStatistics",
    "ZeekLink",
    "link_zeek",
    "serve_webhdfs",
    "serve_websocket",
]

_WEBHDFS = "peermesh.gateways.webhdfs.serving"
_WEBSOCKET = "peermesh.gateways.websocket.server"
_LINK = "peermesh.gateways.websocket.link"

__getattr__ = importer(
    __name__,
    {
        "GatewayStatistics": _WEBHDFS,
        "LinkEvent": _LINK,
        "WebHDFSGateway": _WEBHDFS,
        "WebSocketGateway": _WEBSOCKET,
        "WebSocketStatistics": _WEBSOCKET,
        "ZeekLink": _LINK,
    },
)


@public
def serve_webhdfs(  # noqa: PLR0913 - keywords, one for each thing to say
    store: FileStore,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    credentials: Credentials | None = None,
    allow_plain: bool = False,
    roles: RolesSource | None = None,
    accounts: AccountsSource | None = None,
    names: Sequence[str] = (),
) -> AbstractAsyncContextManager[WebHDFSGateway]:
    """Serve the files in a store to Hadoop's client: ``webhdfs://{gateway.address}/path``.

    It serves wherever a replica of the store is, of a group or of a master, and a client may use
    any: each reads what all have answered, and hands changes to the leader. While none leads it
    waits, and after two seconds answers as a standby NameNode. With ``credentials`` it is
    ``swebhdfs://``, and clients need a certificate of the same authority. Beyond loopback it needs
    those, or ``allow_plain`` and a ``token``, which clients send as a bearer token, or
    ``accounts``: a file of tokens and users. ``roles`` say what each of them may do, else those of
    the endpoint. It answers under its address, loopback's, those of its certificate, and further
    ``names``. Raises ``InsecureAddress``, ``CredentialsError`` for a token that is too short,
    ``AddressInUse``, and ``ModuleNotFoundError`` without the extra ``http``.
    """
    from peermesh.gateways.webhdfs.serving import open_gateway  # it needs the extra http

    return open_gateway(
        store,
        host=host,
        port=port,
        token=token,
        credentials=credentials,
        allow_plain=allow_plain,
        roles=roles,
        accounts=accounts,
        names=names,
    )


@public
def serve_websocket(  # noqa: PLR0913 - keywords, one for each thing to say
    endpoint: Endpoint,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    credentials: Credentials | None = None,
    allow_plain: bool = False,
    roles: RolesSource | None = None,
    accounts: AccountsSource | None = None,
    origins: Iterable[str] = (),
) -> AbstractAsyncContextManager[WebSocketGateway]:
    """Serve the topics of a mesh to clients of Broker's JSON protocol, at ``{gateway.url}``.

    Clients publish and subscribe as light peers of ``endpoint``, and hear each other, too. With
    ``credentials`` it is ``wss://``, and clients need a certificate of the same authority. Beyond
    loopback it needs those, or ``allow_plain`` and a ``token``, which clients send as a bearer
    token, or ``accounts``: a file of tokens and users. ``roles`` say what each of them may do, else
    those of the endpoint. A browser may ask for pages of ``origins`` alone. Raises
    ``InsecureAddress``, ``CredentialsError`` for a token that is too short, ``AddressInUse``, and
    ``ModuleNotFoundError`` without the extra ``websocket``.
    """
    from peermesh.gateways.websocket.server import open_gateway  # it needs the extra websocket

    return open_gateway(
        endpoint,
        host=host,
        port=port,
        token=token,
        credentials=credentials,
        allow_plain=allow_plain,
        roles=roles,
        accounts=accounts,
        origins=origins,
    )


@public
def link_zeek(  # noqa: PLR0913 - keywords, one for each thing to say
    endpoint: Endpoint,
    url: str,
    *,
    to_zeek: Sequence[str] = (),
    from_zeek: Sequence[str] = (),
    tls: ssl.SSLContext | None = None,
    allow_plain: bool = False,
    token: str | None = None,
    callback: Callable[[LinkEvent], object] | None = None,
) -> AbstractAsyncContextManager[ZeekLink]:
    """Join topics of a mesh to a Zeek that serves WebSocket at ``url``, and back, for the block.

    Zeek gets what begins with ``to_zeek``, and the mesh what Zeek publishes under ``from_zeek``.
    Nothing goes back where it came from. The link is dialled again whenever it is lost, and
    ``callback`` is told what becomes of it. Of ``wss://`` the server is verified by ``tls``, else
    by the authorities of the system. Raises ``ValueError`` for a ``url`` that is none of Zeek,
    ``InsecureAddress`` for ``ws://`` beyond loopback, unless ``allow_plain``, ``NotAllowed`` and
    ``LimitExceeded`` for topics that the mesh does not send here, and ``ModuleNotFoundError``
    without the extra ``websocket``.
    """
    from peermesh.gateways.websocket.link import open_link  # it needs the extra websocket

    return open_link(
        endpoint,
        url,
        to_zeek=to_zeek,
        from_zeek=from_zeek,
        tls=tls,
        allow_plain=allow_plain,
        token=token,
        callback=callback,
    )
