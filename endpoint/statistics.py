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
