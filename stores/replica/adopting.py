"""How a master comes to what clones of an earlier life hold, and how they hand it over. Pure.

The master asks what they hold (``Claim`` decides), and has the best one cede: that clone leads by
force, with the master as the only voter, until the master has all of it. So each step is one that
groups have anyway, and whichever end fails in between, the next question finds a clone that has it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

from stores.group.member import Member
from stores.group.messages import LeaderMessage
from stores.group.positions import START, MemberId, Position
from stores.group.terms import is_forced
from stores.group.words import Aim, Cede, Greeting, JournalEnd, Letter
from stores.replica.asked.errands import CarryOut
from stores.replica.claim import Claim, Held, Refuse, Start, TakeOver
from stores.replica.facts import Facts
from wire.errors import ErrorCode
from wire.identifiers import EndpointId

REPEAT_TICKS: Final = 3
"""Ticks after which a question, or a wish, that has no answer is said again."""

SOURCE_TICKS: Final = 20
"""Ticks without a word of the clone that cedes, after which clones are asked anew."""

STRANDED_TICKS: Final = 5
"""Ticks without a leader's word after which a clone that holds nothing goes over to another group
of its store. A leader that is there speaks each tick; if the first word of the other one were
enough, a clone in reach of both would change with each greeting, and greet them all each time."""

PROMISE_TICKS: Final = 20
"""Ticks for which a clone that said what it holds hears no leader of before: it shall not hold more
than it said while the master decides by that."""


class Adopter(Protocol):
    """The core, as far as its adoption moves it."""

    def lead_alone(self) -> None:
        """Lead with what is here, as the only voter."""

    def follow(self, group: bytes) -> None:
        """Join a group as one that knows too little to lead."""

    def begin_anew(self) -> None:
        """Leave the group, and drop all that is held."""

    def refuse(self, code: ErrorCode, text: str) -> None:
        """End, as this store cannot be led here."""

    def may_vote(self) -> bool:
        """Tell whether the roles of the mesh let others believe what is held here."""


class Adoption:
    """The way of one replica of a group of one: at a master, and at its clones."""

    def __init__(self, standing: Facts, adopter: Adopter, carry_out: CarryOut) -> None:
        """Watch over the beginning of a replica."""
        self._standing = standing
        self._adopter = adopter
        self._carry_out = carry_out
        self._claim: Claim | None = None
        self._source: TakeOver | None = None
        self._known: set[EndpointId] = set()
        """Where clones were heard of."""
        self._promised: EndpointId | None = None
        """The master that was told last what a clone holds."""
        self._ticks = self._promise_ticks = self._promised_term = 0
        self._stranded_ticks = 0
        """For how long a clone was of a group of which it heard no leader."""

    @property
    def is_under_way(self) -> bool:
        """True while a master does not know yet what it leads with."""
        return self._claim is not None or self._source is not None

    # -- at a master -----------------------------------------------------------------------------

    def begin(self, announced: Collection[EndpointId], made: Member | None) -> None:
        """Ask clones what they hold; ``made`` is what the files have, if there are any."""
        own = self._standing
        self._known.update(announced)
        held = Held(own.own, own.group, own.held(made))
        mark = None if made is None else self._mark_of(made)
        self._claim, self._source, self._ticks = Claim(held, self._known, mark), None, 0
        self._ask()
        self._look()

    def _mark_of(self, made: Member) -> Position | None:
        """Give how far a master had acknowledged that may lack something of it.

        One that was killed while it took over what a clone had noted nothing; it lacks nothing as
        long as nothing came.
        """
        mark = made.ballot.mark or made.journal.end
        is_new = mark == self._standing.held(made) == START
        return None if made.ballot.is_whole or is_new else mark

    def hear_journal_end(self, sender: EndpointId, letter: Letter, told: JournalEnd) -> None:
        """Take in what a clone says; a master that holds nothing begins anew for its sake."""
        own = self._standing
        held = Held(letter.sender, letter.group, told.end, told.is_led)
        if self._claim is None:
            is_news = self._source is None and own.is_master and not own.is_fresh
            is_more = told.end > START and letter.group != own.group
            if not (is_news and is_more and own.is_volatile and own.held() == START):
                return
            self._adopter.begin_anew()
            self.begin([sender], None)
        if self._claim is not None:
            self._known.add(sender)
            self._claim.hear(sender, held)
            self._look()

    def _ask(self) -> None:
        own = self._standing
        own.send_all(Greeting(own.roster.declared, is_question=True, aim=Aim.CLAIM))

    def _look(self) -> None:
        if self._claim is None or not self._claim.is_over:
            return
        decision, self._claim = self._claim.decide(), None
        match decision:
            case Refuse(code, text):
                self._adopter.refuse(code, text)
            case Start():
                self._adopter.lead_alone()
            case TakeOver(endpoint, held):
                assert held.group is not None, "it holds something"
                self._source, self._ticks = decision, 0
                own = self._standing
                own.roster.meet(endpoint, held.member, own.voters)
                self._adopter.follow(held.group)
                self._wish()

    def _wish(self) -> None:
        assert self._source is not None
        own = self._standing
        if own.member is not None and (own.leader is None or own.own not in own.voters):
            own.send_to(self._source.endpoint, Cede())

    # -- at a clone ------------------------------------------------------------------------------

    def hear_greeting(self, sender: EndpointId, letter: Letter, greeting: Greeting) -> None:
        """Say what is held here, or let go of it, as a master wants it."""
        own = self._standing
        is_led = self._is_led
        if greeting.aim is Aim.CLAIM:
            if not is_led:
                self._promised, self._promise_ticks = sender, PROMISE_TICKS
                self._promised_term = own.epoch
            self._tell(sender)
        elif own.group is None or letter.group in (None, own.group):
            pass
        elif own.is_master:
            if own.held() > START:
                self._tell(sender)
        elif is_led:
            pass
        elif greeting.aim is Aim.ANEW or (own.held() == START and self._is_stranded):
            self._stranded_ticks = 0
            self._adopter.begin_anew()
        elif own.held() > START:
            self._tell(sender)

    def _tell(self, sender: EndpointId) -> None:
        own = self._standing
        if self._adopter.may_vote() and not self.is_under_way:
            own.send_to(sender, JournalEnd(own.held(), self._is_led))

    @property
    def _is_led(self) -> bool:
        """True where a master lives; a clone leads only for as long as it takes to cede."""
        own = self._standing
        return own.is_served or (own.is_master and own.leader is not None)

    @property
    def _is_stranded(self) -> bool:
        return self._stranded_ticks >= STRANDED_TICKS

    def obey(self, to: MemberId) -> None:
        """Cede to a master."""
        own = self._standing
        if own.member is not None and not self._is_led:
            self._carry_out(own.member.cede(to))

    def bars(self, sender: EndpointId, content: object) -> bool:
        """Tell whether a word is of a leader that is not heard now.

        A master hears the clone alone that cedes to it; a clone hears no leader that did not take
        the lead by force since it said what it holds, unless that is the master which asked.
        """
        if not isinstance(content, LeaderMessage):
            return False
        if self._source is not None:
            return sender != self._source.endpoint
        if self._promise_ticks <= 0 or sender == self._promised:
            return False
        return not is_forced(content.term, self._promised_term)

    # -- time, and who is gone -------------------------------------------------------------------

    def tick(self) -> None:
        """Let a tick pass: what has no answer is said again, or given up."""
        self._promise_ticks -= 1
        is_alone = self._standing.group is not None and self._standing.leader is None
        self._stranded_ticks = self._stranded_ticks + 1 if is_alone else 0
        self._ticks += 1
        if self._claim is not None:
            self._claim.tick()
            if self._ticks % REPEAT_TICKS == 0:
                self._ask()
            self._look()
        elif self._source is not None:
            if self._standing.is_leader:
                self._source = None
                return
            if self._has_master:
                self._refuse()
                return
            if self._ticks % REPEAT_TICKS == 0:
                self._wish()
            if self._ticks >= SOURCE_TICKS and self._standing.leader is None:
                self._give_up(self._source.endpoint)

    @property
    def _has_master(self) -> bool:
        """True if the clone that was to cede was promoted meanwhile, and is the voter by itself."""
        own = self._standing
        is_other = own.leader is not None and own.leader != own.own
        return is_other and own.leader in own.voters and not own.missing_count

    def _refuse(self) -> None:
        own = self._standing
        assert own.leader is not None, "it leads"
        where = own.roster.endpoint_of(own.leader)
        self._source = None
        text = f"a clone was promoted meanwhile, at endpoint {where}: attach a clone here"
        self._adopter.refuse(ErrorCode.MASTER_EXISTS, text)

    def lose(self, endpoint: EndpointId) -> None:
        """Learn that an endpoint is gone."""
        self._known.discard(endpoint)
        if self._claim is not None:
            self._claim.lose(endpoint)
            self._look()
        elif self._source is not None and self._source.endpoint == endpoint:
            self._give_up(endpoint)

    def _give_up(self, endpoint: EndpointId) -> None:
        """Ask the others again: the clone that was to cede does not answer."""
        self._known.discard(endpoint)
        if not self._standing.is_leader:
            self.begin((), self._standing.member)
