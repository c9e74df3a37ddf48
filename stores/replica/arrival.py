"""How a replica comes to its group: greetings, and the founding of one that is not there. Pure."""

from __future__ import annotations

from typing import Final

from stores.group.entries import VotersEntry
from stores.group.positions import Voters
from stores.group.terms import founding_term
from stores.group.words import Aim, Greeting, Letter
from stores.replica.asked.errands import CarryOut
from stores.replica.beginning import Manner, World
from stores.replica.effects import Begin, News
from stores.replica.standing import Standing
from wire.identifiers import EndpointId

GREETING_TICKS: Final = 5
"""Ticks between two questions to all who else there is, while a voter's endpoint is unknown."""

FOUNDING_TICKS: Final = 10
"""Ticks for which a founder listens whether there is a group already: a second, in which all that
can be reached answer."""

CONFLICT_TICKS: Final = 20
"""Ticks for which another group of the name is borne where it may yet be taken over: two seconds,
as a claim takes one."""


class Arrival:
    """The greetings of one replica."""

    def __init__(
        self,
        standing: Standing,
        carry_out: CarryOut,
        world: World,
        manner: Manner,
    ) -> None:
        """Greet for the replica of this ``standing``; the ``world`` draws the id of a new group."""
        self._standing = standing
        self._manner = manner
        self._carry_out = carry_out
        self._world = world
        self._ticks = 0
        self._is_beginning = self._is_conflict_told = False
        self._conflict = ""
        self._stranger: EndpointId | None = None
        """Where the replica of another group is that the ``_conflict`` is about."""
        self._conflict_ticks = 0

    def greet(self) -> None:
        """Ask all who else there is."""
        self._standing.send_all(self._greeting(is_question=True))

    def ask(self, endpoint: EndpointId) -> None:
        """Ask an endpoint what it knows."""
        self._standing.send_to(endpoint, self._greeting(is_question=True))

    def tick(self) -> Begin | None:
        """Let a tick pass: what is lacking is asked for again. A founder may begin now."""
        self._ticks += 1
        standing = self._standing
        is_lacking = standing.group is None or standing.roster.lacks(standing.voters)
        if self._ticks % GREETING_TICKS == 0 and is_lacking:
            self.greet()
        self._conflict_ticks += 1
        if self._conflict and self._conflict_ticks >= CONFLICT_TICKS:
            self._tell_conflict()
        is_due = self._manner.is_founder and self._ticks >= FOUNDING_TICKS
        if is_due and standing.group is None and not self._is_beginning:
            return self.found() if standing.roster.may_found else None
        return None

    def _tell_conflict(self) -> None:
        self._is_conflict_told = True
        self._standing.tell_news(News.CONFLICT, self._conflict)
        self._conflict = ""

    def restart(self) -> None:
        """Forget what was told: the replica is of no group any more."""
        self._is_beginning = self._is_conflict_told = False
        self._conflict = ""

    def hear(self, sender: EndpointId, letter: Letter, greeting: Greeting) -> Begin | None:
        """Take in a greeting, and answer it; gives how to begin, if that is certain now."""
        standing = self._standing
        if greeting.is_question:
            standing.send_to(sender, self._greeting(is_question=False))
        if sender == self._stranger and letter.group in (None, standing.group):
            self._conflict = ""  # It left that group, or came over.
        if standing.group is None:
            standing.roster.hear(sender, letter, greeting)
            return self.begin()
        if letter.group == standing.group:
            standing.roster.meet(sender, letter.sender, standing.voters)
            if standing.member is not None and greeting.is_question:
                self._carry_out(standing.member.welcome(letter.sender))
        elif letter.group is not None and not self._is_conflict_told and not self._conflict:
            self._conflict = f"{letter.sender.name} has a replica of another group of this name"
            self._stranger, self._conflict_ticks = sender, 0
            if not self._manner.is_single:
                self._tell_conflict()
        return None

    def begin(self) -> Begin | None:
        """Join the group that is there, or found it, once that is certain; only once."""
        if self._is_beginning or self._manner.aim is Aim.CLAIM:
            return None
        roster = self._standing.roster
        if roster.group is None:
            return None if roster.founders is None else self._found(roster.founders)
        self._is_beginning = True
        return Begin(roster.group, ())

    def found(self) -> Begin:
        """Found a group of this replica alone; others join it."""
        return self._found((self._standing.own,))

    def _found(self, voters: Voters) -> Begin:
        self._is_beginning = True
        term = founding_term(self._world.now_ns())
        return Begin(self._world.new_group(), (VotersEntry(term, voters),))

    def _greeting(self, *, is_question: bool) -> Greeting:
        aim = Aim.ANEW if self._manner.aim is Aim.ANEW else Aim.JOIN
        return Greeting(self._standing.roster.declared, is_question=is_question, aim=aim)
