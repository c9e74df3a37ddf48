"""What a change costs on paper: the formulas beside which the measured figures stand.

A flood is one announcement that passes through the whole mesh. Everybody passes it on to all peers
but the one that it first came from, so that it takes ``2 * links - endpoints + 1`` messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.scale.shapes import Edge

FRAME_SIZE: Final = 22
"""Bytes of a message besides its announcements: the front of a frame, and two heads of CBOR."""

ANNOUNCEMENT_SIZE: Final = 25
"""Bytes of an announcement besides its lists: an id, a time, heads, and neither name nor seal."""

LINK_SIZE: Final = 17
"""Bytes of a link in an announcement: an id and its head."""

KNOWN_SIZE: Final = 18
"""Bytes of an endpoint in a vector of times."""

HANDSHAKE_SIZE: Final = 240
"""Bytes of a handshake of two that know nobody."""

HANDSHAKE_TRIPS: Final = 4
"""Latencies from the dial to the flood: preamble, hello, syn, syn-ack; or one more, one later."""


@dataclass(frozen=True)
class Cost:
    """What a change takes: messages and bytes in all, and latencies until the last has heard."""

    messages: int
    size: int
    trips: int


class Plan:
    """A mesh on paper."""

    def __init__(self, size: int, edges: Sequence[Edge]) -> None:
        """Take the number of endpoints, and who is linked to whom."""
        self.size = size
        self.neighbours: list[list[int]] = [[] for _ in range(size)]
        for left, right in edges:
            self.neighbours[left].append(right)
            self.neighbours[right].append(left)

    def with_edge(self, edge: Edge) -> Plan:
        """Give the mesh with another link, and its end if that is new."""
        return Plan(max(self.size, *(end + 1 for end in edge)), [*self.edges(), edge])

    def without_edge(self, edge: Edge) -> Plan:
        """Give the mesh without a link."""
        return Plan(self.size, [each for each in self.edges() if each != edge])

    def edges(self) -> list[Edge]:
        """Give all links, each once."""
        return [
            (near, far) for near, all_ in enumerate(self.neighbours) for far in all_ if near < far
        ]

    def distances(self, root: int) -> dict[int, int]:
        """Give the links on the way to everybody who can be reached."""
        found = {root: 0}
        queue = [root]
        for near in queue:
            for far in self.neighbours[near]:
                if far not in found:
                    found[far] = found[near] + 1
                    queue.append(far)
        return found

    def flood(self, origin: int, *, topics_size: int = 0) -> Cost:
        """Give the cost of an announcement of ``origin``."""
        reached = self.distances(origin)
        links = sum(len(self.neighbours[each]) for each in reached) // 2
        messages = 2 * links - len(reached) + 1
        size = announcement_size(len(self.neighbours[origin]), topics_size)
        return Cost(messages, messages * (FRAME_SIZE + size), max(reached.values()))


def announcement_size(degree: int, topics_size: int = 0) -> int:
    """Give the bytes of an announcement."""
    return ANNOUNCEMENT_SIZE + degree * LINK_SIZE + topics_size


def subscription(plan: Plan, origin: int, topic: str) -> Cost:
    """A new topic is one flood."""
    return plan.flood(origin, topics_size=len(topic) + 1)


def join(plan: Plan, contact: int) -> Cost:
    """A join is two floods, the contact's and the newcomer's.

    The contact's neighbours hear the newcomer's first words too, from before it had a link.
    """
    newcomer = plan.size
    grown = plan.with_edge((contact, newcomer))
    first, second = grown.flood(contact), grown.flood(newcomer)
    first_words = len(plan.neighbours[contact]) * announcement_size(0)
    return Cost(
        first.messages + second.messages,
        first.size + first_words + second.size,
        HANDSHAKE_TRIPS + second.trips,
    )


def handshake(plan: Plan) -> int:
    """A newcomer is told of everybody, with the times and with the announcements: in bytes."""
    links = sum(map(len, plan.neighbours))
    return HANDSHAKE_SIZE + plan.size * (KNOWN_SIZE + ANNOUNCEMENT_SIZE) + links * LINK_SIZE


def loss(plan: Plan, edge: Edge) -> Cost:
    """A lost link is two floods, one of each end; each through its half if the mesh falls apart."""
    rest = plan.without_edge(edge)
    left, right = (rest.flood(end) for end in edge)
    trips = max(left.trips, right.trips)
    return Cost(left.messages + right.messages, left.size + right.size, trips)


def share_within(plan: Plan, ttl: int) -> float:
    """Give the share of ordered pairs that a message reaches before its time to live is over."""
    reached = 0
    for root in range(plan.size):
        reached += sum(1 for distance in plan.distances(root).values() if 0 < distance <= ttl)
    return reached / (plan.size * (plan.size - 1))
