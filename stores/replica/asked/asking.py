"""What a replica asks its group for in no writer's name, such as another quota. Pure.

No ledger knows these requests, so that they may be done twice, which makes no difference to them.
So they are asked again until there is an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_TICKET: Final = 1 << 62
"""Tickets of these requests are above it, those of writers below."""

ASK_TICKS: Final = 10
"""Ticks after which a request that has no answer is asked again: as long as elections take."""


@dataclass(slots=True)
class _Open:
    token: int
    request: object
    ticks: int = ASK_TICKS


class Asking:
    """The requests without an answer."""

    def __init__(self, incarnation: int) -> None:
        """Have none. ``incarnation`` is that of the writer, which differs between its lives.

        So a late answer to an earlier life answers nothing that is asked in this one.
        """
        self._open: dict[int, _Open] = {}
        self._ticket = FIRST_TICKET + incarnation

    def __len__(self) -> int:
        """Count them."""
        return len(self._open)

    def begin(self, token: int, request: object) -> tuple[int, object]:
        """Take on a request; gives what to ask, under which ticket."""
        self._ticket += 1
        self._open[self._ticket] = _Open(token, request)
        return self._ticket, request

    def end(self, token: int) -> None:
        """Ask no more."""
        for ticket in [ticket for ticket, each in self._open.items() if each.token == token]:
            del self._open[ticket]

    def declined(self, ticket: int) -> None:
        """Have a request asked again in the next tick: where it went there was no answer."""
        if ticket in self._open:
            self._open[ticket].ticks = 1

    def again(self) -> list[tuple[int, object]]:
        """Give all requests, to ask them again now."""
        for each in self._open.values():
            each.ticks = ASK_TICKS
        return [(ticket, each.request) for ticket, each in self._open.items()]

    def tick(self) -> list[tuple[int, object]]:
        """Let a tick pass; gives what to ask again."""
        due: list[tuple[int, object]] = []
        for ticket, each in self._open.items():
            each.ticks -= 1
            if each.ticks <= 0:
                each.ticks = ASK_TICKS
                due.append((ticket, each.request))
        return due

    def answered(self, ticket: int) -> int | None:
        """Take in an answer; gives the token, if it was waited for."""
        found = self._open.pop(ticket, None)
        return None if found is None else found.token
