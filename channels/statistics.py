"""What a producer and a consumer tell about themselves: frozen snapshots."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

HandleT = TypeVar("HandleT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PathStatistics(Generic[HandleT]):
    """What a producer knows about one consumer."""

    handle: HandleT
    acknowledged: int | None
    """The last sequence number it acknowledged; ``None`` while its handshake is pending."""
    silent_ticks: int


@dataclass(frozen=True, slots=True)
class ProducerStatistics(Generic[HandleT]):
    """A producer at one moment; counts are totals since its construction."""

    epoch: int
    sequence: int
    unacknowledged: int
    tick: int
    consumers: tuple[PathStatistics[HandleT], ...]
    retransmitted_count: int
    """Payloads sent again."""
    retransmit_failed_count: int
    """Payloads asked for that were gone."""
    refused_count: int
    """Messages about events, or epochs, that are still to come."""
    stale_count: int
    """Messages to an earlier epoch, from a consumer of this one."""
    unknown_count: int
    """Messages of unknown consumers, each answered with ``UnknownConsumer``."""
    dropped_count: int
    """Consumers that were dropped."""


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """A consumer at one moment; counts are totals since its construction."""

    epoch: int | None
    next_sequence: int
    end_sequence: int
    """The first sequence number that is not known to exist."""
    buffered: int
    """Events, or known losses, that wait for an earlier event."""
    is_connected: bool
    is_closed: bool
    consumed_count: int
    lost_count: int
    """Events that were gone, where ``consume_nil`` chose to go on."""
    duplicate_count: int
    """Payloads that came after they had been consumed."""
    overflow_count: int
    """Payloads dropped because the buffer was full."""
    stale_count: int
    """Messages of an earlier epoch."""
