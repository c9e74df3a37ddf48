"""One handle of every kind, at endpoints that are peers: the same for tests of all doors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import peermesh
from peermesh import aio, blocking
from peermesh.testing.time_limits import limit
from tests.doors import Block, Steps, played, played_async

KINDS = {
    "a": "Endpoint",
    "append": "AppendReceipt",
    "batch": "Batch",
    "clone": "Store",
    "consumer": "LogConsumer",
    "events": "Events",
    "log": "Log",
    "proxy": "StoreProxy",
    "publisher": "Publisher",
    "reader": "Reader",
    "receipt": "Receipt",
    "status": "StatusSubscriber",
    "store": "Store",
    "subscriber": "Subscriber",
    "watch": "Watch",
}
"""The classes of the handles, which have the same names in all doors."""


def kinds(api: ModuleType) -> dict[str, type]:
    """Give the class of each handle."""
    return {handle: getattr(api, name) for handle, name in KINDS.items()}


def _open(api: Any) -> Steps:
    a = yield Block(api.Endpoint())
    b = yield Block(api.Endpoint())
    store = yield Block(b.attach_master("cities"))
    clone = yield Block(a.attach_clone("cities"))
    c = yield Block(api.Endpoint())
    proxy = yield Block(c.attach_proxy("cities"))
    log = yield Block(a.attach_log("events"))
    subscriber, status = b.subscribe("/here"), a.subscribe_status()
    port = yield b.listen()
    for endpoint in (a, c):
        assert (yield endpoint.peer("127.0.0.1", port, timeout=limit()))
    return SimpleNamespace(
        a=a,
        b=b,
        store=store,
        clone=clone,
        proxy=proxy,
        log=log,
        subscriber=subscriber,
        status=status,
        publisher=a.publisher("/there"),
        consumer=log.consume(),
        events=store.events(),
        watch=store.watch(),
        receipt=(yield store.put("k", 1)),
        append=(yield log.append(1)),
        reader=store.at_master(),
        batch=api.Batch(),
    )


@contextmanager
def blocking_handles() -> Iterator[SimpleNamespace]:
    """Open the handles of the blocking API."""
    with played(_open(blocking)) as handles:
        yield handles


@asynccontextmanager
async def trio_handles() -> AsyncIterator[SimpleNamespace]:
    """Open the handles of the API for trio."""
    async with played_async(_open(peermesh)) as handles:
        yield handles


@asynccontextmanager
async def aio_handles() -> AsyncIterator[SimpleNamespace]:
    """Open the handles of the API for asyncio."""
    async with played_async(_open(aio)) as handles:
        yield handles
