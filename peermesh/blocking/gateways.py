"""Gateways for threads: ``with blocking.serve_webhdfs(store) as gateway``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from handshake.credentials import Credentials
from peermesh.blocking.store import Store

if TYPE_CHECKING:
    from peermesh.gateways import WebHDFSGateway


@contextmanager
def serve_webhdfs(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    credentials: Credentials | None = None,
    allow_plain: bool = False,
) -> Iterator[WebHDFSGateway]:
    """Serve the files in a store to Hadoop's client; see ``peermesh.gateways``."""
    from peermesh.gateways import serve_webhdfs as serve  # it needs the extra http

    portal, core = store.inside()
    closing = portal.call_sync(trio.Event)
    opened = portal.call_sync(trio.Event)
    closed = portal.call_sync(trio.Event)
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

    portal.call(portal.start, live)
    portal.call(opened.wait)
    if isinstance(found[0], BaseException):
        raise found[0]
    try:
        yield found[0]
    finally:
        portal.call_sync(closing.set)
        portal.call(closed.wait)
    if isinstance(found[0], BaseException):  # It broke within the block.
        raise found[0]
