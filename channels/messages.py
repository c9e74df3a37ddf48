"""What the two ends of a channel say to each other: closed unions, one per direction (seed 7.4).

Sequence numbers count events of one producer and start above zero. Every message carries the
epoch of the producer that it comes from, or that it is meant for: a number that grows whenever a
producer is replaced, so that an old event is not taken for a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

PayloadT = TypeVar("PayloadT")


@dataclass(frozen=True, slots=True)
class Handshake:
    """Producer to one consumer: your first event is the one after ``offset``."""

    epoch: int
    offset: int
    heartbeat_interval_ticks: int
    """How often the consumer acknowledges, and hears from the producer. Zero: no heartbeats."""


# Not frozen: a store builds one for every command, and a frozen one takes three times as long.
@dataclass(slots=True)
class Event(Generic[PayloadT]):
    """Producer to consumers: a run of one (the seed's event) or more payloads.

    A backend may split a run to fit its frames: any slice is an event too, as long as its
    ``first_sequence`` moves along. An event and its payloads never change once built.
    """

    epoch: int
    first_sequence: int
    payloads: Sequence[PayloadT]


@dataclass(frozen=True, slots=True)
class RetransmitFailed:
    """Producer to one consumer: that event exists no more, stop asking."""

    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Producer to consumers: I live, and ``sequence`` is the number of my latest event."""

    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class UnknownConsumer:
    """Producer to one that acknowledged or asked for events: you are none of mine, begin anew."""

    epoch: int


@dataclass(frozen=True, slots=True)
class CumulativeAck:
    """Consumer to producer: I processed everything up to ``sequence``, and I live."""

    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Nack:
    """Consumer to producer: I lack these, and processed all before the first of them."""

    epoch: int
    sequences: tuple[int, ...]
    """Strictly ascending, at most ``NACK_COUNT_MAX`` of them."""


@dataclass(frozen=True, slots=True)
class HandshakeRequest:
    """Consumer to producer: I have no handshake (yet, or any more); send me one."""

    epoch: int | None
    """The newest epoch that the consumer has heard of; ``None`` if it has heard nothing."""


ProducerMessage = Event[PayloadT] | Handshake | Heartbeat | RetransmitFailed | UnknownConsumer
"""What a producer sends."""

ConsumerMessage = CumulativeAck | Nack | HandshakeRequest
"""What a consumer sends."""
