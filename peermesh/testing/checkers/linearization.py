"""The search for one order of operations that explains all their results.

After Wing and Gong, Lowe ("just in time"): walk through beginnings and ends; an operation takes its
place in the order at the latest when its end is reached, and other ones under way may go before it.
Configurations that were tried are remembered. Three observations keep them few:

- A read that fits takes its place at once: waiting gains nothing.
- An operation of unknown outcome never has to take its place. So of two configurations that are
  otherwise alike, one that used fewer of them can do all that the other can.
- Of equal ones of unknown outcome the earlier is used first.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from peermesh.testing.checkers.models import Model, State, Step
from peermesh.testing.history import Ending, Operation
from wire.encoding import encode

CONFIGURATIONS_MAX: Final = 1_000_000
"""Configurations that a search may try: under a minute, and some hundred megabytes."""


@dataclass(frozen=True, slots=True)
class Task:
    """One operation, prepared for the search."""

    operation: Operation
    is_required: bool
    """Whether it has to take a place in the order, and give its result there."""
    is_read: bool


@dataclass(slots=True)
class Result:
    """How a search ended."""

    is_found: bool = False
    has_given_up: bool = False
    configurations: int = 0
    stuck_at: Operation | None = None
    """The operation whose end no order that was tried got past."""
    states: set[State] = field(default_factory=set)
    """The states in which it might have happened, and did not fit."""


class _End(NamedTuple):
    """The end of a task, and which others have begun by then."""

    number: int
    under_way: tuple[int, ...]
    optional: tuple[int, ...]
    """Those of unknown outcome."""


class _Configuration(NamedTuple):
    """A place in the walk: which of the tasks under way have had their effect already."""

    step: int
    state: State
    placed: int
    """Bits of the required tasks that are under way and have their place."""
    used: int
    """Bits of the tasks of unknown outcome that have one."""


def prepare(operation: Operation, model: Model) -> Task | None:
    """Prepare an operation; ``None`` for one that had no effect and told nothing."""
    is_read = model.is_read(operation)
    is_required = operation.ending is Ending.OK
    if operation.ending is Ending.FAILED or (is_read and not is_required):
        return None
    return Task(operation, is_required, is_read)


def search(
    tasks: Sequence[Task], model: Model, begin: State, limit: int = CONFIGURATIONS_MAX
) -> Result:
    """Look for an order that explains the results, trying at most so many configurations."""
    return _Search(tasks, model, limit).run(begin)


class _Search:
    """One search: the walk as it is laid out before, and what has been tried."""

    def __init__(self, tasks: Sequence[Task], model: Model, limit: int) -> None:
        self._tasks = tasks
        self._model = model
        self._limit = limit
        self._results = [tuple(map(encode, task.operation.result)) for task in tasks]
        self._bits: dict[int, int] = {}
        """The bit that stands for a task. Those of required tasks are used again after the end."""
        self._walk = self._lay_out()
        self._twins = self._find_twins()
        self._tried: dict[tuple[int, State, int], list[int]] = {}
        """For each place, state and what is placed: the least that was used for it."""
        self._result = Result()
        self._furthest = -1

    def _lay_out(self) -> list[_End]:
        """List the ends in their order, each with what has begun before it and not ended."""
        events = [(task.operation.first, False, number) for number, task in enumerate(self._tasks)]
        events += [
            (task.operation.last, True, number)
            for number, task in enumerate(self._tasks)
            if task.is_required
        ]
        walk: list[_End] = []
        required: dict[int, None] = {}
        optional: list[int] = []
        free = [1 << place for place in range(len(self._tasks))][::-1]
        for _, is_end, number in sorted(events):
            if is_end:
                del required[number]
                walk.append(_End(number, tuple(required), tuple(optional)))
                free.append(self._bits[number])
            elif self._tasks[number].is_required:
                required[number] = None
                self._bits[number] = free.pop()
            else:
                self._bits[number] = 1 << len(optional)
                optional.append(number)
        return walk

    def _find_twins(self) -> dict[int, int]:
        """Give for each task of unknown outcome the bit of the equal one that began before it."""
        twins: dict[int, int] = {}
        last: dict[Hashable, int] = {}
        for number, task in enumerate(self._tasks):
            if not task.is_required:
                operation = task.operation
                name = (operation.name, tuple(map(encode, operation.arguments)))
                twins[number] = last.get(name, 0)
                last[name] = self._bits[number]
        return twins

    def run(self, begin: State) -> Result:
        """Search depth first: histories of systems that work are found without a detour."""
        result = self._result
        waiting = [_Configuration(0, begin, 0, 0)]
        while waiting:
            configuration = self._settle(waiting.pop())
            if configuration.step == len(self._walk):
                result.is_found = True
                return result
            if self._was_tried(configuration):
                continue
            if result.configurations == self._limit:
                result.has_given_up = True
                return result
            result.configurations += 1
            self._note(configuration)
            waiting += self._successors(configuration)
        return result

    def _settle(self, configuration: _Configuration) -> _Configuration:
        """Go on as far as there is no choice: ends of what has its place, and reads that fit."""
        step, state, placed, used = configuration
        while step < len(self._walk):
            number = self._walk[step].number
            if placed & self._bits[number]:
                placed ^= self._bits[number]
            elif not self._does_read(number, state):
                break
            step += 1
        if step < len(self._walk):
            for number in self._walk[step].under_way:
                if not placed & self._bits[number] and self._does_read(number, state):
                    placed |= self._bits[number]
        return _Configuration(step, state, placed, used)

    def _does_read(self, number: int, state: State) -> bool:
        return self._tasks[number].is_read and self._after(state, number) is not None

    def _was_tried(self, configuration: _Configuration) -> bool:
        step, state, placed, used = configuration
        least = self._tried.setdefault((step, state, placed), [])
        if any(before & used == before for before in least):
            return True
        least[:] = [before for before in least if before & used != used]
        least.append(used)
        return False

    def _successors(self, configuration: _Configuration) -> list[_Configuration]:
        """Give what may come next, the likeliest last: that is tried first."""
        step, state, placed, used = configuration
        end = self._walk[step]
        found: list[_Configuration] = []
        for number in reversed(end.optional):
            twin, bit = self._twins[number], self._bits[number]
            after = None if used & bit or used & twin != twin else self._after(state, number)
            if after is not None and after.state != state:
                found.append(_Configuration(step, after.state, placed, used | bit))
        for number in reversed(end.under_way):
            bit = self._bits[number]
            if not placed & bit and not self._tasks[number].is_read:
                after = self._after(state, number)
                if after is not None:
                    found.append(_Configuration(step, after.state, placed | bit, used))
        after = self._after(state, end.number)
        if after is not None:
            found.append(_Configuration(step + 1, after.state, placed, used))
        return found

    def _after(self, state: State, number: int) -> Step | None:
        """Do a task in a state; ``None`` if it is refused there, or gives another result."""
        task = self._tasks[number]
        step = self._model.step(state, task.operation)
        if step is None or step.result is None or not task.is_required:
            return step
        return step if tuple(map(encode, step.result)) == self._results[number] else None

    def _note(self, configuration: _Configuration) -> None:
        """Remember where the search got furthest, to explain a failure with."""
        if configuration.step > self._furthest:
            self._furthest = configuration.step
            self._result.stuck_at = self._tasks[self._walk[configuration.step].number].operation
            self._result.states = set()
        if configuration.step == self._furthest:
            self._result.states.add(configuration.state)
