"""The background thread in which all blocking endpoints of a process live: one trio loop.

It starts with the first endpoint and ends with the last one, so that nothing stays behind.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

Result = TypeVar("Result")

_lock = threading.Lock()
_portal: Portal | None = None


class Portal:
    """The way into the trio thread."""

    def __init__(self) -> None:
        """Start the thread."""
        self._users = 0
        self._started: queue.SimpleQueue[tuple[trio.lowlevel.TrioToken, trio.Nursery]] = (
            queue.SimpleQueue()
        )
        self._stop: trio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="peermesh", daemon=True)
        self._thread.start()
        self._token, self._nursery = self._started.get()

    def _run(self) -> None:
        trio.run(self._main)

    async def _main(self) -> None:
        self._stop = trio.Event()
        async with trio.open_nursery() as nursery:
            self._started.put((trio.lowlevel.current_trio_token(), nursery))
            await self._stop.wait()

    def call(self, function: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
        """Run an async function over there, and wait for its result."""
        return trio.from_thread.run(function, *arguments, trio_token=self._token)

    def call_sync(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a function over there, and wait for its result."""
        return trio.from_thread.run_sync(function, *arguments, trio_token=self._token)

    def soon(self, function: Callable[[], object]) -> None:
        """Run a function over there some time soon; does not wait."""
        self._token.run_sync_soon(function)

    def start_soon(self, function: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Start a task that lives on its own, some time soon; does not wait."""
        self.soon(partial(self._nursery.start_soon, function, *arguments))

    def is_here(self) -> bool:
        """Tell whether this is the thread of the loop, which nothing may block."""
        return threading.current_thread() is self._thread

    async def start(self, function: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Start a task that lives on its own; to be called over there."""
        self._nursery.start_soon(function, *arguments)

    def _end(self) -> None:
        assert self._stop is not None
        self.call_sync(self._stop.set)
        self._thread.join()

    @staticmethod
    def acquire() -> Portal:
        """Get the portal, starting it for the first user."""
        global _portal
        with _lock:
            if _portal is None:
                _portal = Portal()
            _portal._users += 1
            return _portal

    def release(self) -> None:
        """Give the portal back; the last user ends it."""
        global _portal
        with _lock:
            self._users -= 1
            if self._users:
                return
            _portal = None
            self._end()
