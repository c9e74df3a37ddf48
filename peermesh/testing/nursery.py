"""A nursery that does not wrap the error of its own body: it goes on as itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_quiet_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery; errors of tasks come as a group, the body's own alone if it is the only one.

    So ``pytest.raises`` and ``pytest.skip`` work in a block that has tasks in the background.
    """
    own: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            except BaseException as error:
                own = error
                raise
    except BaseExceptionGroup as group:
        if own is None or group.exceptions != (own,):
            raise
        raise own from own.__cause__
