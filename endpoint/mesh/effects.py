"""What an endpoint's core asks its loop to do: a closed union."""

from __future__ import annotations

from dataclasses import dataclass

from endpoint.mesh.status import StatusEvent
from handshake.roles import Rights
from wire.errors import ErrorCode
from wire.identifiers import EndpointId
from wire.messages import PeerMessage


@dataclass(frozen=True, slots=True)
class SendControl:
    """Queue a control message for a peer, ahead of all its data."""

    peer: EndpointId
    message: PeerMessage


@dataclass(frozen=True, slots=True)
class EmitStatus:
    """Tell the status subscribers."""

    event: StatusEvent


@dataclass(frozen=True, slots=True)
class RoutesChanged:
    """Routes that were handed out are void: seal what is open, and wake what waits for a peer.

    It comes before the ``EmitStatus`` that says which endpoints are lost: stores answer that one at
    once, and what they send has to go by the new routes.
    """


@dataclass(frozen=True, slots=True)
class RightsChanged:
    """An endpoint has other rights than before to a store or log that is attached here."""

    topic: str
    """What the store hears."""
    endpoint: EndpointId
    before: Rights
    now: Rights


@dataclass(frozen=True, slots=True)
class DropPeer:
    """End a peering, and tell the peer why."""

    peer: EndpointId
    code: ErrorCode
    reason: str


Effect = SendControl | EmitStatus | RoutesChanged | RightsChanged | DropPeer
