"""A wakeup: tasks wait for it, and ``wake`` has all of them go on.

It does what a ``ParkingLot`` does for the two places that every message passes, at less cost: there
is one task waiting, as a rule, and the waiters are never moved or counted.
"""

from __future__ import annotations

from collections.abc import Awaitable

from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled


class Wakeup:
    """Has the tasks go on that wait now; one that waits later waits for the next ``wake``."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        """Have no tasks waiting yet."""
        self._waiters: list[Task] = []

    @property
    def is_idle(self) -> bool:
        """Whether no task waits."""
        return not self._waiters

    def wait(self) -> Awaitable[object]:
        """Give what to await, at once: the next ``wake``. It is a checkpoint."""
        task = current_task()
        waiters = self._waiters
        waiters.append(task)

        def abort(_: object) -> Abort:
            waiters.remove(task)
            return Abort.SUCCEEDED

        return wait_task_rescheduled(abort)  # noqa: ASYNC105 - one coroutine less

    def wake(self) -> None:
        """Wake all tasks that wait."""
        waiters = self._waiters
        if waiters:
            for task in waiters:
                reschedule(task)
            waiters.clear()
