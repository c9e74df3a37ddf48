"""What a replica, a proxy, or a part of a log asks its driver to do: one closed union.

The driver carries effects out in order, without waiting in between.
"""

from __future__ import annotations

from dataclasses import dataclass

from stores.actions import WriterId
from stores.digests import ReplicaDigest
from stores.outcomes import Outcome
from stores.questions import ReadAnswerCommand, ReadRefusedCommand
from stores.quota import QuotaLevel
from stores.table import ChangeKind, Entry
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId


# Not frozen, as Multicast and Resolve: each is built for every run of requests, and a frozen one
# takes three times as long.
@dataclass(slots=True)
class Unicast:
    """Send to one endpoint, on the topic that those hear who are spoken to."""

    to: EndpointId
    payload: bytes


@dataclass(slots=True)
class Multicast:
    """Send to everyone, on the topic that those hear who are spoken to."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class ToProxy:
    """Send a command to a proxy, on the proxies' topic."""

    to: EndpointId
    payload: bytes


@dataclass(slots=True)
class Resolve:
    """These requests of the local handle have their outcome. Each is named once, in order."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class IdleReached:
    """The store became idle after ``begin_idle(token)`` (seed 7.6.1)."""

    token: int


@dataclass(frozen=True, slots=True)
class Changed:
    """A key changed, in the order of revisions; only if the store is observed."""

    kind: ChangeKind
    key: bytes
    before: Entry | None
    after: Entry | None
    writer: WriterId | None
    """Whose command it was; ``None`` for an expiry, and for what a snapshot brought."""
    revision: int
    """The mutation that did it; of what a snapshot brought, the snapshot's."""


@dataclass(frozen=True, slots=True)
class MasterFound:
    """A leader serves this replica, or this reader is in touch with it."""

    master: EntityId
    epoch: int


@dataclass(frozen=True, slots=True)
class MasterLost:
    """The clone is out of touch. It goes on serving what it has, and searches."""

    master: EntityId
    reason: str


@dataclass(frozen=True, slots=True)
class SecondMaster:
    """Another leader of this name is alive. It is told once for each, and ignored."""

    master: EntityId
    epoch: int


@dataclass(frozen=True, slots=True)
class Verified:
    """The comparison of all replicas is at its end that ``begin_verify(token)`` has begun."""

    token: int
    rows: tuple[ReplicaDigest, ...]
    """The leader's first."""


@dataclass(frozen=True, slots=True)
class ReadAnswered:
    """The question of a proxy that ``ask(token, …)`` has asked has its answer."""

    token: int
    answer: ReadAnswerCommand | ReadRefusedCommand
    revision: int
    """Of the state that was read."""


@dataclass(frozen=True, slots=True)
class QuotaCrossed:
    """The store or log came close to its quota, or to it, or is well below it again."""

    level: QuotaLevel
    text: str
    """What is used, of what."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The store is of no more use; every request without an outcome was refused before."""

    code: ErrorCode
    text: str


Effect = (
    Unicast
    | Multicast
    | ToProxy
    | Resolve
    | IdleReached
    | Changed
    | MasterFound
    | MasterLost
    | SecondMaster
    | Verified
    | ReadAnswered
    | QuotaCrossed
    | Closed
)
