"""What the table's machine is asked, what its journal entries say, and what it answers.

Keys and values stay encoded, as in ``stores.actions``. An ``expiry_ns`` is a span in what is asked,
and an instant of the group's elapsed time in what is journalled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from stores.actions import Action, ExpireCommand, WriterId, request_range
from stores.judgement import REQUESTS, Request
from stores.limits import RUN_COUNT_MAX
from stores.outcomes import Outcome
from stores.questions import Question, ReadAnswerCommand, ReadRefusedCommand
from stores.quota import Quota
from wire.errors import DecodeError
from wire.identifiers import EndpointId

# -- requests --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Register:
    """Ask for a number to write under. It is sent again until it is answered.

    A writer is one life of a handle: the same one always gets the same number, until it is evicted.
    """

    writer: WriterId
    last_request: int = 0
    """The highest request that it ever sent: what became of those up to it is unknown here."""


# Not frozen, like all that is built for every message: a frozen one takes three times as long.
@dataclass(slots=True)
class Write:
    """What a registered writer asks for, sent again as it is until it is answered."""

    number: int
    """What ``Register`` was answered with."""
    requests: tuple[Request, ...]
    """One or more, numbered without a gap: they become one entry."""
    resolved: int = 0
    """The writer knows what became of all its requests up to this one."""
    is_vetted: bool = False
    """Numbers have no gap, and keys and values are encodings: as a handle of this endpoint asks."""

    @property
    def writer(self) -> WriterId:
        """The writer that asks; raises ``DecodeError`` where it asks for nothing."""
        first = self.requests[0] if self.requests else None
        if not isinstance(first, REQUESTS):
            raise DecodeError("a writer asks for nothing, or for what only leaders do")
        writer: WriterId = first.writer
        return writer

    @property
    def asked(self) -> tuple[int, int]:
        """The first and the last number; raises ``DecodeError`` where there is a gap."""
        requests = self.requests
        if self.is_vetted:
            begin = request_range(requests[0])
            end = begin if len(requests) == 1 else request_range(requests[-1])
            assert begin is not None, self
            assert end is not None, self
            return begin[0], end[1]
        first = last = 0
        for request in requests:
            asked = request_range(request)
            if not isinstance(request, REQUESTS) or asked is None:
                kind = type(request).__name__
                raise DecodeError(f"a writer asks for a {kind}: only leaders do that")
            if last and (asked[0] != last + 1 or request.writer != requests[0].writer):
                raise DecodeError(f"request {asked[0]} does not come after request {last}")
            first, last = first or asked[0], asked[1]
        if first < 1:
            raise DecodeError("a writer asks for nothing")
        if last - first >= RUN_COUNT_MAX:
            # All of them refused would make an entry that no other member reads.
            raise DecodeError(f"a writer asks for {last + 1 - first} changes at a time")
        return first, last


@dataclass(frozen=True, slots=True)
class ChangeQuota:
    """Have all later requests judged by another quota, at whichever member leads."""

    quota: Quota


@dataclass(frozen=True, slots=True)
class Compare:
    """Have every member compute the digest of what it has at one position."""

    number: int
    """Of the comparison; drawn by the one that asks."""


class Stamp(NamedTuple):
    """How far a state is that was read. Of two states of one group the greater one is later."""

    term: int
    """The term of the last entry that is committed."""
    revision: int


@dataclass(frozen=True, slots=True)
class Read:
    """Proxy to a replica: what is there? No entry comes of it, so that any replica may answer."""

    seen: Stamp
    """What the proxy has read, or has a receipt for: an earlier state is no answer."""
    is_linear: bool
    """True for what a leader says once a majority has confirmed that it leads."""
    question: Question


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Ask for a session. It is sent again until it is answered: one nonce has one session."""

    nonce: bytes
    """16 bytes, drawn by the holder."""
    ttl_ns: int
    """How long it lives without a renewal, in ns of the group's elapsed time."""


@dataclass(frozen=True, slots=True)
class RenewSession:
    """Have a session live on for its full time. It becomes no entry."""

    session: int


@dataclass(frozen=True, slots=True)
class EndSession:
    """End a session, and all of its keys."""

    session: int


SessionRequest = OpenSession | RenewSession | EndSession

TableRequest = Register | Write | ChangeQuota | Compare | Read | SessionRequest


def check_asker(request: object, sender: EndpointId) -> None:
    """Raise ``DecodeError`` where an endpoint asks in the name of another one's writer."""
    # The id of a writer begins with its endpoint's.
    if isinstance(request, (Register, Write)) and not request.writer.startswith(sender):
        raise DecodeError(f"another endpoint asks in the name of {request.writer!r}")


# -- bodies of journal entries ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Registered:
    """A writer may write; its number is the index of this entry."""

    writer: WriterId
    last_request: int
    evicted: WriterId | None
    """The writer that was idle longest, if there was no room."""


@dataclass(slots=True)
class Performed:
    """What a writer's request came to, in absolute terms: all of it, or nothing."""

    resolved: int
    actions: tuple[Action, ...]
    """One or more, in order; the last one tells the writer what became of its latest request."""
    encoded: bytes | None = field(default=None, init=False, compare=False, repr=False)
    """The whole body's bytes, once they are known: it is written to the disk and to all members."""

    @property
    def asked(self) -> tuple[WriterId, int]:
        """The writer, and its latest request: those of the last action."""
        action = self.actions[-1]
        asked = request_range(action)
        assert asked is not None, action
        assert not isinstance(action, ExpireCommand), action
        return action.writer, asked[1]


@dataclass(frozen=True, slots=True)
class QuotaChanged:
    """Another quota is in force."""

    quota: Quota


@dataclass(frozen=True, slots=True)
class Compared:
    """Every member computes its digest as of here."""

    number: int


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """There is another session; its number is drawn from the nonce and the index of this entry."""

    nonce: bytes
    ttl_ns: int
    is_drawn: bool = True
    """False in journals of earlier builds: there the number is the index itself."""


@dataclass(frozen=True, slots=True)
class SessionsEnded:
    """Sessions have ended, and with them all of their keys."""

    sessions: tuple[int, ...]
    removal: ExpireCommand | None
    """Of their keys; ``None`` if they had none."""


Body = (
    Performed | ExpireCommand | Registered | QuotaChanged | Compared | SessionOpened | SessionsEnded
)
"""What the machine's entries hold. ``ExpireCommand`` is what the group's clock brings about."""


# -- in snapshots ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session, as snapshots carry it. How long it has left, its leader alone knows."""

    session: int
    nonce: bytes
    ttl_ns: int


# -- answers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Registration:
    """The number to write under."""

    number: int
    last_request: int
    """All requests up to it were judged, or are given up: the next one has the number after it."""


@dataclass(frozen=True, slots=True)
class UnknownWriter:
    """The writer was evicted: what became of requests without an answer cannot be told."""

    number: int


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """An earlier request of the writer is missing; nothing was done."""

    expected: int
    """The request to send."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a replica has, for a proxy."""

    stamp: Stamp
    answer: ReadAnswerCommand


@dataclass(frozen=True, slots=True)
class SessionGranted:
    """The session that was asked for."""

    session: int | None
    """``None`` if the group has as many as it can have."""


@dataclass(frozen=True, slots=True)
class SessionHeard:
    """A session was renewed, or is over."""

    is_alive: bool


Answered = (
    Registration
    | tuple[Outcome, ...]
    | UnknownWriter
    | OutOfOrder
    | Found
    | ReadRefusedCommand
    | SessionGranted
    | SessionHeard
    | None
)
"""Outcomes answer a ``Write``; ``None`` answers ``ChangeQuota`` and ``Compare``."""
