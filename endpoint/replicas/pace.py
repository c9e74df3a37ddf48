"""Lets many tasks that wake at once go on a few in each turn of the loop, which goes on for all."""

from __future__ import annotations

import trio


class Pace:
    """Lets so many tasks pass in a turn, in the order in which they came."""

    def __init__(self, passing_max: int) -> None:
        """Let ``passing_max`` pass in each turn."""
        self._room = trio.Semaphore(passing_max)

    async def keep(self) -> None:
        """Pass, as soon as it is this task's turn."""
        async with self._room:
            await trio.lowlevel.checkpoint()
