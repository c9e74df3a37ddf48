"""What a handle has asked for and the group has not answered: sent in order, and sent again. Pure.

A writer registers before its first request. After a change of leader, or a gap, all that has no
answer is proposed again, as it was: the ledger answers what was done before. A writer that gives up
goes on as another one, since an abandoned request may still be done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Final, Protocol

from stores.actions import WriterId
from stores.group.machine import Answer, Done
from stores.limits import (
    OUTCOMES_MAX,
    RUN_COUNT_MAX,
    RUN_SIZE_MAX,
    UNRESOLVED_COUNT_MAX,
    UNRESOLVED_SIZE_MAX,
)
from stores.outcomes import Outcome, Refused
from stores.table.bodies import OutOfOrder, Register, Registration, UnknownWriter
from wire.errors import ErrorCode
from wire.identifiers import EntityId

WINDOW_COUNT: Final = 256
"""Parcels under way to the leader: it has the next ones before it has answered the first."""

PARCEL_COUNT: Final = RUN_COUNT_MAX
"""Requests in one parcel, which becomes one entry: as many as one run of puts has at most."""

PARCEL_SIZE: Final = RUN_SIZE_MAX
"""Bytes after which a parcel takes no more requests."""

REPEAT_TICKS: Final = 10
REPEAT_TICKS_MAX: Final = 40
"""Ticks without an answer after which all is sent again, under new tickets: at first a second, as
long as elections take, and then twice as many each time, as the way may take longer."""

Decide = Callable[[object], Done | Answer | None]
"""Gives the answer to a request at once, or ``None`` where it has to be proposed."""

OutcomesOf = Callable[[WriterId, int, int], Sequence[Outcome]]
"""Gives what a replica's own ledger has of a writer, by its number, from a request on."""

Send = Callable[[int, object], None]
"""Proposes a request under a ticket."""


class Parcel(ABC):
    """Requests that are sent, and sent again, together: what gathered before the first sending."""

    __slots__ = ("count", "first", "last", "outcomes", "size", "ticket", "was_sent")

    def __init__(self, first: int, last: int, size: int, count: int = 1) -> None:
        """Have the requests from ``first`` to ``last``, of so many bytes; they ``count`` so much.

        What is left of the room for requests is counted alike.
        """
        self.first = first
        self.last = last
        self.size = size
        self.count = count
        self.was_sent = False
        self.ticket = 0
        """Under which it was sent last."""
        self.outcomes: tuple[Outcome, ...] | None = None

    @abstractmethod
    def written(self, number: int, resolved: int, *, is_vetted: bool) -> object:
        """Give what the machine is asked; ``number`` is the writer's, as registered."""


@dataclass(frozen=True, slots=True)
class Words:
    """What is told of requests of one kind."""

    kind: str
    leader: str
    """Of those that lead alone; in a group it is the leader."""
    copy: str
    requests: str
    unreachable: ErrorCode
    """What a request comes to that no leader answers."""


class Gathering(Protocol):
    """What the handle asks with."""

    @property
    def last_request(self) -> int:
        """The number that was given last."""

    @property
    def is_sealed(self) -> bool:
        """True if nothing is being gathered."""

    def seal(self) -> None:
        """Hand over what was gathered."""


class Outbox(ABC):
    """The requests of one handle."""

    words: ClassVar[Words]

    def __init__(self, entity: EntityId, incarnation: int, gathering: Gathering) -> None:
        """Have asked nothing. ``incarnation`` differs between lives of an entity.

        What is gathered has to be put into parcels: see ``_join``.
        """
        self.entity = entity
        self._incarnation = incarnation
        self._gathering = gathering
        self.writer = WriterId.of(entity, incarnation)
        """In whose name it asks now."""
        self._parcels: deque[Parcel] = deque()
        self._count = self._size = 0
        self._given_up = 0
        self._number: int | None = None
        self._sent = 0
        self._window = WINDOW_COUNT
        """Parcels that are under way at most: fewer where the leader had no room for more."""
        self._ticket = incarnation
        """The last one; a late answer to an earlier life of the entity answers none of this one."""
        self._open: dict[int, Parcel | None] = {}
        """By ticket, what it is about; ``None`` is the registration."""
        self._silent_ticks = 0
        self._left_ticks = self._pause = REPEAT_TICKS
        """Until all is sent again, and how long that was when it began."""
        self._waits = False
        self.held: deque[Outcome] = deque()
        """Outcomes that are not told yet: readers here do not see what was done."""

    def __len__(self) -> int:
        """Count the actions without an answer; what is still gathered is one."""
        return self._count + (not self._gathering.is_sealed)

    @property
    def last_request(self) -> int:
        """The number of the last request that was asked for."""
        return self._gathering.last_request

    def seal(self) -> None:
        """Gather no more into what is gathered."""
        self._gathering.seal()

    @property
    def has_room(self) -> bool:
        """True if more may be asked."""
        return self._count < UNRESOLVED_COUNT_MAX and self._size < UNRESOLVED_SIZE_MAX

    def is_resolved(self, request: int) -> bool:
        """Tell whether a request, which is gathered no more, and all before it have an outcome."""
        is_told = not self.held or self.held[0].first_request > request
        return is_told and (not self._parcels or self._parcels[0].first > request)

    @property
    def has_unsent(self) -> bool:
        """True if something waits to be proposed."""
        return self._sent < len(self._parcels) or not self._gathering.is_sealed

    @property
    def silent_ticks(self) -> int:
        """Ticks since the last answer, while something waits for one."""
        return self._silent_ticks if self._parcels else 0

    @property
    def holds_back(self) -> bool:
        """True if what waits leaves only when what is under way has its answer.

        All of it is not more than one parcel: callers that wait for answers, most likely, and ask
        anew as soon as they have them. Two halves of them, each of which waits for the other one at
        the disk, would cost twice as many letters and syncs.
        """
        if not self._open or not self._parcels:
            return False
        return self.last_request - self._parcels[0].first < PARCEL_COUNT

    def perform(self, decide: Decide) -> list[Outcome]:
        """Have all decided at once, where that can be; what it gives no outcome of is pumped."""
        self._gathering.seal()
        outcomes: list[Outcome] = []
        if self._waits or self._number is None or self._open:
            return outcomes
        while self._parcels:
            parcel = self._parcels[0]
            done = decide(parcel.written(self._number, parcel.first - 1, is_vetted=True))
            if done is None or not isinstance(done.value, tuple):
                break
            self._leave(parcel)
            outcomes += done.value
        return outcomes

    def pump(self, send: Send, *, is_local: bool) -> None:
        """Propose what has room under way; ``is_local`` if this endpoint has the leader."""
        self._gathering.seal()
        if self._waits or self._sent >= len(self._parcels) or (is_local and self.holds_back):
            return
        if self._number is None:
            if not self._open:
                send(self._issue(None), Register(self.writer, self._given_up))
            return
        resolved = self._parcels[0].first - 1
        for parcel in list(islice(self._parcels, self._sent, self._window)):
            if parcel.last - resolved > OUTCOMES_MAX:
                return  # So many outcomes are remembered, if all of them are asked for again.
            self._sent += 1
            parcel.was_sent = True
            if parcel.outcomes is None:
                write = parcel.written(self._number, resolved, is_vetted=is_local)
                send(self._issue(parcel), write)

    def rewind(self) -> None:
        """Propose all anew at the next tick: the leader is another one, or something was lost."""
        self._open.clear()
        self._sent = 0
        self._waits = True
        self._left_ticks = self._pause = REPEAT_TICKS

    def register_anew(self) -> None:
        """Ask another group for all that has no answer: it knows nothing of this writer."""
        self._gathering.seal()
        for parcel in self._parcels:
            parcel.outcomes = None
        last = self._gathering.last_request
        self._given_up = self._parcels[0].first - 1 if self._parcels else last
        self._number = None
        self.rewind()

    def resume(self) -> None:
        """Propose what waits: there is a leader."""
        self._waits = False
        self._window = WINDOW_COUNT

    def tick(self) -> None:
        """Let a tick pass."""
        self._waits = False
        if not self._parcels:
            self._heard()
            return
        self._silent_ticks += 1
        self._left_ticks -= 1
        if self._left_ticks <= 0:
            self._left_ticks = self._pause = min(2 * self._pause, REPEAT_TICKS_MAX)
            self._open.clear()
            self._sent = 0

    def awaits(self, ticket: int) -> bool:
        """Tell whether a request that went out under this ticket has no answer."""
        return ticket in self._open

    def declined(self, ticket: int) -> None:
        """Learn that a request has no answer where it went: what is sent again is less."""
        if ticket in self._open:
            self._window = max(1, self._window // 2)
            self.rewind()

    def answered(self, ticket: int, answer: object) -> list[Outcome]:
        """Take in an answer; gives the outcomes that are known now, in the order of requests."""
        if ticket not in self._open:
            return []
        parcel = self._open.pop(ticket)
        self._heard()
        self._window = min(WINDOW_COUNT, self._window + 1)
        match answer:
            case Registration(number) if parcel is None:
                self._number = number
            case OutOfOrder():
                self._open.clear()
                self._sent = 0
            case UnknownWriter():
                return self.give_up(
                    ErrorCode.REQUEST_TIMEOUT, "the group has forgotten this writer"
                )
            case tuple() if parcel is not None:
                parcel.outcomes = answer
        return self._resolved()

    def look_up(self, outcomes_of: OutcomesOf) -> Sequence[Outcome]:
        """Take what a ledger has of what was sent; gives outcomes as ``answered`` does."""
        if self._number is None or not self._parcels or not self._parcels[0].was_sent:
            return ()
        found = outcomes_of(self.writer, self._number, self._parcels[0].first)
        if found:
            self._heard()
            while self._parcels and self._parcels[0].last <= found[-1].last_request:
                self._open.pop(self._parcels[0].ticket, None)
                self._leave(self._parcels[0])
                self._sent = max(0, self._sent - 1)
                self._window = min(WINDOW_COUNT, self._window + 1)
        return [*found, *self._resolved()]  # A letter may have overtaken what is about the first.

    def give_up(self, code: ErrorCode, text: str) -> list[Outcome]:
        """Refuse all that waits, and go on as another writer."""
        self._gathering.seal()
        parcels = list(self._parcels)
        self._parcels.clear()
        self._open.clear()
        self._count = self._size = self._sent = 0
        self._heard()
        self._given_up = self._gathering.last_request
        self._number = None
        self._incarnation += 1
        self.writer = WriterId.of(self.entity, self._incarnation)
        self._rename()
        outcomes: list[Outcome] = []
        for parcel in parcels:
            if parcel.outcomes is not None:
                outcomes += parcel.outcomes
                continue
            state = "whether it was applied is unknown" if parcel.was_sent else "it was not applied"
            outcomes.append(Outcome(parcel.first, parcel.last, Refused(code, f"{text}: {state}")))
        return outcomes

    @abstractmethod
    def close(self) -> None:
        """Take on nothing more: whatever is asked for raises ``StoreClosed``."""

    # -- steps -----------------------------------------------------------------------------------

    def _heard(self) -> None:
        self._silent_ticks = 0
        self._left_ticks = self._pause = REPEAT_TICKS

    @abstractmethod
    def _rename(self) -> None:
        """Have what is asked from now on be in the name of the ``writer``."""

    def _join(self, latest: Parcel | None, last: int, size: int, count: int = 1) -> bool:
        """Count in requests up to ``last``; tells whether they go into the ``latest`` parcel.

        If not, put them into one of their own.
        """
        self._count += count
        self._size += size
        if latest is None or not self._parcels or self._parcels[-1] is not latest:
            return False
        is_full = last - latest.first >= PARCEL_COUNT or latest.size + size > PARCEL_SIZE
        if latest.was_sent or is_full:
            return False
        latest.last = last
        latest.size += size
        latest.count += count
        return True

    def _put(self, parcel: Parcel) -> None:
        """Have another parcel be the last one."""
        self._parcels.append(parcel)

    def _issue(self, parcel: Parcel | None) -> int:
        self._ticket += 1
        self._open[self._ticket] = parcel
        if parcel is not None:
            parcel.ticket = self._ticket
        return self._ticket

    def _resolved(self) -> list[Outcome]:
        outcomes: list[Outcome] = []
        while self._parcels and (found := self._parcels[0].outcomes) is not None:
            self._leave(self._parcels[0])
            self._sent = max(0, self._sent - 1)
            outcomes += found
        return outcomes

    def _leave(self, parcel: Parcel) -> None:
        self._parcels.popleft()
        self._count -= parcel.count
        self._size -= parcel.size
