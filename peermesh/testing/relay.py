"""A relay that passes on what it likes, for tests of what others make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from endpoint import Endpoint
from endpoint.link.connection import Connection
from endpoint.link.data_queue import Outgoing
from endpoint.mesh.routes import Selection
from wire.codec import decode_header, encode_header
from wire.framing import NodeFrame, encode_node
from wire.identifiers import EndpointId
from wire.messages import NodeHeader, PackedType


@dataclass(frozen=True, slots=True)
class Passing:
    """A frame that passes a relay, all of one header."""

    header: NodeHeader
    ttl: int
    first: int
    """The number of the first message."""
    payloads: Sequence[bytes]
    signature: bytes | None = None


Twist = Callable[[Passing], Iterable[Passing]]
"""Gives what a relay passes on in the place of a frame: it, others, several, or nothing."""


class TwistingRelay(Endpoint):
    """An endpoint that does as all do, but passes on what its ``twist`` makes of each frame.

    Frames of several topics, which are published at once, are passed on as they came.
    """

    def __init__(self, twist: Twist | None, **arguments: Any) -> None:  # noqa: ANN401 - an endpoint's
        """Pass everything on as it came if there is no ``twist``."""
        super().__init__(**arguments)
        self._twist = twist
        self._pass_on_whole = self.loop.pass_on
        self.loop.pass_on = self._pass_on  # type: ignore[method-assign]  # that is the twist

    def say(self, to: EndpointId, frame: Passing) -> None:
        """Send any frame to a peer, whoever it says that it is from."""
        header, signature = encode_header(frame.header), frame.signature
        sign = None if signature is None else (lambda _: signature)
        pieces, size = encode_node(
            frame.header.sender, frame.ttl, frame.first, (header,), b"", frame.payloads, sign=sign
        )
        outgoing = Outgoing(pieces, size, len(frame.payloads), size, own=False)
        connection = self.loop.peerings[to].connection
        is_command = frame.header.type is PackedType.COMMAND
        (connection.send_command if is_command else connection.send_data)(outgoing)

    def _pass_on(
        self, connection: Connection, hop: EndpointId, frame: NodeFrame, selection: Selection
    ) -> None:
        if self._twist is None or len(frame.headers) > 1:
            self._pass_on_whole(connection, hop, frame, selection)
            return
        header = decode_header(EndpointId(frame.sender), frame.headers[0])
        signature = frame.signed()[1]
        passing = Passing(header, frame.ttl - 1, frame.first, frame.payloads(), signature)
        for each in self._twist(passing):
            self.say(hop, each)
