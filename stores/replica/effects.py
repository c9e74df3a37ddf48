"""What a replica asks of its endpoint: its disk, and what to tell, beside what every store asks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from stores.disk.lazy_rows import Books, Slice
from stores.effects import Effect
from stores.group.effects import Persist, SavePromises, StageParts, SyncMarks, WriteMark
from stores.group.entries import Entry
from stores.group.membership import MemberStatus
from wire.identifiers import EndpointId

if TYPE_CHECKING:
    from stores.log.kept_runs import RunPlace
    from stores.log.messages import Answer, Fetch, TimeQuery


@dataclass(frozen=True, slots=True)
class Begin:
    """Note in all files of which group the replica is, with the first entries of its journal."""

    group: bytes
    entries: tuple[Entry, ...]


Rows = Slice | Books
"""What a file has of a machine beside the journal, by its kind."""


@dataclass(frozen=True, slots=True)
class ToDisk:
    """Do this in a thread, then call ``persisted(token)``. One is under way at a time."""

    token: int
    write: Persist | StageParts | SavePromises | SyncMarks | Begin | None
    """``None`` writes nothing but rows."""
    rows: Rows | None = None
    """Rows of the machine, which follow lazily."""


@dataclass(frozen=True, slots=True)
class ReadRuns:
    """Read these runs of a log in its file, in a thread, then call ``runs_read(token, …)``."""

    token: int
    runs: tuple[RunPlace, ...]


class News(Enum):
    """What a person should know of a replica."""

    REGRESSED = "it lacks what it had acknowledged, and counts for nothing until it has it again"
    WHOLE = "it has all that it ever acknowledged, and counts again"
    DISK_FAILED = "its disk failed"
    BARRED = "it may not vote, and is not heard"
    UNLED = "it has had no leader for some seconds"
    LED = "it has one again"
    DISMISSED = "a person took its vote"
    ANEW = "what it had is not its store any more"
    CONFLICT = "two histories are there, and nothing is dropped"


@dataclass(frozen=True, slots=True)
class Told:
    """Tell of this."""

    news: News
    text: str


@dataclass(frozen=True, slots=True)
class OrderDone:
    """An order is done; this is what the leader knows of all members."""

    token: int
    members: tuple[MemberStatus, ...]


@dataclass(frozen=True, slots=True)
class AskDone:
    """The group has done what was asked in no writer's name, or refuses it."""

    token: int
    refusal: str = ""
    """Why it is not permitted; empty if it is done."""
    answer: object = None
    """The machine's own."""


@dataclass(frozen=True, slots=True)
class ReadFor:
    """Read what a proxy of a log asked for, and call ``was_read`` with the answer."""

    endpoint: EndpointId
    ticket: int
    query: Fetch | TimeQuery


@dataclass(frozen=True, slots=True)
class QueryAnswered:
    """What the proxy of a log has asked with ``ask`` has its answer, under its number."""

    answer: Answer
    group: bytes | None = None
    """The group whose leader answered."""


GroupEffect = ToDisk | ReadRuns | WriteMark | Told | OrderDone | AskDone | ReadFor | QueryAnswered

ReplicaEffect = Effect | GroupEffect
