"""Receipts that wait for replicas: a write is acknowledged when enough clones have it.

Without it a master that is lost takes along what it had acknowledged and not yet sent. With it,
the promoted clone has all that was acknowledged, as long as it has all that any clone has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

_AnswerT = TypeVar("_AnswerT")


class ReplicaGate(Generic[_AnswerT]):
    """The master's: holds answers back until enough clones have acknowledged what they are of."""

    def __init__(self, replicas: int) -> None:
        """Wait for so many clones; zero waits for none."""
        self.replicas = replicas
        self.sequence = 0
        """Everything up to it was acknowledged by enough clones."""
        self._held: deque[tuple[int, _AnswerT]] = deque()

    def __len__(self) -> int:
        """Count the answers that wait."""
        return len(self._held)

    def pass_through(self, sequence: int, answers: Iterable[_AnswerT]) -> list[_AnswerT]:
        """Take answers about what was told up to this event; gives those that need not wait."""
        if self.replicas == 0:
            return list(answers)
        self._held.extend((sequence, answer) for answer in answers)
        return self._take()

    def acknowledge(self, acknowledged: Iterable[int]) -> list[_AnswerT]:
        """Take what each clone has acknowledged; gives the answers that waited for it."""
        best = sorted(acknowledged, reverse=True)
        if self.replicas and len(best) >= self.replicas:
            self.sequence = max(self.sequence, best[self.replicas - 1])
        return self._take()

    def held(self) -> Iterator[_AnswerT]:
        """Give what still waits."""
        return (answer for _, answer in self._held)

    def _take(self) -> list[_AnswerT]:
        answers: list[_AnswerT] = []
        while self._held and self._held[0][0] <= self.sequence:
            answers.append(self._held.popleft()[1])
        return answers
