"""Gateways, and links to other systems.

Written by ``tools/doors.py``: change the trio class.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from peermesh.aio.calls import Endpoint, ReplicaStore, Store
from peermesh.doors.handles import check_handle
from peermesh.gateways import (
    link_zeek as core_link_zeek,
    serve_webhdfs as core_serve_webhdfs,
    serve_websocket as core_serve_websocket,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from handshake.accounts import AccountsSource
    from handshake.credentials import Credentials
    from handshake.keyfiles import RolesSource
    from peermesh.gateways.webhdfs.serving import WebHDFSGateway
    from peermesh.gateways.websocket.link import LinkEvent, ZeekLink
    from peermesh.gateways.websocket.server import WebSocketGateway


@asynccontextmanager
async def serve_webhdfs(
    store: Store | ReplicaStore,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    credentials: Credentials | None = None,
    allow_plain: bool = False,
    roles: RolesSource | None = None,
    accounts: AccountsSource | None = None,
    names: Sequence[str] = (),
) -> AsyncIterator[WebHDFSGateway]:
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
    check_handle("store", store, Store, ReplicaStore)
    passage, core = store.inside()
    async with passage.hosted(
        core_serve_webhdfs(
            core,
            host=host,
            port=port,
            token=token,
            credentials=credentials,
            allow_plain=allow_plain,
            roles=roles,
            accounts=accounts,
            names=names,
        )
    ) as found:
        yield found


@asynccontextmanager
async def serve_websocket(
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
) -> AsyncIterator[WebSocketGateway]:
    """Serve the topics of a mesh to clients of Broker's JSON protocol, at ``{gateway.url}``.

    Clients publish and subscribe as light peers of ``endpoint``, and hear each other, too. With
    ``credentials`` it is ``wss://``, and clients need a certificate of the same authority. Beyond
    loopback it needs those, or ``allow_plain`` and a ``token``, which clients send as a bearer
    token, or ``accounts``: a file of tokens and users. ``roles`` say what each of them may do, else
    those of the endpoint. A browser may ask for pages of ``origins`` alone. Raises
    ``InsecureAddress``, ``CredentialsError`` for a token that is too short, ``AddressInUse``, and
    ``ModuleNotFoundError`` without the extra ``websocket``.
    """
    check_handle("endpoint", endpoint, Endpoint)
    passage, core = endpoint.inside()
    async with passage.hosted(
        core_serve_websocket(
            core,
            host=host,
            port=port,
            token=token,
            credentials=credentials,
            allow_plain=allow_plain,
            roles=roles,
            accounts=accounts,
            origins=origins,
        )
    ) as found:
        yield found


@asynccontextmanager
async def link_zeek(
    endpoint: Endpoint,
    url: str,
    *,
    to_zeek: Sequence[str] = (),
    from_zeek: Sequence[str] = (),
    tls: ssl.SSLContext | None = None,
    allow_plain: bool = False,
    token: str | None = None,
    callback: Callable[[LinkEvent], object] | None = None,
) -> AsyncIterator[ZeekLink]:
    """Join topics of a mesh to a Zeek that serves WebSocket at ``url``, and back, for the block.

    Zeek gets what begins with ``to_zeek``, and the mesh what Zeek publishes under ``from_zeek``.
    Nothing goes back where it came from. The link is dialled again whenever it is lost, and
    ``callback`` is told what becomes of it. Of ``wss://`` the server is verified by ``tls``, else
    by the authorities of the system. Raises ``ValueError`` for a ``url`` that is none of Zeek,
    ``InsecureAddress`` for ``ws://`` beyond loopback, unless ``allow_plain``, ``NotAllowed`` and
    ``LimitExceeded`` for topics that the mesh does not send here, and ``ModuleNotFoundError``
    without the extra ``websocket``.
    """
    check_handle("endpoint", endpoint, Endpoint)
    passage, core = endpoint.inside()
    async with passage.hosted(
        core_link_zeek(
            core,
            url,
            to_zeek=to_zeek,
            from_zeek=from_zeek,
            tls=tls,
            allow_plain=allow_plain,
            token=token,
            callback=callback,
        )
    ) as found:
        yield found
