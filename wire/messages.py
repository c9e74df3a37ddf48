"""What travels between two endpoints that speak to each other: frozen messages, closed unions.

A node message has a form of its own, made for speed: see ``wire.framing``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from wire.clocks import LamportTime, VectorTime
from wire.errors import ErrorCode
from wire.identifiers import EndpointId
from wire.limits import FRAME_SIZE_MAX


class PackedType(IntEnum):
    """What the payload bytes of a packed message are (seed 7.1, message type 3)."""

    DATA = 1
    """A value, encoded."""
    COMMAND = 2
    """A store command (seed 7.5.1), seen by stores only."""
    BYTES = 3
    """A value of type bytes, as it is: nothing to encode, nothing to decode."""


@dataclass(frozen=True, slots=True)
class NodeHeader:
    """What the messages of a topic have in common: type, sender, receiver, and the topic."""

    type: PackedType
    sender: EndpointId
    receiver: EndpointId | None
    """``None`` addresses everyone with a matching subscription."""
    topic: str


@dataclass(frozen=True, slots=True)
class Seal:
    """What proves an announcement, and the key that proves all else from its origin."""

    key: bytes
    """The Ed25519 public key that the origin's id is made from."""
    certificates: tuple[bytes, ...]
    """In DER: the origin's own, then those between it and the authority; none without TLS."""
    endorsement: bytes
    """The certificate's key signed the origin's id, so that the name in it is the origin's."""
    signature: bytes
    """The origin's own, over everything else in the announcement."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """What an endpoint is and wants, as of its Lamport time: flooded through the mesh."""

    origin: EndpointId
    time: LamportTime
    links: tuple[EndpointId, ...]
    """Its peers, sorted. A link counts when both of its ends announce it."""
    subscriptions: tuple[str, ...]
    """The minimal set of topic prefixes that its subscribers want, sorted."""
    stores: tuple[str, ...]
    """The exact store topics (with the reserved segment) that its masters and clones hear."""
    forwarding: bool
    """False for a leaf, which no path leads through."""
    name: str | None = None
    """What its certificate calls it; ``None`` without one. Its peers see to it that it is true."""
    label: str | None = None
    """What it calls itself, for people to read. Nothing proves it: it never gives a right."""
    seal: Seal | None = None
    """Of an endpoint that signs what it sends, and this announcement too."""


@dataclass(frozen=True, slots=True)
class Preamble:
    """The first bytes of a connection in either direction: the protocol and its versions."""

    version_min: int
    version_max: int


@dataclass(frozen=True, slots=True)
class Hello:
    """The dialler's first message; an acceptor with the larger id answers with its own."""

    sender: EndpointId
    knowledge: VectorTime
    frame_size_max: int = FRAME_SIZE_MAX
    """Bytes of the largest frame that the sender takes, counted after the front."""


@dataclass(frozen=True, slots=True)
class OriginatorSyn:
    """The endpoint with the smaller id proposes the peering, with all that the other lacks."""

    sender: EndpointId
    knowledge: VectorTime
    announcements: tuple[Announcement, ...]
    frame_size_max: int = FRAME_SIZE_MAX
    """As in ``Hello``, which an acceptor that originates at once leaves out."""


@dataclass(frozen=True, slots=True)
class ResponderSynAck:
    """The endpoint with the larger id agrees, with all that the originator lacks."""

    announcements: tuple[Announcement, ...]


@dataclass(frozen=True, slots=True)
class OriginatorAck:
    """The peering stands."""


@dataclass(frozen=True, slots=True)
class DropConn:
    """The connection ends, and why: redundant, incompatible, or in breach of the protocol."""

    code: ErrorCode
    reason: str


@dataclass(frozen=True, slots=True)
class Announcements:
    """News about endpoints, passed on to peers that may not have heard."""

    items: tuple[Announcement, ...]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the sender has heard of every endpoint; the receiver answers with what it lacks."""

    vector: VectorTime


@dataclass(frozen=True, slots=True)
class Ping:
    """Asks for a pong. Also keeps the connection alive; the digest sums up what is known."""

    token: int
    digest: int


@dataclass(frozen=True, slots=True)
class Pong:
    """Answers a ping, after everything that came before it was taken in."""

    token: int
    digest: int


@dataclass(frozen=True, slots=True)
class Credit:
    """The receiver has room: so many bytes of data frames, in total, may have been sent."""

    total_bytes: int


@dataclass(frozen=True, slots=True)
class Withheld:
    """The receiver grants no credit for now, and has a reason: said once a second."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A full place asks a sender to publish no more messages with these headers, for some seconds.

    It is the whole state of the place and the sender: neither headers nor ``is_all`` lets it go on.
    Relays pass it on to the sender.
    """

    sender: EndpointId
    """Whose messages it is about."""
    holder: EndpointId
    """The endpoint whose place is full."""
    place: int
    """Which of its places."""
    label: str
    """What people call the place: the name of a subscription."""
    headers: tuple[bytes, ...]
    is_all: bool
    """Whether it is about all messages that pass the place."""


HandshakeMessage = Preamble | Hello | OriginatorSyn | ResponderSynAck | OriginatorAck | DropConn
PeerMessage = Announcements | Knowledge | Ping | Pong | Credit | Withheld | Hold | DropConn
ControlMessage = HandshakeMessage | PeerMessage
