"""Waits for a truth in trio, without keeping a core busy meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

LOOK_SECONDS: Final = 0.01
"""How long a look may be put off that no task of this loop gives a reason for: what is waited for
may come of a thread, of another process, or of time."""

_LOOKING: Final[set[trio.lowlevel.Task]] = set()
"""The tasks that wait for a truth: their looks change nothing."""


class _Steps(trio.abc.Instrument):
    """Wakes what waits, once another task has taken a step."""

    def __init__(self) -> None:
        self.taken = trio.lowlevel.ParkingLot()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task not in _LOOKING:
            self.taken.unpark_all()


async def until(is_true: Callable[[], object]) -> None:
    """Wait for a truth: it is looked at again whenever tasks of this loop have taken a step."""
    if is_true():
        return
    task, steps = trio.lowlevel.current_task(), _Steps()
    _LOOKING.add(task)
    trio.lowlevel.add_instrument(steps)
    try:
        while not is_true():
            with trio.move_on_after(LOOK_SECONDS):
                await steps.taken.park()
    finally:
        trio.lowlevel.remove_instrument(steps)
        _LOOKING.discard(task)


async def a_moment() -> None:
    """Let a little time pass before a question is asked again that keeps tasks busy by itself."""
    with trio.move_on_after(LOOK_SECONDS):
        await trio.sleep_forever()
