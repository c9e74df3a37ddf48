"""Questions of tasks to a core, which answers them by their numbers some time later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import trio

Answer = TypeVar("Answer")


class Question(Generic[Answer]):
    """One that is under way."""

    def __init__(self, number: int) -> None:
        """Wait for the answer to this number."""
        self.number = number
        self.answer: Answer | None = None
        """``None`` until it comes; or for good, if the core ended first."""
        self._over = trio.Event()

    @property
    def is_over(self) -> bool:
        """Tell whether there is nothing to wait for any more."""
        return self._over.is_set()

    async def wait(self) -> None:
        """Wait for the answer, or for the end of the core."""
        await self._over.wait()

    def end(self) -> None:
        """Wake the task that waits."""
        self._over.set()


class Questions(Generic[Answer]):
    """All of one kind that are under way."""

    def __init__(self) -> None:
        """Number them from one on."""
        self._count = 0
        self._open: dict[int, Question[Answer]] = {}
        self._has_ended = False

    def __iter__(self) -> Iterator[int]:
        """Give the numbers of those that are under way."""
        return iter(tuple(self._open))

    def __len__(self) -> int:
        """Count those that are under way."""
        return len(self._open)

    @contextmanager
    def ask(self, withdraw: Callable[[int], object]) -> Iterator[Question[Answer]]:
        """Give a new one, which counts for the block.

        If it is left without an answer, even cancelled, ``withdraw`` has the core ask no more.
        """
        self._count += 1
        question: Question[Answer] = Question(self._count)
        self._open[question.number] = question
        if self._has_ended:
            question.end()
        try:
            yield question
        finally:
            del self._open[question.number]
            if not question.is_over:
                withdraw(question.number)

    def answer(self, number: int, answer: Answer) -> None:
        """Take in an answer; one to a question that was given up is of no use."""
        if (question := self._open.get(number)) is not None:
            question.answer = answer
            question.end()

    def end(self) -> None:
        """End all, and those that come later: there are no answers any more."""
        self._has_ended = True
        for question in self._open.values():
            question.end()
