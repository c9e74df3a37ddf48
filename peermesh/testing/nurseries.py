"""A nursery for tasks that serve a block: they end with it, and leave its error as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_serving_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery that is cancelled when the block ends.

    An error of the block alone is raised as itself, not in a group: a test that expects an error
    need not know what serves it.
    """
    own: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            except BaseException as error:
                own = error
                raise
            finally:
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if own is None or group.exceptions != (own,):
            raise
        raise own from own.__cause__
