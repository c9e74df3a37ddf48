"""A room for one endpoint in a trio run: its task, the calls made of it, and its end.

An error that leaves the endpoint ends its room, and nothing else of the run. A door carries calls
across, from threads or another loop; a room starts them, and tells what became of each.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import outcome
import trio

from endpoint.endpoint import Endpoint
from wire.errors import EndpointClosed, EndpointFailed
from wire.logs import logger_of

logger = logger_of("peermesh")

Result = outcome.Outcome[Any]
"""A value, or an error."""

Finish = Callable[[Result], object]
"""Told once what became of a call."""

Task = Callable[[], Awaitable[object]]


class Room:
    """Where one endpoint lives. All methods are for the run's thread; ``error`` is for any."""

    def __init__(self, core: Endpoint) -> None:
        """Prepare for ``core``."""
        self._core, self._closing = core, trio.Event()
        self._nursery: trio.Nursery | None = None
        self._calls: dict[Finish, trio.CancelScope] = {}  # Those that are not finished.
        self.failure: BaseException | None = None
        """The error that ended the endpoint."""
        self.is_over = False
        self.is_quiet = False
        """Whether a failure is no news, because the process ends."""

    async def live(self, opened: Finish, leave: Task, *tasks: Task) -> None:
        """Enter the endpoint, and leave it when ``close`` was called. Raises ``Cancelled`` alone.

        ``opened`` is told once calls can begin, or why they cannot. ``leave`` ends the endpoint in
        order, and ``tasks`` run as long as it.
        """
        self._calls[opened] = trio.CancelScope()
        try:
            async with self._core, trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    for task in tasks:
                        nursery.start_soon(task)
                    self._finish(opened, outcome.Value(None))
                    await self._closing.wait()
                    await leave()
                finally:
                    self._nursery = None
                nursery.cancel_scope.cancel()
        except BaseException as error:  # Nothing may reach the other rooms.
            if _is_cancelled(error):
                raise  # The run itself ends: ``died`` tells why.
            self._fail(error)
        self.is_over = True
        for finish in list(self._calls):
            self._finish(finish, outcome.Error(self.error()))

    def close(self) -> None:
        """Start the end of the room, and of the calls that are still in it."""
        self._closing.set()

    def begin(self, function: Task, finish: Finish) -> None:
        """Start a call in a task of its own. The endpoint goes on, whatever the call raises."""
        if self.is_over:
            finish(outcome.Error(self.error()))
            return
        self._calls[finish] = scope = trio.CancelScope()
        if self._nursery is not None:
            self._nursery.start_soon(self._run, function, finish, scope)

    def look(self, function: Callable[[], object], finish: Finish) -> None:
        """Make a call that does not wait."""
        if self.is_over:
            finish(outcome.Error(self.error()))
        else:
            finish(outcome.capture(function))

    def cancel(self, finish: Finish) -> None:
        """Cancel a call that is not waited for any more."""
        scope = self._calls.pop(finish, None)
        if scope is not None:
            scope.cancel()

    def died(self, error: BaseException) -> None:
        """Take in that the run itself is gone."""
        self._fail(error)
        self.is_over = True

    def guarded(self, function: Callable[[], object]) -> Callable[[], None]:
        """Give a function that does the same, and whose error ends this room instead of the run."""
        return partial(self._guard, function)

    def error(self) -> EndpointClosed:
        """Give what a call raises now that the room is over, or will be."""
        if self.failure is None:
            return EndpointClosed("the endpoint was shut down: make a new one")
        error = EndpointFailed(f"the endpoint ended by an error, {self.failure!r}: make a new one")
        error.__cause__ = self.failure
        return error

    async def _run(self, function: Task, finish: Finish, scope: trio.CancelScope) -> None:
        with scope:
            try:
                result: Result = outcome.Value(await function())
            except BaseException as error:
                if _is_cancelled(error):
                    return  # The room ends: the call is told of it when that is done.
                result = outcome.Error(error)
            self._finish(finish, result)

    def _finish(self, finish: Finish, result: Result) -> None:
        if self._calls.pop(finish, None) is not None:
            finish(result)

    def _guard(self, function: Callable[[], object]) -> None:
        try:
            function()
        except Exception as error:
            self._fail(error)
            if self._nursery is not None:
                self._nursery.cancel_scope.cancel()

    def _fail(self, error: BaseException) -> None:
        if self.failure is not None:
            return
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        self.failure = error
        level = logging.DEBUG if self.is_quiet else logging.ERROR
        text = "endpoint %s ended by an error of its own; others of the process go on"
        logger.log(level, text, self._core.names.full(self._core.node_id()), exc_info=error)


def _is_cancelled(error: BaseException) -> bool:
    is_in = isinstance(error, BaseExceptionGroup) and error.subgroup(trio.Cancelled) is not None
    return is_in or isinstance(error, trio.Cancelled)
