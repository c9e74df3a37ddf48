"""What other endpoints have announced, within limits: the news that is believed, and kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from endpoint.mesh.authorisation import Authorisation, Forgeries
from endpoint.mesh.news import ANNOUNCEMENT_SIZE_MAX, ANNOUNCEMENTS_SIZE_MAX, size_of
from endpoint.mesh.routes import Proof
from endpoint.mesh.topology import Topology
from wire.clocks import VectorTime
from wire.errors import ErrorCode, RemoteProtocolError
from wire.identifiers import EndpointId
from wire.messages import Announcement

ENDPOINTS_MAX: Final = 10_000
"""Endpoints remembered: ten times the largest mesh that flooding suits. Announcements of more are
ignored, so that a hostile peer cannot fill the memory with endpoints that do not exist."""

UNREACHABLE_GRACE_SECONDS: Final = 60.0
"""How long an announcement of an endpoint that is not reachable is kept. News of an endpoint may
overtake the news of the link that leads to it, and what a handshake was told that we know has to
stay known until it is over. What an endpoint published before it left is routed by it, too."""


class Memory:
    """The announcements of others, in a topology, and what they weigh."""

    def __init__(
        self,
        topology: Topology,
        authorisation: Authorisation,
        forgeries: Forgeries,
        proof: Proof | None,
        endpoints_max: int,
    ) -> None:
        """Remember up to ``endpoints_max`` endpoints; what is forged or renamed is not believed."""
        self._topology = topology
        self._authorisation = authorisation
        self._forgeries = forgeries
        self._proof = proof
        self._endpoints_max = endpoints_max
        self._unreachable_since: dict[EndpointId, float] = {}
        self._ends: dict[EndpointId, int] = {}
        """When what proves the name of an endpoint that signs ends; for ``Proof.has_ended``."""
        self._sizes: dict[EndpointId, int] = {}
        self._size_in_all = 0

    def knowledge(self) -> VectorTime:
        """Say how much is known of every endpoint, in reach or not."""
        known = self._topology.announcements.items()
        return VectorTime({origin: news.time for origin, news in known})

    def learn(
        self, peer: EndpointId, announcements: Sequence[Announcement]
    ) -> tuple[Announcement, ...]:
        """Take in what a peer has passed on; give what was news.

        Raises ``RemoteProtocolError`` for an announcement that is too large.
        """
        return tuple([each for each in announcements if self._keep(peer, each)])

    def _keep(self, peer: EndpointId, announcement: Announcement) -> bool:
        """Take in what another endpoint announces; false if it is no news, or finds no room."""
        origin, size = announcement.origin, size_of(announcement)
        if size > ANNOUNCEMENT_SIZE_MAX:
            raise RemoteProtocolError(
                f"an announcement of {size} bytes; {ANNOUNCEMENT_SIZE_MAX} are allowed",
                ErrorCode.LIMIT_EXCEEDED,
            )
        size_in_all = self._size_in_all - self._sizes.get(origin, 0) + size
        is_full = len(self._sizes) >= self._endpoints_max and origin not in self._sizes
        has_room = not is_full and size_in_all <= ANNOUNCEMENTS_SIZE_MAX
        known = self._topology.announcements.get(origin)
        if known is not None and known.time >= announcement.time:
            return False
        if self._forgeries.is_forged(peer, announcement):
            return False
        if self._authorisation.is_renamed(announcement, known):
            return False
        if not has_room or not self._topology.learn(announcement):
            return False
        self._sizes[origin], self._size_in_all = size, size_in_all
        end = None if self._proof is None else self._proof.end_of(announcement)
        if end is not None:
            self._ends[origin] = end
        return True

    def keep_all(self, found: Sequence[EndpointId]) -> None:
        """Give endpoints that are in reach now a grace time of their own for their next absence."""
        for endpoint in found:
            self._unreachable_since.pop(endpoint, None)

    def expire(self, now: float, absent: Sequence[EndpointId]) -> tuple[bool, bool]:
        """Forget endpoints that were ``absent`` for too long, or are no longer endorsed.

        Tell whether any was forgotten, and whether any of the latter were. ``now`` is in seconds.
        """
        late = [
            origin
            for origin in absent
            if now - self._unreachable_since.setdefault(origin, now) > UNREACHABLE_GRACE_SECONDS
        ]
        for origin in late:
            self._forget(origin)
        proof = self._proof
        ended = [each for each, end in self._ends.items() if proof and proof.has_ended(end)]
        for origin in ended:
            self._forget(origin)
        return bool(late or ended), bool(ended)

    def _forget(self, origin: EndpointId) -> None:
        # Its sequence windows stay: what it sent before may still be on the way.
        self._topology.forget(origin)
        self._unreachable_since.pop(origin, None)
        self._ends.pop(origin, None)
        self._size_in_all -= self._sizes.pop(origin)
