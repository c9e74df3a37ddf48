"""The master's way to its clones: one channel for all, a snapshot for each that is new."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from channels import (
    ChannelConfig,
    ConsumerMessage,
    Event,
    Handshake,
    HandshakeRequest,
    Heartbeat,
    Producer,
    ProducerMessage,
    ProducerStatistics,
    RetransmitFailed,
    UnknownConsumer,
)
from channels.config import INITIAL_SEQUENCE
from stores.commands import (
    AckCloneCommand,
    Content,
    InternalCommand,
    KeepaliveCommand,
    RetransmitFailedCommand,
    SnapshotChunkCommand,
    UnknownConsumerCommand,
)
from stores.effects import Effect, Multicast, Unicast
from stores.encoding import ActionsEncoder, encode_command
from stores.limits import (
    ACKNOWLEDGEMENT_SIZE,
    BACKLOG_SIZE_MAX,
    CHUNK_SIZE_MAX,
    CLONES_MAX,
    RUN_COUNT_MAX,
    RUN_SIZE_MAX,
)
from stores.outcomes import Outcome
from stores.seeker import HEARTBEAT_TICKS
from stores.snapshots import Chunk, SnapshotSource
from stores.work import Job
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

STORE_CHANNEL: Final = ChannelConfig(
    heartbeat_interval_ticks=HEARTBEAT_TICKS, connection_timeout_factor=100, nack_timeout_ticks=2
)
"""Broker's figures for stores: with ticks of 100 ms, a heartbeat every half second, a consumer is
given up after 50 seconds, and what is missing is asked for after 200 ms."""


class CloneId(NamedTuple):
    """One attempt of one clone to attach: what the channel takes for a consumer."""

    entity: EntityId
    session: int


@dataclass(slots=True)
class Welcome:
    """What a clone is told when it is taken in, besides the events that follow."""

    source: SnapshotSource
    request: int
    """Everything up to it that the clone's writer asked for is in the snapshot."""
    outcomes: tuple[Outcome, ...]
    replicas: int = 0
    """So many clones have to have what a receipt is about."""
    is_sent: bool = False

    def take_first_chunk(self) -> Chunk | None:
        """Give the first chunk once, if it is not too large to travel along."""
        if self.is_sent:
            return None
        self.is_sent = True
        chunk = self.source.chunk(0)
        return chunk if chunk is not None and chunk.size <= CHUNK_SIZE_MAX else None


def in_runs(payloads: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
    """Cut a sequence of actions into what fits in one message each."""
    if len(payloads) == 1:
        return (payloads,)
    runs: list[Sequence[bytes]] = []
    start, size = 0, 0
    for index, payload in enumerate(payloads):
        is_full = size + len(payload) > RUN_SIZE_MAX or index - start == RUN_COUNT_MAX
        if is_full and index > start:
            runs.append(payloads[start:index])
            start, size = index, 0
        size += len(payload)
    if start < len(payloads):
        runs.append(payloads[start:])
    return runs


class Broadcaster:
    """Takes clones in, sends them every action, and lets go of those that fall behind."""

    def __init__(
        self,
        entity: EntityId,
        epoch: int,
        effects: list[Effect],
        on_acknowledged: Callable[[EntityId, int], None],
    ) -> None:
        """Append to ``effects``; tell ``on_acknowledged`` what each clone has processed."""
        self._entity = entity
        self._epoch = epoch
        self._effects = effects
        self._on_acknowledged = on_acknowledged
        self._producer = self._new_producer(INITIAL_SEQUENCE)
        self._skipped_count = 0
        self._encoder = ActionsEncoder(entity, None, epoch)
        # The welcome stays until its clone acknowledges that it has loaded the snapshot.
        self._clones: dict[CloneId, Welcome | None] = {}
        self._backlog: deque[tuple[int, int]] = deque()
        self._backlog_size = 0
        self._unasked_size = 0

    # -- what the master does --------------------------------------------------------------------

    def skip(self, count: int) -> None:
        """Count actions that are not sent, as there is no clone.

        A clone that was let go, and does not know yet, has to notice that it missed something.
        """
        assert not self._clones, self._clones
        self._skipped_count += count

    def publish(self, payloads: Sequence[bytes]) -> None:
        """Send actions to all clones."""
        producer = self._producer
        for run in in_runs(payloads):
            producer.produce_run(run)
        size = sum(map(len, payloads))
        self._backlog.append((producer.sequence, size))
        self._backlog_size += size
        self._unasked_size += size
        if self._unasked_size > ACKNOWLEDGEMENT_SIZE:
            self.ask_for_acknowledgements()
        while self._backlog_size > BACKLOG_SIZE_MAX and self._clones:
            self._discard(min(self._clones, key=self._floor))

    def find_source(self) -> SnapshotSource | None:
        """Give a snapshot of this moment that some clone is loading already."""
        for welcome in self._clones.values():
            if welcome is not None and welcome.source.sequence == self.sequence:
                return welcome.source
        return None

    def admit(self, clone: CloneId, welcome: Welcome) -> None:
        """Take a clone in: it gets every event from now on, and asks for the snapshot."""
        for earlier in [known for known in self._clones if known.entity == clone.entity]:
            self._discard(earlier)
        if len(self._clones) == CLONES_MAX:
            return
        if self._skipped_count:
            # A producer stands still while nobody listens; a new one may stand where we are.
            self._producer = self._new_producer(self.sequence)
            self._skipped_count = 0
        self._clones[clone] = welcome
        self._producer.add(clone)

    def remind(self, clone: CloneId) -> bool:
        """Answer a clone that asks to be taken in and has been; false if it has not been."""
        if clone not in self._clones:
            # A later attempt of the same clone means that this request is late.
            return any(known.entity == clone.entity and known > clone for known in self._clones)
        if self._clones[clone] is None:
            # The request is late, or the clone has not heard from us for a while.
            keepalive = KeepaliveCommand(is_urgent=True)
            self._send(clone, self._producer.sequence, keepalive)
        else:
            self._producer.receive(clone, HandshakeRequest(self._epoch))
        return True

    def receive(self, clone: CloneId, message: ConsumerMessage) -> None:
        """Take in an acknowledgement, or a request to send something again."""
        self._producer.receive(clone, message)
        self._prune()
        if (sequence := self._producer.acknowledged(clone)) is not None:
            self._on_acknowledged(clone.entity, sequence)

    def chunk_jobs(self, clone: CloneId, indexes: Sequence[int]) -> Iterator[tuple[int, Job]]:
        """Give the work of sending parts of the snapshot that a clone is loading."""
        if clone not in self._clones:
            self.refuse(clone)
        elif (welcome := self._clones[clone]) is not None:
            # Otherwise it has loaded everything: a late request.
            for index in indexes:
                yield index, self._send_chunk(clone, welcome.source, index)

    def _send_chunk(self, clone: CloneId, source: SnapshotSource, index: int) -> Job:
        while source.cut(index):
            yield
        if clone in self._clones and (chunk := source.chunk(index)) is not None:
            self._send(clone, source.sequence, SnapshotChunkCommand(chunk))

    def tell(self, clone: CloneId, content: Content) -> None:
        """Send a command of the master's own to one clone, with the latest sequence number."""
        self._send(clone, self._producer.sequence, content)

    def refuse(self, clone: CloneId) -> None:
        """Send a clone away that this master does not know: it has to begin anew."""
        self._send(clone, 0, UnknownConsumerCommand())

    def tell_all(self, content: Content, sequence: int | None = None) -> None:
        """Send a command of the master's own to all clones; about the latest event, or another."""
        number = self.sequence if sequence is None else sequence
        command = InternalCommand(number, self._entity, None, self._epoch, content)
        self._effects.append(Multicast(encode_command(command)))

    def ask_for_acknowledgements(self) -> None:
        """Have all clones acknowledge at once."""
        self._unasked_size = 0
        if self._clones:
            self.tell_all(KeepaliveCommand(is_urgent=True))

    def tick(self) -> None:
        """Let one tick pass."""
        self._producer.tick()

    def detach(self, clone: CloneId) -> None:
        """Let a clone go that closes, or follows another master, with all its attempts so far."""
        for known in [known for known in self._clones if known.entity == clone.entity]:
            if known <= clone:
                self._discard(known)

    def detach_endpoint(self, endpoint: EndpointId) -> None:
        """Let all clones of an endpoint go."""
        for clone in [known for known in self._clones if known.entity.endpoint == endpoint]:
            self._discard(clone)

    # -- what the master asks --------------------------------------------------------------------

    @property
    def sequence(self) -> int:
        """The number of the latest event, sent or skipped."""
        return self._producer.sequence + self._skipped_count

    def loaded(self) -> Iterator[CloneId]:
        """Give the clones that have loaded their snapshot."""
        return (clone for clone, welcome in self._clones.items() if welcome is None)

    def acknowledged(self) -> Iterator[int]:
        """Say up to which event each clone has everything, as far as it has said so."""
        for clone, welcome in self._clones.items():
            if welcome is None and (found := self._producer.acknowledged(clone)) is not None:
                yield found

    def statistics(self) -> ProducerStatistics[CloneId]:
        """Say how far each clone is."""
        return self._producer.statistics()

    def __len__(self) -> int:
        """Count the clones, loading or loaded."""
        return len(self._clones)

    def __contains__(self, clone: CloneId) -> bool:
        """Tell whether a clone was taken in, and is still there."""
        return clone in self._clones

    def lagging(self, sequence: int) -> Iterator[str]:
        """Say which clones have not acknowledged this event yet, and how far they are."""
        for clone, welcome in self._clones.items():
            acknowledged = self._producer.acknowledged(clone)
            if welcome is not None:
                yield f"clone {clone.entity} is loading its snapshot"
            elif acknowledged is None or acknowledged < sequence:
                yield f"clone {clone.entity} has acknowledged {acknowledged} of {sequence}"

    # -- the channel's backend -------------------------------------------------------------------

    def send(
        self,
        _producer: Producer[CloneId, bytes],
        handle: CloneId,
        message: ProducerMessage[bytes],
    ) -> None:
        """Put a message of the channel to one clone in the form of a command (seed 7.5.1)."""
        match message:
            case Event(_, sequence, payloads):
                self._send_again(handle, sequence, payloads)
            case Handshake(_, offset, interval_ticks):
                self._send_welcome(handle, offset, interval_ticks)
            case RetransmitFailed(_, sequence):
                self._send(handle, sequence, RetransmitFailedCommand())
            case Heartbeat(_, sequence):
                self._send(handle, sequence, KeepaliveCommand())
            case UnknownConsumer():
                self.refuse(handle)
            case _:
                assert_never(message)

    def broadcast(
        self, _producer: Producer[CloneId, bytes], message: ProducerMessage[bytes]
    ) -> None:
        """Put a message of the channel to all clones in the form of a command."""
        if isinstance(message, Event):
            payload = self._encoder.encode(message.first_sequence, message.payloads)
            self._effects.append(Multicast(payload))
        else:
            assert isinstance(message, Heartbeat), message
            self.tell_all(KeepaliveCommand())

    def drop(
        self, _producer: Producer[CloneId, bytes], handle: CloneId, _reason: ErrorCode
    ) -> None:
        """Forget a clone that fell silent, or broke the protocol."""
        self._clones.pop(handle, None)

    def handshake_completed(self, _producer: Producer[CloneId, bytes], handle: CloneId) -> None:
        """Forget the snapshot of a clone that has loaded it."""
        self._clones[handle] = None

    # -- steps -----------------------------------------------------------------------------------

    def _send(self, clone: CloneId, sequence: int, content: Content) -> None:
        command = InternalCommand(sequence, self._entity, clone.session, self._epoch, content)
        self._effects.append(Unicast(clone.entity.endpoint, encode_command(command)))

    def _send_again(self, clone: CloneId, sequence: int, payloads: Sequence[bytes]) -> None:
        encoder = ActionsEncoder(self._entity, clone.session, self._epoch)
        for run in in_runs(payloads):
            payload = encoder.encode(sequence, run)
            self._effects.append(Unicast(clone.entity.endpoint, payload))
            sequence += len(run)

    def _send_welcome(self, clone: CloneId, offset: int, interval_ticks: int) -> None:
        welcome = self._clones[clone]
        assert welcome is not None, clone
        source = welcome.source
        assert source.sequence == offset, (source.sequence, offset)
        chunk = welcome.take_first_chunk()
        content = AckCloneCommand(
            interval_ticks,
            source.revision,
            welcome.request,
            welcome.outcomes,
            welcome.replicas,
            chunk,
        )
        self._send(clone, offset, content)

    def _new_producer(self, sequence: int) -> Producer[CloneId, bytes]:
        return Producer(self, epoch=self._epoch, config=STORE_CHANNEL, sequence=sequence)

    def _floor(self, clone: CloneId) -> int:
        """Say from where on a clone needs the backlog."""
        welcome = self._clones[clone]
        if welcome is not None:
            return welcome.source.sequence
        return self._producer.acknowledged(clone) or 0

    def _discard(self, clone: CloneId) -> None:
        self._clones.pop(clone, None)
        self._producer.discard(clone)
        self._prune()

    def _prune(self) -> None:
        """Count what the producer still keeps."""
        floor = self._producer.sequence - self._producer.unacknowledged
        while self._backlog and self._backlog[0][0] <= floor:
            self._backlog_size -= self._backlog.popleft()[1]
