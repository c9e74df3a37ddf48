"""Names of things: endpoints, and the objects inside of them."""

from __future__ import annotations

from typing import NamedTuple, Self
from uuid import UUID

from wire.public import public

ENDPOINT_ID_SIZE = 16


@public
class EndpointId(bytes):
    """The UUID of an endpoint, as its sixteen bytes (seed 7.2.1.1).

    Bytes hash and compare at the speed of C, and their order is the order of the UUIDs: the
    smaller one originates a handshake.
    """

    __slots__ = ()

    def __new__(cls, value: bytes) -> Self:
        """Take exactly sixteen bytes; anything else raises ``ValueError``."""
        if len(value) != ENDPOINT_ID_SIZE:
            raise ValueError(f"an endpoint id has {ENDPOINT_ID_SIZE} bytes, not {len(value)}")
        return super().__new__(cls, value)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the usual text form of a UUID; raises ``ValueError`` if it is none."""
        return cls(UUID(text).bytes)

    @property
    def is_signing(self) -> bool:
        """Tell whether the endpoint signs what it sends: its id is made from its key, and says so.

        Such an id is a UUID of version 8 (RFC 9562); a random one is of version 4.
        """
        return self[6] >> 4 == 8 and self[8] >> 6 == 2

    def __str__(self) -> str:
        """Write the usual text form of a UUID."""
        return str(UUID(bytes=bytes(self)))

    def __repr__(self) -> str:
        """Show what to paste to get this id back."""
        return f"EndpointId.parse('{self}')"


class EntityId(NamedTuple):
    """One object inside an endpoint: a master, a clone, a writer (seed 7.5)."""

    endpoint: EndpointId
    object: int

    def __str__(self) -> str:
        """Write ``uuid/number``."""
        return f"{self.endpoint}/{self.object}"
