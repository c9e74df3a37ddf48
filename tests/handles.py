"""One handle of every kind, at endpoints that are peers: the same for tests of both APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from inspect import isawaitable
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import peermesh
from peermesh import blocking
from peermesh.testing.time_limits import limit

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
"""The classes of the handles, which have the same names in both APIs."""


def kinds(api: ModuleType) -> dict[str, type]:
    """Give the class of each handle."""
    return {handle: getattr(api, name) for handle, name in KINDS.items()}


class _Block(NamedTuple):
    """What has to be entered, and left at the end."""

    manager: Any


_Steps = Generator[Any, Any, SimpleNamespace]
"""Gives blocks and results, which may have to be awaited, and takes what comes of each."""


def _open(api: Any) -> _Steps:
    a = yield _Block(api.Endpoint())
    b = yield _Block(api.Endpoint())
    store = yield _Block(b.attach_master("cities"))
    clone = yield _Block(a.attach_clone("cities"))
    c = yield _Block(api.Endpoint())
    proxy = yield _Block(c.attach_proxy("cities"))
    log = yield _Block(a.attach_log("events"))
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
    with ExitStack() as stack:
        steps, came = _open(blocking), None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as done:
                handles: SimpleNamespace = done.value
                break
            came = stack.enter_context(step.manager) if isinstance(step, _Block) else step
        yield handles


@asynccontextmanager
async def trio_handles() -> AsyncIterator[SimpleNamespace]:
    """Open the handles of the API for trio."""
    async with AsyncExitStack() as stack:
        steps, came = _open(peermesh), None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as done:
                handles: SimpleNamespace = done.value
                break
            if isinstance(step, _Block):
                came = await stack.enter_async_context(step.manager)
            else:
                came = await step if isawaitable(step) else step
        yield handles
