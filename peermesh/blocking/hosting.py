"""Blocks of trio's for threads: one task over there enters a block, and leaves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Protocol, TypeVar

import trio

from peermesh.doors.room import Task
from wire.errors import EndpointClosed, StoreClosed

Result = TypeVar("Result")


class Crossing(Protocol):
    """What crosses to the thread of trio."""

    def call(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """Run an async function over there, and wait for its result."""

    def call_sync(self, function: Callable[[], Result]) -> Result:
        """Run a function over there, and wait for its result."""

    def spawn(self, task: Task) -> None:
        """Start a task of which nothing is told; to be called over there."""


@contextmanager
def hosted(way: Crossing, manager: AbstractAsyncContextManager[Result]) -> Iterator[Result]:
    """Have a task over there enter the block of ``manager`` and leave it, for the time of this.

    An error of the block over there is raised at the end of this one. The end of the endpoint that
    it lives with ends it, too, and is none.
    """
    scope, closing = trio.CancelScope(), trio.Event()
    opened, closed = trio.Event(), trio.Event()
    has_begun = False
    found: list[Result] = []
    errors: list[Exception] = []

    async def live() -> None:
        try:
            with scope:
                async with manager as value:
                    found.append(value)
                    opened.set()
                    await closing.wait()
        except Exception as error:
            errors.append(error)
        finally:
            opened.set()
            closed.set()

    def begin() -> None:
        nonlocal has_begun
        way.spawn(live)
        has_begun = True

    async def leave() -> None:
        if has_begun:
            (closing.set if found else scope.cancel)()
            await closed.wait()

    try:
        way.call_sync(begin)  # Ctrl-C can strike here before that is sent, and after it is done.
        way.call(opened.wait)
        if not found:
            raise errors[0] if errors else EndpointClosed("its endpoint ended meanwhile")
        yield found[0]
    finally:
        with suppress(EndpointClosed, StoreClosed):
            way.call(leave)
    if errors:  # It broke within the block.
        raise errors[0]
