"""What happens in one swarm: who is in it, what they do, and what goes wrong when. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Final

from peermesh.testing.faults import Direction, LinkFault

TOPICS: Final = ("a", "a/b", "a/c", "b", "")
"""Some are prefixes of others; the last one is everything."""

PUBLISHED: Final = ("a/b/x", "a/c", "b", "c")
"""What is published on; not everything is wanted by everybody."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Two endpoints that are to be peers."""

    dialler: int
    acceptor: int
    is_mutual: bool = False
    """Whether both dial, so that dials cross."""


@dataclass(frozen=True, slots=True)
class LinkTrouble:
    """Something is wrong with a link."""

    edge: int
    fault: LinkFault
    direction: Direction = Direction.BOTH


@dataclass(frozen=True, slots=True)
class Split:
    """The swarm falls into two parts, between which one way or no way is left."""

    nodes: tuple[int, ...]
    direction: Direction = Direction.BOTH


@dataclass(frozen=True, slots=True)
class Kill:
    """An endpoint's process is killed, and started again in the end."""

    node: int


@dataclass(frozen=True, slots=True)
class PowerCut:
    """The same with its machine: nobody is told, and what was not synced is lost."""

    node: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A process stands still for a while."""

    node: int


@dataclass(frozen=True, slots=True)
class Unpeering:
    """Two endpoints part on purpose, and peer again in the end."""

    edge: int


@dataclass(frozen=True, slots=True)
class Unsubscribing:
    """A subscriber wants less for a while."""

    node: int


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """A machine's time of day is off."""

    node: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DiskTrouble:
    """A disk is full, or its syncs fail."""

    node: int
    is_full: bool


@dataclass(frozen=True, slots=True)
class Succession:
    """The master is lost, a clone is promoted in its place, and then the last one returns."""

    heir: int
    is_killed: bool
    """Whether the master's process is killed; otherwise its links are cut."""


Trouble = (
    LinkTrouble
    | Split
    | Kill
    | PowerCut
    | Pause
    | Unpeering
    | Unsubscribing
    | ClockSkew
    | DiskTrouble
    | Succession
)
"""Whatever may go wrong."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Some trouble, for some time."""

    begin: float
    end: float
    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Member:
    """One endpoint of the swarm."""

    topics: tuple[str, ...]
    """What it subscribes to; nothing at all, perhaps."""
    publish_seconds: float
    """Pause between two messages; infinite for one that says nothing."""
    has_clone: bool = False
    write_seconds: float = inf
    """Pause between two mutations of the store."""


@dataclass(frozen=True, slots=True)
class Groups:
    """What half of all swarms have besides: a store that three voters keep, and a durable log."""

    voters: tuple[int, ...]
    """Who elects the leader of the store; the first one founds its group."""
    on_disk: tuple[int, ...]
    """Those of them that keep it on a disk: all, two of them, or none."""
    log_holders: tuple[int, ...]
    """Who has the log on a disk: the same voters; or a keeper, and a follower."""
    is_log_elected: bool
    """Whether the log's leader is elected, too."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that happens in one run, but for what the seed of the simulation decides."""

    seed: int
    members: tuple[Member, ...]
    edges: tuple[Edge, ...]
    ttl: int
    master: int | None
    """Who has the master of the store."""
    is_durable: bool
    """Whether the master keeps its store on a disk."""
    trouble_seconds: float
    faults: tuple[Fault, ...] = field(default=())
    groups: Groups | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether nothing can overtake: there is one path between any two, and nobody is replaced.

        What a relay had sent before it was killed may come behind what its next life sends.
        """
        is_tree = len(self.edges) == len(self.members) - 1
        return is_tree and not any(
            isinstance(each.trouble, Kill | PowerCut | Succession) for each in self.faults
        )

    def distances(self, root: int) -> dict[int, int]:
        """Give how many links lead to each member, at the least."""
        found, queue = {root: 0}, [root]
        for near in queue:
            for edge in self.edges:
                ends = (edge.dialler, edge.acceptor)
                far = sum(ends) - near
                if near in ends and far not in found:
                    found[far] = found[near] + 1
                    queue.append(far)
        return found
