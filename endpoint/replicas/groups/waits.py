"""What waits at a replica for a majority's word: linear reads, and idleness. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

READ_TICKS: Final = 3
"""Ticks after which a read that has no answer is begun anew."""


@dataclass(slots=True)
class _Wait:
    is_idle: bool
    ticks: int = 0
    is_current: bool = False
    """True once this replica has all that was committed when the wait began."""


class Waits:
    """The tasks that wait at one replica, by their tokens."""

    def __init__(self) -> None:
        """Have none."""
        self._waits: dict[int, _Wait] = {}

    def __len__(self) -> int:
        """Count them."""
        return len(self._waits)

    def begin(self, token: int, *, is_idle: bool) -> None:
        """Let a task wait, for a linear read or for idleness."""
        self._waits[token] = _Wait(is_idle)

    def cancel(self, token: int) -> None:
        """Let it wait no more."""
        self._waits.pop(token, None)

    def tick(self) -> list[int]:
        """Let a tick pass; gives the reads to begin anew."""
        overdue: list[int] = []
        for token, wait in self._waits.items():
            wait.ticks += 1
            if not wait.is_current and wait.ticks % READ_TICKS == 0:
                overdue.append(token)
        return overdue

    @property
    def unanswered(self) -> list[int]:
        """The reads that have no answer: another leader is to be asked."""
        return [token for token, wait in self._waits.items() if not wait.is_current]

    def answered(self, token: int) -> None:
        """Learn that this replica has what a read asked for."""
        if token in self._waits:
            self._waits[token].is_current = True

    def take_over(self, is_idle: Callable[[], bool]) -> list[int]:
        """Give the waits that are over now. ``is_idle`` is asked where that is waited for."""
        over = [
            token
            for token, wait in self._waits.items()
            if wait.is_current and (not wait.is_idle or is_idle())
        ]
        for token in over:
            del self._waits[token]
        return over
