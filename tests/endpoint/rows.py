"""Endpoints in a row, for tests of what goes on between those that are not peers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import trio

from endpoint import Endpoint

LIMIT = 30.0
"""Seconds: far more than anything takes that is done with a row."""


@asynccontextmanager
async def line(count: int) -> AsyncIterator[list[Endpoint]]:
    """Give endpoints that are peers of their neighbours, and know all others."""
    async with trio.open_nursery() as nursery:
        closing = trio.Event()

        async def live(task_status: trio.TaskStatus[Endpoint]) -> None:
            async with Endpoint() as endpoint:
                task_status.started(endpoint)
                await closing.wait()

        with trio.fail_after(LIMIT):
            endpoints = [await nursery.start(live) for _ in range(count)]
            for left, right in pairwise(endpoints):
                assert await right.peer("127.0.0.1", await left.listen(), retry=0)
            for here in endpoints:
                for there in endpoints:
                    assert here is there or await here.await_peer(there.node_id())
            try:
                yield endpoints
            finally:
                closing.set()
