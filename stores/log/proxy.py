"""A log without a copy: every append and every read asks the keeper."""

from __future__ import annotations

from dataclasses import dataclass

from stores.actions import WriterId
from stores.commands import InternalCommand
from stores.effects import Closed, IdleReached, MasterFound
from stores.encoding import decode_command
from stores.log import messages
from stores.log.contact import Contact
from stores.log.effects import Answered, LogEffect
from stores.log.encoding import decode_message, is_log_message
from stores.log.messages import Answer, LogMessage, Query
from stores.log.questions import Questions
from stores.log.requests import LogRequests
from stores.statistics import LogStatistics
from stores.work import WithoutWork
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId


@dataclass(slots=True)
class Waiter:
    """A caller that waits for idleness."""

    request: int
    """Everything up to it that was asked for has to have an outcome."""
    number: int
    """The welcome to this hello, or a later one, says how far the keeper was."""


class Proxy(WithoutWork):
    """Asks, and waits for answers. The rules of effects are those of ``Keeper``."""

    def __init__(
        self,
        entity: EntityId,
        incarnation: int,
        patience_ticks: int | None,
        requests: LogRequests | None = None,
    ) -> None:
        """Know of no keeper; call ``start`` next.

        No earlier proxy of this entity may have had the ``incarnation``: a clock in nanoseconds
        will do. A deposed keeper leaves its ``requests``.
        """
        self.entity = entity
        self._effects: list[LogEffect] = []
        self._patience_ticks = patience_ticks
        writer = WriterId.of(entity, incarnation)
        self.contact = Contact(writer, self._effects, patience_ticks, self._on_keeper, requests)
        self.requests = self.contact.requests
        self.questions = Questions(self._send, self._on_answer)
        self._idle: dict[int, Waiter] = {}
        self._is_closed = False

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return f"<Proxy {self.entity} asked={len(self.questions)} {self.contact!r}>"

    @property
    def size(self) -> int:
        """Bytes of what it holds, which is nothing."""
        return 0

    def statistics(self) -> LogStatistics:
        """Give a snapshot of counts; changes nothing."""
        return LogStatistics(
            "proxy",
            self.contact.seeker.known_epoch,
            is_in_touch=not self.contact.is_lost,
            unanswered=self.contact.writing.pending_count,
        )

    # -- inputs ----------------------------------------------------------------------------------

    def start(self) -> list[LogEffect]:
        """Search for a keeper."""
        self.contact.greet()
        return self._take_effects()

    def receive(self, sender: EndpointId, payload: bytes, now_ns: int) -> list[LogEffect]:
        """Take in what came; raises ``DecodeError`` for what is bad."""
        if self._is_closed:
            return []
        if is_log_message(payload):
            entity, message = decode_message(payload)
            if entity.endpoint != sender:
                raise DecodeError(f"{sender} sent a message of a log in the name of {entity}")
            self._on_message(entity, message, now_ns)
        else:
            command = decode_command(payload)
            if command.sender.endpoint != sender:
                raise DecodeError(f"{sender} sent a command in the name of {command.sender}")
            self._on_command(command)
        self._check_idle()
        return self._take_effects()

    def flush(self, now_ns: int) -> list[LogEffect]:
        """Send what was asked since the last flush: once per turn of the loop."""
        if not self._is_closed:
            self.contact.flush()
        return self._take_effects()

    def tick(self, now_ns: int) -> list[LogEffect]:
        """Let one tick (100 ms) pass."""
        if not self._is_closed:
            self.contact.tick()
            self.questions.tick(is_lost=self.contact.is_lost, patience_ticks=self._patience_ticks)
            self._check_idle()
        return self._take_effects()

    def ask(self, query: Query) -> list[LogEffect]:
        """Ask the keeper; ``Answered`` brings the answer."""
        self.questions.ask(query)
        return self._take_effects()

    def cancel(self, number: int) -> None:
        """Ask no longer."""
        self.questions.cancel(number)

    def peer_unreachable(self, endpoint: EndpointId) -> list[LogEffect]:
        """Take note that there is no path to an endpoint any more."""
        self.contact.unreachable(endpoint)
        return self._take_effects()

    def endpoint_discovered(self, endpoint: EndpointId) -> list[LogEffect]:
        """Take note that there is a path to an endpoint: the keeper may be there."""
        if not self._is_closed:
            self.contact.discovered()
        return self._take_effects()

    def close(self) -> list[LogEffect]:
        """Say goodbye."""
        if not self._is_closed:
            self._is_closed = True
            self.contact.close(None)
            self.questions.fail_all(ErrorCode.SHUTTING_DOWN, "the log's handle closed")
            self._effects.append(Closed(ErrorCode.SHUTTING_DOWN, "the log's handle closed"))
        return self._take_effects()

    # -- idleness --------------------------------------------------------------------------------

    def begin_idle(self, token: int) -> list[LogEffect]:
        """Wait until all that was asked has its outcome, and the keeper has answered since."""
        self.requests.seal()
        self.contact.greet()
        self._idle[token] = Waiter(self.requests.last_request, self.contact.number)
        return self._take_effects()

    def cancel_idle(self, token: int) -> None:
        """Stop waiting."""
        self._idle.pop(token, None)

    def explain_idle(self) -> str:
        """Say what is missing for the log to be idle; empty if nothing is known to be."""
        missing = ["no keeper answers"] if self.contact.is_lost else []
        if count := self.requests.last_request - self.contact.writing.resolved_request:
            missing.append(f"{count} requests have no answer from the keeper")
        return "; ".join(missing)

    def has_room(self) -> bool:
        """Tell whether the local handle may ask for more; otherwise wait for a ``Resolve``."""
        return self.contact.writing.has_room

    def is_stale(self, now_ns: int) -> bool:
        """Give false: it has nothing that could be old."""
        return False

    # -- steps -----------------------------------------------------------------------------------

    def _on_message(self, sender: EntityId, message: LogMessage, now_ns: int) -> None:
        match message:
            case messages.Welcome():
                self.contact.on_welcome(sender, message, now_ns)
            case messages.Answers():
                self.contact.on_answers(sender, message)
            case messages.Fetched() | messages.State() | messages.Found() | messages.QueryFailed():
                if self.contact.hears_from(sender):
                    self.questions.receive(message)
            case _:
                raise DecodeError(f"{sender} sent a {type(message).__name__} to a proxy")

    def _on_command(self, command: InternalCommand) -> None:
        self.contact.on_command(command)

    def _on_keeper(self, is_new: bool) -> None:  # noqa: FBT001 - a callback has no keywords
        keeper = self.contact.seeker.leader
        assert keeper is not None, self.contact
        self._effects.append(MasterFound(keeper.entity, keeper.epoch))
        self.questions.ask_again()

    def _send(self, query: Query) -> None:
        if not self.contact.is_lost:
            self.contact.send(query)

    def _on_answer(self, answer: Answer) -> None:
        self._effects.append(Answered(answer))

    def _check_idle(self) -> None:
        welcome, resolved = self.contact.welcome, self.contact.writing.resolved_request
        if welcome is None or self.contact.is_lost:
            return
        for token, waiter in list(self._idle.items()):
            if waiter.number <= welcome.number and waiter.request <= resolved:
                del self._idle[token]
                self._effects.append(IdleReached(token))

    def _take_effects(self) -> list[LogEffect]:
        effects = self._effects[:]
        self._effects.clear()
        return effects
