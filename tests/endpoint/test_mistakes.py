"""A mistake ends its own call, and nothing else: each wrong argument, beside an innocent pair."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from types import SimpleNamespace

import pytest

from endpoint import Endpoint
from peermesh.testing.time_limits import limit
from stores.batch import Batch
from tests.mistakes import MISTAKES, Mistake
from wire.errors import MeshError


@asynccontextmanager
async def handles() -> AsyncIterator[SimpleNamespace]:
    """One handle of every kind, at two endpoints that are peers."""
    async with (
        Endpoint() as a,
        Endpoint() as b,
        b.attach_master("cities") as store,
        a.attach_clone("cities") as clone,
        Endpoint() as c,
        c.attach_proxy("cities") as proxy,
        a.attach_log("events") as log,
    ):
        subscriber, status = b.subscribe("/here"), a.subscribe_status()
        port = await b.listen()
        assert await a.peer("127.0.0.1", port, timeout=limit())
        assert await c.peer("127.0.0.1", port, timeout=limit())
        yield SimpleNamespace(
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
            receipt=await store.put("k", 1),
            append=await log.append(1),
            reader=store.at_master(),
            batch=Batch(),
        )


async def make(mistake: Mistake, kit: SimpleNamespace) -> None:
    result = mistake.call(kit)
    if isawaitable(result):
        await result


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
async def test_a_mistake_ends_its_own_call_and_nothing_else(mistake):
    async with handles() as kit:
        with pytest.raises((TypeError, ValueError, MeshError), match=mistake.says):
            await make(mistake, kit)
        assert await kit.a.await_subscribed("/here", timeout=None)
        await kit.a.publish("/here", "still there")
        assert (await kit.subscriber.get()).data == "still there"
        assert await kit.clone.await_idle(None)
        assert await kit.clone.get("k") == 1
