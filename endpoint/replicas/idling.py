"""What the handles of stores and of logs have in common: they can be idle."""

from __future__ import annotations

from typing import Final, overload

from endpoint.barriers import Callback, Seconds, barrier
from endpoint.outcome import Outcome
from endpoint.replicas.runner import Runner

AWAIT_IDLE_SECONDS: Final = 15.0
"""Broker's own default for ``await_idle``."""


class Idling:
    """A base of handles that have a runner."""

    runner: Runner

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
