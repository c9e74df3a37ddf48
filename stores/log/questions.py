"""What a proxy has asked its keeper, until there is an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stores.log.messages import Answer, Fetch, Query, QueryFailed
from wire.errors import ErrorCode

REPEAT_TICKS: Final = 10
"""Ticks after which a question, or its answer, counts as lost and is asked again."""


@dataclass(slots=True)
class _Asked:
    query: Query
    repeat_ticks: int
    lost_ticks: int = 0


class Questions:
    """Asks until there is an answer: reading twice does no harm."""

    def __init__(self, send: Callable[[Query], None], answered: Callable[[Answer], None]) -> None:
        """Ask with ``send``; hand answers to ``answered``, once each."""
        self._send = send
        self._answered = answered
        self._asked: dict[int, _Asked] = {}

    def __len__(self) -> int:
        """Count what has no answer."""
        return len(self._asked)

    def ask(self, query: Query) -> None:
        """Ask something new."""
        waits = query.wait_ticks if isinstance(query, Fetch) else 0
        self._asked[query.query] = _Asked(query, waits + REPEAT_TICKS)
        self._send(query)

    def cancel(self, number: int) -> None:
        """Ask no longer."""
        self._asked.pop(number, None)

    def receive(self, answer: Answer) -> None:
        """Take in an answer; a second one changes nothing."""
        if self._asked.pop(answer.query, None) is not None:
            self._answered(answer)

    def declined(self, number: int) -> None:
        """Learn that there is no answer yet: it is asked again at the next tick."""
        if (asked := self._asked.get(number)) is not None:
            asked.repeat_ticks = 0

    def tick(self, *, is_lost: bool, patience_ticks: int | None) -> None:
        """Let one tick pass: ask again, or give up when the keeper has been lost for so long."""
        for number, asked in list(self._asked.items()):
            asked.lost_ticks = asked.lost_ticks + 1 if is_lost else 0
            asked.repeat_ticks -= 1
            if patience_ticks is not None and asked.lost_ticks >= patience_ticks:
                self.fail(number, ErrorCode.KEEPER_UNREACHABLE, "the log's keeper is out of reach")
            elif asked.repeat_ticks <= 0:
                waits = asked.query.wait_ticks if isinstance(asked.query, Fetch) else 0
                asked.repeat_ticks = waits + REPEAT_TICKS
                self._send(asked.query)

    def ask_again(self) -> None:
        """Ask another keeper everything."""
        for asked in self._asked.values():
            self._send(asked.query)

    def fail(self, number: int, code: ErrorCode, text: str) -> None:
        """Answer that there is no answer."""
        self.receive(QueryFailed(number, code, text))

    def fail_all(self, code: ErrorCode, text: str) -> None:
        """Answer that there will be none."""
        for number in list(self._asked):
            self.fail(number, code, text)
