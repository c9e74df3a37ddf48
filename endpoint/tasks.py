"""An endpoint's tasks: they live until it ends, whatever becomes of the block it is used in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any, Final, TypeVar

import trio

from endpoint.shielding import shielded
from wire.errors import EndpointClosed

FINISH_SECONDS: Final = 10.0
"""How long a cancelled caller waits for what it has begun: a disk that spins up, or a file server
that another one replaces, answers by then."""

Result = TypeVar("Result")


class Tasks:
    """The tasks of one endpoint.

    Who is cancelled, by Ctrl-C for one, still has things to put in order on his way out: to publish
    a last word, to erase what was his. So the endpoint works on until its block is left.
    """

    def __init__(self) -> None:
        """Remember the context: whoever starts a task may be of another world, and gone by then."""
        self._context = copy_context()
        self._nursery: trio.Nursery | None = None
        self._scopes: dict[trio.CancelScope, None] = {}
        self._is_over = False
        self._unfinished = 0
        self._finished = trio.lowlevel.ParkingLot()

    def begin(self, nursery: trio.Nursery) -> None:
        """Start tasks in this nursery."""
        self._nursery = nursery

    @trio.lowlevel.enable_ki_protection  # Ctrl-C amid this would leave trio with half a task.
    def start(self, function: Callable[..., Any], *arguments: object) -> None:
        """Start a task; raises ``EndpointClosed`` before the beginning."""
        if self._nursery is None:
            raise EndpointClosed("the endpoint is not open: use it inside of 'async with'")
        self._context.run(self._nursery.start_soon, self.run, function, *arguments, name=function)

    @trio.lowlevel.enable_ki_protection
    async def run(self, function: Callable[..., Any], *arguments: object) -> None:
        """Run what is a task already as one of the endpoint's.

        Ctrl-C goes past it to the main task: raised here, it would wait with the nursery for all
        other tasks, which are shielded, and the caller would never see it.
        """
        with trio.CancelScope(shield=True) as scope:
            if self._is_over:
                scope.cancel()
            self._scopes[scope] = None
            try:
                await function(*arguments)
            finally:
                del self._scopes[scope]

    async def finish(
        self, what: str, function: Callable[..., Awaitable[Result]], *arguments: object
    ) -> Result:
        """Run something to its end in a task of the endpoint, and give what it gives.

        A caller that is cancelled still waits for it, for ``FINISH_SECONDS`` at most: what has
        begun at a disk is done or not, and never unknown. A second Ctrl-C waits for nothing.
        """
        done = trio.Event()
        results: list[Result] = []
        errors: list[Exception] = []

        async def work() -> None:
            try:
                results.append(await function(*arguments))
            except Exception as error:
                errors.append(error)
            finally:
                done.set()

        if self._is_over:
            raise EndpointClosed(f"the endpoint was closed before {what}")
        self.start(work)
        self._unfinished += 1
        try:
            await done.wait()
        except trio.Cancelled:
            with shielded(what, FINISH_SECONDS):
                await done.wait()
            if not (results or errors):
                raise
        finally:
            self._unfinished -= 1
            self._finished.unpark_all()
        if errors:
            raise errors[0]
        if not results:
            raise EndpointClosed(f"the endpoint was closed while it waited for {what}")
        return results[0]

    async def all_finished(self) -> None:
        """Wait until nothing is left that ``finish`` was asked for."""
        while self._unfinished:
            await self._finished.park()

    def end(self) -> None:
        """Cancel all tasks, and those that somebody may start yet."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()
