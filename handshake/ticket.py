"""Join tickets: where a mesh is and how to get in, in one string, for people.

``peermesh://HOST:PORT/peermesh-secret-…``: the secret stands in it as it is, so that what looks for
leaked secrets finds tickets too. A ticket is to be kept as safe as its secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from handshake.secret import ClusterSecret
from wire.addresses import PORT_MAX, join_address, split_address
from wire.errors import CredentialsError
from wire.public import public

TICKET_PREFIX: Final = "peermesh://"


_FORM: Final = (
    f"a join ticket is {TICKET_PREFIX}HOST:PORT/SECRET, as 'peermesh ticket new' writes it"
)


@public
@dataclass(frozen=True, slots=True)
class JoinTicket:
    """An address of a mesh, and the secret of the mesh, which is never printed by itself."""

    host: str
    port: int
    secret: ClusterSecret

    def __post_init__(self) -> None:
        """Refuse what could not be read back."""
        if not self.host.isprintable() or set(self.host) & set("/[] ") or not self.host:
            raise CredentialsError("the host of a join ticket is a name or an address")
        if not 0 < self.port <= PORT_MAX:
            raise CredentialsError(f"the port of a join ticket is from 1 to {PORT_MAX}")

    @classmethod
    def parse(cls, text: str) -> JoinTicket:
        """Read what ``text()`` wrote; raises ``CredentialsError``, which repeats none of it."""
        text = text.strip()
        if not is_ticket(text):
            raise CredentialsError(f"this is no join ticket: {_FORM}")
        where, slash, secret = text[len(TICKET_PREFIX) :].partition("/")
        address = split_address(where)
        if not slash or address is None:
            raise CredentialsError(f"the join ticket was cut off, or mistyped: {_FORM}")
        return cls(*address, ClusterSecret.parse(secret))

    def text(self) -> str:
        """Write it as one line, to be kept as safe as a password."""
        where = join_address(self.host, self.port)
        return f"{TICKET_PREFIX}{where}/{self.secret.text()}"


def is_ticket(text: str) -> bool:
    """Tell whether a text wants to be a join ticket."""
    return text.strip().lower().startswith(TICKET_PREFIX)
