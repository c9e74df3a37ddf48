"""A group's store or log without a copy: writes go to the leader, questions to who answers. Pure.

A proxy is no member: it votes for nothing, and no member counts on it. It follows leaders by the
table that all readers follow theirs by: the highest term wins. What it can ask, and of whom, comes
from who inherits: ``stores.replica.tables`` for stores, ``stores.replica.logs`` for logs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from stores.effects import Closed, IdleReached, MasterFound, Resolve
from stores.group.codec import GroupCodec
from stores.group.effects import Setback
from stores.group.messages import Message
from stores.group.words import (
    OUTSIDE,
    Answered,
    Ask,
    Barred,
    Declined,
    Farewell,
    Leads,
    Letter,
    Word,
)
from stores.outcomes import Outcome
from stores.replica.effects import ReplicaEffect
from stores.replica.outlook import OutboxT, Outlook, new_seeker
from stores.replica.roster import SILENT_TICKS
from stores.seeker import (
    HEARTBEAT_TICKS,
    Depose,
    Drop,
    Follow,
    LeaderId,
    Refuse,
    Search,
    SeekerEffect,
)
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

_DEPOSED: Final = (Setback.NOT_LEADER, Setback.UNKNOWN)
"""What a leader says that leads no more."""


@dataclass(slots=True)
class _Waiter:
    """A caller that waits for idleness."""

    request: int
    """Everything up to it that was asked for has to have an outcome."""
    number: int
    """A leader has to have answered this question, or a later one; zero once it has."""


class GroupProxy(Outlook[OutboxT]):
    """Asks, and waits for answers."""

    def __init__(
        self, outbox: OutboxT, codec: GroupCodec, incarnation: int, buffer_ticks: int
    ) -> None:
        """Start without a leader; call ``start`` next.

        No earlier proxy of this endpoint may have had the ``incarnation``: a clock in nanoseconds
        will do. Requests that find no leader for ``buffer_ticks`` fail.
        """
        super().__init__(outbox, codec, incarnation)
        self._buffer_ticks = buffer_ticks
        self._first_ticket = 2 * (incarnation >> 1)
        """Tickets begin here: a late answer to an earlier proxy of this endpoint answers none."""
        self._waiters: dict[int, _Waiter] = {}
        self._replicas: frozenset[EndpointId] = frozenset()
        self._strangers: set[EndpointId] = set()
        """Those of them that are known to be of another group."""
        self._tick = self._silent_ticks = self._leaderless_ticks = 0
        self._is_closed = False

    @property
    def trouble(self) -> str | None:
        """Why no leader serves this proxy, in a sentence; ``None`` while one does."""
        if self._seeker.is_in_touch:
            return None
        if self._replicas <= self._strangers:
            return "no replica is heard"
        return "replicas are heard, and none that leads"

    # -- inputs ----------------------------------------------------------------------------------

    def start(self) -> list[ReplicaEffect]:
        """Search for a leader."""
        self._seek()
        return self._take_effects()

    def survey(self, replicas: Sequence[EndpointId]) -> list[ReplicaEffect]:
        """Learn which replicas can be reached, the nearest first."""
        self._replicas = frozenset(replicas)
        self._strangers &= self._replicas
        self._on_survey(replicas)
        return self._take_effects()

    def receive(self, sender: EndpointId, payload: bytes) -> list[ReplicaEffect]:
        """Take in a letter from the proxies' topic; raises ``DecodeError`` for a bad one."""
        letter = self.read(payload)
        if not self._is_closed and letter.sender != OUTSIDE:
            if isinstance(letter.content, Leads):
                self._on_leads(sender, letter, letter.content)
            elif self._is_ours(letter):
                self._silent_ticks = 0
                self._on_content(sender, letter.content)
            self._check_idle()
        return self._take_effects()

    def flush(self) -> list[ReplicaEffect]:
        """Send what was asked since the last flush: once per turn of the loop."""
        if not self._is_closed:
            self._pump()
        return self._take_effects()

    def tick(self, now_ns: int) -> list[ReplicaEffect]:
        """Let one tick (100 ms) pass."""
        if self._is_closed:
            return []
        self._tick += 1
        self._silent_ticks += 1
        self._outbox.tick()
        self._carry_out(self._seeker.tick())
        if not self._seeker.is_in_touch:
            self._leaderless_ticks += 1
            self._give_up_waiting()
        else:
            self._leaderless_ticks = 0
            if self._tick % HEARTBEAT_TICKS == 0:
                self._seek()
        self._pump()
        self._tick_questions()
        return self._take_effects()

    def peer_unreachable(self, endpoint: EndpointId) -> list[ReplicaEffect]:
        """Take note that there is no path to an endpoint any more."""
        self._carry_out(self._seeker.unreachable(endpoint))
        return self._take_effects()

    def endpoint_discovered(self, endpoint: EndpointId) -> list[ReplicaEffect]:
        """Take note that there is a path to an endpoint: the leader may be there."""
        if not self._is_closed:
            self._carry_out(self._seeker.discovered())
        return self._take_effects()

    def close(self, text: str) -> list[ReplicaEffect]:
        """Refuse requests without an outcome, as none will come; ``text`` says what is closed."""
        if not self._is_closed:
            self._resolve(self._outbox.give_up(ErrorCode.SHUTTING_DOWN, text))
            self._is_closed = True
            self._effects.append(Closed(ErrorCode.SHUTTING_DOWN, text))
        return self._take_effects()

    # -- idleness --------------------------------------------------------------------------------

    def begin_idle(self, token: int) -> list[ReplicaEffect]:
        """Wait until all that was asked for has its outcome, and a leader has answered since."""
        self._outbox.seal()
        self._seek()
        self._waiters[token] = _Waiter(self._outbox.last_request, self._sought)
        return self._take_effects()

    def cancel_idle(self, token: int) -> None:
        """Stop waiting."""
        self._waiters.pop(token, None)

    def _check_idle(self) -> None:
        if not self._seeker.is_in_touch:
            return
        for token, waiter in list(self._waiters.items()):
            if not waiter.number and waiter.request <= self._resolved_request:
                del self._waiters[token]
                self._effects.append(IdleReached(token))

    # -- who leads -------------------------------------------------------------------------------

    def _on_leads(self, sender: EndpointId, letter: Letter, leads: Leads) -> None:
        if letter.group != self.group:
            self._strangers |= {sender} & self._replicas
            if not self._may_move():
                return
            self._move_to(letter.group)
        self._strangers.discard(sender)
        self._silent_ticks = 0
        leader = LeaderId(leads.term, EntityId(sender, 0))
        self._carry_out(self._seeker.hear(leader, offers=True))
        if self._seeker.follows(leader):
            for waiter in self._waiters.values():
                if leads.number >= waiter.number:
                    waiter.number = 0

    def _is_ours(self, letter: Letter) -> bool:
        """Tell whether a letter is of the group that is followed; the first one that answers is."""
        if self.group is None and isinstance(letter.content, Answered):
            self._move_to(letter.group)
        return letter.group == self.group or isinstance(letter.content, Barred)

    def _may_move(self) -> bool:
        """Tell whether to follow a leader of another group: no one of this group is there.

        A master in memory that was restarted founds another one.
        """
        if self.group is None:
            return True
        is_gone = self._silent_ticks >= SILENT_TICKS or self._replicas <= self._strangers
        return is_gone and not self._seeker.is_in_touch

    def _move_to(self, group: bytes | None) -> None:
        if self.group is not None:
            self._outbox.register_anew()
            self._forget_seen()
            self._seeker = new_seeker()
        self.group = group

    def _carry_out(self, effects: Iterable[SeekerEffect]) -> None:
        """Do what the seeker decided: what it tells the user goes on to the driver."""
        for effect in effects:
            match effect:
                case Search():
                    self._seek()
                case Follow(leader, former):
                    if leader != former:
                        self._outbox.rewind()
                    self._outbox.resume()
                    self._on_leader(leader.entity.endpoint)
                case MasterFound():
                    self._effects.append(effect)
                    self._on_touch()
                case Drop() | Refuse() | Depose():
                    pass  # nothing was loaded, and members see to their leaders themselves
                case _:
                    self._effects.append(effect)

    # -- answers ---------------------------------------------------------------------------------

    def _on_content(self, sender: EndpointId, content: Message | Word) -> None:
        is_leader = sender == self.leader
        match content:
            case Answered(ticket, answer) if (number := self._number_of(ticket)) is not None:
                self._on_answer(sender, number, answer)
            case Answered(ticket, answer):
                if is_leader and self._seeker.leader is not None:
                    self._carry_out(self._seeker.hear(self._seeker.leader))
                self._on_outcomes(ticket, answer, is_seen=is_leader)
            case Declined(ticket, setback):
                self._on_declined(sender, ticket, setback)
                if is_leader and setback in _DEPOSED:
                    self._carry_out(self._seeker.let_go(setback.value))
            case Barred(ticket=int() as ticket, text=text):
                self._on_barred(sender, ticket, text)
            case Farewell() if is_leader:
                self._carry_out(self._seeker.let_go("it leads no more"))
            case _:
                pass

    def _on_declined(self, sender: EndpointId, ticket: int, setback: Setback) -> None:
        number = self._number_of(ticket)
        if number is None:
            self._outbox.declined(self._outbox_ticket(ticket))
        else:
            self._on_refusal(sender, number, setback.value)

    def _on_barred(self, sender: EndpointId, ticket: int, text: str) -> None:
        """Learn that a right is missing: no other replica has another answer."""
        number = self._number_of(ticket)
        if number is not None:
            self._on_denial(sender, number, text)
        elif self._outbox.awaits(self._outbox_ticket(ticket)):
            self._resolve(self._outbox.give_up(ErrorCode.NOT_AUTHORIZED, text))

    def _on_outcomes(self, ticket: int, answer: object, *, is_seen: bool) -> None:
        outcomes = self._outbox.answered(self._outbox_ticket(ticket), answer)
        leader = self._seeker.leader
        if is_seen and leader is not None:
            for outcome in outcomes:
                self._see(leader.epoch, outcome)
        self._resolve(outcomes)
        self._pump()

    # -- questions and requests ------------------------------------------------------------------

    def _ask(self, replica: EndpointId, number: int, request: object) -> None:
        """Send a question, to which the answer comes under its number."""
        self._say(replica, Ask(self._first_ticket + 2 * number + 1, request))

    def _pump(self) -> None:
        """Send the leader what has room under way."""
        leader = self.leader
        if leader is None or not self._seeker.is_in_touch:
            self._outbox.seal()
            return
        asked: list[tuple[int, object]] = []
        self._outbox.pump(lambda *each: asked.append(each), is_local=False)
        for ticket, request in asked:
            self._say(leader, Ask(self._first_ticket + 2 * ticket, request))

    def _number_of(self, ticket: int) -> int | None:
        """Give the number of the question that a ticket is of; ``None`` if it is a request's."""
        number, is_question = divmod(ticket - self._first_ticket, 2)
        return number if is_question else None

    def _outbox_ticket(self, ticket: int) -> int:
        return (ticket - self._first_ticket) // 2

    def _give_up_waiting(self) -> None:
        self._outbox.seal()
        waited = min(self._outbox.silent_ticks, self._leaderless_ticks)
        if len(self._outbox) and waited >= self._buffer_ticks:
            words = self._outbox.words
            text = f"no {words.leader} answered for {self._buffer_ticks / 10:g} s, ask again"
            self._resolve(self._outbox.give_up(words.unreachable, text))

    def _resolve(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._resolved_request = outcome.last_request
            self._effects.append(Resolve(outcome))

    # -- the machine's own -----------------------------------------------------------------------

    def _on_survey(self, replicas: Sequence[EndpointId]) -> None:
        """Learn which replicas can be asked, the nearest first."""

    def _on_leader(self, endpoint: EndpointId) -> None:
        """Learn where the leader is that is followed from now on."""

    def _on_touch(self) -> None:
        """Learn that a leader is found, or the last one found again."""

    @abstractmethod
    def _on_answer(self, sender: EndpointId, number: int, answer: object) -> None:
        """Take in what came to a question."""

    @abstractmethod
    def _on_refusal(self, sender: EndpointId, number: int, text: str) -> None:
        """Learn that a replica has no answer to a question."""

    @abstractmethod
    def _on_denial(self, sender: EndpointId, number: int, text: str) -> None:
        """Learn that a question takes a right that is missing here."""

    @abstractmethod
    def _tick_questions(self) -> None:
        """Let a tick pass: ask again what has no answer."""

    def _see(self, term: int, outcome: Outcome) -> None:
        """Count what a request came to as seen: no later read may give an earlier state."""

    def _forget_seen(self) -> None:
        """Count nothing as seen: another group has another history."""
