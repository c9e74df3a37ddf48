"""What the handles of stores and of logs have in common: a runner, room, the barrier, the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, overload

import trio

from endpoint.barriers import Callback, Seconds, barrier
from endpoint.closing import AsyncClosing
from endpoint.outcome import Outcome
from endpoint.replicas.runner import YIELD_COUNT, Runner

AWAIT_IDLE_SECONDS: Final = 15.0
"""Broker's own default for ``await_idle``."""


class ReplicaHandle(AsyncClosing):
    """A base of the handles that users get."""

    def __init__(self, runner: Runner, close: Callable[[], Awaitable[None]]) -> None:
        """Ask ``runner``; ``close`` ends it."""
        self.runner = runner
        self._close = close
        self._since_yield = 0

    def name(self) -> str:
        """Give the name of the store or log."""
        return self.runner.name

    @property
    def is_due(self) -> bool:
        """Whether so much was asked that others have their turn now; for a front end."""
        return self._since_yield >= YIELD_COUNT

    async def breathe(self) -> None:
        """Let others run, and wait until the core has room; for a front end."""
        self.rest()
        await trio.lowlevel.checkpoint()
        await self.await_room()

    def rest(self) -> bool:
        """Count anew from here; tells whether the core has room for more; for a front end."""
        self._since_yield = 0
        return self.runner.core.has_room() or self.runner.error is not None

    async def await_room(self) -> None:
        """Wait until the core has room for more; for a front end."""
        runner = self.runner
        while not runner.core.has_room() and runner.error is None:
            await runner.changed.park()

    @overload
    async def await_idle(self, timeout: Seconds = AWAIT_IDLE_SECONDS) -> Outcome: ...

    @overload
    async def await_idle(
        self, callback: Callback, timeout: Seconds = AWAIT_IDLE_SECONDS
    ) -> None: ...

    async def await_idle(
        self,
        *positional: Seconds | Callback,
        timeout: Seconds = AWAIT_IDLE_SECONDS,
        callback: Callback | None = None,
    ) -> Outcome | None:
        """Wait until it is idle (seed 7.6.1); false after ``timeout`` seconds, with the reason.

        A store's master is idle when all its clones have acknowledged everything. A clone is idle
        when it has its master's state as of a round trip, and the master everything that was asked
        here. A log's keeper is idle when all that was asked is committed, and acknowledged by all
        followers; a follower when it has what its keeper had after it was asked.
        With a ``callback``, in the place of the timeout or before it, it returns ``None`` at once,
        and the callback is given the outcome later.
        """
        how = barrier("await_idle", positional, timeout, callback, AWAIT_IDLE_SECONDS)
        return await self.runner.wait(how)

    async def close(self) -> None:
        """Let go of the store or log, after what was asked here has its outcome."""
        if not self.runner.is_forked:
            await self._close()
