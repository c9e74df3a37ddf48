"""A bell: tasks wait for it, and ringing wakes all of them.

It does what a ``ParkingLot`` does for the two places that every message passes, at less cost: there
is one task waiting, as a rule, and nobody needs to move or count the waiters.
"""

from __future__ import annotations

import trio

_Abort = trio.lowlevel.Abort


class Bell:
    """Wakes whoever waits when it is rung; nobody remembers that it was."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        """Begin with nobody waiting."""
        self._waiters: list[trio.lowlevel.Task] = []

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits."""
        return not self._waiters

    async def wait(self) -> None:
        """Wait until it is rung; a checkpoint."""
        task = trio.lowlevel.current_task()
        waiters = self._waiters
        waiters.append(task)

        def abort(_: object) -> trio.lowlevel.Abort:
            waiters.remove(task)
            return _Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def ring(self) -> None:
        """Wake everybody."""
        waiters = self._waiters
        if waiters:
            for task in waiters:
                trio.lowlevel.reschedule(task)
            waiters.clear()
