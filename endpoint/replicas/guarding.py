"""Stands before one store: whom it looks at closely, and what it makes of refusals. Pure."""

from __future__ import annotations

from endpoint.mesh.core import EndpointCore
from handshake.roles import ALL_RIGHTS
from stores.effects import Effect
from stores.gatekeeping import Guard, Post
from wire.errors import NotAllowed
from wire.identifiers import EndpointId


class Guarding:
    """The roles of the mesh, applied to one store or log of this endpoint."""

    def __init__(self, core: EndpointCore, store: str) -> None:
        """Guard the store of this name."""
        self._core = core
        self._store = store

    def guard(self, sender: EndpointId) -> Guard | None:
        """Give the guard that looks at what a sender wants; ``None`` if he may do everything."""
        if self._core.authorisation.roles is None:
            return None
        rights = self._core.permissions.rights(sender, self._store)
        if rights == ALL_RIGHTS:
            return None
        return Guard(self._store, self._core.permissions.who(sender), rights)

    def dismissal(self, endpoint: EndpointId, post: Post) -> list[Effect]:
        """Give what an endpoint is told that may not read the store any more."""
        guard = self.guard(endpoint)
        return [] if guard is None else list(guard.dismiss(post, endpoint))

    def note(self, sender: EndpointId, reason: str) -> None:
        """Take note of a refusal."""
        self._core.authorisation.refusals.note(sender, reason)

    def check(self, *rights: str) -> None:
        """Raise ``NotAllowed`` if this endpoint itself has none of these rights."""
        own = self._core.authorisation.own_role.rights(self._store)
        if not any(getattr(own, right) for right in rights):
            who, wanted = self._core.permissions.who(self._core.local), " or ".join(rights)
            raise NotAllowed(f"{who} may not {wanted} {self._store}")
