"""What roles permit each endpoint, and what other roles mean for stores and logs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from endpoint.mesh.authorisation import Authorisation
from endpoint.mesh.effects import RightsChanged
from endpoint.mesh.topology import Topology
from handshake.roles import ALL_RIGHTS, Rights, Role
from wire.identifiers import EndpointId
from wire.messages import Announcement
from wire.topics import command_name


class Permissions:
    """What each endpoint may do by its role, as one endpoint sees it."""

    def __init__(self, local: EndpointId, topology: Topology, authorisation: Authorisation) -> None:
        """Judge endpoints by what ``topology`` knows of them, for the endpoint ``local``."""
        self._local = local
        self._topology = topology
        self._authorisation = authorisation

    def role(self, origin: EndpointId) -> Role:
        """Give the role of an endpoint, by what is known of it."""
        return self._authorisation.role(origin, self._topology.announcements.get(origin))

    def who(self, origin: EndpointId) -> str:
        """Name an endpoint with its role, for a refusal."""
        known = self._topology.announcements.get(origin)
        return self._authorisation.who(None if known is None else known.name)

    def rights(self, origin: EndpointId, store: str) -> Rights:
        """Say what an endpoint may do with a store or log."""
        return ALL_RIGHTS if origin == self._local else self.role(origin).rights(store)

    def may_hold(self, origin: EndpointId) -> bool:
        """Tell whether own messages wait for a full place of this endpoint."""
        return self.role(origin).hold

    def may_hold_for(self, peer: EndpointId) -> bool:
        """Tell whether others' messages wait here for room in the link to a peer.

        They wait neither for a peer that may not hold, nor at an endpoint whose word about it is
        not believed.
        """
        return self.may_hold(peer) and self.may_hold(self._local)


def rights_changed(
    topics: Iterable[str],
    changed: Mapping[EndpointId, tuple[Role, Role]],
    announced: Mapping[EndpointId, Announcement],
) -> list[RightsChanged]:
    """Say which endpoints have other rights at the stores and logs that hear these topics.

    ``changed`` has the role before and the role now of each other endpoint that has another one. An
    endpoint that holds a copy, or leads, has ``announced`` a topic of that name; the commands of
    all others are looked at one by one.
    """
    by_name: dict[str, list[str]] = {}
    for topic in topics:
        by_name.setdefault(command_name(topic) or "", []).append(topic)
    effects: list[RightsChanged] = []
    for origin, (before, now) in changed.items():
        stores = announced[origin].stores if origin in announced else ()
        for name in by_name.keys() & {command_name(topic) for topic in stores}:
            old, new = before.rights(name), now.rights(name)
            if old != new:
                effects += [RightsChanged(topic, origin, old, new) for topic in by_name[name]]
    return effects


def has_lost(before: Rights, now: Rights) -> bool:
    """Tell whether an endpoint may vote or read no more, as its replica has to learn.

    Letters are judged one by one in any case. That it is told at once saves a follower of a leader
    that lost its right the time of an election timeout.
    """
    return (before.vote and not now.vote) or (before.read and not now.read)
