"""What a replica does for proxies, which are outside of its group: it leads, judges and answers.

All that is kept for one has a limit, and goes with its endpoint. What a question is, and how it is
looked up, is the machine's own. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from stores.actions import WriterId
from stores.group import effects as grouped
from stores.group.effects import Setback
from stores.group.member import Member
from stores.group.messages import Message
from stores.group.words import Answered, Ask, Declined, Farewell, Leads, Letter, Seek, Word
from stores.replica.asked.errands import CarryOut
from stores.replica.facts import Facts
from stores.work import JOBS_MAX
from wire.errors import DecodeError
from wire.identifiers import EndpointId

PROXIES_MAX: Final = 4_096
"""Proxies that a leader says goodbye to. Beyond, the one that was silent longest finds out by
itself, two seconds later."""


@dataclass(frozen=True, slots=True)
class Outside:
    """A proxy, where callers are named."""

    endpoint: EndpointId


class Answering(Protocol):
    """What answers proxies, as far as a replica has to know it."""

    def hear(self, sender: EndpointId, letter: Letter) -> None:
        """Take in what a proxy says; raises ``DecodeError``."""

    def lose(self, endpoint: EndpointId) -> None:
        """Forget what an endpoint wanted: there is no path to it."""

    def say_goodbye(self) -> None:
        """Let those that follow this leader know that it leads no more."""

    def hear_member(self, effect: grouped.Effect) -> bool:
        """Take in an answer of the member here; tells whether it is for a proxy."""

    @property
    def has_work(self) -> bool:
        """True if something waits that is too long for one step."""

    def work(self) -> None:
        """Take one step of it; raises ``DecodeError``."""


QuestionT = TypeVar("QuestionT")


class Outsiders(ABC, Generic[QuestionT]):
    """The proxies that follow the leader here, or ask this replica."""

    def __init__(self, facts: Facts, carry_out: CarryOut) -> None:
        """Know none. What is asked is answered with the state that ``facts`` has."""
        self._facts = facts
        self._carry_out = carry_out
        self._followed: dict[EndpointId, None] = {}
        """Those that follow this leader, the one that was silent longest first."""
        self._linear: dict[EndpointId, dict[int, QuestionT]] = {}
        """By ticket, what waits for a majority's word."""

    def hear(self, sender: EndpointId, letter: Letter) -> None:
        """Take in what a proxy says; raises ``DecodeError``."""
        content, member = letter.content, self._facts.member
        if isinstance(content, Seek):
            self._on_seek(sender, content)
        elif isinstance(content, Ask) and member is not None:
            self._on_ask(member, sender, letter, content)

    def lose(self, endpoint: EndpointId) -> None:
        """Forget what an endpoint wanted: there is no path to it."""
        self._followed.pop(endpoint, None)
        self._linear.pop(endpoint, None)

    def say_goodbye(self) -> None:
        """Let those that follow this leader know that it leads no more."""
        for endpoint in self._followed:
            self._say(endpoint, Farewell())
        self._followed.clear()
        self._linear.clear()

    def hear_member(self, effect: grouped.Effect) -> bool:
        """Take in an answer of the member here; tells whether it is for a proxy."""
        match effect:
            case grouped.Replied(caller=(Outside(endpoint), int() as ticket), answer=answer):
                self._say(endpoint, Answered(ticket, answer))
            case grouped.Failed(caller=(Outside(endpoint), int() as ticket), setback=setback):
                self._take(endpoint, ticket)
                self._say(endpoint, Declined(ticket, setback))
            case grouped.Readable(caller=(Outside(endpoint), int() as ticket)):
                if (question := self._take(endpoint, ticket)) is not None:
                    self._look(endpoint, ticket, question)
            case _:
                return False
        return True

    # -- longer work -----------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """True if something waits that is too long for one step."""
        return False

    def work(self) -> None:
        """Take one step of it; raises ``DecodeError``."""

    # -- steps -----------------------------------------------------------------------------------

    def _on_ask(self, member: Member, sender: EndpointId, letter: Letter, ask: Ask) -> None:
        request, is_ours = ask.request, letter.group == self._facts.group
        question = self._question_of(request)
        if question is not None:
            if is_ours or letter.group is None:
                self._on_question(member, sender, ask.ticket, question)
        elif is_ours:
            for writer in self._writers_of(request):
                if writer.entity.endpoint != sender:
                    raise DecodeError(f"{sender} wants to write in the name of {writer.entity}")
            self._carry_out(member.propose((Outside(sender), ask.ticket), request))

    def _await_word(
        self, member: Member, sender: EndpointId, ticket: int, question: QuestionT
    ) -> None:
        """Look it up once a majority has confirmed that the leader here leads."""
        if member.leading is None:
            self._say(sender, Declined(ticket, Setback.NOT_LEADER))
            return
        waiting = self._linear.setdefault(sender, {})
        if ticket in waiting:
            return  # It was asked again: its round is under way.
        if len(waiting) >= JOBS_MAX:
            self._say_busy(sender, ticket, question)
            return
        waiting[ticket] = question
        self._carry_out(member.read((Outside(sender), ticket)))

    def _take(self, endpoint: EndpointId, ticket: int) -> QuestionT | None:
        """Give a question that waits for a majority's word, and have it wait no more."""
        waiting = self._linear.get(endpoint, {})
        question = waiting.pop(ticket, None)
        if not waiting:
            self._linear.pop(endpoint, None)
        return question

    def _on_seek(self, sender: EndpointId, seek: Seek) -> None:
        was_followed = sender in self._followed
        self._followed.pop(sender, None)
        if self._facts.is_leader:
            if len(self._followed) >= PROXIES_MAX:
                del self._followed[next(iter(self._followed))]
            self._followed[sender] = None
            self._say(sender, Leads(seek.number, self._facts.epoch))
        elif was_followed:
            self._say(sender, Farewell())

    def _say(self, endpoint: EndpointId, content: Message | Word) -> None:
        self._facts.send_outside(endpoint, content)

    # -- the machine's own -----------------------------------------------------------------------

    @abstractmethod
    def _question_of(self, request: object) -> QuestionT | None:
        """Give the question that a request is; ``None`` for one that would become an entry."""

    @abstractmethod
    def _writers_of(self, request: object) -> list[WriterId]:
        """Name the writers that ask; raises ``DecodeError`` for what only members ask for."""

    @abstractmethod
    def _on_question(
        self, member: Member, sender: EndpointId, ticket: int, question: QuestionT
    ) -> None:
        """Answer a question, maybe once a majority has confirmed the leader."""

    @abstractmethod
    def _look(self, endpoint: EndpointId, ticket: int, question: QuestionT) -> None:
        """Look it up, and answer."""

    @abstractmethod
    def _say_busy(self, sender: EndpointId, ticket: int, question: QuestionT) -> None:
        """Say that too many questions wait already."""
