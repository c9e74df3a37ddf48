"""Which endpoints can be reached, and what they offer: questions about the mesh. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator

from endpoint.mesh.rights import Permissions
from endpoint.mesh.routing import Routing
from endpoint.mesh.topology import Topology
from endpoint.mesh.wishes import Wishes
from wire.clocks import LamportTime, VectorTime
from wire.identifiers import EndpointId
from wire.messages import Announcement, NodeHeader, PackedType
from wire.topics import (
    GROUP_SUFFIX,
    GROUP_SUFFIXES,
    LOG_GROUP_SUFFIX,
    group_topic,
    log_group_topic,
    log_topics,
    store_name,
    store_topics,
)


class Reach:
    """The endpoints that a path leads to, this one among them."""

    def __init__(
        self,
        local: EndpointId,
        topology: Topology,
        wishes: Wishes,
        routing: Routing,
        permissions: Permissions,
    ) -> None:
        """Reach nothing yet; the arguments say what is known of the mesh."""
        self._local = local
        self._topology = topology
        self._wishes = wishes
        self._routing = routing
        self._permissions = permissions
        self._endpoints: dict[EndpointId, None] = {}
        self._digest: int | None = None

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
        self._endpoints, self._digest = after, None
        found = [each for each in after if each not in before]
        return found, [each for each in before if each not in after]

    def forget(self) -> None:
        """Sum up anew: something was announced, or forgotten."""
        self._digest = None

    def digest(self) -> int:
        """Sum up in 64 bits what is known of each endpoint in reach.

        Others do not count: each endpoint forgets them at another moment.
        """
        if self._digest is None:
            times = {each.origin: each.time for each in self.announcements()}
            self._digest = VectorTime(times).digest()
        return self._digest

    def lacking(self, knowledge: VectorTime) -> Iterator[Announcement]:
        """Give the announcements that an endpoint with this knowledge lacks, the nearest first.

        Of what is not in reach none is passed on: the dead would wander about for ever.
        """
        for each in self.announcements():
            if each.time > knowledge.get(each.origin, LamportTime(0)):
                yield each

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

    def find_store(self, topic: str) -> EndpointId | None:
        """Say which endpoint hears commands on a store topic, if one is known."""
        if self._wishes.hears(topic):
            return self._local
        return next((origin for origin, _ in self.find_stores((topic,))), None)

    def find_stores(self, topics: Container[str]) -> Iterator[tuple[EndpointId, str]]:
        """Say which endpoints hear commands on these store topics, the nearest first.

        Those are left out that may not answer for the store: they may not lead it, or vote.
        """
        for origin, topic in self._stores():
            if topic in topics:
                rights = self._permissions.rights(origin, store_name(topic) or "")
                if rights.vote if topic.endswith(GROUP_SUFFIXES) else rights.lead:
                    yield origin, topic

    def has_group(self, name: str) -> bool:
        """Tell whether a replica group keeps a store: a voter is there that is no master's."""
        return self._has_group(name, group_topic(name), store_topics(name))

    def has_log_group(self, name: str) -> bool:
        """Tell whether a replica group keeps a log: a voter is there that is no keeper's."""
        keeper, _, follower = log_topics(name)
        return self._has_group(name, log_group_topic(name), (keeper, follower))

    def _has_group(self, name: str, group: str, single: tuple[str, str]) -> bool:
        held: dict[EndpointId, set[str]] = {self._local: set(self._wishes.stores())}
        for origin, topic in self._stores():
            held.setdefault(origin, set()).add(topic)
        return any(
            group in topics
            and topics.isdisjoint(single)
            and (origin == self._local or self._permissions.rights(origin, name).vote)
            for origin, topics in held.items()
        )

    def groups(self) -> tuple[str, ...]:
        """Name the stores that replica groups keep, sorted."""
        return tuple(filter(self.has_group, self.names_of(GROUP_SUFFIX)))

    def log_groups(self) -> tuple[str, ...]:
        """Name the logs that replica groups keep, sorted."""
        return tuple(filter(self.has_log_group, self.names_of(LOG_GROUP_SUFFIX)))

    def names_of(self, lead: str, *follow: str) -> tuple[str, ...]:
        """Name the stores or logs that can be reached, sorted: their topics end with ``lead``.

        Those that only another endpoint holds a copy of, at a topic that ends with one of
        ``follow``, are among them: their leader may come back.
        """
        names = {
            topic.removesuffix(lead) for topic in self._wishes.stores() if topic.endswith(lead)
        }
        for _, topic in self._stores():
            for suffix in (lead, *follow):
                if topic.endswith(suffix):
                    names.add(topic.removesuffix(suffix))
        return tuple(sorted(names))

    def _stores(self) -> Iterator[tuple[EndpointId, str]]:
        """Give the topics on which endpoints in reach hear commands."""
        for origin in self._endpoints:
            announcement = self._topology.announcements.get(origin)
            for topic in () if announcement is None else announcement.stores:
                yield origin, topic
