"""Channels: one producer, many consumers, ordered and complete over a link that is neither."""

from __future__ import annotations

from channels.backlog import Backlog
from channels.config import ChannelConfig
from channels.consumer import ConsumeEach, Consumer, ConsumerBackend
from channels.messages import (
    ConsumerMessage,
    CumulativeAck,
    Event,
    Handshake,
    HandshakeRequest,
    Heartbeat,
    Nack,
    ProducerMessage,
    RetransmitFailed,
    UnknownConsumer,
)
from channels.producer import Producer, ProducerBackend
from channels.statistics import ConsumerStatistics, PathStatistics, ProducerStatistics

__all__ = [
    "Backlog",
    "ChannelConfig",
    "ConsumeEach",
    "Consumer",
    "ConsumerBackend",
    "ConsumerMessage",
    "ConsumerStatistics",
    "CumulativeAck",
    "Event",
    "Handshake",
    "HandshakeRequest",
    "Heartbeat",
    "Nack",
    "PathStatistics",
    "Producer",
    "ProducerBackend",
    "ProducerMessage",
    "ProducerStatistics",
    "RetransmitFailed",
    "UnknownConsumer",
]
