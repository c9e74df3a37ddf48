"""The sending end of a channel: numbers events, keeps them until all have them (seed 7.4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Protocol, assert_never

from channels.backlog import Backlog, Buffer
from channels.config import (
    DEFAULT_CONFIG,
    INITIAL_SEQUENCE,
    NACK_COUNT_MAX,
    RETRANSMIT_COUNT_MAX,
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
from channels.statistics import HandleT, PathStatistics, ProducerStatistics
from wire.errors import ErrorCode, LocalProtocolError


class ProducerBackend(Protocol[HandleT, PayloadT]):
    """The transport and the owner of a producer.

    Each callback gets the producer first, so that one backend may serve several. A backend may
    call the producer back from inside of a callback.
    """

    def send(
        self,
        producer: Producer[HandleT, PayloadT],
        handle: HandleT,
        message: ProducerMessage[PayloadT],
    ) -> None:
        """Send a message to one consumer; it may get lost."""

    def broadcast(
        self, producer: Producer[HandleT, PayloadT], message: ProducerMessage[PayloadT]
    ) -> None:
        """Send a message to all consumers; it may get lost on the way to any of them."""

    def drop(
        self, producer: Producer[HandleT, PayloadT], handle: HandleT, reason: ErrorCode
    ) -> None:
        """Learn that the producer removed a consumer, and why.

        The reason is ``CONNECTION_TIMEOUT`` for one that fell silent, ``INVALID_DATA`` for a nack
        out of order, ``LIMIT_EXCEEDED`` for a nack that is too long.
        """

    def handshake_completed(self, producer: Producer[HandleT, PayloadT], handle: HandleT) -> None:
        """Learn that a consumer acknowledged its handshake.

        Comes again after each repeated handshake of a consumer that had one before.
        """


@dataclass(slots=True)
class _Path:
    """The producer's view of one consumer."""

    floor: int
    """All events above it may still be asked for. Never sinks."""
    last_seen_tick: int
    is_pending: bool = True
    """True until the consumer acknowledges its (latest) handshake."""

    @property
    def acknowledged(self) -> int | None:
        return None if self.is_pending else self.floor


class Producer(Generic[HandleT, PayloadT]):
    """Numbers events, broadcasts them, and keeps each until every consumer acknowledged it.

    An owner that keeps its events anyway, as a journal, lends it as the ``backlog``: the producer
    then keeps none, and asks the backlog for what consumers lack. Events have to be in it before
    they are produced. As they exist with or without consumers, the sequence advances either way.

    A handle names one consumer for its whole life. If a successor takes the handle over, a late
    acknowledgement of its predecessor may speak for it; it then ends up closed and has to begin
    once more. Iteration over consumers follows the order in which they were added.

    The buffer has no limit here, because only the owner knows what waiting means: hold back while
    ``unacknowledged`` is large. Consumers that fall silent are dropped after the timeout, which
    bounds for how long one of them can pin the buffer.
    """

    def __init__(
        self,
        backend: ProducerBackend[HandleT, PayloadT],
        *,
        epoch: int,
        config: ChannelConfig = DEFAULT_CONFIG,
        sequence: int = INITIAL_SEQUENCE,
        backlog: Backlog[PayloadT] | None = None,
    ) -> None:
        """Stand at ``sequence``: the first event gets the number after it.

        The epoch has to be greater than that of any producer that these consumers had before. A
        ``backlog`` that is given has to end at ``sequence``.
        """
        self._backend = backend
        self._epoch = epoch
        self._config = config
        self.sequence = sequence
        """The number of the latest event."""
        self._buffer: Buffer[PayloadT] | None = None
        if backlog is None:
            backlog = self._buffer = Buffer(sequence + 1)
        self._backlog: Backlog[PayloadT] = backlog
        # All consumers acknowledged everything up to it: the lowest floor, or the sequence if there
        # are no consumers. Own events are kept from the next one on.
        self._floor = sequence
        self._paths: dict[HandleT, _Path] = {}
        self._tick = 0
        self._last_broadcast_tick = 0
        self._retransmitted_count = 0
        self._retransmit_failed_count = 0
        self._refused_count = 0
        self._stale_count = 0
        self._unknown_count = 0
        self._dropped_count = 0

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs: who has acknowledged what."""
        consumers = {handle: path.acknowledged for handle, path in self._paths.items()}
        return (
            f"<Producer epoch={self._epoch} sequence={self.sequence}"
            f" unacknowledged={self.unacknowledged} tick={self._tick} consumers={consumers}>"
        )

    # -- what the owner does ---------------------------------------------------------------------

    def produce(self, payload: PayloadT) -> None:
        """Broadcast one event. Without consumers and backlog the sequence does not advance."""
        if not self._paths:
            self._advance_alone(1)
            return
        self.sequence = sequence = self.sequence + 1
        if self._buffer is not None:
            self._buffer.events.append(payload)
        self._last_broadcast_tick = self._tick
        self._backend.broadcast(self, Event(self._epoch, sequence, (payload,)))

    def produce_run(self, payloads: Sequence[PayloadT]) -> None:
        """Broadcast consecutive events as one message; do not change ``payloads`` afterwards."""
        if not payloads:
            return
        if not self._paths:
            self._advance_alone(len(payloads))
            return
        first_sequence = self.sequence + 1
        self.sequence += len(payloads)
        if self._buffer is not None:
            self._buffer.extend(payloads)
        self._last_broadcast_tick = self._tick
        self._backend.broadcast(self, Event(self._epoch, first_sequence, payloads))

    def skip(self, count: int = 1) -> None:
        """Number events that no consumer waits for, and that the backlog need not keep."""
        assert not self._paths, "consumers wait for them"
        self.sequence += count
        self._floor = self.sequence

    def add(self, handle: HandleT, after: int | None = None) -> None:
        """Take a consumer in and send its handshake: it gets every event from now on.

        One that has everything up to ``after`` already gets what comes after that; it has to ask
        for what was produced before. Raises ``LocalProtocolError`` if the handle is known, or if
        the events after ``after`` are not kept.
        """
        if handle in self._paths:
            raise LocalProtocolError(f"{handle!r} is a consumer already: discard it first")
        offset = self.sequence if after is None else after
        if not self._backlog.first_sequence - 1 <= offset <= self.sequence:
            first, last = self._backlog.first_sequence, self.sequence
            raise LocalProtocolError(f"no events after {offset}: {first} to {last} are kept")
        self._paths[handle] = _Path(floor=offset, last_seen_tick=self._tick)
        self._floor = min(self._floor, offset)
        self._send_handshake(handle, offset=offset)

    def discard(self, handle: HandleT) -> None:
        """Forget a consumer, without the ``drop`` callback. An unknown handle changes nothing."""
        if self._paths.pop(handle, None) is not None:
            self._prune()

    def receive(self, handle: HandleT, message: ConsumerMessage) -> None:
        """Take in a message of a consumer, known here or not."""
        epoch = message.epoch
        if epoch is not None and epoch > self._epoch:
            # Meant for a successor of ours. Answering could only take its consumers away.
            self._refused_count += 1
        elif isinstance(message, HandshakeRequest):
            self._on_handshake_request(handle)
        elif (path := self._paths.get(handle)) is None:
            self._unknown_count += 1
            self._backend.send(self, handle, UnknownConsumer(self._epoch))
        elif epoch != self._epoch:
            self._stale_count += 1
        elif isinstance(message, CumulativeAck):
            self._on_cumulative_ack(handle, path, message.sequence)
        elif isinstance(message, Nack):
            self._on_nack(handle, path, message.sequences)
        else:
            assert_never(message)

    def tick(self) -> None:
        """Let one tick pass: heartbeat if it is time, drop consumers that fell silent."""
        self._tick += 1
        interval_ticks = self._config.heartbeat_interval_ticks
        if interval_ticks == 0:
            return
        if self._tick - self._last_broadcast_tick >= interval_ticks:
            self._last_broadcast_tick = self._tick
            self._backend.broadcast(self, Heartbeat(self._epoch, self.sequence))
        timeout_ticks = interval_ticks * self._config.connection_timeout_factor
        silent = [
            handle
            for handle, path in self._paths.items()
            if self._tick - path.last_seen_tick >= timeout_ticks
        ]
        for handle in silent:
            self._drop(handle, ErrorCode.CONNECTION_TIMEOUT)

    # -- what the owner asks ---------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch that every message of this producer carries."""
        return self._epoch

    @property
    def unacknowledged(self) -> int:
        """How many events wait for the acknowledgement of at least one consumer."""
        return self.sequence - self._floor

    @property
    def is_idle(self) -> bool:
        """True if every consumer acknowledged its handshake and the latest event."""
        return not self.unacknowledged and not self.has_pending_consumers

    @property
    def has_pending_consumers(self) -> bool:
        """True if a consumer has not acknowledged its handshake."""
        return any(path.is_pending for path in self._paths.values())

    @property
    def handles(self) -> tuple[HandleT, ...]:
        """All consumers, in the order they were added."""
        return tuple(self._paths)

    def acknowledged(self, handle: HandleT) -> int | None:
        """Tell what a consumer acknowledged; ``None`` if nothing yet, or if it is unknown."""
        path = self._paths.get(handle)
        return None if path is None else path.acknowledged

    def has_begun(self, handle: HandleT) -> bool:
        """Tell whether a consumer acknowledged its handshake."""
        path = self._paths.get(handle)
        return path is not None and not path.is_pending

    def statistics(self) -> ProducerStatistics[HandleT]:
        """Give a snapshot of state and counts."""
        return ProducerStatistics(
            epoch=self._epoch,
            sequence=self.sequence,
            unacknowledged=self.unacknowledged,
            tick=self._tick,
            consumers=tuple(
                PathStatistics(handle, path.acknowledged, self._tick - path.last_seen_tick)
                for handle, path in self._paths.items()
            ),
            retransmitted_count=self._retransmitted_count,
            retransmit_failed_count=self._retransmit_failed_count,
            refused_count=self._refused_count,
            stale_count=self._stale_count,
            unknown_count=self._unknown_count,
            dropped_count=self._dropped_count,
        )

    # -- steps -----------------------------------------------------------------------------------

    def _advance_alone(self, count: int) -> None:
        """Number events that no consumer waits for: only a backlog of the owner's has them."""
        if self._buffer is None:
            self.skip(count)

    def _on_handshake_request(self, handle: HandleT) -> None:
        path = self._paths.get(handle)
        if path is None:
            self.add(handle)
            return
        path.last_seen_tick = self._tick
        # One that has acknowledged and asks again lost its state, or this request is late. Either
        # way it is pending until its next acknowledgement, and its floor stays: a consumer that
        # never lost anything can go on.
        path.is_pending = True
        is_renewed = self._config.carries_snapshot
        self._send_handshake(handle, offset=self.sequence if is_renewed else path.floor)

    def _on_cumulative_ack(self, handle: HandleT, path: _Path, sequence: int) -> None:
        if sequence > self.sequence:
            self._refused_count += 1
            return
        if sequence < path.floor:
            return  # overtaken by a later one: it says nothing about now
        path.last_seen_tick = self._tick
        was_pending, path.is_pending = path.is_pending, False
        was_lowest = path.floor == self._floor
        path.floor = sequence
        if was_lowest:
            self._prune()
        if was_pending:
            self._backend.handshake_completed(self, handle)

    def _on_nack(self, handle: HandleT, path: _Path, sequences: tuple[int, ...]) -> None:
        if not sequences:
            return
        if len(sequences) > NACK_COUNT_MAX:
            self._drop(handle, ErrorCode.LIMIT_EXCEEDED)
            return
        if any(earlier >= later for earlier, later in pairwise(sequences)):
            self._drop(handle, ErrorCode.INVALID_DATA)
            return
        path.last_seen_tick = self._tick
        self._on_cumulative_ack(handle, path, sequences[0] - 1)
        for message in self._retransmissions(sequences):
            self._backend.send(self, handle, message)

    def _retransmissions(self, sequences: Iterable[int]) -> list[ProducerMessage[PayloadT]]:
        """Answer each sequence number; neighbours share a run."""
        answers: list[ProducerMessage[PayloadT]] = []
        first_kept, runs = self._backlog.first_sequence, list[list[int]]()
        for sequence in sequences:
            if sequence > self.sequence:
                # A "failed" would make the consumer skip an event that is still to come.
                self._refused_count += 1
            elif sequence < first_kept:
                self._retransmit_failed_count += 1
                answers.append(RetransmitFailed(self._epoch, sequence))
            elif runs and runs[-1][-1] == sequence - 1 and len(runs[-1]) < RETRANSMIT_COUNT_MAX:
                runs[-1].append(sequence)
            else:
                runs.append([sequence])
        for run in runs:
            self._retransmitted_count += len(run)
            payloads = self._backlog.payloads(run[0], run[-1])
            answers.append(Event(self._epoch, run[0], payloads))
        return answers

    def _send_handshake(self, handle: HandleT, *, offset: int) -> None:
        interval_ticks = self._config.heartbeat_interval_ticks
        self._backend.send(self, handle, Handshake(self._epoch, offset, interval_ticks))

    def _drop(self, handle: HandleT, reason: ErrorCode) -> None:
        if handle not in self._paths:
            return  # the backend discarded it while another one was dropped
        self._dropped_count += 1
        self.discard(handle)
        self._backend.drop(self, handle, reason)

    def _prune(self) -> None:
        """Forget every event that no consumer may ask for."""
        self._floor = min((path.floor for path in self._paths.values()), default=self.sequence)
        if self._buffer is not None:
            self._buffer.forget(self._floor)
