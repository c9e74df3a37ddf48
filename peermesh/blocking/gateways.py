"""Gateways for threads: ``with blocking.serve_webhdfs(store) as gateway``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import trio

from handshake.accounts import AccountsSource
from handshake.credentials import Credentials
from handshake.keyfiles import RolesSource
from peermesh.blocking.calls import ReplicaStore, Store
from wire.errors import FAILURES, StoreClosed

if TYPE_CHECKING:
    from peermesh.gateways import WebHDFSGateway


@contextmanager
def serve_webhdfs(  # noqa: PLR0913 - keywords, one for each thing to say
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
) -> Iterator[WebHDFSGateway]:
    """Serve the files in a store to Hadoop's client; see ``peermesh.gateways``."""
    from peermesh.gateways import serve_webhdfs as serve  # it needs the extra http

    if not isinstance(store, Store | ReplicaStore):
        raise TypeError(f"store={store!r:.80} is {type(store).__name__}: give a store's handle")
    passage, core = store.inside()
    closing, opened, closed = trio.Event(), trio.Event(), trio.Event()
    found: list[WebHDFSGateway | BaseException] = []

    async def live() -> None:
        """Be the one task in which the gateway is entered and left."""
        try:
            async with serve(
                core,
                host=host,
                port=port,
                token=token,
                credentials=credentials,
                allow_plain=allow_plain,
                roles=roles,
                accounts=accounts,
                names=names,
            ) as gateway:
                found.append(gateway)
                opened.set()
                await closing.wait()
        except BaseException as error:
            found.insert(0, error)
            if not isinstance(error, Exception):
                raise
        finally:
            opened.set()
            closed.set()

    passage.start(live)
    passage.call(opened.wait)
    if isinstance(found[0], BaseException):
        raise found[0]
    try:
        yield found[0]
    finally:
        with suppress(StoreClosed, *FAILURES):  # The gateway ended with its endpoint.
            passage.call_sync(closing.set)
            passage.call(closed.wait)
    if isinstance(found[0], BaseException):  # It broke within the block.
        raise found[0]
