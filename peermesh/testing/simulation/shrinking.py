"""Makes a failing fault schedule small: delta debugging over its steps. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

RUNS_MAX: Final = 200
"""Runs that making one schedule small may cost: some seconds for a mesh of five."""


def shrink(
    schedule: tuple[T, ...],
    is_failing: Callable[[tuple[T, ...]], bool],
    *,
    runs_max: int = RUNS_MAX,
) -> tuple[T, ...]:
    """Leave steps out while it still fails; what comes back fails, and each step was needed.

    The latter holds if it took fewer than ``runs_max`` runs.
    """
    runs, size = 0, max(len(schedule) // 2, 1)
    while schedule and runs < runs_max:
        at, has_shrunk = 0, False
        while at < len(schedule) and runs < runs_max:
            rest = schedule[:at] + schedule[at + size :]
            runs += 1
            if is_failing(rest):
                schedule, has_shrunk = rest, True
            else:
                at += size
        if size == 1 and not has_shrunk:
            break
        size = max(size // 2, 1)
    return schedule
