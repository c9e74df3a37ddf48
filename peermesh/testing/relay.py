"""A relay that passes on what it likes, for tests of what others make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from endpoint import Endpoint
from endpoint.connection import Connection
from endpoint.outbox import Group
from endpoint.routes import Route
from wire.codec import encode_header
from wire.framing import NodeFrame, encode_node
from wire.identifiers import EndpointId
from wire.messages import NodeHeader, PackedType


@dataclass(frozen=True, slots=True)
class Passing:
    """A frame that passes a relay: the last payload is the signature, if its sender signs."""

    header: NodeHeader
    ttl: int
    sequence: int
    payloads: Sequence[bytes]


Twist = Callable[[Passing], Iterable[Passing]]
"""Gives what a relay passes on in the place of a frame: it, others, several, or nothing."""


class TwistingRelay(Endpoint):
    """An endpoint that does as all do, but passes on what its ``twist`` makes of each frame."""

    def __init__(self, twist: Twist | None, **arguments: Any) -> None:  # noqa: ANN401 - an endpoint's
        """Pass everything on as it came if there is no ``twist``."""
        super().__init__(**arguments)
        self._twist = twist
        self.loop.pass_on = self._pass_on  # type: ignore[method-assign]  # that is the twist

    def say(self, to: EndpointId, frame: Passing) -> None:
        """Send any frame to a peer, whoever it says that it is from."""
        pieces, size = encode_node(
            encode_header(frame.header), frame.ttl, frame.sequence, frame.payloads
        )
        group = Group.forwarded(pieces, size, len(frame.payloads))
        connection = self.loop.peerings[to].connection
        is_command = frame.header.type is PackedType.COMMAND
        (connection.send_command if is_command else connection.send_data)(group)

    def _pass_on(self, connection: Connection, route: Route, frame: NodeFrame) -> None:
        passing = Passing(route.header, frame.ttl - 1, frame.sequence, frame.payloads())
        for each in (passing,) if self._twist is None else self._twist(passing):
            for hop in route.next_hops:
                if hop != connection.peer:
                    self.say(hop, each)
