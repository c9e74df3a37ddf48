"""What a handshake asks its driver to do: a closed union."""

from __future__ import annotations

from dataclasses import dataclass

from handshake.directory import ConnectionId
from wire.clocks import VectorTime
from wire.errors import ErrorCode
from wire.identifiers import EndpointId
from wire.messages import Announcement, HandshakeMessage


@dataclass(frozen=True, slots=True)
class Send:
    """Send this message on the connection."""

    message: HandshakeMessage


@dataclass(frozen=True, slots=True)
class Established:
    """Make the connection a peering. The handshake is over, and takes nothing more.

    Hand over the frame decoder with the connection: there may be frames in it already.
    """

    peer: EndpointId
    version: int
    """The highest version of the protocol that both sides speak."""
    is_originator: bool
    knowledge: VectorTime
    """What the peer had heard before ``sent``."""
    received: tuple[Announcement, ...]
    """What the peer had heard, and we perhaps not."""
    sent: tuple[Announcement, ...]
    """What we told the peer. News that came to us since then it has not heard."""
    replaces: ConnectionId | None
    """The connection of an older peering with the same peer, which is to be closed now."""
    frame_size_max: int
    """Bytes of the largest frame that the peer takes, counted after the front."""


@dataclass(frozen=True, slots=True)
class Redundant:
    """Close the connection: it lost against another one to the same peer. This is no failure."""

    peer: EndpointId


@dataclass(frozen=True, slots=True)
class Failed:
    """Close the connection, and tell the tasks that wait for it."""

    code: ErrorCode
    reason: str
    peer: EndpointId | None
    """Who it was, if it got far enough to say so."""


@dataclass(frozen=True, slots=True)
class Reconsider:
    """Call ``reconsider()`` of the handshake on this other connection: its case is decided."""

    connection: ConnectionId


Effect = Send | Established | Redundant | Failed | Reconsider
