"""What is going to happen, in the order of its time. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

Action = Callable[[float], None]
"""Is given the time at which it happens."""


class Agenda:
    """Actions with a time; those of the same time happen in the order in which they were added."""

    def __init__(self) -> None:
        """Begin with nothing to do."""
        self._heap: list[tuple[float, int, Action]] = []
        self._count = 0

    def add(self, at: float, action: Action) -> None:
        """Have an action happen at a time; one that is past is now."""
        self._count += 1
        heappush(self._heap, (at, self._count, action))

    @property
    def next_at(self) -> float:
        """When the next action is due; infinity if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def advance(self, now: float) -> int:
        """Do everything that is due; give the number of actions."""
        heap, done = self._heap, 0
        while heap and heap[0][0] <= now:
            heappop(heap)[2](now)
            done += 1
        return done
