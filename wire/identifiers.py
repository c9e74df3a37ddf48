"""Names of things: endpoints, and the objects inside of them."""

from __future__ import annotations

from typing import Final, NamedTuple, Self
from uuid import UUID

from wire.escaping import is_plain
from wire.limits import LABEL_SIZE_MAX
from wire.public import public

ENDPOINT_ID_SIZE = 16

CERTIFIED_MARK: Final = "*"
"""Stands behind a name that is from a certificate: no endpoint can call itself so."""

DIGITS_MARK: Final = "~"
"""Stands between a name and the first digits of an id, likewise."""


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


def is_label(text: str) -> bool:
    """Tell whether an endpoint may call itself so: 1 to 64 printable bytes without blanks.

    It has neither ``*`` nor ``~``, which are written behind names, and is no id: a name must not
    look like that of another endpoint.
    """
    if not 0 < len(text) <= LABEL_SIZE_MAX or not text.isprintable() or not is_plain(text):
        return False
    if len(text.encode()) > LABEL_SIZE_MAX or not _NO_NAME.isdisjoint(text):
        return False
    return not is_id(text)


_NO_NAME: Final = frozenset(f" {CERTIFIED_MARK}{DIGITS_MARK}")


def is_id(text: str) -> bool:
    """Tell whether a text is read as the id of an endpoint."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True
