"""A writer's way to its leader: what it asked for, kept until the leader has answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import assert_never

from channels import (
    ConsumerMessage,
    Event,
    Handshake,
    Heartbeat,
    Producer,
    ProducerMessage,
    RetransmitFailed,
    UnknownConsumer,
)
from stores.actions import WriterId
from stores.broadcasting import STORE_CHANNEL, in_runs
from stores.commands import (
    AttachWriterCommand,
    Content,
    InternalCommand,
    KeepaliveCommand,
    RetransmitFailedCommand,
    UnknownConsumerCommand,
)
from stores.effects import Effect, Resolve, Unicast
from stores.encoding import ActionsEncoder, encode_command
from stores.limits import UNRESOLVED_COUNT_MAX, UNRESOLVED_SIZE_MAX
from stores.outcomes import FORGOTTEN, Outcome, Refused
from wire.errors import ErrorCode
from wire.identifiers import EntityId


class Writing:
    """Keeps every payload until its outcome is known, and sends it again to a leader that lacks it.

    The channel is opened by the first one (seed 7.5), and anew for each new leader.
    """

    def __init__(
        self, writer: WriterId, effects: list[Effect], *, incarnation: int, last_request: int = 0
    ) -> None:
        """Append to ``effects``; the requests up to ``last_request`` are settled already.

        No earlier writer of this entity had the ``incarnation``.
        """
        self.resolved_request = last_request
        """The outcomes of all requests up to it are known."""
        self._writer = writer
        self._entity = writer.entity
        self._effects = effects
        self._epoch = incarnation
        self._producer: Producer[EntityId, bytes] | None = None
        self._leader: EntityId | None = None
        self._encoder: ActionsEncoder | None = None
        self._pending: deque[tuple[int, bytes]] = deque()
        """Last request, and the payload that asks for it."""
        self._pending_size = 0
        self._unsent: list[bytes] = []
        self._last_request = last_request
        self._sent_request = last_request

    # -- what the writer does --------------------------------------------------------------------

    def add_encoded(self, last_request: int, payload: bytes) -> None:
        """Take in a payload that asks for everything up to this request."""
        self._last_request = last_request
        self._pending.append((last_request, payload))
        self._pending_size += len(payload)
        self._unsent.append(payload)

    def flush(self, leader: EntityId) -> None:
        """Send what was not sent yet."""
        if not self._unsent:
            return
        if self._producer is None:
            self._open(leader)
        else:
            self._produce(self._producer, self._unsent)
        self._unsent = []
        self._sent_request = self._last_request

    def resume(self, leader: EntityId) -> None:
        """Send everything without an outcome, in a new channel if there is none."""
        if self._producer is None and self._pending:
            self._open(leader)
            self._unsent = []
            self._sent_request = self._last_request

    def hang_up(self) -> None:
        """Close the channel, because the leader is another one now."""
        self._producer = None

    def receive(self, sender: EntityId, message: ConsumerMessage) -> None:
        """Take in what a leader's consumer sent; only our leader's counts."""
        if self._producer is not None and sender == self._leader:
            self._producer.receive(sender, message)

    def tick(self) -> None:
        """Let one tick pass."""
        if self._producer is not None:
            self._producer.tick()

    def deny(self, text: str) -> None:
        """Take note that the leader takes nothing from here; later requests are told so."""
        self.hang_up()
        self._unsent = []
        self.refuse_all(ErrorCode.NOT_AUTHORIZED, text)

    def unanswered(self) -> list[bytes]:
        """Give the payloads that have no outcome, oldest first."""
        return [payload for _, payload in self._pending]

    def resolve(self, outcome: Outcome) -> None:
        """Take note of an outcome; of what is known, or was never asked, nothing changes."""
        news = outcome.between(self.resolved_request, self._last_request)
        if news is None:
            return
        if news.first_request > self.resolved_request + 1:
            self._refuse_until(news.first_request - 1, FORGOTTEN)
        self._settle(news)

    def catch_up(self, request: int, outcomes: Sequence[Outcome]) -> None:
        """Take note of what a leader says: everything up to the request has its outcome."""
        for outcome in outcomes:
            self.resolve(outcome)
        if request > self.resolved_request:
            self._refuse_until(min(request, self._last_request), FORGOTTEN)

    def refuse_all(self, code: ErrorCode, text: str) -> None:
        """Give up on everything without an outcome."""
        self._refuse_until(self._last_request, Refused(code, text))

    # -- what the writer asks --------------------------------------------------------------------

    @property
    def pending_count(self) -> int:
        """How many payloads are without an outcome."""
        return len(self._pending)

    @property
    def has_room(self) -> bool:
        """True if the handle may ask for more."""
        is_small = self._pending_size < UNRESOLVED_SIZE_MAX
        return is_small and len(self._pending) < UNRESOLVED_COUNT_MAX

    # -- the channel's backend -------------------------------------------------------------------

    def send(
        self,
        producer: Producer[EntityId, bytes],
        handle: EntityId,
        message: ProducerMessage[bytes],
    ) -> None:
        """Put a message of the channel to the leader in the form of a command (seed 7.5.1)."""
        match message:
            case Event(_, sequence, payloads):
                for run in in_runs(payloads):
                    self._send_run(handle, sequence, run)
                    sequence += len(run)
            case Handshake(_, offset, interval_ticks):
                self._send(handle, offset, AttachWriterCommand(interval_ticks))
            case RetransmitFailed(_, sequence):
                self._send(handle, sequence, RetransmitFailedCommand())
            case Heartbeat(_, sequence):
                self._send(handle, sequence, KeepaliveCommand())
            case UnknownConsumer():
                self._send(handle, 0, UnknownConsumerCommand())
            case _:
                assert_never(message)

    def broadcast(
        self, producer: Producer[EntityId, bytes], message: ProducerMessage[bytes]
    ) -> None:
        """Send to the one consumer that there is."""
        assert self._leader is not None, "the channel is open"
        if isinstance(message, Event):
            self._send_run(self._leader, message.first_sequence, message.payloads)
        else:
            self.send(producer, self._leader, message)

    def drop(
        self, producer: Producer[EntityId, bytes], handle: EntityId, reason: ErrorCode
    ) -> None:
        """Close the channel to a leader that does not answer."""
        self.hang_up()

    def handshake_completed(self, producer: Producer[EntityId, bytes], handle: EntityId) -> None:
        """Do nothing: payloads were sent without waiting for it."""

    # -- steps -----------------------------------------------------------------------------------

    def _open(self, leader: EntityId) -> None:
        self._epoch += 1
        self._leader = leader
        self._encoder = ActionsEncoder(self._entity, None, self._epoch)
        self._producer = Producer(self, epoch=self._epoch, config=STORE_CHANNEL)
        self._producer.add(leader)
        self._produce(self._producer, self.unanswered())

    def _produce(self, producer: Producer[EntityId, bytes], payloads: Sequence[bytes]) -> None:
        for run in in_runs(payloads):
            producer.produce_run(run)

    def _send_run(self, to: EntityId, sequence: int, payloads: Sequence[bytes]) -> None:
        assert self._encoder is not None, "the channel is open"
        self._effects.append(Unicast(to.endpoint, self._encoder.encode(sequence, payloads)))

    def _send(self, to: EntityId, sequence: int, content: Content) -> None:
        command = InternalCommand(sequence, self._entity, None, self._epoch, content)
        self._effects.append(Unicast(to.endpoint, encode_command(command)))

    def _refuse_until(self, request: int, refused: Refused) -> None:
        if request > self.resolved_request:
            self._settle(Outcome(self.resolved_request + 1, request, refused))

    def _settle(self, outcome: Outcome) -> None:
        self.resolved_request = outcome.last_request
        while self._pending and self._pending[0][0] <= outcome.last_request:
            self._pending_size -= len(self._pending.popleft()[1])
        self._effects.append(Resolve(outcome))
