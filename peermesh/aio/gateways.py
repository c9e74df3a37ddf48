"""Gateways for asyncio: ``async with aio.serve_webhdfs(store) as gateway``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from handshake.accounts import AccountsSource
from handshake.credentials import Credentials
from handshake.keyfiles import RolesSource
from peermesh.aio.calls import ReplicaStore, Store

if TYPE_CHECKING:
    from peermesh.gateways import WebHDFSGateway


@asynccontextmanager
async def serve_webhdfs(  # noqa: PLR0913 - keywords, one for each thing to say
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
    """Serve the files in a store to Hadoop's client; see ``peermesh.gateways``."""
    from peermesh.gateways import serve_webhdfs as serve  # it needs the extra http

    if not isinstance(store, Store | ReplicaStore):
        raise TypeError(f"store={store!r:.80} is {type(store).__name__}: give a store's handle")
    passage, core = store.inside()
    gateway = serve(
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
    async with passage.hosted(gateway) as served:
        yield served
