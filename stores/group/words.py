"""What endpoints of a group say besides the group's messages: who they are, and what they ask.

A request travels to the leader, and its answer back. Neither is repeated by itself: an asker asks
again after a time, and the machine knows what was done.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from handshake.access import Right
from stores.group.effects import Setback
from stores.group.membership import MemberStatus
from stores.group.messages import Message
from stores.group.positions import MemberId, Position
from wire.identifiers import EndpointId


class Aim(Enum):
    """What a replica is here for."""

    JOIN = "to be of the group that is there, or to found one"
    CLAIM = "to lead the store that clones still have: its master is gone"
    ANEW = "to lead a store of its own, whatever clones still have"


@dataclass(frozen=True, slots=True)
class Greeting:
    """Endpoint to all, or in answer to one: this is the replica here, and what it knows."""

    voters: tuple[str, ...]
    """The names that were declared to it, in their order."""
    is_question: bool
    """True if the others are to answer."""
    aim: Aim = Aim.JOIN


@dataclass(frozen=True, slots=True)
class JournalEnd:
    """Clone to a master that claims the store, or is of another group: this is what I have."""

    end: Position
    """Where its journal ends; the start if it has nothing worth keeping."""
    is_led: bool
    """True while it hears a leader: then there is a master already."""


@dataclass(frozen=True, slots=True)
class Cede:
    """Master to the clone that has most: have me lead, with all that you have."""


# Not frozen, like all that is built for every message: it would take three times as long.
@dataclass(slots=True)
class Ask:
    """Endpoint to the leader: have this judged. Proxies ask any replica what is there, too."""

    ticket: int
    request: object
    """The machine's own."""


# Not frozen, like all that is built for every message: it would take three times as long.
@dataclass(slots=True)
class Answered:
    """Leader to endpoint: what came of it. A majority has it."""

    ticket: int
    answer: object
    """The machine's own."""


class Order(Enum):
    """What a person may have a group do with one of its members."""

    ADD = "add"
    REMOVE = "remove"
    LEAD = "lead"
    TELL = "tell"
    """Change nothing, and say who there is."""


@dataclass(frozen=True, slots=True)
class Steer:
    """Endpoint to the leader: have this done, or say why it is not. Asked again until it is."""

    ticket: int
    order: Order
    name: str
    """Of the member; of no meaning where nothing changes."""


@dataclass(frozen=True, slots=True)
class Steered:
    """Leader to endpoint: it is done, or this is what is in the way now."""

    ticket: int
    is_done: bool
    text: str
    members: tuple[MemberStatus, ...]
    """What the leader knows of all members."""


@dataclass(frozen=True, slots=True)
class Verify:
    """Endpoint to the leader: compare what all members hold. Asked again until it is done."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Looked:
    """Member to leader: this is what I held at that comparison's entry."""

    number: int
    digest: tuple[int, int, int]
    """The machine's own: revision, entries, and the sum of their checksums."""


Row = tuple[EndpointId, tuple[int, int, int] | None]
"""Where a member is, and its digest; ``None`` if it did not answer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Leader to endpoint: this is what all members held."""

    ticket: int
    rows: tuple[Row, ...]
    """The leader's first."""


@dataclass(frozen=True, slots=True)
class Differs:
    """Leader to member: you hold something else than I do."""

    number: int


@dataclass(frozen=True, slots=True)
class Declined:
    """Endpoint to endpoint: it has no answer here."""

    ticket: int
    setback: Setback


@dataclass(frozen=True, slots=True)
class Barred:
    """Endpoint to endpoint: a letter of yours was not taken. It is never answered itself."""

    right: Right
    """What you lack: ``READ``, ``WRITE`` or ``VOTE``."""
    ticket: int | None
    """Of the ``Ask``, if it was one."""
    text: str
    life: int | None = None
    """That of the member whose letter it was; ``None`` is for whichever is there. A replica that
    was attached again hears nothing of what an earlier one lacked."""


@dataclass(frozen=True, slots=True)
class Farewell:
    """Endpoint to all: the replica here closes. A hint, as a connection that was reset is one.

    To a proxy: it does not lead, or no more.
    """


@dataclass(frozen=True, slots=True)
class Seek:
    """Proxy to all, or to the leader that it follows: who leads? Only a leader answers."""

    number: int
    """Grows with each question of a proxy."""


@dataclass(frozen=True, slots=True)
class Leads:
    """Leader to a proxy: I lead this term, and serve."""

    number: int
    """Of the question that this answers."""
    term: int


Word = (
    Greeting
    | JournalEnd
    | Cede
    | Ask
    | Answered
    | Declined
    | Barred
    | Steer
    | Steered
    | Farewell
    | Verify
    | Looked
    | Verdict
    | Differs
    | Seek
    | Leads
)

Errand = Steer | Steered | Verify | Looked | Verdict | Cede | Differs
"""What a person's errand, or a comparison of members, is made of."""

OUTSIDE: Final = MemberId("", 0)
"""Signs what a proxy says, which is no member: it has no life, promises nothing and counts for
nothing. What it may do depends on its endpoint alone."""


# Not frozen, like all that is built for every message: it would take three times as long.
@dataclass(slots=True)
class Letter:
    """All that one payload holds."""

    sender: MemberId
    group: bytes | None
    """The group's id; ``None`` if the sender knows of none. Only ``Greeting``, ``JournalEnd``,
    ``Barred`` and what proxies say go without."""
    content: Message | Word
