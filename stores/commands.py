"""What the channels between leaders and followers say, as commands on the wire (seed 7.5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import channels
from channels import ConsumerMessage, ProducerMessage
from stores.actions import WriterId
from wire.identifiers import EntityId


# Not frozen, like all that is built for every message: a frozen one takes three times as long.
@dataclass(slots=True)
class Actions:
    """A run of consecutive payloads; the command's sequence is the first's."""

    payloads: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class AttachWriterCommand:
    """A writer's producer to its leader: events begin after this sequence number."""

    heartbeat_interval_ticks: int


@dataclass(frozen=True, slots=True)
class KeepaliveCommand:
    """A producer to its consumers: the sequence number is that of my latest event."""

    is_urgent: bool = False
    """Asks for an acknowledgement at once: a caller waits for idleness, or for memory."""


@dataclass(frozen=True, slots=True)
class CumulativeAckCommand:
    """A consumer to its producer: I processed everything up to the sequence number."""


@dataclass(frozen=True, slots=True)
class NackCommand:
    """A consumer to its producer: I lack these."""

    sequences: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RetransmitFailedCommand:
    """A producer to one consumer: that event exists no more."""


@dataclass(frozen=True, slots=True)
class HandshakeRequestCommand:
    """A consumer to a producer that it may not know: take me in (Broker's nack of zero)."""

    writer: WriterId | None = None
    """As whom a copy of a store wrote; logs say it elsewhere."""
    resolved_request: int = 0
    """Up to where such a copy knew what became of its requests."""


@dataclass(frozen=True, slots=True)
class UnknownConsumerCommand:
    """A producer to a consumer that it does not know: begin anew."""


@dataclass(frozen=True, slots=True)
class DetachCommand:
    """A follower to its leader: I close, do not wait for me."""


NamesLeader = HandshakeRequestCommand | DetachCommand
"""Sent to the leader that the sender follows: the epoch is that leader's."""


@dataclass(frozen=True, slots=True)
class NotAllowedCommand:
    """To a follower or a writer: what you ask for is not done, your role does not permit it."""

    is_reading: bool
    """Whether it is about having a copy; otherwise about everything that was asked to be done."""
    text: str


ProducerControl = (
    AttachWriterCommand
    | KeepaliveCommand
    | RetransmitFailedCommand
    | UnknownConsumerCommand
    | NotAllowedCommand
)

ConsumerControl = CumulativeAckCommand | NackCommand | HandshakeRequestCommand | DetachCommand

Content = Actions | ProducerControl | ConsumerControl
"""What a command on the wire holds."""


@dataclass(slots=True)
class InternalCommand:
    """One message between a leader and a follower (the seed's ``internal_command``)."""

    sequence: int
    """What it counts depends on the content; zero where nothing is counted."""
    sender: EntityId
    session: int | None
    """Which attempt of the follower to attach this is about; ``None`` if it is about all followers,
    or about the follower's producer."""
    epoch: int | None
    """The epoch of the channel's producer; ``None`` if the sender has heard of none."""
    content: Content


def producer_message(command: InternalCommand) -> ProducerMessage[bytes] | None:
    """Give the channel's message if a producer of events sent this, following the mapping."""
    epoch, sequence = command.epoch, command.sequence
    if epoch is None:
        return None
    match command.content:
        case Actions(payloads):
            return channels.Event(epoch, sequence, payloads)
        case KeepaliveCommand():
            return channels.Heartbeat(epoch, sequence)
        case AttachWriterCommand(interval_ticks):
            return channels.Handshake(epoch, sequence, interval_ticks)
        case RetransmitFailedCommand():
            return channels.RetransmitFailed(epoch, sequence)
        case UnknownConsumerCommand():
            return channels.UnknownConsumer(epoch)
        case _:
            return None


def consumer_message(command: InternalCommand) -> ConsumerMessage | None:
    """Give the channel's message if a consumer of events sent this, following the mapping."""
    match command.content:
        case Actions():
            return None  # what most commands are is told apart first
        case CumulativeAckCommand() if command.epoch is not None:
            return channels.CumulativeAck(command.epoch, command.sequence)
        case NackCommand(sequences) if command.epoch is not None:
            return channels.Nack(command.epoch, sequences)
        case HandshakeRequestCommand():
            return channels.HandshakeRequest(command.epoch)
        case _:
            return None


def consumer_command(message: ConsumerMessage) -> tuple[int, Content]:
    """Give sequence number and content of the command for a message of a consumer."""
    match message:
        case channels.CumulativeAck(_, sequence):
            return sequence, CumulativeAckCommand()
        case channels.Nack(_, sequences):
            return 0, NackCommand(sequences)
        case channels.HandshakeRequest():
            return 0, HandshakeRequestCommand()
