"""Which endpoints can be reached, and what they offer: questions about the mesh. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator

from endpoint.mesh.naming import Names
from endpoint.mesh.routing import Routing
from endpoint.mesh.topology import Topology
from endpoint.mesh.wishes import Wishes
from handshake.roles import ALL_RIGHTS, Rights
from wire.identifiers import EndpointId
from wire.messages import Announcement, NodeHeader, PackedType
from wire.topics import store_name


class Reach:
    """The endpoints that a path leads to, this one among them."""

    def __init__(
        self,
        local: EndpointId,
        topology: Topology,
        wishes: Wishes,
        routing: Routing,
        names: Names,
    ) -> None:
        """Reach nothing yet; the arguments say what is known of the mesh."""
        self._local = local
        self._topology = topology
        self._wishes = wishes
        self._routing = routing
        self._names = names
        self._endpoints: dict[EndpointId, None] = {}

    def __iter__(self) -> Iterator[EndpointId]:
        """Go through the endpoints that a path leads to, the nearest first."""
        return iter(self._endpoints)

    def __len__(self) -> int:
        """Count them."""
        return len(self._endpoints)

    def __contains__(self, endpoint: EndpointId) -> bool:
        """Tell whether a path leads to an endpoint, whether its announcement has come or not."""
        return endpoint in self._endpoints

    def refresh(self) -> tuple[list[EndpointId], list[EndpointId]]:
        """Look anew; give the endpoints that a path leads to since then, and those lost."""
        before, after = self._endpoints, dict.fromkeys(self._topology.reachable())
        self._endpoints = after
        found = [each for each in after if each not in before]
        return found, [each for each in before if each not in after]

    def announcements(self) -> Iterator[Announcement]:
        """Give what this endpoint, and then each in reach, has announced."""
        for origin in (self._local, *self._endpoints):
            announcement = self._topology.announcements.get(origin)
            if announcement is not None:
                yield announcement

    def includes(self, endpoint: EndpointId) -> bool:
        """Tell whether there is a path to the endpoint and its announcement has come."""
        return endpoint in self._endpoints and endpoint in self._topology.announcements

    def subscribers(self, topic: str) -> list[EndpointId]:
        """Name the other endpoints that a message on this topic goes to from here."""
        header = NodeHeader(PackedType.DATA, self._local, None, topic)
        return [
            each
            for each in self._endpoints
            if each != self._local and self._routing.wants(each, header)
        ]

    def rights(self, origin: EndpointId, store: str) -> Rights:
        """Say what an endpoint may do with a store or log."""
        return ALL_RIGHTS if origin == self._local else self._routing.role(origin).rights(store)

    def find_store(self, topic: str) -> EndpointId | None:
        """Say which endpoint hears commands on a store topic, if one is known."""
        if self._wishes.hears(topic):
            return self._local
        return next((origin for origin, _ in self.find_stores((topic,))), None)

    def find_stores(self, topics: Container[str]) -> Iterator[tuple[EndpointId, str]]:
        """Say which endpoints hear commands on these store topics, the nearest first."""
        for origin, topic in self._stores():
            if topic in topics and self.rights(origin, store_name(topic) or "").lead:
                yield origin, topic

    def names_of(self, lead: str, follow: str) -> tuple[str, ...]:
        """Name the stores or logs that can be reached, sorted: their topics end with ``lead``.

        Those that only another endpoint holds a copy of, at a topic that ends with ``follow``, are
        among them: their leader may come back.
        """
        names = {
            topic.removesuffix(lead) for topic in self._wishes.stores() if topic.endswith(lead)
        }
        for _, topic in self._stores():
            if topic.endswith((lead, follow)):
                names.add(topic.removesuffix(lead).removesuffix(follow))
        return tuple(sorted(names))

    def _stores(self) -> Iterator[tuple[EndpointId, str]]:
        """Give the topics on which endpoints in reach hear commands."""
        for origin in self._endpoints:
            announcement = self._topology.announcements.get(origin)
            for topic in () if announcement is None else announcement.stores:
                yield origin, topic

    def explain_absence(self, endpoint: EndpointId) -> str:
        """Say in a sentence why ``await_peer`` does not come true."""
        if endpoint in self._topology.announcements:
            who = self._names.full(endpoint)
            return f"endpoint {who} has been heard of, but no path to it is known"
        if not self._topology.direct:
            return f"endpoint {endpoint} is unknown: this endpoint has no peers; call peer() first"
        known = ", ".join(map(self._names.full, self._endpoints))
        return f"endpoint {endpoint} is unknown; reachable are: {known}"
