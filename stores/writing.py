"""A clone's way to its master: what it asked for, kept until the master has answered."""

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
from stores.actions import Action, WriterId, request_range
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
from stores.encoding import ActionsEncoder, encode_action, encode_command
from stores.limits import UNRESOLVED_COUNT_MAX, UNRESOLVED_SIZE_MAX
from stores.outcomes import FORGOTTEN, Outcome, Refused
from wire.errors import ErrorCode
from wire.identifiers import EntityId


class Writing:
    """Keeps every action until its outcome is known, and sends it again to a master that lacks it.

    The channel is opened by the first action (seed 7.5), and anew for each new master.
    """

    def __init__(
        self, writer: WriterId, effects: list[Effect], *, incarnation: int, last_request: int = 0
    ) -> None:
        """Append to ``effects``; the requests up to ``last_request`` are settled already.

        No earlier clone of this entity had the ``incarnation``.
        """
        self.resolved_request = last_request
        """The outcomes of all requests up to it are known."""
        self._writer = writer
        self._entity = writer.entity
        self._effects = effects
        self._epoch = incarnation
        self._producer: Producer[EntityId, bytes] | None = None
        self._master: EntityId | None = None
        self._encoder: ActionsEncoder | None = None
        # Last request, tick, and the action: encoded, and as it was if the clone needs that.
        self._pending: deque[tuple[int, int, bytes, Action | None]] = deque()
        self._pending_size = 0
        self._unsent: list[bytes] = []
        self._last_request = last_request
        self._sent_request = last_request
        self._tick = 0

    # -- what the clone does ---------------------------------------------------------------------

    def add(self, action: Action) -> None:
        """Take in what the handle asked for; ``flush`` sends it."""
        asked = request_range(action)
        assert asked is not None, action
        self.add_encoded(asked[1], encode_action(action), action)

    def add_encoded(self, last_request: int, payload: bytes, action: Action | None = None) -> None:
        """Take in a payload that asks for everything up to this request."""
        self._last_request = last_request
        self._pending.append((last_request, self._tick, payload, action))
        self._pending_size += len(payload)
        self._unsent.append(payload)

    def flush(self, master: EntityId) -> None:
        """Send what was not sent yet."""
        if not self._unsent:
            return
        if self._producer is None:
            self._open(master)
        else:
            self._produce(self._producer, self._unsent)
        self._unsent = []
        self._sent_request = self._last_request

    def resume(self, master: EntityId) -> None:
        """Send everything without an outcome, in a new channel if there is none."""
        if self._producer is None and self._pending:
            self._open(master)
            self._unsent = []
            self._sent_request = self._last_request

    def hang_up(self) -> None:
        """Close the channel, because the master is another one now."""
        self._producer = None

    def receive(self, sender: EntityId, message: ConsumerMessage) -> None:
        """Take in what a master's consumer sent; only our master's counts."""
        if self._producer is not None and sender == self._master:
            self._producer.receive(sender, message)

    def tick(self) -> None:
        """Let one tick pass."""
        self._tick += 1
        if self._producer is not None:
            self._producer.tick()

    def give_up(self, buffer_ticks: int) -> None:
        """Refuse what waits for a master for longer than that, and never send it again."""
        request = self.resolved_request
        for last_request, tick, _, _ in self._pending:
            if self._tick - tick < buffer_ticks:
                break
            request = last_request
        if request == self.resolved_request:
            return
        self.hang_up()
        self._unsent = []
        seconds = buffer_ticks / TICKS_PER_SECOND
        sent = Refused(ErrorCode.REQUEST_TIMEOUT, _LOST_TEXT.format(seconds))
        self._refuse_until(min(request, self._sent_request), sent)
        self._refuse_until(request, Refused(ErrorCode.NO_SUCH_MASTER, _NEVER_SENT.format(seconds)))

    def deny(self, text: str) -> None:
        """Take note that the master takes nothing from here; later requests are told so."""
        self.hang_up()
        self._unsent = []
        self.refuse_all(ErrorCode.NOT_AUTHORIZED, text)

    def unanswered(self) -> list[bytes]:
        """Give the actions that have no outcome, oldest first."""
        return [payload for _, _, payload, _ in self._pending]

    def recognise(self, payload: bytes) -> Action | None:
        """Give the action of a payload if it is the next to be answered, byte for byte.

        A master does most requests as they were asked: they need not be decoded when they return.
        """
        if self._pending:
            _, _, asked, action = self._pending[0]
            if asked == payload:
                return action
        return None

    def resolve(self, outcome: Outcome) -> None:
        """Take note of an outcome; of what is known, or was never asked, nothing changes."""
        news = outcome.between(self.resolved_request, self._last_request)
        if news is None:
            return
        if news.first_request > self.resolved_request + 1:
            self._refuse_until(news.first_request - 1, FORGOTTEN)
        self._settle(news)

    def catch_up(self, request: int, outcomes: Sequence[Outcome]) -> None:
        """Take note of what a snapshot says: everything up to the request is in it."""
        for outcome in outcomes:
            self.resolve(outcome)
        if request > self.resolved_request:
            self._refuse_until(min(request, self._last_request), FORGOTTEN)

    def refuse_all(self, code: ErrorCode, text: str) -> None:
        """Give up on everything without an outcome."""
        self._refuse_until(self._last_request, Refused(code, text))

    # -- what the clone asks ---------------------------------------------------------------------

    @property
    def pending_count(self) -> int:
        """How many actions are without an outcome."""
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
        """Put a message of the channel to the master in the form of a command (seed 7.5.1)."""
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
        assert self._master is not None, "the channel is open"
        if isinstance(message, Event):
            self._send_run(self._master, message.first_sequence, message.payloads)
        else:
            self.send(producer, self._master, message)

    def drop(
        self, producer: Producer[EntityId, bytes], handle: EntityId, reason: ErrorCode
    ) -> None:
        """Close the channel to a master that does not answer."""
        self.hang_up()

    def handshake_completed(self, producer: Producer[EntityId, bytes], handle: EntityId) -> None:
        """Do nothing: actions were sent without waiting for it."""

    # -- steps -----------------------------------------------------------------------------------

    def _open(self, master: EntityId) -> None:
        self._epoch += 1
        self._master = master
        self._encoder = ActionsEncoder(self._entity, None, self._epoch)
        self._producer = Producer(self, epoch=self._epoch, config=STORE_CHANNEL)
        self._producer.add(master)
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
            self._pending_size -= len(self._pending.popleft()[2])
        self._effects.append(Resolve(outcome))


TICKS_PER_SECOND = 10

_LOST_TEXT = (
    "the master went away, and none answered for {:g} s: whether it was applied is unknown;"
    " read the key when there is a master again"
)

_NEVER_SENT = "no master was found for {:g} s: it was not sent, and will not be; ask again"
