"""Who is linked to whom, as announced, and the shortest-path trees that follow from it.

Every endpoint floods its links; a link counts when both of its ends announce it. An endpoint's own
links count as soon as they stand, in both directions, whatever the other end has announced: so the
first message over a new link finds its way without waiting for the flood. All endpoints with the
same announcements compute the same tree for the same root.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from wire.identifiers import EndpointId
from wire.messages import Announcement

TREES_MAX: Final = 512
"""Trees kept, beyond which they are made anew: 200 MB, if a peer makes up as many endpoints as are
remembered, and a megabyte in a mesh of fifty."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The shortest paths from ``root`` to every endpoint that it can reach."""

    root: EndpointId
    parents: dict[EndpointId, EndpointId]
    """In the order of discovery: nearest first, then by id. The root has no parent."""

    def next_hops(self, here: EndpointId, targets: Iterable[EndpointId]) -> tuple[EndpointId, ...]:
        """Say which children of ``here`` lead to at least one of the targets."""
        hops: list[EndpointId] = []
        seen = {here}  # each step is gone once, however many targets lie behind it
        for target in targets:
            step: EndpointId | None = target
            while step is not None and step not in seen:
                seen.add(step)
                parent = self.parents.get(step)
                if parent == here:
                    hops.append(step)
                step = parent
        return tuple(sorted(hops))


class Topology:
    """The graph of the mesh as one endpoint knows it."""

    def __init__(self, local: EndpointId) -> None:
        """Begin alone."""
        self.local = local
        self.direct: dict[EndpointId, None] = {}
        """The endpoint's own standing links; a dict, so that its order is its history."""
        self.announcements: dict[EndpointId, Announcement] = {}
        self._links: dict[EndpointId, frozenset[EndpointId]] = {}
        self._neighbours: dict[EndpointId, tuple[EndpointId, ...]] = {}
        """Kept while the links of an endpoint and of its neighbours stand: most of a search."""
        self._trees: dict[EndpointId, Tree] = {}

    def learn(self, announcement: Announcement) -> bool:
        """Take in an announcement; false if this or newer word of its origin was here already."""
        known = self.announcements.get(announcement.origin)
        if known is not None and known.time >= announcement.time:
            return False
        if known is None or (known.links, known.forwarding) != (
            announcement.links,
            announcement.forwarding,
        ):
            self._relink(announcement.origin, announcement.links)
        self.announcements[announcement.origin] = announcement
        return True

    def forget(self, origin: EndpointId) -> None:
        """Drop what an endpoint that is gone had announced."""
        del self.announcements[origin]
        self._relink(origin, ())
        del self._links[origin]

    def connect(self, peer: EndpointId) -> None:
        """A link to ``peer`` stands."""
        self.direct[peer] = None
        self._forget_paths((self.local, peer))

    def disconnect(self, peer: EndpointId) -> None:
        """The link to ``peer`` is gone."""
        del self.direct[peer]
        self._forget_paths((self.local, peer))

    def is_link(self, left: EndpointId, right: EndpointId) -> bool:
        """Tell whether two endpoints are linked, as far as is known here."""
        if left == self.local:
            return right in self.direct
        if right == self.local:
            return left in self.direct
        nobody: frozenset[EndpointId] = frozenset()
        return right in self._links.get(left, nobody) and left in self._links.get(right, nobody)

    def tree(self, root: EndpointId) -> Tree:
        """Compute the shortest-path tree of ``root``; kept until the graph changes."""
        tree = self._trees.get(root)
        if tree is None:
            if len(self._trees) >= TREES_MAX:
                self._trees.clear()
            tree = self._trees[root] = Tree(root, self._search(root))
        return tree

    def reachable(self) -> dict[EndpointId, EndpointId]:
        """Give every endpoint that can be reached from here, nearest first."""
        return self.tree(self.local).parents

    def _relink(self, origin: EndpointId, links: Sequence[EndpointId]) -> None:
        before, after = self._links.get(origin, frozenset()), frozenset(links)
        self._links[origin] = after
        self._forget_paths((origin, *(before ^ after)))

    def _forget_paths(self, ends: Iterable[EndpointId]) -> None:
        self._trees.clear()
        for end in ends:
            self._neighbours.pop(end, None)

    def neighbours(self, endpoint: EndpointId) -> tuple[EndpointId, ...]:
        """Give whom an endpoint is linked to, sorted."""
        found = self._neighbours.get(endpoint)
        if found is None:
            found = self._neighbours[endpoint] = tuple(sorted(self._linked(endpoint)))
        return found

    def _linked(self, endpoint: EndpointId) -> Iterable[EndpointId]:
        if endpoint == self.local:
            return self.direct
        announced = self._links.get(endpoint, frozenset())
        links = announced | {self.local} if endpoint in self.direct else announced
        return (link for link in links if self.is_link(endpoint, link))

    def _search(self, root: EndpointId) -> dict[EndpointId, EndpointId]:
        """Search breadth first, in the order of ids, never through a leaf."""
        parents = {root: root}
        found = [root]
        for near in found:
            links = self._first_links(root) if near == root else self._onward(near)
            for far in links:
                if far not in parents:
                    parents[far] = near
                    found.append(far)  # which is where the loop goes later
        del parents[root]
        return parents

    def _onward(self, near: EndpointId) -> Sequence[EndpointId]:
        announcement = self.announcements.get(near)
        if announcement is not None and not announcement.forwarding:
            return ()
        return self.neighbours(near)

    def _first_links(self, root: EndpointId) -> Sequence[EndpointId]:
        """Give where messages of ``root`` go first.

        Of somebody who is gone these are the links that it announced last: what it published before
        it left may still be on the way, behind the news of its end.
        """
        announcement = self.announcements.get(root)
        if announcement is None or root == self.local or root in self.reachable():
            return self.neighbours(root)
        return announcement.links
