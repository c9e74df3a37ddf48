"""The internal commands of stores: what masters and clones say to each other (seed 7.5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import channels
from channels import ConsumerMessage, ProducerMessage
from stores.actions import Action, WriterId
from stores.digests import Digest, ReplicaDigest
from stores.outcomes import Outcome
from stores.questions import (
    LookUpCommand as LookUpCommand,
    Question as Question,
    ReadAnswerCommand as ReadAnswerCommand,
    ReadRefusedCommand as ReadRefusedCommand,
    Row as Row,
    ScanCommand as ScanCommand,
)
from stores.snapshots import Chunk
from wire.errors import ErrorCode
from wire.identifiers import EntityId


class CommandTag(Enum):
    """What a receiver looks at first (seed 7.5.1)."""

    ACTION = "action"
    PRODUCER_CONTROL = "producer_control"
    CONSUMER_CONTROL = "consumer_control"


# -- control: the channels' own messages, and the way to a snapshot --------------------------------


# Not frozen, like all that is built for every message: a frozen one takes three times as long.
@dataclass(slots=True)
class Actions:
    """A run of consecutive actions, encoded one by one; the command's sequence is the first's."""

    payloads: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class AttachWriterCommand:
    """A clone's producer to the master: events begin after this sequence number."""

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
class AckCloneCommand:
    """The master takes a clone in: a snapshot as of the sequence number, events after it."""

    heartbeat_interval_ticks: int
    revision: int
    """The master's revision in the snapshot."""
    request: int
    """Everything up to this number that the clone's writer asked for is in the snapshot."""
    outcomes: tuple[Outcome, ...]
    """What became of it, as far as the clone has not said that it knows."""
    replicas: int
    """So many clones have to have what a receipt is about; only then it is given."""
    chunk: Chunk | None
    """The first part of the snapshot, unless it is large; the clone asks for the others."""


@dataclass(frozen=True, slots=True)
class RetransmitFailedCommand:
    """A producer to one consumer: that event exists no more."""


@dataclass(frozen=True, slots=True)
class HandshakeRequestCommand:
    """A consumer to a producer that it may not know: take me in (Broker's nack of zero)."""

    writer: WriterId | None = None
    """As whom a clone writes. ``None`` from a master to a clone's producer."""
    resolved_request: int = 0
    """The clone knows what became of all its requests up to this one."""


@dataclass(frozen=True, slots=True)
class UnknownConsumerCommand:
    """A producer to a consumer that it does not know: begin anew."""


@dataclass(frozen=True, slots=True)
class SnapshotRequestCommand:
    """A clone to the master: send these chunks of my snapshot."""

    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SnapshotChunkCommand:
    """The master to a clone: a chunk that it asked for; the sequence number is the snapshot's."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class BarrierRequestCommand:
    """A clone to the master: which is your latest event?"""

    number: int


@dataclass(frozen=True, slots=True)
class BarrierAnswerCommand:
    """The master to a clone: it was this sequence number when your request came."""

    number: int


@dataclass(frozen=True, slots=True)
class HistoryRequestCommand:
    """A clone to the master: what happened after one revision, up to another?"""

    after: int
    until: int


@dataclass(frozen=True, slots=True)
class HistoryAnswerCommand:
    """The master to a clone: this; nothing if both revisions are one, as it is not known."""

    after: int
    until: int
    commits: bytes
    """Revision, writer and changes of each commit, as one encoded value."""


@dataclass(frozen=True, slots=True)
class DetachCommand:
    """A clone to the master: I close, do not wait for me."""


@dataclass(frozen=True, slots=True)
class MasterClosedCommand:
    """The master to all: I close."""

    code: ErrorCode
    text: str


@dataclass(frozen=True, slots=True)
class ProclaimCommand:
    """A master to all masters of its store: I lead, unless your epoch is higher."""


@dataclass(frozen=True, slots=True)
class ReplicatedCommand:
    """A master to all: as many clones as it waits for have everything up to the sequence number."""


@dataclass(frozen=True, slots=True)
class DigestAnswerCommand:
    """A clone to the master: what I have at the event of that comparison."""

    number: int
    digest: Digest


@dataclass(frozen=True, slots=True)
class VerifyRequestCommand:
    """A clone to the master: compare all replicas."""

    token: int


@dataclass(frozen=True, slots=True)
class VerifyAnswerCommand:
    """The master to a clone: so the comparison went, that it asked for."""

    token: int
    rows: tuple[ReplicaDigest, ...]


# -- proxies ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GreetingCommand:
    """A proxy to the master, twice a second: I am here; the epoch is the highest that I know."""

    number: int
    writer: WriterId
    resolved_request: int
    """The proxy knows what became of all its requests up to this one."""


NamesMaster = HandshakeRequestCommand | GreetingCommand | DetachCommand
"""Sent to the master that the sender follows: the epoch is that master's."""


@dataclass(frozen=True, slots=True)
class OutcomesCommand:
    """The master to a proxy: what became of its requests after one, up to another."""

    number: int
    """Of the latest greeting."""
    after: int
    request: int
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class NotAllowedCommand:
    """To a clone or a writer: what you ask for is not done, your role does not permit it."""

    is_reading: bool
    """Whether it is about having a clone; otherwise about everything that was asked to be done."""
    text: str


ProducerControl = (
    AttachWriterCommand
    | KeepaliveCommand
    | AckCloneCommand
    | RetransmitFailedCommand
    | UnknownConsumerCommand
    | SnapshotChunkCommand
    | BarrierAnswerCommand
    | HistoryAnswerCommand
    | MasterClosedCommand
    | ProclaimCommand
    | ReplicatedCommand
    | VerifyAnswerCommand
    | OutcomesCommand
    | ReadAnswerCommand
    | ReadRefusedCommand
    | NotAllowedCommand
)

ConsumerControl = (
    CumulativeAckCommand
    | NackCommand
    | HandshakeRequestCommand
    | SnapshotRequestCommand
    | BarrierRequestCommand
    | HistoryRequestCommand
    | DetachCommand
    | DigestAnswerCommand
    | VerifyRequestCommand
    | GreetingCommand
    | LookUpCommand
    | ScanCommand
)

Content = Actions | ProducerControl | ConsumerControl
"""What a command on the wire holds."""


@dataclass(slots=True)
class InternalCommand:
    """One message between a master and a clone (the seed's ``internal_command``)."""

    sequence: int
    """What it counts depends on the content; zero where nothing is counted."""
    sender: EntityId
    session: int | None
    """Which attempt of the clone to attach this is about; ``None`` if it is about all clones,
    or about the clone's producer."""
    epoch: int | None
    """The epoch of the channel's producer; ``None`` if the sender has heard of none."""
    content: Content


CHANNEL_MESSAGES: Final[dict[type[Content], type]] = {
    AttachWriterCommand: channels.Handshake,
    AckCloneCommand: channels.Handshake,
    CumulativeAckCommand: channels.CumulativeAck,
    NackCommand: channels.Nack,
    KeepaliveCommand: channels.Heartbeat,
    RetransmitFailedCommand: channels.RetransmitFailed,
    Actions: channels.Event,
    HandshakeRequestCommand: channels.HandshakeRequest,
    UnknownConsumerCommand: channels.UnknownConsumer,
}
"""The mapping of the seed (7.5.1), and below it what our channels have beyond the seed's."""

_TAGS: Final[dict[type[Content | Action], CommandTag]] = {
    **dict.fromkeys(Action.__args__, CommandTag.ACTION),
    **dict.fromkeys(ProducerControl.__args__, CommandTag.PRODUCER_CONTROL),
    **dict.fromkeys(ConsumerControl.__args__, CommandTag.CONSUMER_CONTROL),
    Actions: CommandTag.ACTION,
}


def tag_of(content: Content | Action) -> CommandTag:
    """Tell an action from a message of the channel's producer or consumer (seed 7.5.1)."""
    return _TAGS[type(content)]


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
        case AttachWriterCommand(interval_ticks) | AckCloneCommand(interval_ticks):
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
