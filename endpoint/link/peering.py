"""A connection that has become a peering: whose it is, and why it ended."""

from __future__ import annotations

import trio

from endpoint.link.greeting import Greeting
from endpoint.mesh.status import StatusCode
from handshake.directory import ConnectionId
from wire.errors import ErrorCode
from wire.identifiers import EndpointId


class Peering:
    """A connection that is a peering, and who ended it."""

    def __init__(self, peer: EndpointId, greeting: Greeting) -> None:
        """Begin with the connection that won the handshake."""
        self.peer = peer
        self.number: ConnectionId = greeting.number
        self.connection = greeting.connection
        self.status = StatusCode.PEER_LOST
        self.code = ErrorCode.NONE
        self.reason = "the connection was lost"
        self.pongs: dict[int, trio.Event] = {}
