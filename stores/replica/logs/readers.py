"""What the leader of a log does for proxies: it answers questions, and has them wait. Pure.

All that is kept for a proxy has a limit, and goes with its endpoint. What is asked for is read by
the driver, as it may be in a file: ``ReadFor`` asks for it, and ``was_read`` has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stores.actions import WriterId
from stores.group.effects import Setback
from stores.group.member import Member
from stores.group.words import Answered, Ask, Declined, Letter
from stores.log.bodies import Write
from stores.log.limits import FETCH_SIZE_MAX, FETCHES_MAX, WAIT_TICKS_MAX
from stores.log.machine import LogMachine
from stores.log.messages import (
    Answer,
    Counted,
    CountQuery,
    Fetch,
    Fetched,
    Query,
    QueryFailed,
    State,
    StateQuery,
    TimeQuery,
)
from stores.replica.asked.errands import CarryOut
from stores.replica.effects import ReadFor
from stores.replica.facts import Facts
from stores.replica.outsiders import Outsiders
from stores.table.bodies import Register
from wire.errors import DecodeError, StoreError
from wire.identifiers import EndpointId

READS_MAX: Final = 256
"""Reads of the driver at a time: each has up to ``FETCH_SIZE_MAX`` bytes, and one run at least."""


@dataclass(slots=True)
class _Waiting:
    fetch: Fetch
    ticks: int


class LogReaders(Outsiders[Query]):
    """The proxies that ask one replica of a log. Its leader answers, with all that is committed."""

    def __init__(self, facts: Facts, carry_out: CarryOut, machine: LogMachine) -> None:
        """Know none."""
        super().__init__(facts, carry_out)
        self._machine = machine
        self._fetches: dict[tuple[EndpointId, int], _Waiting] = {}
        """Those that there was nothing for."""
        self._reading: set[tuple[EndpointId, int]] = set()
        """What the driver reads for."""

    def hear(self, sender: EndpointId, letter: Letter) -> None:
        """Take in what a proxy says; raises ``DecodeError``."""
        content = letter.content
        if isinstance(content, Ask):
            key = sender, content.ticket
            if key in self._fetches or key in self._reading:
                return  # It was asked again, and is not forgotten.
        super().hear(sender, letter)

    def lose(self, endpoint: EndpointId) -> None:
        """Forget what an endpoint wanted: there is no path to it."""
        super().lose(endpoint)
        for key in [each for each in self._fetches if each[0] == endpoint]:
            del self._fetches[key]
        self._reading = {each for each in self._reading if each[0] != endpoint}

    def say_goodbye(self) -> None:
        """Let those that follow this leader know that it leads no more."""
        super().say_goodbye()
        self._fetches.clear()

    def tick(self) -> None:
        """Let a tick pass: where time is over the answer is that there is nothing."""
        if self._fetches and not self._facts.is_leader:
            for endpoint, ticket in self._fetches:
                self._say(endpoint, Declined(ticket, Setback.NOT_LEADER))
            self._fetches.clear()
        for key, waiting in list(self._fetches.items()):
            waiting.ticks -= 1
            if waiting.ticks <= 0:
                self._give(key, self._nothing(waiting.fetch))

    def look_again(self) -> None:
        """Read for those that waited for what is committed now."""
        for (endpoint, ticket), waiting in list(self._fetches.items()):
            if self._has_news(waiting.fetch):
                del self._fetches[endpoint, ticket]
                self._read(endpoint, ticket, waiting.fetch)

    def was_read(self, endpoint: EndpointId, ticket: int, answer: Answer) -> None:
        """Give the answer that the driver has found."""
        if (endpoint, ticket) in self._reading:
            self._reading.remove((endpoint, ticket))
            self._say(endpoint, Answered(ticket, answer))

    # -- steps -----------------------------------------------------------------------------------

    def _question_of(self, request: object) -> Query | None:
        return request if isinstance(request, Query) else None

    def _writers_of(self, request: object) -> list[WriterId]:
        match request:
            case Register(writer):
                return [writer]
            case Write(asked=asked):
                return [asked.writer]
            case _:
                raise DecodeError(f"a proxy asks for a {type(request).__name__}: only members do")

    def _on_question(
        self, member: Member, sender: EndpointId, ticket: int, question: Query
    ) -> None:
        self._await_word(member, sender, ticket, question)

    def _look(self, endpoint: EndpointId, ticket: int, question: Query) -> None:
        if not len(self._machine.partitions):
            self._say(endpoint, Declined(ticket, Setback.NOT_READY))
            return
        try:
            self._look_up(endpoint, ticket, question)
        except StoreError as error:
            failed = QueryFailed(question.query, error.code, str(error)[:200])
            self._say(endpoint, Answered(ticket, failed))

    def _look_up(self, endpoint: EndpointId, ticket: int, question: Query) -> None:
        partitions = self._machine.partitions
        match question:
            case StateQuery(number):
                spans = partitions.starts(), partitions.ends()
                cursors, last = self._machine.all_cursors(), self._machine.last_run
                state = State(number, *spans, cursors, last)
                self._say(endpoint, Answered(ticket, state))
            case CountQuery(number):
                self._say(endpoint, Answered(ticket, Counted(number, len(partitions))))
            case TimeQuery():
                self._read(endpoint, ticket, question)
            case Fetch(number, positions, size_max, wait_ticks):
                size, ticks = min(size_max, FETCH_SIZE_MAX), min(wait_ticks, WAIT_TICKS_MAX)
                fetch = Fetch(number, positions, size, ticks, question.seen)
                if self._has_news(fetch):
                    self._read(endpoint, ticket, fetch)
                elif ticks and len(self._fetches) < FETCHES_MAX:
                    self._fetches[endpoint, ticket] = _Waiting(fetch, ticks)
                elif ticks:  # An answer at once would have it ask again at once.
                    self._say(endpoint, Declined(ticket, Setback.NO_ROOM))
                else:
                    self._say(endpoint, Answered(ticket, self._nothing(fetch)))

    def _read(self, endpoint: EndpointId, ticket: int, query: Fetch | TimeQuery) -> None:
        if len(self._reading) >= READS_MAX:
            self._say(endpoint, Declined(ticket, Setback.NO_ROOM))
            return
        self._reading.add((endpoint, ticket))
        self._facts.tell(ReadFor(endpoint, ticket, query))

    def _say_busy(self, sender: EndpointId, ticket: int, question: Query) -> None:
        self._say(sender, Declined(ticket, Setback.NO_ROOM))

    def _has_news(self, fetch: Fetch) -> bool:
        # A leader that was confirmed after the question lacks nothing that the asker has.
        return self._machine.has_news(fetch.positions, fetch.seen, is_current=True)

    def _nothing(self, fetch: Fetch) -> Fetched:
        offsets = self._machine.goes_on(fetch.positions, fetch.seen, is_current=True)
        return Fetched(fetch.query, (), offsets)

    def _give(self, key: tuple[EndpointId, int], answer: Answer) -> None:
        del self._fetches[key]
        self._say(key[0], Answered(key[1], answer))
