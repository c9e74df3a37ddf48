"""The receiving end of a channel: every event once and in order, or a stated end (seed 7.4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import islice
from typing import Generic, Protocol, assert_never

from channels.config import (
    CONSUMER_BUFFER_MAX,
    DEFAULT_CONFIG,
    NACK_COUNT_MAX,
    ChannelConfig,
)
from channels.messages import (
    ConsumerMessage,
    CumulativeAck,
    Event,
    Handshake,
    HandshakeRequest,
    Heartbeat,
    Nack,
    PayloadT,
    ProducerMessage,
    RetransmitFailed,
    UnknownConsumer,
)
from channels.statistics import ConsumerStatistics
from wire.errors import ErrorCode


class ConsumerBackend(Protocol[PayloadT]):
    """The transport and the owner of a consumer.

    Each callback gets the consumer first, so that one backend may serve several. ``consume_run``
    and ``consume_nil`` may not hand the same consumer a message; ``stop`` is fine everywhere.
    """

    def consume_run(self, consumer: Consumer[PayloadT], payloads: Sequence[PayloadT]) -> None:
        """Process the next events, in order. Inherit ``ConsumeEach`` to get them one by one.

        During the call ``consumer.next_sequence`` is the number of the first of them.
        """

    def send(self, consumer: Consumer[PayloadT], message: ConsumerMessage) -> None:
        """Send a message to the producer; it may get lost."""

    def consume_nil(self, consumer: Consumer[PayloadT]) -> ErrorCode | None:
        """Process the loss of the next event, ``consumer.next_sequence``.

        ``None`` goes on without it; an error closes the consumer with that reason.
        """

    def close(self, consumer: Consumer[PayloadT], reason: ErrorCode) -> None:
        """Learn that the consumer has ended; it ignores everything from now on.

        An owner who still wants events builds a new consumer, with ``epoch`` of this one as its
        ``epoch_min``. Reasons: ``CONNECTION_TIMEOUT`` if the producer fell silent;
        ``BROKEN_CLONE`` if it was replaced by one of a newer epoch, or does not know us any more;
        and whatever ``consume_nil`` returned.
        """


class ConsumeEach(Generic[PayloadT]):
    """For backends that process payloads one by one, as in the seed: implement ``consume``."""

    def consume(self, consumer: Consumer[PayloadT], payload: PayloadT) -> None:
        """Process the next event."""
        raise NotImplementedError

    def consume_run(self, consumer: Consumer[PayloadT], payloads: Sequence[PayloadT]) -> None:
        """Process the next events, until the consumer is stopped."""
        for payload in payloads:
            self.consume(consumer, payload)
            if consumer.is_closed:
                return


class _Hole(Enum):
    """What stands in the buffer instead of a payload. ``None`` will not do: it is a payload."""

    LOST = 1
    """The producer does not have it any more."""
    MISSING = 2
    """Not in the buffer at all."""


class Consumer(Generic[PayloadT]):
    """Puts events in order, asks for what is missing, acknowledges what was consumed.

    Before its handshake it buffers events and asks for the handshake. Epochs only grow: a message
    of an older one is late and ignored; one of a newer one means that our producer was replaced,
    and closes the consumer (before the handshake it only forgets what the old producer sent).
    """

    def __init__(
        self,
        backend: ConsumerBackend[PayloadT],
        *,
        config: ChannelConfig = DEFAULT_CONFIG,
        epoch_min: int | None = None,
    ) -> None:
        """Wait for a handshake, of ``epoch_min`` or later if it is given."""
        self._backend = backend
        self._config = config
        self._epoch = epoch_min
        self._heartbeat_interval_ticks = 0
        self._is_connected = False
        self._is_closed = False
        self._is_consuming = False
        self.next_sequence = 0
        """The number of the event to consume next; means nothing before the handshake."""
        # The first number not known to exist: events in [next, end) without a place in the buffer
        # are missing. Kept from before the handshake on, so that the handshake forgets no gap.
        self._end = 0
        self._buffer: dict[int, PayloadT | _Hole] = {}
        self._tick = 0
        self._idle_ticks = 0
        self._next_at_last_tick = 0
        self._last_heard_tick = 0
        self._consumed_count = 0
        self._lost_count = 0
        self._duplicate_count = 0
        self._overflow_count = 0
        self._stale_count = 0

    def __repr__(self) -> str:
        """Show in one line what the consumer has, and what it waits for."""
        state = "closed" if self._is_closed else "connected" if self._is_connected else "waiting"
        return (
            f"<Consumer {state} epoch={self._epoch} next={self.next_sequence} end={self._end}"
            f" buffered={len(self._buffer)} tick={self._tick}>"
        )

    # -- what the owner does ---------------------------------------------------------------------

    def start(self) -> None:
        """Ask for the handshake now, not only after the first timeout."""
        if not self._is_connected and not self._is_closed:
            self._backend.send(self, HandshakeRequest(self._epoch))

    def receive(self, message: ProducerMessage[PayloadT]) -> None:
        """Take in what the producer sent."""
        assert not self._is_consuming, f"{self!r}: a message came from inside of consume"
        if self._is_closed:
            return
        epoch = message.epoch
        if epoch != self._epoch and not self._admits(epoch):
            return
        self._last_heard_tick = self._tick
        match message:
            case Event():
                self._on_event(message.first_sequence, message.payloads)
            case Heartbeat():
                self._end = max(self._end, message.sequence + 1)
            case Handshake():
                self._on_handshake(message)
            case RetransmitFailed():
                self._on_retransmit_failed(message.sequence)
            case UnknownConsumer():
                self._on_unknown_consumer()
            case _:
                assert_never(message)

    def tick(self) -> None:
        """Let one tick pass: acknowledge or ask if it is time, close if the producer is silent."""
        if self._is_closed:
            return
        self._tick += 1
        if not self._is_connected:
            if self._tick % self._config.nack_timeout_ticks == 0:
                self.start()
            return
        if self._is_producer_silent():
            self._close(ErrorCode.CONNECTION_TIMEOUT)
            return
        has_progress = self.next_sequence != self._next_at_last_tick
        self._next_at_last_tick = self.next_sequence
        self._idle_ticks = 0 if has_progress else self._idle_ticks + 1
        is_stuck = self._idle_ticks >= self._config.nack_timeout_ticks
        if is_stuck and self.next_sequence < self._end:
            self._idle_ticks = 0
            self._ask_for_missing()
        elif self._is_ack_due(has_progress=has_progress):
            self._acknowledge()

    def acknowledge(self) -> None:
        """Acknowledge now, not only at the next heartbeat: for owners that are waited for."""
        if self._is_connected and not self._is_closed:
            self._acknowledge()

    def stop(self) -> None:
        """End the consumer without the ``close`` callback, because its owner wants no more."""
        self._is_closed = True
        self._buffer.clear()

    # -- what the owner asks ---------------------------------------------------------------------

    def accepts(self, handshake: Handshake) -> bool:
        """Tell whether ``receive`` would begin with this handshake.

        An owner whose handshakes carry a snapshot asks first, installs the snapshot, and then
        hands the handshake over: events that waited for it are consumed at once.
        """
        is_waiting = not self._is_connected and not self._is_closed
        return is_waiting and (self._epoch is None or handshake.epoch >= self._epoch)

    @property
    def epoch(self) -> int | None:
        """The newest epoch heard of; ``None`` if nothing was heard."""
        return self._epoch

    @property
    def missing_count(self) -> int:
        """How many events are known to exist, and are not consumed."""
        return max(0, self._end - self.next_sequence)

    @property
    def is_connected(self) -> bool:
        """True from the handshake on, even after the end."""
        return self._is_connected

    @property
    def is_closed(self) -> bool:
        """True from ``close`` or ``stop`` on."""
        return self._is_closed

    @property
    def is_idle(self) -> bool:
        """True if it has its handshake and everything that it knows to exist."""
        return self._is_connected and self.next_sequence == self._end and not self._is_closed

    def statistics(self) -> ConsumerStatistics:
        """Give a snapshot of state and counts."""
        return ConsumerStatistics(
            epoch=self._epoch,
            next_sequence=self.next_sequence,
            end_sequence=self._end,
            buffered=len(self._buffer),
            is_connected=self._is_connected,
            is_closed=self._is_closed,
            consumed_count=self._consumed_count,
            lost_count=self._lost_count,
            duplicate_count=self._duplicate_count,
            overflow_count=self._overflow_count,
            stale_count=self._stale_count,
        )

    # -- steps: messages -------------------------------------------------------------------------

    def _admits(self, epoch: int) -> bool:
        """Decide whether to take in a message of another epoch; see the class for the rule."""
        if self._epoch is not None and epoch < self._epoch:
            self._stale_count += 1
            return False
        if self._is_connected:
            self._epoch = epoch  # for the successor's ``epoch_min``
            self._close(ErrorCode.BROKEN_CLONE)
            return False
        self._epoch = epoch
        self._end = 0
        self._buffer.clear()
        return True

    def _on_handshake(self, handshake: Handshake) -> None:
        if self._is_connected:
            # Our acknowledgement of the first one got lost, or this one is late. Harmless.
            self._acknowledge()
            return
        self._is_connected = True
        self._heartbeat_interval_ticks = handshake.heartbeat_interval_ticks
        self.next_sequence = handshake.offset + 1
        self._end = max(self._end, self.next_sequence)
        for sequence in [number for number in self._buffer if number < self.next_sequence]:
            del self._buffer[sequence]
        self._drain()
        if not self._is_closed:
            self._acknowledge()

    def _on_event(self, first_sequence: int, payloads: Sequence[PayloadT]) -> None:
        if first_sequence == self.next_sequence and self._is_connected and not self._buffer:
            self._consume(payloads)
            return
        end = first_sequence + len(payloads)
        self._end = max(self._end, end)
        if not self._is_connected or first_sequence > self.next_sequence:
            self._keep(first_sequence, payloads)
            return
        self._duplicate_count += min(end, self.next_sequence) - first_sequence
        if end > self.next_sequence:
            for sequence in range(self.next_sequence, end):
                self._buffer.pop(sequence, None)
            self._consume(payloads[self.next_sequence - first_sequence :])
            self._drain()

    def _on_retransmit_failed(self, sequence: int) -> None:
        self._end = max(self._end, sequence + 1)
        if self._is_connected and sequence < self.next_sequence:
            return
        if sequence == self.next_sequence or len(self._buffer) < CONSUMER_BUFFER_MAX:
            self._buffer.setdefault(sequence, _Hole.LOST)
        if self._is_connected:
            self._drain()

    def _on_unknown_consumer(self) -> None:
        # The producer forgot us, and may have forgotten events that we lack. Before the handshake
        # it is about a predecessor of ours: we have sent nothing that it could answer.
        if self._is_connected:
            self._close(ErrorCode.BROKEN_CLONE)

    # -- steps: the buffer -----------------------------------------------------------------------

    def _keep(self, first_sequence: int, payloads: Sequence[PayloadT]) -> None:
        """Buffer a run for later, as far as there is room: the rest will be asked for again."""
        buffer = self._buffer
        if len(buffer) + len(payloads) <= CONSUMER_BUFFER_MAX:
            buffer.update(enumerate(payloads, first_sequence))
            return
        for sequence, payload in enumerate(payloads, first_sequence):
            if sequence in buffer or len(buffer) < CONSUMER_BUFFER_MAX:
                buffer[sequence] = payload
            else:
                self._overflow_count += 1

    def _drain(self) -> None:
        """Consume what is next in the buffer, until something is missing."""
        while self._buffer:
            if run := self._take_run():
                self._consume(run)
            elif self._buffer.get(self.next_sequence) is _Hole.LOST:
                self._skip_lost()
            else:
                return

    def _take_run(self) -> list[PayloadT]:
        """Take the payloads from ``next`` up to a hole out of the buffer."""
        run: list[PayloadT] = []
        sequence = self.next_sequence
        while not isinstance(payload := self._buffer.get(sequence, _Hole.MISSING), _Hole):
            run.append(payload)
            del self._buffer[sequence]
            sequence += 1
        return run

    def _consume(self, payloads: Sequence[PayloadT]) -> None:
        self._is_consuming = True
        self._backend.consume_run(self, payloads)
        self._is_consuming = False
        if self._is_closed:
            return
        self._consumed_count += len(payloads)
        self.next_sequence += len(payloads)
        if self._end < self.next_sequence:
            self._end = self.next_sequence

    def _skip_lost(self) -> None:
        self._is_consuming = True
        error = self._backend.consume_nil(self)
        self._is_consuming = False
        if self._is_closed:
            return
        if error is not None:
            self._close(error)
            return
        del self._buffer[self.next_sequence]
        self._lost_count += 1
        self.next_sequence += 1

    def _missing(self) -> tuple[int, ...]:
        numbers = range(self.next_sequence, self._end)
        missing = (number for number in numbers if number not in self._buffer)
        return tuple(islice(missing, NACK_COUNT_MAX))

    # -- steps: the producer ---------------------------------------------------------------------

    def _acknowledge(self) -> None:
        assert self._epoch is not None, repr(self)
        self._backend.send(self, CumulativeAck(self._epoch, self.next_sequence - 1))

    def _ask_for_missing(self) -> None:
        """Ask; which acknowledges too, as everything before the first missing was consumed."""
        assert self._epoch is not None, repr(self)
        assert self.next_sequence not in self._buffer, repr(self)
        self._backend.send(self, Nack(self._epoch, self._missing()))

    def _is_ack_due(self, *, has_progress: bool) -> bool:
        if self._heartbeat_interval_ticks == 0:
            return has_progress
        return self._tick % self._heartbeat_interval_ticks == 0

    def _is_producer_silent(self) -> bool:
        timeout_ticks = self._heartbeat_interval_ticks * self._config.connection_timeout_factor
        return 0 < timeout_ticks <= self._tick - self._last_heard_tick

    def _close(self, reason: ErrorCode) -> None:
        self.stop()
        self._backend.close(self, reason)
