"""Endpoints in a row or a star, for tests of what goes on between those that are not peers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise

import trio

from endpoint import Endpoint
from peermesh.testing.time_limits import limit


def line(count: int) -> AbstractAsyncContextManager[list[Endpoint]]:
    """Give endpoints that are peers of their neighbours, and know all others."""
    return linked(count, pairwise(range(count)))


def star(leaf_count: int) -> AbstractAsyncContextManager[list[Endpoint]]:
    """Give endpoints that are all peers of the first one, and know all others."""
    return linked(1 + leaf_count, ((0, leaf) for leaf in range(1, 1 + leaf_count)))


@asynccontextmanager
async def linked(count: int, links: Iterable[tuple[int, int]]) -> AsyncIterator[list[Endpoint]]:
    """Give endpoints with these links, of which each knows all others."""
    async with trio.open_nursery() as nursery:
        closing = trio.Event()

        async def live(task_status: trio.TaskStatus[Endpoint]) -> None:
            async with Endpoint() as endpoint:
                task_status.started(endpoint)
                await closing.wait()

        with trio.fail_after(limit()):
            endpoints = [await nursery.start(live) for _ in range(count)]
            for left, right in links:
                port = await endpoints[left].listen()
                assert await endpoints[right].peer("127.0.0.1", port, retry=0)
            for here in endpoints:
                for there in endpoints:
                    assert here is there or await here.await_peer(there.node_id(), timeout=limit())
            try:
                yield endpoints
            finally:
                closing.set()
