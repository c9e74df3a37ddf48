"""An endpoint's tasks: they live until it ends, whatever becomes of the block it is used in."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import trio

from wire.errors import EndpointClosed


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

    def begin(self, nursery: trio.Nursery) -> None:
        """Start tasks in this nursery."""
        self._nursery = nursery

    def start(self, function: Callable[..., Any], *arguments: object) -> None:
        """Start a task; raises ``EndpointClosed`` before the beginning."""
        if self._nursery is None:
            raise EndpointClosed("the endpoint is not open: use it inside of 'async with'")
        self._context.run(self._nursery.start_soon, self.run, function, *arguments, name=function)

    async def run(self, function: Callable[..., Any], *arguments: object) -> None:
        """Run what is a task already as one of the endpoint's."""
        with trio.CancelScope(shield=True) as scope:
            if self._is_over:
                scope.cancel()
            self._scopes[scope] = None
            try:
                await function(*arguments)
            finally:
                del self._scopes[scope]

    def end(self) -> None:
        """Cancel all tasks, and those that somebody may start yet."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()
