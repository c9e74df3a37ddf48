"""Receipts that wait for replicas: a write is acknowledged when enough clones have it.

Without it a master that is lost takes along what it had acknowledged and not yet sent. With it,
the promoted clone has all that was acknowledged, as long as it has all that any clone has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from stores.outcomes import Outcome

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


Answer = tuple[int, Sequence[Outcome]]
"""A request, and the outcomes up to it, as far as they are remembered."""


class HeldAnswers:
    """A clone's: what its master has answered, until enough clones have what it is about."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._held: deque[tuple[int, Answer]] = deque()

    def hold(self, sequence: int, answer: Answer) -> None:
        """Keep an answer until everything up to the event is replicated."""
        self._held.append((sequence, answer))

    def release(self, sequence: int) -> Iterator[Answer]:
        """Give the answers of which everything is replicated now."""
        while self._held and self._held[0][0] <= sequence:
            yield self._held.popleft()[1]

    def clear(self) -> None:
        """Forget everything: another master has to answer anew."""
        self._held.clear()
