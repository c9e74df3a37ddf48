"""What a replica does for endpoints outside of its group: it says that it leads. Pure.

All that is kept for one has a limit, and goes with its endpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stores.group import effects as grouped
from stores.group.member import Member
from stores.group.messages import Message
from stores.group.words import Answered, Ask, Declined, Farewell, Leads, Letter, Seek, Word
from stores.replica.asked.errands import CarryOut
from stores.replica.facts import Facts
from wire.identifiers import EndpointId

PROXIES_MAX: Final = 4_096
"""Proxies that a leader says goodbye to. Beyond, the one that was silent longest finds out by
itself, two seconds later."""


@dataclass(frozen=True, slots=True)
class Outside:
    """A proxy, where callers are named."""

    endpoint: EndpointId


class Outsiders:
    """Those that follow the leader here. What they ask is for who inherits: here none is heard."""

    def __init__(self, facts: Facts, carry_out: CarryOut) -> None:
        """Know none. What is asked is answered with the state that ``facts`` has."""
        self._facts = facts
        self._carry_out = carry_out
        self._followed: dict[EndpointId, None] = {}
        """Those that follow this leader, the one that was silent longest first."""

    def hear(self, sender: EndpointId, letter: Letter, now_ns: int) -> None:
        """Take in what a proxy says; raises ``DecodeError``."""
        content, member = letter.content, self._facts.member
        if isinstance(content, Seek):
            self._on_seek(sender, content)
        elif isinstance(content, Ask) and member is not None:
            self._on_ask(member, sender, letter, content, now_ns)

    def lose(self, endpoint: EndpointId) -> None:
        """Forget what an endpoint wanted: there is no path to it."""
        self._followed.pop(endpoint, None)

    def say_goodbye(self) -> None:
        """Let those that follow this leader know that it leads no more."""
        for endpoint in self._followed:
            self._say(endpoint, Farewell())
        self._followed.clear()

    def hear_member(self, effect: grouped.Effect) -> bool:
        """Take in an answer of the member here; tells whether it is for a proxy."""
        match effect:
            case grouped.Replied(caller=(Outside(endpoint), int() as ticket), answer=answer):
                self._say(endpoint, Answered(ticket, answer))
            case grouped.Failed(caller=(Outside(endpoint), int() as ticket), setback=setback):
                self._on_failed(endpoint, ticket)
                self._say(endpoint, Declined(ticket, setback))
            case grouped.Readable(caller=(Outside(endpoint), int() as ticket)):
                self._on_readable(endpoint, ticket)
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

    def _on_ask(
        self, member: Member, sender: EndpointId, letter: Letter, ask: Ask, now_ns: int
    ) -> None:
        """Take in what a proxy asks; raises ``DecodeError``."""

    def _on_failed(self, endpoint: EndpointId, ticket: int) -> None:
        """Learn that what was asked has no answer here."""

    def _on_readable(self, endpoint: EndpointId, ticket: int) -> None:
        """Learn that a majority confirmed the leader since this was asked."""

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
