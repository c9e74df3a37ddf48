"""What a log asks its driver to do besides what stores ask: one closed union with theirs."""

from __future__ import annotations

from dataclasses import dataclass

from stores.effects import (
    Closed,
    Deposed,
    IdleReached,
    MasterFound,
    MasterLost,
    Multicast,
    QuotaCrossed,
    Resolve,
    SecondMaster,
    ToOwnKind,
    Unicast,
)
from stores.log.changes import LogChanges
from stores.log.messages import Answer, Fetch, TimeQuery
from wire.identifiers import EntityId


@dataclass(frozen=True, slots=True)
class PersistLog:
    """Hand the changes to the backend's ``commit``; there is one at a time.

    Then call ``persisted(token)``, or ``commit_failed(token, …)``.
    """

    token: int
    changes: LogChanges


@dataclass(frozen=True, slots=True)
class ReadFor:
    """Read from the backend what a remote reader asked for, and call ``was_read``."""

    reader: EntityId
    query: Fetch | TimeQuery


@dataclass(frozen=True, slots=True)
class Grown:
    """Committed entries came, or a partition begins elsewhere: waiting readers may look again."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a question that the local handle asked."""

    answer: Answer


LogEffect = (
    Unicast
    | Multicast
    | ToOwnKind
    | Resolve
    | IdleReached
    | MasterFound
    | MasterLost
    | SecondMaster
    | Deposed
    | QuotaCrossed
    | Closed
    | PersistLog
    | ReadFor
    | Grown
    | Answered
)
