"""What happens on a link, for whoever keeps a record: a closed union, and the counts."""

from __future__ import annotations

from dataclasses import dataclass

from peermesh.testing.faults import Direction, LinkFault


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """A connection was accepted. Connections of a link are numbered from 1."""

    number: int


@dataclass(frozen=True, slots=True)
class ConnectionJoined:
    """The target has taken a connection: bytes may pass."""

    number: int


@dataclass(frozen=True, slots=True)
class ConnectionRefused:
    """The target did not take a connection, so that its other end got a reset."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class ConnectionEnded:
    """Both ends have closed, and know it of each other."""

    number: int


@dataclass(frozen=True, slots=True)
class ConnectionReset:
    """A connection broke: by a fault, or because an end has broken it."""

    number: int


@dataclass(frozen=True, slots=True)
class FaultApplied:
    """A fault stands from now on, or has struck."""

    fault: LinkFault
    direction: Direction


@dataclass(frozen=True, slots=True)
class LinkHealed:
    """No fault stands on this direction any more."""

    direction: Direction


LinkEvent = (
    ConnectionOpened
    | ConnectionJoined
    | ConnectionRefused
    | ConnectionEnded
    | ConnectionReset
    | FaultApplied
    | LinkHealed
)
"""What may happen on a link."""


@dataclass(frozen=True, slots=True)
class LinkStatistics:
    """What a link has done so far. Bytes count once the receiver's system has taken them."""

    accepted: int
    """Connections, refused ones too."""
    standing: int
    """Connections at the moment."""
    refused: int
    reset: int
    bytes_forth: int
    bytes_back: int
    resends: int
    """Packets that ``Loss`` has held up."""
