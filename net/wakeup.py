"""A wakeup: tasks wait for it, and ``wake`` has all of them go on.

It does what a ``ParkingLot`` does for the two places that every message passes, at less cost: there
is one task waiting, as a rule, and the waiters are never moved or counted.
"""

from __future__ import annotations

import trio

_Abort = trio.lowlevel.Abort


class Wakeup:
    """Has the tasks go on that wait now; one that waits later waits for the next ``wake``."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        """Have no tasks waiting yet."""
        self._waiters: list[trio.lowlevel.Task] = []

    @property
    def is_idle(self) -> bool:
        """Whether no task waits."""
        return not self._waiters

    async def wait(self) -> None:
        """Wait for the next ``wake``; a checkpoint."""
        task = trio.lowlevel.current_task()
        waiters = self._waiters
        waiters.append(task)

        def abort(_: object) -> trio.lowlevel.Abort:
            waiters.remove(task)
            return _Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def wake(self) -> None:
        """Wake all tasks that wait."""
        waiters = self._waiters
        if waiters:
            for task in waiters:
                trio.lowlevel.reschedule(task)
            waiters.clear()
