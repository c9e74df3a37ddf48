"""What the log's machine is asked, what its journal entries say, and what it answers.

Keys and values stay encoded, and the entries of a run are encoded together, once: by the leader.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stores.actions import WriterId
from stores.log.messages import Cursors, Positions, Query, Requests, Trimmed
from stores.log.partitions import Retention
from stores.log.runs import Run
from stores.outcomes import Outcome
from stores.table.bodies import (
    ChangeQuota,
    OutOfOrder,
    QuotaChanged,
    Register,
    Registered,
    Registration,
    UnknownWriter,
)
from wire.errors import DecodeError
from wire.identifiers import EndpointId

# -- requests --------------------------------------------------------------------------------------


# Not frozen, like all that is built for every message: a frozen one takes three times as long.
@dataclass(slots=True)
class Write:
    """What a registered writer asks for, sent again as it is until it is answered."""

    number: int
    """What ``Register`` was answered with."""
    asked: Requests
    """One or more, which become one entry."""
    is_vetted: bool = False
    """Keys and values are encodings: as a handle of this endpoint asks."""


@dataclass(frozen=True, slots=True)
class ChangeRetention:
    """Have the log keep what another rule says, whichever member leads."""

    retention: Retention


LogRequest = Register | Write | ChangeQuota | ChangeRetention | Query


def check_asker(request: object, sender: EndpointId) -> None:
    """Raise ``DecodeError`` where an endpoint asks in the name of another one's writer."""
    writer = None
    if isinstance(request, Register):
        writer = request.writer
    elif isinstance(request, Write):
        writer = request.asked.writer
    if writer is not None and writer.entity.endpoint != sender:
        raise DecodeError(f"another endpoint asks in the name of {writer!r}")


# -- bodies of journal entries ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begun:
    """The log has so many partitions, for ever: before anything else is asked of it."""

    partition_count: int
    registered: Registered | None
    """The first writer, if it asked before the leader's first tick; its number is as ever."""


@dataclass(frozen=True, slots=True)
class Produced:
    """What a named producer appended with one number."""

    producer: str
    sequence: int
    partition: int
    offset: int


@dataclass(slots=True)
class Performed:
    """What a writer's requests came to, in absolute terms: all of it, or nothing."""

    writer: WriterId
    resolved: int
    """The writer knows what became of all its requests up to this one."""
    outcomes: tuple[Outcome, ...]
    """One after the other, without a gap."""
    runs: tuple[Run, ...]
    """What is appended; of one partition each goes on where the one before ends."""
    elapsed_ns: int
    """The group's elapsed time."""
    produced: tuple[Produced, ...] = ()
    starts: Positions = ()
    """Partitions that begin here now."""
    forgotten: tuple[str, ...] = ()
    """Consumers whose cursors go, before others are set."""
    moved: Cursors = ()
    encoded: bytes | None = field(default=None, init=False, compare=False, repr=False)
    """The whole body's bytes, once they are known: it is written to the disk and to all members."""

    @property
    def last_request(self) -> int:
        """The writer's latest request."""
        return self.outcomes[-1].last_request


@dataclass(frozen=True, slots=True)
class RetentionChanged:
    """Another rule says what is kept."""

    retention: Retention


Body = Begun | Performed | Registered | Trimmed | QuotaChanged | RetentionChanged
"""What the machine's entries hold. ``Trimmed`` is what retention brings about."""


# -- answers ---------------------------------------------------------------------------------------

Answered = Registration | tuple[Outcome, ...] | UnknownWriter | OutOfOrder | None
"""Outcomes answer a ``Write``; ``None`` answers ``ChangeQuota`` and ``ChangeRetention``."""
