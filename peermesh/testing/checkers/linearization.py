"""The search for one order of operations that explains all their results.

After Wing and Gong, Lowe ("just in time"): walk through beginnings and ends; an operation takes its
place in the order at the latest when its end is reached, and others under way may go before it.
Configurations that were tried are remembered. What keeps them few:

- A read that fits takes its place at once: waiting gains nothing.
- A blind write may hide: right before another blind write, where nobody sees it. Once there was one
  since it began, it owes nothing any more, and has its place only if somebody is to see it.
- An operation of unknown outcome owes nothing from the beginning. Of equal ones the earlier is used
  first.
- Of two configurations that are otherwise alike, one that leaves more operations free to happen or
  not can do all that the other can.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from peermesh.testing.checkers.models import Model, State, Step
from peermesh.testing.history import Ending, Operation
from wire.encoding import encode

CONFIGURATIONS_MAX: Final = 500_000
"""Configurations that a search may try: under a minute, and some hundred megabytes."""

COMPARED_MAX: Final = 32
"""Configurations that one is compared with, the latest first: comparing with all takes longer than
trying a few once more."""


@dataclass(frozen=True, slots=True)
class Task:
    """One operation, prepared for the search."""

    operation: Operation
    is_required: bool
    """Whether it has to take a place in the order, and give its result there."""
    is_read: bool
    is_blind: bool


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
    """A place in the walk, and what became of the tasks that have begun: a bit for each."""

    step: int
    state: State
    placed: int
    """These have their place."""
    free: int
    """These have none, and need none. All others that have begun owe one."""


def prepare(operation: Operation, model: Model, *, is_whole: bool = False) -> Task | None:
    """Prepare an operation; ``None`` for one that had no effect and told nothing."""
    is_read = model.is_read(operation)
    is_required = operation.ending is Ending.OK
    if operation.ending is Ending.FAILED or (is_read and not is_required):
        return None
    is_blind = model.is_blind(operation, is_whole=is_whole)
    return Task(operation, is_required, is_read, is_blind)


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
        self._tried: dict[tuple[int, State], dict[tuple[int, int], None]] = {}
        """For each step and state: what was placed and free, the latest last."""
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
        # Those of unknown outcome keep their bit from the beginning of the walk to its end.
        self._bits = {
            number: free.pop() for number, task in enumerate(self._tasks) if not task.is_required
        }
        for _, is_end, number in sorted(events):
            if is_end:
                del required[number]
                walk.append(_End(number, tuple(required), tuple(optional)))
                free.append(self._bits[number])
            elif self._tasks[number].is_required:
                required[number] = None
                self._bits[number] = free.pop()
            else:
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
        lost = sum(self._bits[number] for number in self._twins)
        waiting = [_Configuration(0, begin, 0, lost)]
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
        step, state, placed, free = configuration
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
        return _Configuration(step, state, placed, free)

    def _does_read(self, number: int, state: State) -> bool:
        return self._tasks[number].is_read and self._after(state, number) is not None

    def _was_tried(self, configuration: _Configuration) -> bool:
        step, state, placed, free = configuration
        tried = self._tried.setdefault((step, state), {})
        if (placed, free) in tried:
            return True
        for before, was_free in islice(reversed(tried), COMPARED_MAX):
            if not (free | (placed ^ before)) & ~was_free:
                return True
        tried[placed, free] = None
        return False

    def _successors(self, configuration: _Configuration) -> list[_Configuration]:
        """Give what may come next, the likeliest last: that is tried first."""
        step, _, placed, free = configuration
        end = self._walk[step]
        found: list[_Configuration] = []
        for number in reversed(end.optional):
            twin = self._twins[number]
            if placed & twin == twin:
                found += self._placed_before(configuration, number)
        for number in reversed(end.under_way):
            if not self._tasks[number].is_read:
                found += self._placed_before(configuration, number)
        bit = self._bits[end.number]
        if free & bit:
            found.append(configuration._replace(step=step + 1, free=free ^ bit))
        after = self._after(configuration.state, end.number)
        if after is not None:
            free = self._freed(configuration, end.number) & ~bit
            found.append(_Configuration(step + 1, after.state, placed, free))
        return found

    def _placed_before(self, configuration: _Configuration, number: int) -> list[_Configuration]:
        """Give a task its place before the next end, if that changes anything."""
        step, state, placed, _ = configuration
        bit = self._bits[number]
        after = None if placed & bit else self._after(state, number)
        if after is None or (after.state == state and not self._tasks[number].is_required):
            return []
        if self._tasks[number].is_blind and not self._is_seen(step, after.state, placed | bit):
            return []
        free = self._freed(configuration, number) & ~bit
        return [_Configuration(step, after.state, placed | bit, free)]

    def _is_seen(self, step: int, state: State, placed: int) -> bool:
        """Tell whether anything but a blind write can come next in a state."""
        end = self._walk[step]
        return any(
            not placed & self._bits[number]
            and not self._tasks[number].is_blind
            and self._after(state, number) is not None
            for number in (end.number, *end.under_way, *end.optional)
        )

    def _freed(self, configuration: _Configuration, number: int) -> int:
        """Give what is free after a task: behind a blind write others may have hidden."""
        step, _, placed, free = configuration
        if self._tasks[number].is_blind:
            end = self._walk[step]
            for other in (end.number, *end.under_way):
                if self._tasks[other].is_blind and not placed & self._bits[other]:
                    free |= self._bits[other]
        return free

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
