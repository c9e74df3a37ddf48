"""Nurseries that leave the error of their block as it is, instead of in a group of one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_quiet_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery; an error of the block alone is raised as itself.

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


@asynccontextmanager
async def open_serving_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a quiet nursery for tasks that serve a block: it is cancelled when the block ends."""
    async with open_quiet_nursery() as nursery:
        try:
            yield nursery
        finally:
            nursery.cancel_scope.cancel()


async def run_all(functions: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Run all of them at once. If one fails the others are cancelled, and its error is raised."""
    try:
        async with trio.open_nursery() as nursery:
            for function in functions:
                nursery.start_soon(function)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from error.__cause__
