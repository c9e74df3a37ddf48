"""What a log is asked: changes, in the name of a writer, and questions with their answers."""

from __future__ import annotations

from dataclasses import dataclass

from stores.actions import WriterId
from stores.group.positions import Position
from stores.log.kept_runs import KeptRun
from stores.log.runs import Flat
from wire.errors import ErrorCode

Positions = tuple[tuple[int, int], ...]
"""Partitions, each with an offset."""

Cursors = tuple[tuple[str, Positions], ...]
"""Consumers, each with the next offsets that they want."""


# -- what a writer asks ----------------------------------------------------------------------------


# Not frozen, like all that is built for every message: a frozen one takes three times as long.
@dataclass(slots=True)
class Append:
    """Append entries to a partition, all of them together."""

    partition: int
    producer: str | None
    """The name under which a repetition is recognised; ``None`` where only the handle counts."""
    sequence: int
    """The producer's number for this append; of no meaning without a name."""
    entries: Flat


@dataclass(frozen=True, slots=True)
class MoveCursor:
    """A consumer is done with everything before these offsets."""

    consumer: str
    positions: Positions


@dataclass(frozen=True, slots=True)
class ForgetConsumer:
    """Forget a consumer, with its cursors."""

    consumer: str


@dataclass(frozen=True, slots=True)
class Trim:
    """Let the entries of a partition before an offset go."""

    partition: int
    offset: int


Request = Append | MoveCursor | ForgetConsumer | Trim


@dataclass(slots=True)
class Requests:
    """Consecutive requests of a writer."""

    writer: WriterId
    first_request: int
    resolved_request: int
    """The writer knows what became of all its requests up to this one."""
    requests: tuple[Request, ...]


# -- what time alone brings about ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trimmed:
    """These partitions begin here now."""

    starts: Positions


# -- questions, and answers to them ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fetch:
    """Give me entries from one of these positions on, as soon as there are any."""

    query: int
    positions: Positions
    size_max: int
    wait_ticks: int
    seen: tuple[Position, ...] = ()
    """With which entries of the journal what was read last came, in the order of ``positions``:
    so it is noticed if that is gone. ``START`` where nothing was read."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Runs that hold the positions that were asked for; none if the time was over."""

    query: int
    runs: tuple[KeptRun, ...]
    offsets: tuple[int, ...]
    """Where the partitions asked for go on, in their order: where that was asked, unless entries
    are gone."""


@dataclass(frozen=True, slots=True)
class StateQuery:
    """Where do the partitions begin and end, and where are the consumers?"""

    query: int


@dataclass(frozen=True, slots=True)
class State:
    """There, and there."""

    query: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    cursors: Cursors
    last: Position
    """The entry of the journal that brought what was appended last."""


@dataclass(frozen=True, slots=True)
class CountQuery:
    """How many partitions are there? A writer without the right to read has to know as well."""

    query: int


@dataclass(frozen=True, slots=True)
class Counted:
    """So many."""

    query: int
    partition_count: int


@dataclass(frozen=True, slots=True)
class TimeQuery:
    """Which is the first entry of each partition from this time on?"""

    query: int
    timestamp_ns: int


@dataclass(frozen=True, slots=True)
class Found:
    """The offsets, one for each partition; the entries need not be there yet."""

    query: int
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QueryFailed:
    """The question makes no sense."""

    query: int
    code: ErrorCode
    text: str


Query = Fetch | StateQuery | CountQuery | TimeQuery
Answer = Fetched | State | Counted | Found | QueryFailed
