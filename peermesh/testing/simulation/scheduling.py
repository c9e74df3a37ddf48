"""The order in which trio's tasks run, drawn from a seed. The one place with trio's private names.

Trio shuffles each batch of runnable tasks with a random source of its own, and sorts the batch
before when it is told to be deterministic. A source of ours in its place decides the order, and may
hold tasks back, which is how a host is paused. Trio has no public way to do either.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Collection, Iterator, MutableSequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final

import trio

_RUN: Final[Any] = getattr(getattr(trio, "_core", None), "_run", None)

_NAMES: Final = ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING", "GLOBAL_RUN_CONTEXT")
"""Trio's random source, the flag that has it sort before it shuffles, and the runner, which knows
who waits for all others to block."""

_TASK_NAMES: Final = ("_cancel_status", "_counter")
"""The cancel scopes around a task, and the number that trio sorts it by."""

_SCOPE_NAMES: Final = ("_cancel_called",)
"""Whether a scope was cancelled, without a look at the clock."""

STEPS_MAX: Final = 200_000
"""Batches of tasks without a step of time after which the tasks are said to spin: they never will
wait. A swarm of a thousand endpoints takes some thousands."""


COLLECT_EVERY: Final = 100_000
"""Batches after which garbage is collected: at a moment that the seed decides, as it runs code."""


def _missing() -> str | None:
    lacking = [name for name in _NAMES if not hasattr(_RUN, name)]
    for kind, names in ((trio.lowlevel.Task, _TASK_NAMES), (trio.CancelScope, _SCOPE_NAMES)):
        fields = {field.name for field in getattr(kind, "__attrs_attrs__", ())}
        lacking += [name for name in names if name not in fields]
    if lacking:
        return (
            f"trio {trio.__version__} has no {', '.join(lacking)}: the order of its tasks cannot be"
            " seeded. Use trio 0.27 to 0.35, or Options(is_seeded=False) for virtual time that no"
            " seed replays"
        )
    return None


PROBLEM: Final = _missing()
"""Why schedules cannot be seeded with this trio, if they cannot. Looked at when it is imported."""


class Spinning(Exception):  # a fact about the tasks of a test
    """Tasks run and run, and none of them waits: time cannot go on."""


class SchedulerUnavailable(Exception):  # a fact about the trio that is installed
    """The order of tasks cannot be seeded."""


Task = trio.lowlevel.Task


class Graves:
    """Dead tasks that trio would run. They rest until somebody who lives cancels one.

    He waits for it to be gone. Timeouts that pass do not count: nobody there would look at the
    clock. The scopes are watched, and not the tasks, since those of one host share most of them.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._scopes: dict[Task, list[trio.CancelScope]] = {}
        self._watched: dict[trio.CancelScope, None] = {}

    def take(self, task: Task, cancelled: Collection[trio.CancelScope]) -> bool:
        """Let a task rest, unless it is called off; ``cancelled`` is what was before it died."""
        now = trio.current_time()
        scopes = [scope for scope in scopes_around(task) if scope not in cancelled]
        if any(_is_called_off(scope, now) for scope in scopes):
            return False
        self._scopes[task] = scopes
        self._watched.update(dict.fromkeys(scopes))
        return True

    def give(self) -> list[Task]:
        """Give up the tasks that were called off."""
        if not any(scope._cancel_called for scope in self._watched):  # noqa: SLF001 - see the module's text
            return []
        now = trio.current_time()
        off = {scope for scope in self._watched if _is_called_off(scope, now)}
        given = [task for task, scopes in self._scopes.items() if not off.isdisjoint(scopes)]
        for task in given:
            del self._scopes[task]
        every = (scope for scopes in self._scopes.values() for scope in scopes)
        self._watched = dict.fromkeys(each for each in every if not each._cancel_called)  # noqa: SLF001 - see the module's text
        return given

    def empty(self) -> list[Task]:
        """Give up all."""
        given = list(self._scopes)
        self._scopes, self._watched = {}, {}
        return given


def _is_called_off(scope: trio.CancelScope, now: float) -> bool:
    return scope._cancel_called and scope.deadline > now  # noqa: SLF001 - see the module's text


class Scheduler(Random):
    """Trio's random source for the time of one run: orders its batches, and holds tasks back."""

    def __init__(
        self,
        seed: str,
        is_paused: Callable[[Task], bool],
        died: Callable[[Task], Collection[trio.CancelScope] | None],
    ) -> None:
        """Draw from ``seed``; the others are asked once something was frozen.

        ``died`` gives ``None`` of the living; of the dead, the scopes that had been cancelled.
        """
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
        self.is_spinning = False
        """Whether tasks were found to run and run at one instant."""
        self.on_spinning: Callable[[], object] = lambda: None
        """Called once when they are, to end the run; a second time is an error inside of trio."""
        self._is_paused = is_paused
        self._died = died
        self._graves = Graves()
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
        self._released += held + self._graves.empty()

    def shuffle(self, x: MutableSequence[Any]) -> None:
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
        if self.batches % COLLECT_EVERY == 0:
            gc.collect()
        if self.quiet_batches > STEPS_MAX:
            self._end_spinning()
        if len(x) > 1:
            super().shuffle(x)

    def _end_spinning(self) -> None:
        self.quiet_batches = 0
        if self.is_spinning:
            raise Spinning("tasks that are cancelled still run and run, and never wait for time")
        self.is_spinning = True
        self.on_spinning()

    def _hold(self, batch: MutableSequence[Task]) -> None:
        batch.extend(self._released)
        batch.extend(self._held)
        self._released, self._held = [], []
        running: list[Task] = []
        for task in batch:
            cancelled = self._died(task)
            if self._is_paused(task):
                self._held.append(task)
            elif cancelled is None or not self._graves.take(task, cancelled):
                running.append(task)
        batch[:] = running + self._graves.give()

    @contextmanager
    def installed(self, *, is_needed: bool = True) -> Iterator[None]:
        """Decide for trio within the block; raises ``SchedulerUnavailable`` if it ``is_needed``.

        Where it is not, and trio does not allow it, time and network are simulated all the same.
        """
        if PROBLEM is not None and is_needed:
            raise SchedulerUnavailable(PROBLEM)
        if PROBLEM is not None:
            yield
            return
        before = _RUN._r, _RUN._ALLOW_DETERMINISTIC_SCHEDULING  # noqa: SLF001 - see the module's text
        if isinstance(before[0], Scheduler):
            raise RuntimeError("a simulation runs already: run them one after the other")
        _RUN._r, _RUN._ALLOW_DETERMINISTIC_SCHEDULING = self, True  # noqa: SLF001 - see the module's text
        try:
            yield
        finally:
            _RUN._r, _RUN._ALLOW_DETERMINISTIC_SCHEDULING = before  # noqa: SLF001 - see the module's text


def scopes_around(task: Task) -> Iterator[trio.CancelScope]:
    """Give the cancel scopes that a task is in, the innermost first, shielded or not."""
    status: Any = getattr(task, "_cancel_status", None)
    while status is not None:
        yield status._scope  # noqa: SLF001 - see the module's text
        status = status.parent


def all_tasks() -> Iterator[Task]:
    """Give all tasks of the run."""
    root = trio.lowlevel.current_root_task()
    waiting = [root] if root is not None else []
    while waiting:
        task = waiting.pop()
        yield task
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]


def is_somebody_waiting_for_idle() -> bool:
    """Whether a task is in ``trio.testing.wait_all_tasks_blocked``: then time has to stand."""
    runner = getattr(getattr(_RUN, "GLOBAL_RUN_CONTEXT", None), "runner", None)
    return bool(getattr(runner, "waiting_for_idle", None))
