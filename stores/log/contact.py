"""How a follower or a proxy finds the keeper, keeps in touch, and has its requests done once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stores import commands
from stores.actions import WriterId
from stores.commands import Content, InternalCommand
from stores.effects import Effect, MasterFound, Multicast, Unicast
from stores.encoding import encode_command
from stores.log.effects import LogEffect
from stores.log.encoding import encode_message, encode_requests
from stores.log.messages import Answers, Hello, LogMessage, Request, Requests, Welcome
from stores.log.requests import LogRequests
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
from stores.writing import Writing
from wire.errors import ErrorCode, StoreClosed
from wire.identifiers import EndpointId, EntityId


class Contact:
    """Greets the keeper that its seeker found, and asks it.

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
        """Append to ``effects``; call ``on_keeper`` when one answers, with true for a new one.

        The ``requests`` of a deposed keeper's handle go on here, and are settled up to now.
        """
        self.seeker = Seeker()
        self.welcome: Welcome | None = None
        """The latest of this keeper."""
        self.number = 0
        """Of the latest hello."""
        self.writer = writer
        self._effects = effects
        self._patience_ticks = patience_ticks
        self._on_keeper = on_keeper
        self._tick = 0
        self._waiting_ticks = 0
        self._is_closed = False
        store_effects: list[Effect] = effects  # type: ignore[assignment]  # of Effect it appends Unicast and Resolve alone
        self.requests = LogRequests(self._on_requests) if requests is None else requests
        self.requests.serve(self._on_requests)
        last = self.requests.sealed_request
        self.writing = Writing(
            writer, store_effects, incarnation=writer.incarnation, last_request=last
        )

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return f"<Contact {self.seeker!r} unanswered={self.writing.pending_count}>"

    @property
    def is_lost(self) -> bool:
        """True while no keeper answers."""
        return not self.seeker.is_in_touch

    def hears_from(self, sender: EntityId) -> bool:
        """Tell whether the keeper that is followed, or was last, is this one."""
        return self.seeker.leader is not None and self.seeker.leader.entity == sender

    # -- what the owner does ---------------------------------------------------------------------

    def greet(self) -> None:
        """Say hello: to the keeper, or to each endpoint that may be one."""
        if self.seeker.leader is None or self.is_lost:
            self._effects.append(Multicast(self._hello()))
        else:
            self._greet_at(self.seeker.leader)

    def on_welcome(self, sender: EntityId, welcome: Welcome, now_ns: int) -> None:
        """Take in that a keeper lives."""
        keeper, last = LeaderId(welcome.epoch, sender), self.seeker.leader
        was_lost = self.is_lost
        self._carry_out(self.seeker.hear(keeper, now_ns, offers=True))
        if not self.seeker.follows(keeper):
            return
        if self.welcome is None or welcome.number > self.welcome.number:
            self.welcome = welcome
        self.writing.catch_up(welcome.request, welcome.outcomes)
        self.writing.resume(sender)
        if keeper != last or was_lost:
            self._on_keeper(keeper != last)

    def on_answers(self, sender: EntityId, answers: Answers) -> None:
        """Take in what became of requests."""
        if not self.seeker.follows(LeaderId(answers.epoch, sender)):
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
        if self.seeker.leader is not None and not self.is_lost:
            self.writing.flush(self.seeker.leader.entity)

    def tick(self) -> None:
        """Let one tick pass."""
        self._tick += 1
        self.writing.tick()
        self._carry_out(self.seeker.tick())
        if not self.is_lost and self._tick % HEARTBEAT_TICKS == 0:
            self.greet()
        is_waiting = self.is_lost and self.writing.pending_count
        self._waiting_ticks = self._waiting_ticks + 1 if is_waiting else 0
        if self._patience_ticks is not None and self._waiting_ticks >= self._patience_ticks:
            self._give_up()

    def unreachable(self, endpoint: EndpointId) -> None:
        """Take note that there is no path to an endpoint any more."""
        self._carry_out(self.seeker.unreachable(endpoint))

    def discovered(self) -> None:
        """Take note that there is a path to another endpoint: the keeper may be there."""
        self._carry_out(self.seeker.discovered())

    def send(self, message: LogMessage) -> None:
        """Send to the keeper, if there is one."""
        if (keeper := self.seeker.leader) is not None:
            payload = encode_message(self.writer.entity, message)
            self._effects.append(Unicast(keeper.entity.endpoint, payload))

    def send_command(self, session: int | None, sequence: int, content: Content) -> None:
        """Send a command of the channels to the keeper, if there is one."""
        if (keeper := self.seeker.leader) is not None:
            entity, epoch = self.writer.entity, keeper.epoch
            payload = encode_command(InternalCommand(sequence, entity, session, epoch, content))
            self._effects.append(Unicast(keeper.entity.endpoint, payload))

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
        hello = Hello(self.number, self.seeker.known_epoch, self.writer, resolved)
        return encode_message(self.writer.entity, hello)

    def _greet_at(self, keeper: LeaderId) -> None:
        self._effects.append(Unicast(keeper.entity.endpoint, self._hello()))

    def _carry_out(self, effects: Iterable[SeekerEffect]) -> None:
        """Do what the seeker decided. The owner says when it is level with a keeper."""
        for effect in effects:
            match effect:
                case Search():
                    self.greet()
                case Follow(leader, former):
                    if leader != former:
                        self.writing.hang_up()
                        self.welcome = None
                case Depose(leader):
                    self._greet_at(leader)
                case Drop() | Refuse() | MasterFound():
                    pass
                case _:
                    self._effects.append(effect)

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
