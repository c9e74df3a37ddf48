"""Front ends that speak other people's protocols, over HTTP (extra ``http``)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from peermesh.names import importer
from wire.public import public

if TYPE_CHECKING:
    from handshake.accounts import AccountsSource
    from handshake.credentials import Credentials
    from handshake.keyfiles import RolesSource
    from peermesh.gateways.webhdfs.service import FileStore
    from peermesh.gateways.webhdfs.serving import GatewayStatistics, WebHDFSGateway

__all__ = ["GatewayStatistics", "WebHDFSGateway", "serve_webhdfs"]

_SERVING = "peermesh.gateways.webhdfs.serving"

__getattr__ = importer(__name__, {"GatewayStatistics": _SERVING, "WebHDFSGateway": _SERVING})


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
