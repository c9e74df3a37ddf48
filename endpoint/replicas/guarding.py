"""Stands before one store: whom it looks at closely, and what it makes of refusals. Pure."""

from __future__ import annotations

from typing import Protocol

from endpoint.mesh.core import EndpointCore
from endpoint.mesh.rights import Turn, turn_of
from handshake.roles import ALL_RIGHTS, Rights
from stores.effects import Effect
from stores.gatekeeping import Guard, Post, Refusal
from wire.errors import NotAllowed
from wire.identifiers import EndpointId


class Gate(Protocol):
    """Access control of one sender with limited rights."""

    def examine(self, post: Post, payload: bytes) -> Refusal | None:
        """Say why a command is not taken; ``None`` if it is. Raises ``DecodeError``."""


class Guarding:
    """The roles of the mesh, applied to one store or log of this endpoint."""

    def __init__(self, core: EndpointCore, store: str) -> None:
        """Guard the store of this name."""
        self._core = core
        self._store = store

    def guard(self, sender: EndpointId) -> Gate | None:
        """Give the guard that looks at what a sender wants; ``None`` if it may do everything."""
        rights = self._rights(sender)
        return None if rights == ALL_RIGHTS else self._guard(sender, rights)

    def dismissal(self, endpoint: EndpointId, post: Post) -> list[Effect]:
        """Give what an endpoint is told that may not read the store any more."""
        rights = self._rights(endpoint)
        if rights == ALL_RIGHTS:
            return []
        return list(self._guard(endpoint, rights).dismiss(post, endpoint))

    def turn(self, before: Rights, now: Rights, *, is_master: bool) -> Turn:
        """Decide what becomes of an endpoint that has other rights now."""
        return turn_of(before, now, is_master=is_master)

    def note(self, sender: EndpointId, reason: str) -> None:
        """Take note of a refusal."""
        self._core.authorisation.refusals.note(sender, reason)

    def _rights(self, endpoint: EndpointId) -> Rights:
        if self._core.authorisation.roles is None:
            return ALL_RIGHTS
        return self._core.permissions.rights(endpoint, self._store)

    def _guard(self, sender: EndpointId, rights: Rights) -> Guard:
        return Guard(self._store, self._core.permissions.who(sender), rights)

    def check(self, *rights: str) -> None:
        """Raise ``NotAllowed`` if this endpoint itself has none of these rights."""
        own = self._core.authorisation.own_role.rights(self._store)
        if not any(getattr(own, right) for right in rights):
            who, wanted = self._core.permissions.who(self._core.local), " or ".join(rights)
            raise NotAllowed(f"{who} may not {wanted} {self._store}")
