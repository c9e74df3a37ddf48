"""What a handle has asked for and the group has not answered: sent in order, and sent again. Pure.

A writer registers before its first request. After a change of leader, or a gap, all that has no
answer is proposed again, as it was: the ledger answers what was done before. A writer that gives up
goes on as another one, since an abandoned request may still be done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from stores.actions import Action, WriterId, request_range
from stores.judgement import Request
from stores.limits import UNRESOLVED_COUNT_MAX, UNRESOLVED_SIZE_MAX
from stores.outcomes import Outcome, Refused
from stores.requests import Requests
from stores.stages import size_of
from stores.table.bodies import (
    OutOfOrder,
    Register,
    Registration,
    TableRequest,
    UnknownWriter,
    Write,
)
from wire.errors import ErrorCode
from wire.identifiers import EntityId

WINDOW_COUNT: Final = 256
"""Actions under way to the leader: it has the next ones before it has answered the first."""

REPEAT_TICKS: Final = 10
"""Ticks without an answer after which all is sent again: a second, as long as elections take."""

Send = Callable[[int, TableRequest], None]
"""Proposes a request under a ticket."""


@dataclass(slots=True)
class _Item:
    request: Request
    first: int
    last: int
    size: int
    was_sent: bool = False
    outcomes: tuple[Outcome, ...] | None = None


class Outbox:
    """The requests of one handle."""

    def __init__(self, entity: EntityId, incarnation: int) -> None:
        """Have asked nothing. ``incarnation`` differs between lives of an entity."""
        self._entity = entity
        self._incarnation = incarnation
        self.requests = Requests(WriterId.of(entity, incarnation), self._add)
        self._items: deque[_Item] = deque()
        self._size = 0
        self._given_up = 0
        self._number: int | None = None
        self._sent = 0
        self._ticket = 0
        self._open: dict[int, _Item | None] = {}
        """By ticket, what it is about; ``None`` is the registration."""
        self._silent_ticks = 0
        self._waits = False

    def __len__(self) -> int:
        """Count the actions without an answer; what is still gathered is one."""
        return len(self._items) + (not self.requests.is_sealed)

    @property
    def has_room(self) -> bool:
        """True if more may be asked."""
        return len(self._items) < UNRESOLVED_COUNT_MAX and self._size < UNRESOLVED_SIZE_MAX

    @property
    def silent_ticks(self) -> int:
        """Ticks since the last answer, while something waits for one."""
        return self._silent_ticks if self._items else 0

    def pump(self, send: Send, *, is_local: bool) -> None:
        """Propose what has room under way; ``is_local`` if this endpoint has the leader."""
        self.requests.seal()
        if self._waits or not self._items:
            return
        if self._number is None:
            if not self._open:
                send(self._issue(None), Register(self.requests.writer, self._given_up))
            return
        resolved = self._items[0].first - 1
        for item in list(islice(self._items, self._sent, WINDOW_COUNT)):
            self._sent += 1
            item.was_sent = True
            if item.outcomes is None:
                write = Write(self._number, item.request, resolved, is_vetted=is_local)
                send(self._issue(item), write)

    def rewind(self) -> None:
        """Propose all anew at the next tick: the leader is another one, or something was lost."""
        self._open.clear()
        self._sent = 0
        self._waits = True

    def resume(self) -> None:
        """Propose what waits: there is a leader."""
        self._waits = False

    def tick(self) -> None:
        """Let a tick pass."""
        self._waits = False
        self._silent_ticks = self._silent_ticks + 1 if self._items else 0
        if self._silent_ticks and self._silent_ticks % REPEAT_TICKS == 0:
            self._open.clear()
            self._sent = 0

    def awaits(self, ticket: int) -> bool:
        """Tell whether a request that went out under this ticket has no answer."""
        return ticket in self._open

    def declined(self, ticket: int) -> None:
        """Learn that a request has no answer where it went."""
        if ticket in self._open:
            self.rewind()

    def answered(self, ticket: int, answer: object) -> list[Outcome]:
        """Take in an answer; gives the outcomes that are known now, in the order of requests."""
        if ticket not in self._open:
            return []
        item = self._open.pop(ticket)
        self._silent_ticks = 0
        match answer:
            case Registration(number) if item is None:
                self._number = number
            case OutOfOrder():
                self._open.clear()
                self._sent = 0
            case UnknownWriter():
                return self.give_up(
                    ErrorCode.REQUEST_TIMEOUT, "the group has forgotten this writer"
                )
            case tuple() if item is not None:
                item.outcomes = answer
        return self._resolved()

    def give_up(self, code: ErrorCode, text: str) -> list[Outcome]:
        """Refuse all that waits, and go on as another writer."""
        self.requests.seal()
        items = list(self._items)
        self._items.clear()
        self._open.clear()
        self._size = self._sent = self._silent_ticks = 0
        self._given_up = self.requests.last_request
        self._number = None
        self._incarnation += 1
        self.requests.writer = WriterId.of(self._entity, self._incarnation)
        outcomes: list[Outcome] = []
        for item in items:
            if item.outcomes is not None:
                outcomes += item.outcomes
                continue
            state = "whether it was applied is unknown" if item.was_sent else "it was not applied"
            outcomes.append(Outcome(item.first, item.last, Refused(code, f"{text}: {state}")))
        return outcomes

    # -- steps -----------------------------------------------------------------------------------

    def _add(self, action: Action) -> None:
        asked = request_range(action)
        assert isinstance(action, Request), action
        assert asked is not None, action
        item = _Item(action, *asked, size_of(action))
        self._items.append(item)
        self._size += item.size

    def _issue(self, item: _Item | None) -> int:
        self._ticket += 1
        self._open[self._ticket] = item
        return self._ticket

    def _resolved(self) -> list[Outcome]:
        outcomes: list[Outcome] = []
        while self._items and (found := self._items[0].outcomes) is not None:
            item = self._items.popleft()
            self._size -= item.size
            self._sent = max(0, self._sent - 1)
            outcomes += found
        return outcomes
