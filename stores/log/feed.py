"""The keeper's way to its followers: one channel for all of them.

As at the master of a store, but no follower needs a snapshot: a follower fetches what it lacks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

from channels import (
    ConsumerMessage,
    Event,
    Handshake,
    Heartbeat,
    Producer,
    ProducerMessage,
    ProducerStatistics,
    RetransmitFailed,
    UnknownConsumer,
)
from channels.config import INITIAL_SEQUENCE
from stores.broadcasting import STORE_CHANNEL, CloneId, in_runs
from stores.commands import (
    Content,
    InternalCommand,
    KeepaliveCommand,
    RetransmitFailedCommand,
    UnknownConsumerCommand,
)
from stores.effects import Multicast, Unicast
from stores.encoding import ActionsEncoder, encode_command
from stores.limits import ACKNOWLEDGEMENT_SIZE, BACKLOG_SIZE_MAX, CLONES_MAX
from stores.log.effects import LogEffect
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId


class Feed:
    """Sends every event to all followers, and lets go of those that fall behind."""

    def __init__(
        self,
        entity: EntityId,
        epoch: int,
        effects: list[LogEffect],
        admitted: Callable[[CloneId, int, int], bytes],
    ) -> None:
        """Append to ``effects``.

        ``admitted`` writes what a follower is told that is taken in, given the sequence number and
        the heartbeat interval.
        """
        self._entity = entity
        self._epoch = epoch
        self._effects = effects
        self._admitted = admitted
        self._producer = self._new_producer(INITIAL_SEQUENCE)
        self._skipped_count = 0
        self._encoder = ActionsEncoder(entity, None, epoch)
        self._followers: dict[CloneId, None] = {}
        self._backlog: deque[tuple[int, int]] = deque()
        self._backlog_size = 0
        self._unasked_size = 0

    # -- what the keeper does --------------------------------------------------------------------

    def skip(self, count: int) -> None:
        """Count events that no follower hears.

        One that was let go, and does not know yet, has to notice that it missed something.
        """
        assert not self._followers, self._followers
        self._skipped_count += count

    def publish(self, payloads: Sequence[bytes]) -> None:
        """Send events to all followers."""
        for run in in_runs(payloads):
            self._producer.produce_run(run)
        size = sum(map(len, payloads))
        self._backlog.append((self._producer.sequence, size))
        self._backlog_size += size
        self._unasked_size += size
        if self._unasked_size > ACKNOWLEDGEMENT_SIZE:
            self.ask_for_acknowledgements()
        while self._backlog_size > BACKLOG_SIZE_MAX and self._followers:
            self.discard(min(self._followers, key=self._floor))

    def admit(self, follower: CloneId) -> None:
        """Take a follower in: it gets every event from now on."""
        for known in [known for known in self._followers if known.entity == follower.entity]:
            if known > follower:
                return  # this request is late
            if known == follower and self._producer.acknowledged(known) is not None:
                return  # so is this: it has been taken in, and said so
            self.discard(known)
        if len(self._followers) == CLONES_MAX:
            return
        if self._skipped_count:
            # A producer stands still while nobody listens; a new one may stand where we are.
            self._producer = self._new_producer(self.sequence)
            self._skipped_count = 0
        self._followers[follower] = None
        self._producer.add(follower)

    def receive(self, follower: CloneId, message: ConsumerMessage) -> None:
        """Take in an acknowledgement, or a request to send something again."""
        self._producer.receive(follower, message)
        self._prune()

    def ask_for_acknowledgements(self) -> None:
        """Have all followers acknowledge at once."""
        self._unasked_size = 0
        if self._followers:
            self._tell_all(KeepaliveCommand(is_urgent=True))

    def tick(self) -> None:
        """Let one tick pass."""
        self._producer.tick()

    def discard(self, follower: CloneId) -> None:
        """Let a follower go."""
        self._followers.pop(follower, None)
        self._producer.discard(follower)
        self._prune()

    def discard_entity(self, entity: EntityId) -> None:
        """Let a follower go that closes."""
        for follower in [known for known in self._followers if known.entity == entity]:
            self.discard(follower)

    def discard_endpoint(self, endpoint: EndpointId) -> None:
        """Let all followers of an endpoint go."""
        for follower in [known for known in self._followers if known.entity.endpoint == endpoint]:
            self.discard(follower)

    # -- what the keeper asks --------------------------------------------------------------------

    @property
    def sequence(self) -> int:
        """The number of the latest event, sent or skipped."""
        return self._producer.sequence + self._skipped_count

    def acknowledged(self) -> list[int]:
        """Give up to which event each follower has everything, in its backend."""
        numbers = (self._producer.acknowledged(follower) for follower in self._followers)
        return [number for number in numbers if number is not None]

    def pending(self) -> list[CloneId]:
        """Give the followers that are catching up."""
        acknowledged = self._producer.acknowledged
        return [follower for follower in self._followers if acknowledged(follower) is None]

    def statistics(self) -> ProducerStatistics[CloneId]:
        """Say how far each follower is."""
        return self._producer.statistics()

    def __contains__(self, follower: object) -> bool:
        """Tell whether a follower has been taken in."""
        return follower in self._followers

    def __len__(self) -> int:
        """Count the followers."""
        return len(self._followers)

    def lagging(self, sequence: int) -> Iterator[str]:
        """Say which followers have not acknowledged this event yet, and how far they are."""
        for follower in self._followers:
            acknowledged = self._producer.acknowledged(follower)
            if acknowledged is None:
                yield f"follower {follower.entity} is catching up"
            elif acknowledged < sequence:
                yield f"follower {follower.entity} has acknowledged {acknowledged} of {sequence}"

    # -- the channel's backend -------------------------------------------------------------------

    def send(
        self,
        _producer: Producer[CloneId, bytes],
        handle: CloneId,
        message: ProducerMessage[bytes],
    ) -> None:
        """Put a message of the channel to one follower in the form of a command."""
        match message:
            case Event(_, sequence, payloads):
                self._send_again(handle, sequence, payloads)
            case Handshake(_, offset, interval_ticks):
                payload = self._admitted(handle, offset, interval_ticks)
                self._effects.append(Unicast(handle.entity.endpoint, payload))
            case RetransmitFailed(_, sequence):
                self._send(handle, sequence, RetransmitFailedCommand())
            case Heartbeat(_, sequence):
                self._send(handle, sequence, KeepaliveCommand())
            case UnknownConsumer():
                self._send(handle, 0, UnknownConsumerCommand())
            case _:
                assert_never(message)

    def broadcast(
        self, _producer: Producer[CloneId, bytes], message: ProducerMessage[bytes]
    ) -> None:
        """Put a message of the channel to all followers in the form of a command."""
        if isinstance(message, Event):
            payload = self._encoder.encode(message.first_sequence, message.payloads)
            self._effects.append(Multicast(payload))
        else:
            assert isinstance(message, Heartbeat), message
            self._tell_all(KeepaliveCommand())

    def drop(
        self, _producer: Producer[CloneId, bytes], handle: CloneId, _reason: ErrorCode
    ) -> None:
        """Forget a follower that fell silent, or broke the protocol."""
        self._followers.pop(handle, None)

    def handshake_completed(self, _producer: Producer[CloneId, bytes], handle: CloneId) -> None:
        """Do nothing: what a follower lacks it fetches when it likes."""

    # -- steps -----------------------------------------------------------------------------------

    def _send(self, follower: CloneId, sequence: int, content: Content) -> None:
        command = InternalCommand(sequence, self._entity, follower.session, self._epoch, content)
        self._effects.append(Unicast(follower.entity.endpoint, encode_command(command)))

    def _tell_all(self, content: Content) -> None:
        sequence = self._producer.sequence
        command = InternalCommand(sequence, self._entity, None, self._epoch, content)
        self._effects.append(Multicast(encode_command(command)))

    def _send_again(self, follower: CloneId, sequence: int, payloads: Sequence[bytes]) -> None:
        encoder = ActionsEncoder(self._entity, follower.session, self._epoch)
        for run in in_runs(payloads):
            payload = encoder.encode(sequence, run)
            self._effects.append(Unicast(follower.entity.endpoint, payload))
            sequence += len(run)

    def _new_producer(self, sequence: int) -> Producer[CloneId, bytes]:
        return Producer(self, epoch=self._epoch, config=STORE_CHANNEL, sequence=sequence)

    def _floor(self, follower: CloneId) -> int:
        return self._producer.acknowledged(follower) or 0

    def _prune(self) -> None:
        """Count what the producer still keeps."""
        floor = self._producer.sequence - self._producer.unacknowledged
        while self._backlog and self._backlog[0][0] <= floor:
            self._backlog_size -= self._backlog.popleft()[1]
