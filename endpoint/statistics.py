"""Frozen snapshots of what an endpoint has done and holds."""

from __future__ import annotations

from dataclasses import dataclass

from endpoint.link.link import OutboxStatistics
from wire.identifiers import EndpointId
from wire.public import public


@public
@dataclass(frozen=True, slots=True)
class PeerInfo:
    """One peer, as ``peers()`` lists it."""

    node_id: EndpointId
    name: str
    """How it is called, for people to read, or else its id: see ``Endpoint.name_of``."""
    address: tuple[str, int] | None
    """The other side's network address; of an inbound peer, with the port that it dials from."""
    certificate_name: str | None
    """What the peer's certificate calls it; ``None`` without TLS. Worth something only where the
    certificates come from an authority that nobody else can use."""
    is_outbound: bool
    """Whether this endpoint dialled."""
    messages_received: int
    bytes_received: int
    bytes_sent: int
    outbox: OutboxStatistics


@public
@dataclass(frozen=True, slots=True)
class DialInfo:
    """An address that this endpoint was told to peer with, and is no peer of, or no longer."""

    address: tuple[str, int]
    retry: float
    """The longest pause between two attempts in seconds; 0 is one attempt."""
    was_peer: bool
    """Whether there was a peering with it before."""
    reason: str | None
    """Why the last attempt failed; ``None`` while the first one is under way."""


@public
@dataclass(frozen=True, slots=True)
class EndpointStatistics:
    """An endpoint in numbers. Counters begin with the endpoint."""

    peers: tuple[PeerInfo, ...]
    endpoints_known: int
    messages_published: int
    messages_waiting: int
    """In the queues of local subscribers."""
    messages_dropped: int
    """By subscribers that nobody read, and by the outboxes of stalled peers."""
    messages_duplicate: int
    """Came twice while the mesh was changing, and were suppressed."""
    messages_malformed: int
    """Payloads that could not be decoded, and were skipped."""
    messages_refused: int = 0
    """Messages, subscriptions and store commands of others that their roles do not permit."""
    messages_forged: int = 0
    """Messages and announcements in the name of an endpoint that signs, which it has not signed."""
    host_lag: float | None = None
    """Seconds by which the asyncio loop that the mesh is a guest of was late, the worst of the last
    minute; ``None`` in the other APIs."""
