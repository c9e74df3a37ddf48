"""Principals: the one name that a connection has proven, or none. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wire.scalars import shorten

ANONYMOUS: Final = "anonymous"
"""What roles call a connection that has proven no name. No account can have this name."""


class Proof(StrEnum):
    """How a connection has proven its name."""

    CERTIFICATE = "certificate"
    """By the name in a certificate of an authority of one's own, which TLS has verified."""
    TOKEN = "token"
    PASSWORD = "password"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Principal:
    """On whose behalf a connection acts: what roles, owners and refusals go by."""

    name: str | None
    """``None`` for a connection that has proven no name."""
    proof: Proof

    @property
    def text(self) -> str:
        """Give the name, or ``anonymous``: for owners that are stored, and for logs."""
        return ANONYMOUS if self.name is None else self.name

    def __str__(self) -> str:
        """Write it for a refusal, shortened and in quotes if it is a name."""
        return ANONYMOUS if self.name is None else shorten(self.name)


UNPROVEN: Final = Principal(None, Proof.NOTHING)
"""A connection that has proven no name."""


def certified(name: str | None, *, can_trust_names: bool) -> Principal:
    """Give the principal of a certificate that TLS has verified; ``name`` is that in it.

    A holder of a cluster secret gives itself any name: such a name proves nothing.
    """
    if name is None or not can_trust_names:
        return UNPROVEN
    return Principal(name, Proof.CERTIFICATE)
