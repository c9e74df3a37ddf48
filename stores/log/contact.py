"""How a follower or a proxy finds the keeper, keeps in touch, and has its requests done once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stores import commands
from stores.actions import WriterId
from stores.commands import Content, InternalCommand
from stores.effects import Effect, MasterLost, Multicast, SecondMaster, Unicast
from stores.encoding import encode_command
from stores.epochs import term_of
from stores.log.effects import LogEffect
from stores.log.encoding import encode_message, encode_requests
from stores.log.messages import Answers, Hello, LogMessage, Request, Requests, Welcome
from stores.log.requests import LogRequests
from stores.writing import Writing
from wire.errors import ErrorCode, StoreClosed
from wire.identifiers import EndpointId, EntityId

SEARCH_TICKS: Final = 2
"""Ticks between two calls for a keeper, as clones of stores call for masters."""

HELLO_TICKS: Final = 5
"""Ticks between two hellos to a keeper that is known: the heartbeat of stores."""

SILENCE_TICKS: Final = 20
"""Ticks without a word after which a keeper counts as lost: four of its answers."""


RIVALS_MAX: Final = 64
"""Other keepers of the same name that are remembered, so that each is told of once."""


@dataclass(frozen=True, slots=True, order=True)
class KeeperId:
    """Whom one follows. A keeper that was restarted is another one; the later one leads."""

    epoch: int
    entity: EntityId


class Contact:
    """Finds the keeper, hears of its replacement, and asks it.

    Requests are kept until their outcome is known, and asked again of the next keeper. When there
    has been none for ``patience_ticks``, they fail.
    """

    def __init__(
        self,
        writer: WriterId,
        effects: list[LogEffect],
        patience_ticks: int | None,
        on_keeper: Callable[[bool], None],
        requests: LogRequests | None = None,
    ) -> None:
        """Append to ``effects``; call ``on_keeper`` when one is found, with true for a new one.

        The ``requests`` of a deposed keeper's handle go on here, and are settled up to now.
        """
        self.keeper: KeeperId | None = None
        self.is_lost = True
        """True while no keeper answers."""
        self.heard_ns = 0
        self.welcome: Welcome | None = None
        """The latest of this keeper."""
        self.number = 0
        """Of the latest hello."""
        self.known_epoch = 0
        """The highest that any keeper is known to have. One of an earlier term is not followed."""
        self.writer = writer
        self._effects = effects
        self._patience_ticks = patience_ticks
        self._on_keeper = on_keeper
        self._tick = 0
        self._silent_ticks = 0
        self._waiting_ticks = 0
        self._is_closed = False
        self._rivals: set[KeeperId] = set()
        store_effects: list[Effect] = effects  # type: ignore[assignment]  # of Effect it appends Unicast and Resolve alone
        self.requests = LogRequests(self._on_requests) if requests is None else requests
        self.requests.serve(self._on_requests)
        last = self.requests.sealed_request
        self.writing = Writing(
            writer, store_effects, incarnation=writer.incarnation, last_request=last
        )

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        lost = " (lost)" if self.is_lost else ""
        return f"<Contact {self.keeper}{lost} unanswered={self.writing.pending_count}>"

    # -- what the owner does ---------------------------------------------------------------------

    def greet(self) -> None:
        """Say hello: to the keeper, or to each endpoint that may be one."""
        if self.keeper is None or self.is_lost:
            self._effects.append(Multicast(self._hello()))
        else:
            self._effects.append(Unicast(self.keeper.entity.endpoint, self._hello()))

    def on_welcome(self, sender: EntityId, welcome: Welcome, now_ns: int) -> None:
        """Take in that a keeper lives."""
        other = KeeperId(welcome.epoch, sender)
        if term_of(other.epoch) < term_of(self.known_epoch):
            self._effects.append(Unicast(sender.endpoint, self._hello()))  # it is deposed by this
            return
        self.known_epoch = max(self.known_epoch, other.epoch)
        if other != self.keeper and not self._follows_now(other):
            return
        is_new = other != self.keeper
        if is_new:
            self.writing.hang_up()
            self.welcome = None
        was_lost, self.is_lost = self.is_lost, False
        self.keeper = other
        self.heard_ns = now_ns
        self._silent_ticks = 0
        if self.welcome is None or welcome.number > self.welcome.number:
            self.welcome = welcome
        self.writing.catch_up(welcome.request, welcome.outcomes)
        self.writing.resume(sender)
        if is_new or was_lost:
            self._on_keeper(is_new)

    def on_answers(self, sender: EntityId, answers: Answers) -> None:
        """Take in what became of requests."""
        if self.keeper != KeeperId(answers.epoch, sender):
            return
        if answers.after > self.writing.resolved_request:
            self.greet()  # answers got lost: the welcome brings all of them
            return
        for outcome in answers.outcomes:
            self.writing.resolve(outcome)

    def on_command(self, command: InternalCommand) -> None:
        """Take in what the keeper's end of the channel from us says."""
        content = command.content
        if isinstance(content, commands.NotAllowedCommand) and not content.is_reading:
            self.writing.deny(content.text)
        if (message := commands.consumer_message(command)) is not None:
            self.writing.receive(command.sender, message)

    def flush(self) -> None:
        """Send what was asked and not sent yet."""
        self.requests.seal()
        if self.keeper is not None and not self.is_lost:
            self.writing.flush(self.keeper.entity)

    def tick(self) -> None:
        """Let one tick pass."""
        self._tick += 1
        self._silent_ticks += 1
        self.writing.tick()
        if not self.is_lost and self._silent_ticks >= SILENCE_TICKS:
            self._lose(f"silent for {self._silent_ticks} ticks")
        if self._tick % (SEARCH_TICKS if self.is_lost else HELLO_TICKS) == 0:
            self.greet()
        is_waiting = self.is_lost and self.writing.pending_count
        self._waiting_ticks = self._waiting_ticks + 1 if is_waiting else 0
        if self._patience_ticks is not None and self._waiting_ticks >= self._patience_ticks:
            self._give_up()

    def unreachable(self, endpoint: EndpointId) -> None:
        """Take note that there is no path to an endpoint any more."""
        if self.keeper is not None and self.keeper.entity.endpoint == endpoint:
            self._lose("its endpoint is unreachable")

    def send(self, message: LogMessage) -> None:
        """Send to the keeper, if there is one."""
        if self.keeper is not None:
            payload = encode_message(self.writer.entity, message)
            self._effects.append(Unicast(self.keeper.entity.endpoint, payload))

    def send_command(self, session: int | None, sequence: int, content: Content) -> None:
        """Send a command of the channels to the keeper, if there is one."""
        if self.keeper is not None:
            entity, epoch = self.writer.entity, self.keeper.epoch
            payload = encode_command(InternalCommand(sequence, entity, session, epoch, content))
            self._effects.append(Unicast(self.keeper.entity.endpoint, payload))

    def close(self, session: int | None) -> None:
        """Say goodbye; requests without an outcome are refused, as none will come."""
        self.requests.seal()
        self._is_closed = True
        self.send_command(session, 0, commands.DetachCommand())
        text = "the log's handle closed: whether it was done is unknown"
        self.writing.refuse_all(ErrorCode.SHUTTING_DOWN, text)

    # -- steps -----------------------------------------------------------------------------------

    def _hello(self) -> bytes:
        self.number += 1
        resolved = self.writing.resolved_request
        hello = Hello(self.number, self.known_epoch, self.writer, resolved)
        return encode_message(self.writer.entity, hello)

    def _follows_now(self, other: KeeperId) -> bool:
        """Decide between two keepers: the later one leads, unless only the other one answers."""
        if self.keeper is None or other > self.keeper:
            return True
        is_rival = other.entity != self.keeper.entity and not self.is_lost
        if is_rival and other not in self._rivals and len(self._rivals) < RIVALS_MAX:
            self._rivals.add(other)
            self._effects.append(SecondMaster(other.entity, other.epoch))
        return self.is_lost and other.entity != self.keeper.entity

    def _lose(self, reason: str) -> None:
        if not self.is_lost:
            self.is_lost = True
            assert self.keeper is not None, reason
            self._effects.append(MasterLost(self.keeper.entity, reason))

    def _give_up(self) -> None:
        self._waiting_ticks = 0
        self.writing.refuse_all(
            ErrorCode.KEEPER_UNREACHABLE,
            "the log's keeper is out of reach: whether it was done is unknown; append again with"
            " the same producer and sequence to be sure",
        )
        self.writing.hang_up()

    def _on_requests(self, first_request: int, requests: tuple[Request, ...]) -> None:
        if self._is_closed:
            raise StoreClosed("the log is closed: attach it again")
        resolved = self.writing.resolved_request
        payload = encode_requests(Requests(self.writer, first_request, resolved, requests))
        self.writing.add_encoded(first_request + len(requests) - 1, payload)
