"""A group's store without a copy: reads ask the nearest replica, writes go to the leader. Pure.

A proxy is no member: it votes for nothing, and no member counts on it. It follows leaders by the
table that all readers follow theirs by: the highest term wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stores.asking import Questions
from stores.effects import (
    Closed,
    Effect,
    IdleReached,
    ReadAnswered,
    Resolve,
)
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
from stores.outcomes import Applied, Outcome
from stores.questions import Question, ReadAnswerCommand, ReadRefusedCommand
from stores.replica.outlook import NOTHING_SEEN, Outlook, new_seeker
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
from stores.table.bodies import Found, Read, Stamp
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


class GroupProxy(Outlook):
    """Asks, and waits for answers.

    What it reads never goes back: each question names the state that was seen last, and a replica
    that is not so far is no use. Receipts count as seen.
    """

    def __init__(
        self, entity: EntityId, codec: GroupCodec, incarnation: int, buffer_ticks: int
    ) -> None:
        """Start without a leader; call ``start`` next.

        No earlier proxy of this endpoint may have had the ``incarnation``: a clock in nanoseconds
        will do. Mutations that find no leader for ``buffer_ticks`` fail.
        """
        super().__init__(entity, codec, incarnation)
        self._buffer_ticks = buffer_ticks
        self._questions = Questions(self._send_question, self._on_found)
        self._first_ticket = 2 * (incarnation >> 1)
        """Tickets begin here: a late answer to an earlier proxy of this endpoint answers none."""
        self._waiters: dict[int, _Waiter] = {}
        self._replicas: frozenset[EndpointId] = frozenset()
        self._strangers: set[EndpointId] = set()
        """Those of them that are known to be of another group."""
        self._tick = self._silent_ticks = self._leaderless_ticks = 0
        self._is_closed = False

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<GroupProxy {self.entity} asked={len(self._questions)} seen={self._seen}"
            f" unanswered={len(self._outbox)} {self._seeker!r}>"
        )

    # -- inputs ----------------------------------------------------------------------------------

    def start(self) -> list[Effect]:
        """Search for a leader."""
        self._seek()
        return self._take_effects()

    def survey(self, replicas: Sequence[EndpointId]) -> list[Effect]:
        """Learn which replicas can be reached, the nearest first."""
        self._replicas = frozenset(replicas)
        self._strangers &= self._replicas
        self._questions.survey(replicas)
        return self._take_effects()

    def receive(self, sender: EndpointId, payload: bytes, now_ns: int) -> list[Effect]:
        """Take in a letter from the proxies' topic; raises ``DecodeError`` for a bad one."""
        letter = self.read(payload)
        if not self._is_closed and letter.sender != OUTSIDE:
            if isinstance(letter.content, Leads):
                self._on_leads(sender, letter, letter.content, now_ns)
            elif self._is_ours(letter):
                self._silent_ticks = 0
                self._on_content(sender, letter.content, now_ns)
            self._check_idle()
        return self._take_effects()

    def flush(self, now_ns: int) -> list[Effect]:
        """Send what was asked since the last flush: once per turn of the loop."""
        if not self._is_closed:
            self._pump()
        return self._take_effects()

    def tick(self, now_ns: int) -> list[Effect]:
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
        self._questions.tick()
        return self._take_effects()

    def peer_unreachable(self, endpoint: EndpointId) -> list[Effect]:
        """Take note that there is no path to an endpoint any more."""
        self._carry_out(self._seeker.unreachable(endpoint))
        return self._take_effects()

    def endpoint_discovered(self, endpoint: EndpointId) -> list[Effect]:
        """Take note that there is a path to an endpoint: the leader may be there."""
        if not self._is_closed:
            self._carry_out(self._seeker.discovered())
        return self._take_effects()

    def ask(self, question: Question, *, is_for_master: bool) -> list[Effect]:
        """Ask the nearest replica, or the leader; ``ReadAnswered`` brings what came of it."""
        self._questions.ask(question, is_for_master=is_for_master)
        return self._take_effects()

    def cancel(self, number: int) -> None:
        """Ask no longer."""
        self._questions.cancel(number)

    def explain(self, number: int) -> str:
        """Say why a question has no answer yet."""
        return self._questions.explain(number)

    def close(self) -> list[Effect]:
        """Refuse requests without an outcome, as none will come."""
        if not self._is_closed:
            text = "the store's proxy closed"
            self._resolve(self._outbox.give_up(ErrorCode.SHUTTING_DOWN, text))
            self._is_closed = True
            self._effects.append(Closed(ErrorCode.SHUTTING_DOWN, text))
        return self._take_effects()

    # -- idleness --------------------------------------------------------------------------------

    def begin_idle(self, token: int) -> list[Effect]:
        """Wait until all that was asked for has its outcome, and a leader has answered since."""
        self.requests.seal()
        self._seek()
        self._waiters[token] = _Waiter(self.requests.last_request, self._sought)
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

    def _on_leads(self, sender: EndpointId, letter: Letter, leads: Leads, now_ns: int) -> None:
        if letter.group != self.group:
            self._strangers |= {sender} & self._replicas
            if not self._may_move():
                return
            self._move_to(letter.group)
        self._strangers.discard(sender)
        self._silent_ticks = 0
        leader = LeaderId(leads.term, EntityId(sender, 0))
        self._carry_out(self._seeker.hear(leader, now_ns, offers=True))
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
            self._seen = NOTHING_SEEN
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
                    self._questions.master = leader.entity.endpoint
                case Drop() | Refuse() | Depose():
                    pass  # nothing was loaded, and members see to their leaders themselves
                case _:
                    self._effects.append(effect)

    # -- answers ---------------------------------------------------------------------------------

    def _on_content(self, sender: EndpointId, content: Message | Word, now_ns: int) -> None:
        is_leader = sender == self.leader
        match content:
            case Answered(ticket, Found() | ReadRefusedCommand() as answer):
                self._on_answer(sender, self._number_of(ticket), answer)
            case Answered(ticket, answer):
                if is_leader and self._seeker.leader is not None:
                    self._carry_out(self._seeker.hear(self._seeker.leader, now_ns))
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

    def _on_answer(
        self, sender: EndpointId, number: int | None, answer: Found | ReadRefusedCommand
    ) -> None:
        if number is None:
            return
        if isinstance(answer, ReadRefusedCommand):
            self._questions.refuse(sender, replace(answer, number=number))
        elif self._questions.expects(sender, number):
            self._seen = max(self._seen, answer.stamp)
            found = replace(answer.answer, number=number)
            self._questions.answer(sender, found, answer.stamp.revision)

    def _on_declined(self, sender: EndpointId, ticket: int, setback: Setback) -> None:
        number = self._number_of(ticket)
        if number is None:
            self._outbox.declined(self._outbox_ticket(ticket))
        else:
            refusal = ReadRefusedCommand(number, is_stale=False, text=setback.value)
            self._questions.refuse(sender, refusal)

    def _on_barred(self, sender: EndpointId, ticket: int, text: str) -> None:
        """Learn that a right is missing: no other replica has another answer."""
        number = self._number_of(ticket)
        if number is not None:
            refusal = ReadRefusedCommand(number, is_stale=False, text=text, is_denied=True)
            self._questions.refuse(sender, refusal)
        elif self._outbox.awaits(self._outbox_ticket(ticket)):
            self._resolve(self._outbox.give_up(ErrorCode.NOT_AUTHORIZED, text))

    def _on_found(self, answer: ReadAnswerCommand | ReadRefusedCommand, revision: int) -> None:
        self._effects.append(ReadAnswered(answer.number, answer, revision))

    def _on_outcomes(self, ticket: int, answer: object, *, is_seen: bool) -> None:
        outcomes = self._outbox.answered(self._outbox_ticket(ticket), answer)
        leader = self._seeker.leader
        if is_seen and leader is not None:
            for outcome in outcomes:
                self._see(leader.epoch, outcome)
        self._resolve(outcomes)
        self._pump()

    def _see(self, term: int, outcome: Outcome) -> None:
        if isinstance(outcome.result, Applied):
            count = outcome.last_request - outcome.first_request
            self._seen = max(self._seen, Stamp(term, outcome.result.revision + count))

    # -- questions and requests ------------------------------------------------------------------

    def _send_question(self, replica: EndpointId, question: Question) -> None:
        is_linear = self._questions.is_for_master(question.number)
        ticket = self._first_ticket + 2 * question.number + 1
        self._say(replica, Ask(ticket, Read(self._seen, is_linear, question)))

    def _pump(self) -> None:
        """Send the leader what has room under way."""
        leader = self.leader
        if leader is None or not self._seeker.is_in_touch:
            self.requests.seal()
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
        self.requests.seal()
        waited = min(self._outbox.silent_ticks, self._leaderless_ticks)
        if len(self._outbox) and waited >= self._buffer_ticks:
            text = f"no master answered for {self._buffer_ticks / 10:g} s, ask again"
            self._resolve(self._outbox.give_up(ErrorCode.NO_SUCH_MASTER, text))

    def _resolve(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._resolved_request = outcome.last_request
            self._effects.append(Resolve(outcome))
