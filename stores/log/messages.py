"""What keepers, followers and proxies say to each other, besides what their channels say.

The channels themselves speak in the commands of stores (``stores.commands``): acknowledgements,
nacks, handshakes of writers, and runs of payloads, which are ``Event`` and ``Requests`` here.
"""

from __future__ import annotations

from dataclasses import dataclass

from stores.actions import WriterId
from stores.log.memory import Remembered
from stores.log.runs import Flat, Run
from stores.outcomes import Outcome
from wire.errors import ErrorCode

Positions = tuple[tuple[int, int], ...]
"""Partitions, each with an offset."""

Cursors = tuple[tuple[str, Positions], ...]
"""Consumers, each with the next offsets that they want."""


# -- what a writer asks: the payloads of the channel from it ---------------------------------------


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


# -- what a keeper did: the payloads of the channel to its followers -------------------------------


@dataclass(frozen=True, slots=True)
class Trimmed:
    """These partitions begin here now."""

    starts: Positions


Event = Run | Trimmed | MoveCursor | ForgetConsumer | Remembered
"""Requests about cursors are told as they came. What one commit made durable is taken in together:
up to the last ``Remembered``."""


# -- keeping in touch ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """A follower or proxy to the keeper, twice a second: I am here, are you?"""

    number: int
    known_epoch: int
    """The latest keeper that it knows of: one of an earlier term is deposed by this."""
    writer: WriterId
    resolved_request: int


@dataclass(frozen=True, slots=True)
class Welcome:
    """The keeper answers a hello."""

    epoch: int
    number: int
    """Of the hello."""
    log_id: int
    partition_count: int
    sequence: int
    """The latest event of the channel to followers."""
    request: int
    """What became of the writer's requests up to this one is known, and follows."""
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """The keeper to a writer: what became of its requests after the one that is named."""

    epoch: int
    after: int
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """A follower to the keeper: I have a copy up to here, take me in."""

    session: int
    log_id: int
    epoch: int
    """The keeper's epoch when the copy was level with it, or growing."""
    ends: tuple[int, ...]
    position: int
    """The event of that epoch up to which it remembers writers and producers; zero for none."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The keeper takes a follower in: events after ``sequence`` come by the channel."""

    epoch: int
    session: int
    sequence: int
    heartbeat_interval_ticks: int
    log_id: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    """At that event; the follower fetches what it lacks up to here."""
    agreed: tuple[int, ...]
    """Up to here its copy is right; what it has beyond, this keeper never committed."""
    lives: tuple[tuple[int, tuple[int, ...]], ...]
    """Epochs of the keepers up to this one, with where the log ended when each began."""
    is_memory_new: bool
    """Whether the pages of the memory replace what the follower remembers, or add to it."""
    cursors: Cursors


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """A follower that catches up: give me this page of what you remembered at that event."""

    session: int
    sequence: int
    page: int


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """What the keeper remembered of writers and producers; ``None`` if it has it no more."""

    sequence: int
    page: int
    remembered: Remembered | None


# -- questions, and answers to them ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fetch:
    """Give me entries from one of these positions on, as soon as there are any."""

    query: int
    positions: Positions
    size_max: int
    wait_ticks: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """Runs that hold the positions that were asked for; none if the time was over."""

    query: int
    runs: tuple[Run, ...]
    starts: tuple[int, ...]
    """Of the partitions asked for, in their order."""
    ends: tuple[int, ...]


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
    """Which is the first entry of a partition from this time on?"""

    query: int
    partition: int
    timestamp_ns: int


@dataclass(frozen=True, slots=True)
class Found:
    """The offset; the entry need not be there yet."""

    query: int
    offset: int


@dataclass(frozen=True, slots=True)
class QueryFailed:
    """The question makes no sense."""

    query: int
    code: ErrorCode
    text: str


@dataclass(frozen=True, slots=True)
class Proclaim:
    """A keeper to all keepers of its log: I lead, unless your epoch is higher."""

    epoch: int


Query = Fetch | StateQuery | CountQuery | TimeQuery
Answer = Fetched | State | Counted | Found | QueryFailed
LogMessage = (
    Hello
    | Welcome
    | Answers
    | Join
    | Admitted
    | MemoryQuery
    | MemoryPage
    | Query
    | Answer
    | Proclaim
)
