"""The trio loop of one broker's async modules, in a thread of its own.

It is not the loop of the blocking endpoints: a module that blocks holds up the async modules of its
own broker, and nothing of the mesh.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from wire.logs import logger_of

logger = logger_of("peermesh.brokers.modules")


class ModuleLoop:
    """Runs tasks in a thread. Its calls may come from any thread."""

    def __init__(self) -> None:
        """Start the thread; raises ``RuntimeError`` when the system has none left."""
        started: queue.SimpleQueue[tuple[trio.lowlevel.TrioToken, trio.Nursery]]
        started = queue.SimpleQueue()
        self._stop = trio.Event()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="peermesh async modules", daemon=True
        )
        self._thread.start()
        self._token, self._nursery = started.get()
        self.ident = self._thread.ident
        """The thread, which nothing may block."""

    def _run(
        self, started: queue.SimpleQueue[tuple[trio.lowlevel.TrioToken, trio.Nursery]]
    ) -> None:
        async def main() -> None:
            async with trio.open_nursery() as nursery:
                started.put((trio.lowlevel.current_trio_token(), nursery))
                await self._stop.wait()

        try:
            trio.run(main)
        except BaseException:
            logger.exception("the loop of a broker's async modules ended by an error")

    def soon(self, function: Callable[[], object]) -> None:
        """Run a function in the loop some time soon, unless it has ended."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)

    def start(self, task: Callable[[], Awaitable[None]]) -> None:
        """Start a task; raises ``RuntimeError`` when the loop has ended."""
        self._token.run_sync_soon(self._nursery.start_soon, task)

    @property
    def is_alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def end(self) -> None:
        """End the loop, whose tasks have ended, and wait for its thread."""
        self.soon(self._stop.set)
        self._thread.join()
