"""``linearizable``: all operations took effect at once, each between its beginning and its end."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from peermesh.testing.checkers.linearization import (
    CONFIGURATIONS_MAX,
    Result,
    Task,
    prepare,
    search,
)
from peermesh.testing.checkers.models import KeyValue, Model
from peermesh.testing.checkers.verdict import Verdict, broken, gave_up, held
from peermesh.testing.history import NEVER, History, Operation

PROMISE: Final = "linearizable"

SHRINKING_MAX: Final = 20_000
"""Configurations to try for a smaller witness: some seconds, which a failing test may take."""

TASKS_PER_CONFIGURATION: Final = 10
"""Operations that take as long to prepare as a configuration takes to try."""

WITNESS_MAX: Final = 20
"""Operations shown: nobody reads more."""


def linearizable(
    history: History,
    model: Model | None = None,
    *,
    nodes: Iterable[str] | None = None,
    configurations_max: int = CONFIGURATIONS_MAX,
) -> Verdict:
    """Tell whether one order of the operations explains all results, and respects real time.

    With ``nodes``, only operations at these count. Histories with more choices than
    ``configurations_max`` are given up. Raises ``HistoryError`` for operations that the model
    (``KeyValue`` if there is none) does not know.
    """
    model = KeyValue() if model is None else model
    chosen = None if nodes is None else frozenset(nodes)
    operations = [each for each in history.operations() if chosen is None or each.node in chosen]
    left = configurations_max
    unsure: list[Operation] = []
    for tasks, is_whole in _parts(operations, model):
        result = search(tasks, model, model.initial(is_whole=is_whole), left)
        left -= result.configurations
        if result.has_given_up:
            unsure.append(tasks[0].operation)
        elif not result.is_found:
            return _explain(tasks, result, model, is_whole=is_whole)
    if unsure:
        text = (
            f"more than {configurations_max} configurations: record a shorter history, with fewer"
            " concurrent writes to a key, or raise configurations_max; undecided is the part with"
        )
        return gave_up(PROMISE, text, unsure)
    return held(PROMISE, f"{len(operations)} operations fit in one order")


def _parts(operations: Sequence[Operation], model: Model) -> list[tuple[list[Task], bool]]:
    """Divide operations by what they touch: linearizable parts make a linearizable whole."""
    names = [model.part(operation) for operation in operations]
    is_whole = None in names
    parts: dict[Hashable, list[Task]] = {}
    for name, operation in zip(names, operations, strict=True):
        task = prepare(operation, model, is_whole=is_whole)
        if task is not None:
            parts.setdefault(None if is_whole else name, []).append(task)
    return [(tasks, is_whole) for tasks in parts.values()]


def _explain(tasks: list[Task], result: Result, model: Model, *, is_whole: bool) -> Verdict:
    stuck = result.stuck_at
    if stuck is None:  # a failed search had at least one operation to fail at
        raise AssertionError("a search that tried nothing cannot have failed")
    begun = [task for task in tasks if task.operation.first < stuck.last]
    rigid = [task for task in begun if task.is_required]
    loose = [task for task in begun if not task.is_required]
    kept = _Shrinking(rigid, loose, model, is_whole=is_whole).run()
    others = len(tasks) - len(kept)
    text = f"no order gets past the end of #{stuck.number} ({others} others have no part in that)"
    if len(kept) > WITNESS_MAX:
        text += f" (the last {WITNESS_MAX} of {len(kept)} are shown)"
    return broken(PROMISE, text, [task.operation for task in kept[-WITNESS_MAX:]])


def _loosened(task: Task, model: Model, *, is_whole: bool) -> Task | None:
    """Let an operation have happened at any time from its beginning on, or never.

    Its result is forgotten: what had no effect according to its result may have one without it.
    """
    unknown = replace(task.operation, ended=None, last=NEVER)
    return prepare(unknown, model, is_whole=is_whole)


class _Shrinking:
    """Loosens what may be loosened while the contradiction stays.

    Taking a write away would only make the reads of it stranger. But if not even its happening at
    any other time, or never, helps, then it has no part in the contradiction.
    """

    def __init__(
        self, rigid: list[Task], loose: list[Task], model: Model, *, is_whole: bool
    ) -> None:
        self._model = model
        self._is_whole = is_whole
        self._rigid = rigid
        self._loose = loose
        self._left = SHRINKING_MAX

    def run(self) -> list[Task]:
        """Give what is left."""
        # Reads go first: what was written explains more than what was read.
        self._loosen([task for task in self._rigid if task.is_read])
        self._loosen([task for task in self._rigid if not task.is_read])
        return self._rigid

    def _loosen(self, candidates: list[Task]) -> None:
        size = len(candidates)
        while size and self._left > 0:
            parts = [candidates[at : at + size] for at in range(0, len(candidates), size)]
            kept = [part for part in parts if not self._is_needless(part)]
            candidates = [task for part in kept for task in part]
            size //= 2

    def _is_needless(self, part: list[Task]) -> bool:
        """Try without some operations, and leave them out if the contradiction stays."""
        chosen = {task.operation.number for task in part}
        rigid = [task for task in self._rigid if task.operation.number not in chosen]
        loose = self._loose + self._loosened(part)
        tasks = sorted(rigid + loose, key=lambda task: task.operation.first)
        begin = self._model.initial(is_whole=self._is_whole)
        result = search(tasks, self._model, begin, max(0, self._left // 4))
        self._left -= result.configurations + 1 + len(tasks) // TASKS_PER_CONFIGURATION
        if result.is_found or result.has_given_up:
            return False
        self._rigid, self._loose = rigid, loose
        return True

    def _loosened(self, tasks: list[Task]) -> list[Task]:
        loose = (_loosened(task, self._model, is_whole=self._is_whole) for task in tasks)
        return [task for task in loose if task is not None]
