"""A store without a copy: reads ask the nearest replica, writes go to the master."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stores import commands
from stores.actions import Action, WriterId
from stores.asking import KnownReplica, Questions
from stores.commands import (
    Content,
    InternalCommand,
    OutcomesCommand,
    Question,
    ReadAnswerCommand,
    ReadRefusedCommand,
)
from stores.effects import (
    Closed,
    Effect,
    IdleReached,
    Multicast,
    ReadAnswered,
    ToClone,
    Unicast,
)
from stores.encoding import decode_command, encode_command
from stores.outcomes import Applied, Outcome
from stores.requests import Requests
from stores.seeker import (
    HEARTBEAT_TICKS,
    Depose,
    Drop,
    Follow,
    LeaderId,
    Refuse,
    Search,
    Seeker,
    SeekerEffect,
)
from stores.statistics import StoreStatistics
from stores.work import WithoutWork
from stores.writing import Writing
from wire.errors import DecodeError, ErrorCode, StoreClosed
from wire.identifiers import EndpointId, EntityId


@dataclass(slots=True)
class _Waiter:
    """A caller that waits for idleness."""

    request: int
    """Everything up to it that was asked for has to have an outcome."""
    number: int
    """The master has to have answered this greeting, or a later one."""


class Proxy(WithoutWork):
    """Asks, and waits for answers. The rules of effects are those of ``Clone``.

    What it reads never goes back: each question names the state that was seen last, and a replica
    that is not so far is no use. Receipts count as seen.
    """

    def __init__(self, entity: EntityId, incarnation: int, buffer_ticks: int) -> None:
        """Start without a replica; call ``start`` next.

        No earlier proxy of this entity may have had the ``incarnation``: a clock in nanoseconds
        will do. Mutations that find no master for ``buffer_ticks`` fail.
        """
        self.entity = entity
        self._effects: list[Effect] = []
        self._writer = WriterId.of(entity, incarnation)
        self._buffer_ticks = buffer_ticks
        self._seeker = Seeker(has_copy=False)
        self._seen = (0, 0)  # epoch and revision
        self._tick = 0
        self._number = 0
        self._waiters: dict[int, _Waiter] = {}
        self._is_closed = False
        self._writing = Writing(self._writer, self._effects, incarnation=incarnation)
        self._questions = Questions(self._send_question, self._on_answered)
        self.requests = Requests(self._writer, self._on_request)
        """What the local handle asks for. Call ``flush`` afterwards, once for many requests."""

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<Proxy {self.entity} asked={len(self._questions)} seen={self._seen}"
            f" unanswered={self._writing.pending_count} {self._seeker!r}>"
        )

    size = 0
    """Bytes of what it holds, which is nothing."""

    def statistics(self) -> StoreStatistics:
        """Give a snapshot of counts; changes nothing."""
        return StoreStatistics(
            "proxy",
            self._seeker.known_epoch,
            0,
            self._seen[1],
            is_in_touch=self._seeker.is_in_touch,
            unanswered=self._writing.pending_count,
        )

    # -- inputs ----------------------------------------------------------------------------------

    def start(self) -> list[Effect]:
        """Search for a master."""
        self._greet()
        return self._take_effects()

    def survey(self, replicas: Sequence[KnownReplica]) -> list[Effect]:
        """Learn which replicas can be reached, the nearest first."""
        self._questions.survey(replicas)
        return self._take_effects()

    def receive(self, sender: EndpointId, payload: bytes, now_ns: int) -> list[Effect]:
        """Take in a command from the proxies' topic; raises ``DecodeError`` for a bad one."""
        command = decode_command(payload)
        if command.sender.endpoint != sender:
            raise DecodeError(f"{sender} sent a store command in the name of {command.sender}")
        if not self._is_closed:
            self._dispatch(command, now_ns)
            self._check_idle()
        return self._take_effects()

    def flush(self, now_ns: int) -> list[Effect]:
        """Send what was asked since the last flush: once per turn of the loop."""
        if not self._is_closed:
            self.requests.seal()
            if self._seeker.leader is not None and self._seeker.is_in_touch:
                self._writing.flush(self._seeker.leader.entity)
        return self._take_effects()

    def tick(self, now_ns: int) -> list[Effect]:
        """Let one tick (100 ms) pass."""
        if self._is_closed:
            return []
        self._tick += 1
        self._writing.tick()
        self._carry_out(self._seeker.tick())
        if self._seeker.is_in_touch:
            if self._tick % HEARTBEAT_TICKS == 0:
                self._greet()
        else:
            self.requests.seal()
            self._writing.give_up(self._buffer_ticks)
        self._questions.tick()
        return self._take_effects()

    def peer_unreachable(self, endpoint: EndpointId) -> list[Effect]:
        """Take note that there is no path to an endpoint any more."""
        self._carry_out(self._seeker.unreachable(endpoint))
        return self._take_effects()

    def endpoint_discovered(self, endpoint: EndpointId) -> list[Effect]:
        """Take note that there is a path to an endpoint: the master may be there."""
        if not self._is_closed:
            self._carry_out(self._seeker.discovered())
        return self._take_effects()

    def ask(self, question: Question, *, is_for_master: bool) -> list[Effect]:
        """Ask the nearest replica, or the master; ``ReadAnswered`` brings what came of it."""
        self._questions.ask(question, is_for_master=is_for_master)
        return self._take_effects()

    def cancel(self, number: int) -> None:
        """Ask no longer."""
        self._questions.cancel(number)

    def explain(self, number: int) -> str:
        """Say why a question has no answer yet."""
        return self._questions.explain(number)

    def close(self) -> list[Effect]:
        """Say goodbye; requests without an outcome are refused, as none will come."""
        if not self._is_closed:
            self.requests.seal()
            self._is_closed = True
            self._send_to_master(commands.DetachCommand())
            text = "the proxy closed: whether it was applied is unknown"
            self._writing.refuse_all(ErrorCode.SHUTTING_DOWN, text)
            self._effects.append(Closed(ErrorCode.SHUTTING_DOWN, "the store's proxy closed"))
        return self._take_effects()

    # -- idleness --------------------------------------------------------------------------------

    def begin_idle(self, token: int) -> list[Effect]:
        """Wait until all that was asked for has its outcome, and the master has answered since."""
        self.requests.seal()
        self._greet()
        self._waiters[token] = _Waiter(self.requests.last_request, self._number)
        return self._take_effects()

    def cancel_idle(self, token: int) -> None:
        """Stop waiting."""
        self._waiters.pop(token, None)

    def explain_idle(self) -> str:
        """Say what is missing for the store to be idle; empty if nothing is known to be."""
        missing = [] if self._seeker.is_in_touch else ["no master answers"]
        if count := self.requests.last_request - self._writing.resolved_request:
            missing.append(f"{count} writes have no answer from the master")
        return "; ".join(missing)

    def has_room(self) -> bool:
        """Tell whether the local handle may ask for more; otherwise wait for a ``Resolve``."""
        return self._writing.has_room

    def is_stale(self, now_ns: int) -> bool:
        """Give false: it has nothing that could be old."""
        return False

    # -- steps -----------------------------------------------------------------------------------

    def _dispatch(self, command: InternalCommand, now_ns: int) -> None:
        sender, content, epoch = command.sender, command.content, command.epoch
        match content:
            case ReadAnswerCommand() if epoch is not None:
                if self._questions.expects(sender.endpoint, content.number):
                    self._seen = max(self._seen, (epoch, command.sequence))
                    self._questions.answer(sender.endpoint, content, command.sequence)
            case ReadRefusedCommand():
                self._questions.refuse(sender.endpoint, content)
            case commands.NotAllowedCommand() if not content.is_reading:
                self._writing.deny(content.text)
            case OutcomesCommand() if epoch is not None:
                self._on_outcomes(LeaderId(epoch, sender), content, now_ns)
            case commands.MasterClosedCommand() if epoch is not None:
                if self._seeker.follows(LeaderId(epoch, sender)):
                    self._carry_out(self._seeker.let_go(f"it closed: {content.text}"))
            case _:
                if (message := commands.consumer_message(command)) is not None:
                    self._writing.receive(sender, message)

    def _carry_out(self, effects: Iterable[SeekerEffect]) -> None:
        """Do what the seeker decided: what it tells the user goes on to the driver."""
        for effect in effects:
            match effect:
                case Search():
                    self._greet()
                case Follow(leader, former):
                    if leader != former:
                        self._writing.hang_up()
                    self._questions.master = leader.entity.endpoint
                case Depose(leader):
                    self._greet_at(leader)
                case Drop() | Refuse():
                    pass  # nothing was loaded, and a master does not wait for proxies
                case _:
                    self._effects.append(effect)

    def _on_outcomes(self, master: LeaderId, answer: OutcomesCommand, now_ns: int) -> None:
        self._carry_out(self._seeker.hear(master, now_ns, offers=True))
        if not self._seeker.follows(master):
            return
        if answer.after > self._writing.resolved_request:
            self._greet()  # answers got lost: the next brings all of them
            return
        for outcome in answer.outcomes:
            self._see(master.epoch, outcome)
        self._writing.catch_up(answer.request, answer.outcomes)
        self._writing.resume(master.entity)
        for waiter in self._waiters.values():
            if answer.number >= waiter.number:
                waiter.number = 0

    def _see(self, epoch: int, outcome: Outcome) -> None:
        if isinstance(outcome.result, Applied):
            count = outcome.last_request - outcome.first_request
            self._seen = max(self._seen, (epoch, outcome.result.revision + count))

    def _greet(self) -> None:
        leader = self._seeker.leader
        if leader is None or not self._seeker.is_in_touch:
            self._effects.append(Multicast(self._command(self._greeting())))
        else:
            self._greet_at(leader)

    def _greet_at(self, master: LeaderId) -> None:
        self._effects.append(Unicast(master.entity.endpoint, self._command(self._greeting())))

    def _greeting(self) -> commands.GreetingCommand:
        self._number += 1
        return commands.GreetingCommand(self._number, self._writer, self._writing.resolved_request)

    def _send_to_master(self, content: Content) -> None:
        if self._seeker.leader is not None:
            to = self._seeker.leader.entity.endpoint
            self._effects.append(Unicast(to, self._command(content)))

    def _send_question(self, replica: KnownReplica, question: Question) -> None:
        epoch, revision = self._seen
        topic = Unicast if replica.is_master else ToClone
        self._effects.append(topic(replica.endpoint, self._command(question, epoch, revision)))

    def _command(self, content: Content, epoch: int | None = None, sequence: int = 0) -> bytes:
        known = self._seeker.known_epoch if epoch is None else epoch
        return encode_command(InternalCommand(sequence, self.entity, None, known, content))

    def _on_answered(self, answer: ReadAnswerCommand | ReadRefusedCommand, revision: int) -> None:
        self._effects.append(ReadAnswered(answer.number, answer, revision))

    def _on_request(self, action: Action) -> None:
        if self._is_closed:
            raise StoreClosed("the store is closed: attach it again")
        self._writing.add(action)

    def _check_idle(self) -> None:
        if not self._seeker.is_in_touch:
            return
        for token, waiter in list(self._waiters.items()):
            if waiter.number == 0 and waiter.request <= self._writing.resolved_request:
                del self._waiters[token]
                self._effects.append(IdleReached(token))

    def _take_effects(self) -> list[Effect]:
        effects = self._effects[:]
        self._effects.clear()
        return effects
