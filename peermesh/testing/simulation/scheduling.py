"""The order in which trio's tasks run, drawn from a seed. The one place with trio's private names.

Trio shuffles each batch of runnable tasks with a random source of its own, and sorts the batch
before when it is told to be deterministic. A source of ours in its place decides the order, and may
hold tasks back, which is how a host is paused. Trio has no public way to do either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

import trio

_RUN: Final[Any] = getattr(getattr(trio, "_core", None), "_run", None)

_NAMES: Final = ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING", "GLOBAL_RUN_CONTEXT")

STEPS_MAX: Final = 500_000
"""Batches of tasks without a step of time after which the tasks are said to spin: they never will
wait. A swarm of a thousand endpoints takes some thousands."""


def _missing() -> str | None:
    lacking = [name for name in _NAMES if not hasattr(_RUN, name)]
    if lacking:
        return (
            f"trio {trio.__version__} has no {', '.join(lacking)}: the order of its tasks cannot be"
            " seeded. Use trio 0.27 to 0.35, or seeded=False for virtual time without replay"
        )
    return None


PROBLEM: Final = _missing()
"""Why schedules cannot be seeded with this trio, if they cannot. Looked at when it is imported."""


class Spinning(Exception):  # a fact about the tasks of a test
    """Tasks run and run, and none of them waits: time cannot go on."""


class SchedulerUnavailable(Exception):  # a fact about the trio that is installed
    """The order of tasks cannot be seeded."""


Task = trio.lowlevel.Task


class Scheduler(Random):
    """Trio's random source for the time of one run: orders its batches, and holds tasks back."""

    def __init__(self, seed: str, is_frozen: Callable[[Task], bool]) -> None:
        """Draw from ``seed``; ``is_frozen`` is asked once something was frozen."""
        super().__init__(seed)
        self.batches = 0
        self.steps = 0
        """Steps that tasks took so far."""
        self.digest = 0
        """Tells schedules apart: it depends on the size of every batch."""
        self.has_frozen = False
        """Whether anybody may be frozen; saves the questions if not."""
        self.quiet_batches = 0
        """Batches since time went on; for the clock, which sets it back."""
        self._is_frozen = is_frozen
        self._held: list[Task] = []
        self._released: list[Task] = []
        self._thread = threading.get_ident()

    @property
    def has_released(self) -> bool:
        """Whether tasks wait that nobody holds back any more."""
        return bool(self._released)

    def release(self) -> None:
        """Let the tasks run again that are not frozen any more."""
        held, self._held = self._held, []
        self._released += held

    def shuffle(self, x: Any) -> None:  # the name of the argument is Random's
        """Order a batch; trio calls it once for each."""
        if threading.get_ident() != self._thread:
            x.reverse()  # Another thread's trio, which is not simulated.
            return
        if self.has_frozen or self._released:
            self._hold(x)
        self.batches += 1
        self.quiet_batches += 1
        self.steps += len(x)
        self.digest = (self.digest * 1_000_003 + len(x)) & 0xFFFF_FFFF_FFFF
        if self.quiet_batches > STEPS_MAX:
            raise Spinning(f"no task waits for time: {STEPS_MAX} batches ran at one instant")
        if len(x) > 1:
            super().shuffle(x)

    def _hold(self, batch: list[Task]) -> None:
        released, self._released = self._released, []
        batch += released
        frozen = [task for task in batch if self._is_frozen(task)]
        if frozen:
            self._held += frozen
            batch[:] = [task for task in batch if not self._is_frozen(task)]

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Decide for trio within the block. Raises ``SchedulerUnavailable``."""
        if PROBLEM is not None:
            raise SchedulerUnavailable(PROBLEM)
        before = _RUN._r, _RUN._ALLOW_DETERMINISTIC_SCHEDULING  # noqa: SLF001 - see the module's text
        if isinstance(before[0], Scheduler):
            raise RuntimeError("a simulation runs already: run them one after the other")
        _RUN._r, _RUN._ALLOW_DETERMINISTIC_SCHEDULING = self, True  # noqa: SLF001 - see the module's text
        try:
            yield
        finally:
            _RUN._r, _RUN._ALLOW_DETERMINISTIC_SCHEDULING = before  # noqa: SLF001 - see the module's text


def is_somebody_waiting_for_idle() -> bool:
    """Whether a task is in ``trio.testing.wait_all_tasks_blocked``: then time has to stand."""
    runner = getattr(getattr(_RUN, "GLOBAL_RUN_CONTEXT", None), "runner", None)
    return bool(getattr(runner, "waiting_for_idle", None))
