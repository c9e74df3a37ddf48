"""What a member asks its driver to do: one closed union.

A driver carries effects out in order, without waiting in between. Words are held back by the member
until the promises in them are on the disk, so a driver sends what it gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from stores.group.clock import Times
from stores.group.entries import Entry
from stores.group.messages import Message
from stores.group.positions import Dismissed, MemberId, Position, Voters


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The applied state at one position, with what the group needs to go on from there."""

    position: Position
    voters: Voters
    times: Times
    parts: Sequence[object]
    """The machine's state."""
    after: int = 0
    """The parts may leave out what entries up to this one brought: see ``Machine.freeze``."""
    dismissed: Dismissed = ()


@dataclass(frozen=True, slots=True)
class Promises:
    """What a member may never forget: a record of the ballot's file."""

    member: MemberId
    starts: int
    """How often the ballot was opened: sessions of different starts differ."""
    term: int
    """The latest term that the member has heard of."""
    vote: MemberId | None
    """Whom it voted for in that term."""
    is_whole: bool
    """False if its journal lacks something that it may have acknowledged."""


@dataclass(slots=True)
class Send:
    """Send a message to one member; it may get lost."""

    to: MemberId
    message: Message


@dataclass(slots=True)
class Broadcast:
    """Send a message to all members, learners too; it may get lost on the way to any of them."""

    message: Message


@dataclass(slots=True)
class Persist:
    """Change the journal on the disk in one transaction, and call ``persisted(token)``.

    One is under way at a time. It replaces machine and journal by a snapshot, if there is one; then
    it drops the entries above ``keep``; then it appends.
    """

    token: int
    snapshot: Snapshot | None
    keep: int
    entries: tuple[Entry, ...]


@dataclass(slots=True)
class StageParts:
    """Write parts of a snapshot beside the state that is there; call ``parts_staged(token)``.

    They are of no account until a ``Persist`` comes with the snapshot, which has something else in
    their places: see ``Machine.prepare``.
    """

    token: int
    is_first: bool
    """True if they begin a snapshot: what was staged of another one goes."""
    parts: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class SavePromises:
    """Write and sync the ballot, then call ``promises_saved(token)``. One at a time."""

    token: int
    promises: Promises


@dataclass(frozen=True, slots=True)
class WriteMark:
    """Write a mark into one of the ballot's slots, without a sync."""

    slot: int
    number: int
    """Grows with each mark. Of the readable slots the one with the greatest number counts."""
    mark: Position


@dataclass(frozen=True, slots=True)
class SyncMarks:
    """Sync all slots, and call ``marks_synced(number)``. One at a time."""

    number: int


@dataclass(slots=True)
class Committed:
    """The entries from ``first`` to ``last`` are committed, and applied: watches may see them."""

    first: int
    last: int


@dataclass(slots=True)
class Replied:
    """A request of a local caller has its answer."""

    caller: object
    answer: object
    is_in_entry: bool = False
    """An entry that was committed now has brought it: members that apply it know it, too."""


class Setback(Enum):
    """Why a request has no answer of the machine."""

    NOT_LEADER = "this member does not lead; nothing was done"
    NOT_READY = "the leader cannot serve yet, or hands over; nothing was done"
    NO_ROOM = "too much waits for a majority; nothing was done"
    UNKNOWN = "the member led no more before the outcome was known"


@dataclass(slots=True)
class Failed:
    """A request of a local caller has no answer here; ``leader`` may have one."""

    caller: object
    setback: Setback
    leader: MemberId | None


@dataclass(slots=True)
class Readable:
    """The machine may be read now, for a read that began with this caller: it is up to date."""

    caller: object


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Another member leads, as far as this one knows; ``None`` while an election is under way."""

    term: int
    leader: MemberId | None


@dataclass(frozen=True, slots=True)
class WholenessChanged:
    """The member lacks something that it may have acknowledged, or has all of it again."""

    is_whole: bool


@dataclass(frozen=True, slots=True)
class HistoryConflict:
    """The leader lacks what is committed here, or may be. Nothing is dropped; a person decides.

    It happens after a lead that was taken by force, and to a leader that is not of this group.
    """

    leader: MemberId
    agreed: int
    """The last index that both share."""
    kept: int
    """The last index that is kept here."""


Word = Send | Broadcast | Replied | Failed | Readable
"""What another hears. It waits for the ballot."""

Effect = (
    Word
    | Persist
    | StageParts
    | SavePromises
    | WriteMark
    | SyncMarks
    | Committed
    | LeaderChanged
    | WholenessChanged
    | HistoryConflict
)
