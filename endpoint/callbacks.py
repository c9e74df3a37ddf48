"""Runs users' callbacks so that an error in one ends nothing else."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable

import trio

from endpoint.mesh.status import StatusCode, StatusEvent
from wire.errors import ErrorCode
from wire.logs import logger_of
from wire.scalars import shorten

logger = logger_of("peermesh.endpoint")

Run = Callable[[Callable[..., object], tuple[object, ...]], object]
"""Sees to it that a callback is called with these arguments, soon and elsewhere."""


class Callbacks:
    """The callbacks of one endpoint: by default each is a task of the endpoint."""

    def __init__(
        self, start_task: Callable[..., object], emit: Callable[[StatusEvent], object]
    ) -> None:
        """Run callbacks with ``start_task``, and tell ``emit`` of those that raise."""
        self._start_task = start_task
        self._emit = emit
        self.run: Run = self._run_in_task
        """Replaced by a front end that runs callbacks in a thread of its own."""

    def call(self, callback: Callable[..., object], *values: object) -> None:
        """Have a callback called with these values, soon."""
        self.run(callback, values)

    def failed(self, callback: Callable[..., object], error: BaseException) -> None:
        """Log what a callback raised, with its traceback, and tell it as ``CALLBACK_FAILED``."""
        name = getattr(callback, "__qualname__", None) or shorten(callback)
        logger.error("the callback %s raised; the endpoint goes on", name, exc_info=error)
        raised = shorten(error, 300)
        reason = f"the callback {name} raised {raised}: catch errors in it; the endpoint goes on"
        event = StatusEvent(StatusCode.CALLBACK_FAILED, None, None, ErrorCode.UNSPECIFIED, reason)
        self._emit(event)

    def _run_in_task(self, callback: Callable[..., object], values: tuple[object, ...]) -> None:
        self._start_task(self._call, callback, values)

    @trio.lowlevel.disable_ki_protection  # A callback without end can be interrupted.
    async def _call(self, callback: Callable[..., object], values: tuple[object, ...]) -> None:
        try:
            result = callback(*values)
            if isawaitable(result):
                await result
        except Exception as error:  # Whatever a user's code raises is told, and ends nothing.
            self.failed(callback, error)
