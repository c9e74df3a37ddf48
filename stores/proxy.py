"""A store without a copy: reads ask the nearest replica, writes go to the master."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
    MasterFound,
    MasterLost,
    Multicast,
    ReadAnswered,
    SecondMaster,
    ToClone,
    Unicast,
)
from stores.encoding import decode_command, encode_command
from stores.epochs import term_of
from stores.following import RIVALS_MAX, SEARCH_INTERVAL_TICKS, SILENCE_TICKS, MasterId
from stores.outcomes import Applied, Outcome
from stores.requests import Requests
from stores.statistics import StoreStatistics
from stores.work import WithoutWork
from stores.writing import Writing
from wire.errors import DecodeError, ErrorCode, StoreClosed
from wire.identifiers import EndpointId, EntityId

GREETING_TICKS: Final = 5
"""Ticks between two greetings to a master that is known: the heartbeat of stores."""


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
        self._master: MasterId | None = None
        self._is_lost = True
        self._known_epoch = 0
        self._seen = (0, 0)  # epoch and revision
        self._tick = 0
        self._silent_ticks = 0
        self._number = 0
        self._rivals: set[MasterId] = set()
        self._waiters: dict[int, _Waiter] = {}
        self._is_closed = False
        self._writing = Writing(self._writer, self._effects, incarnation=incarnation)
        self._questions = Questions(self._send_question, self._on_answered)
        self.requests = Requests(self._writer, self._on_request)
        """What the local handle asks for. Call ``flush`` afterwards, once for many requests."""

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        lost = " (lost)" if self._is_lost else ""
        return (
            f"<Proxy {self.entity} asked={len(self._questions)} seen={self._seen}"
            f" unanswered={self._writing.pending_count} {self._master}{lost}>"
        )

    size = 0
    """Bytes of what it holds, which is nothing."""

    def statistics(self) -> StoreStatistics:
        """Give a snapshot of counts; changes nothing."""
        return StoreStatistics(
            "proxy",
            self._known_epoch,
            0,
            self._seen[1],
            is_in_touch=self._master is not None and not self._is_lost,
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
            self._dispatch(command)
            self._check_idle()
        return self._take_effects()

    def flush(self, now_ns: int) -> list[Effect]:
        """Send what was asked since the last flush: once per turn of the loop."""
        if not self._is_closed:
            self.requests.seal()
            if self._master is not None and not self._is_lost:
                self._writing.flush(self._master.entity)
        return self._take_effects()

    def tick(self, now_ns: int) -> list[Effect]:
        """Let one tick (100 ms) pass."""
        if self._is_closed:
            return []
        self._tick += 1
        self._silent_ticks += 1
        self._writing.tick()
        if not self._is_lost and self._silent_ticks >= SILENCE_TICKS:
            self._lose(f"silent for {self._silent_ticks} ticks")
        if self._tick % (SEARCH_INTERVAL_TICKS if self._is_lost else GREETING_TICKS) == 0:
            self._greet()
        if self._is_lost:
            self.requests.seal()
            self._writing.give_up(self._buffer_ticks)
        self._questions.tick()
        return self._take_effects()

    def peer_unreachable(self, endpoint: EndpointId) -> list[Effect]:
        """Take note that there is no path to an endpoint any more."""
        if self._master is not None and self._master.entity.endpoint == endpoint:
            self._lose("its endpoint is unreachable")
        return self._take_effects()

    def endpoint_discovered(self, endpoint: EndpointId) -> list[Effect]:
        """Take note that there is a path to an endpoint: the master may be there."""
        if not self._is_closed and self._is_lost:
            self._greet()
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
        missing = ["no master answers"] if self._is_lost else []
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

    def _dispatch(self, command: InternalCommand) -> None:
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
                self._on_outcomes(MasterId(epoch, sender), content)
            case commands.MasterClosedCommand() if self._master == MasterId(epoch or 0, sender):
                self._lose(f"it closed: {content.text}")
                self._greet()
            case _:
                if (message := commands.consumer_message(command)) is not None:
                    self._writing.receive(sender, message)

    def _on_outcomes(self, master: MasterId, answer: OutcomesCommand) -> None:
        if master != self._master and not self._follows_now(master):
            return
        was_lost, self._is_lost = self._is_lost, False
        if master != self._master:
            self._writing.hang_up()
            self._master = master
            self._known_epoch = max(self._known_epoch, master.epoch)
            was_lost = True
        self._silent_ticks = 0
        self._questions.master = master.entity.endpoint
        if was_lost:
            self._effects.append(MasterFound(master.entity, master.epoch))
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

    def _follows_now(self, other: MasterId) -> bool:
        """Decide between two masters as a clone does."""
        if term_of(other.epoch) < term_of(self._known_epoch):
            return False
        if self._master is None or other.epoch > self._master.epoch or self._is_lost:
            return True
        if other not in self._rivals and len(self._rivals) < RIVALS_MAX:
            self._rivals.add(other)
            self._effects.append(SecondMaster(other.entity, other.epoch))
        return False

    def _lose(self, reason: str) -> None:
        if not self._is_lost:
            self._is_lost = True
            assert self._master is not None, reason
            self._effects.append(MasterLost(self._master.entity, reason))

    def _greet(self) -> None:
        self._number += 1
        greeting = commands.GreetingCommand(
            self._number, self._writer, self._writing.resolved_request
        )
        if self._master is None or self._is_lost:
            self._effects.append(Multicast(self._command(greeting)))
        else:
            self._send_to_master(greeting)

    def _send_to_master(self, content: Content) -> None:
        if self._master is not None:
            to = self._master.entity.endpoint
            self._effects.append(Unicast(to, self._command(content)))

    def _send_question(self, replica: KnownReplica, question: Question) -> None:
        epoch, revision = self._seen
        topic = Unicast if replica.is_master else ToClone
        self._effects.append(topic(replica.endpoint, self._command(question, epoch, revision)))

    def _command(self, content: Content, epoch: int | None = None, sequence: int = 0) -> bytes:
        known = self._known_epoch if epoch is None else epoch
        return encode_command(InternalCommand(sequence, self.entity, None, known, content))

    def _on_answered(self, answer: ReadAnswerCommand | ReadRefusedCommand, revision: int) -> None:
        self._effects.append(ReadAnswered(answer.number, answer, revision))

    def _on_request(self, action: Action) -> None:
        if self._is_closed:
            raise StoreClosed("the store is closed: attach it again")
        self._writing.add(action)

    def _check_idle(self) -> None:
        if self._is_lost:
            return
        for token, waiter in list(self._waiters.items()):
            if waiter.number == 0 and waiter.request <= self._writing.resolved_request:
                del self._waiters[token]
                self._effects.append(IdleReached(token))

    def _take_effects(self) -> list[Effect]:
        effects = self._effects[:]
        self._effects.clear()
        return effects
