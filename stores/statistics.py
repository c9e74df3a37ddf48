"""What the cores of stores and logs tell about themselves: frozen counts, and no content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stores.log.partitions import Span, lag
from wire.identifiers import EndpointId


@dataclass(frozen=True, slots=True)
class ReplicaStatistics:
    """What a leader knows about one clone or follower."""

    endpoint: EndpointId
    acknowledged: int | None
    """The last event that it has; ``None`` while it is loading."""
    silent_ticks: int
    """Tenths of a second since it was heard."""


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """One store at one endpoint."""

    role: str
    """``master``, ``clone`` or ``proxy``; of a group ``leader`` or ``replica``; or ``ended``."""
    epoch: int
    """Of the master; elsewhere the highest that is known of one."""
    entries: int
    revision: int
    is_in_touch: bool
    """Whether it hears its master, or is it."""
    sequence: int = 0
    """The last entry of the journal."""
    unacknowledged: int = 0
    """Entries of a leader's journal that its slowest copy has not acknowledged."""
    unanswered: int = 0
    """Requests of a clone or proxy that have no outcome yet."""
    clones: tuple[ReplicaStatistics, ...] = ()
    bytes: int = 0
    """Of all keys and values, encoded."""
    expiring: int = 0
    """Keys that expire."""
    max_entries: int | None = None
    """The quota of a master; ``None`` sets no limit."""
    max_bytes: int | None = None
    trouble: str | None = None
    """Why it has no leader here, or has ended, or how far it is with a snapshot, in a sentence;
    ``None`` while nothing is wrong."""


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """One named consumer of a log."""

    name: str
    lag: int
    """Entries that it can read and has not committed."""


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """One log at one endpoint."""

    role: str
    """``keeper``, ``follower`` or ``proxy``; of a group ``leader`` or ``replica``; or ``ended``."""
    epoch: int
    is_in_touch: bool
    spans: tuple[Span, ...] = ()
    """The entries of each partition that can be read here."""
    sequence: int = 0
    unacknowledged: int = 0
    unanswered: int = 0
    consumers: tuple[ConsumerLag, ...] = ()
    followers: tuple[ReplicaStatistics, ...] = ()
    entries: int = 0
    """Of all partitions."""
    bytes: int = 0
    """Of these entries, as stored, in whole blocks."""
    max_entries: int | None = None
    """The quota of a keeper; ``None`` sets no limit."""
    max_bytes: int | None = None
    trouble: str | None = None
    """As that of a store."""


def lags_of(
    cursors: Mapping[str, Mapping[int, int]], spans: Sequence[Span]
) -> tuple[ConsumerLag, ...]:
    """Give how far behind each consumer of a log is."""
    return tuple(
        ConsumerLag(name, lag(tuple(cursor.items()), spans)) for name, cursor in cursors.items()
    )
