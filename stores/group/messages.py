"""What members of a group say to each other: one closed union.

Every message carries the sender's term. Numbers of rounds, sessions and tickets only grow.
"""

from __future__ import annotations

from dataclasses import dataclass

from channels import CumulativeAck, Event, Heartbeat, Nack, RetransmitFailed, UnknownConsumer
from stores.group.clock import Times
from stores.group.entries import Entry
from stores.group.positions import Dismissed, Position, Voters

# -- elections -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreVote:
    """Would you vote for me in this term? It promises nothing, and changes no term."""

    term: int
    last: Position
    """Where the sender's journal ends."""


@dataclass(frozen=True, slots=True)
class PreVoteGranted:
    """I would, in this term."""

    term: int


@dataclass(frozen=True, slots=True)
class Vote:
    """Vote for me in this term."""

    term: int
    last: Position
    is_handed: bool
    """True if the leader asked the sender to take over: that leader needs no protection."""


@dataclass(frozen=True, slots=True)
class VoteGranted:
    """You have my vote in this term. It is on my disk."""

    term: int


@dataclass(frozen=True, slots=True)
class HigherTerm:
    """Your term is over, or you asked for one that is no news here: this is mine."""

    term: int


@dataclass(frozen=True, slots=True)
class TimeoutNow:
    """Leader to a voter that is level: ask for votes at once, I hand over."""

    term: int


# -- leading and following -------------------------------------------------------------------------


@dataclass(slots=True)
class Keepalive:
    """Leader to all: I lead."""

    term: int
    round: int
    commit: int
    end: int
    """The index of the leader's last entry: a member without it asks for it."""
    times: Times


@dataclass(slots=True)
class Echo:
    """Follower to leader: I heard that round. It never waits for an entry's fsync."""

    term: int
    round: int


@dataclass(frozen=True, slots=True)
class Join:
    """Follower to leader: begin a session with me. Here are the ends of my journal's terms."""

    term: int
    session: int
    ends: tuple[Position, ...]
    wants_vote: bool = False
    """True if I am to be a voter, as soon as one is wanted."""


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """What a snapshot is of, ahead of its parts."""

    position: Position
    voters: Voters
    times: Times
    part_count: int
    after: int
    """The last index that both journals share: the parts may leave out what came up to it."""
    dismissed: Dismissed = ()


@dataclass(frozen=True, slots=True)
class Admitted:
    """Leader to follower: the session begins. Drop what you have above ``agreed``."""

    term: int
    session: int
    agreed: int
    """The last index that both journals share, or the snapshot's."""
    end: int
    """The index of the leader's last entry. A regressed member is whole with all up to it."""
    snapshot: SnapshotHead | None
    """Set if the leader's journal does not reach back to what both share."""


@dataclass(slots=True)
class ToFollower:
    """Producer to consumer, within a term: entries, as the channel sends them."""

    term: int
    session: int | None
    """Set for what concerns one session alone; entries of a term are the same for all."""
    message: Event[Entry] | Heartbeat | RetransmitFailed | UnknownConsumer
    commit: int = 0
    """With entries: all up to it are committed. It saves a keepalive of its own."""


@dataclass(slots=True)
class FromFollower:
    """Consumer to producer: an acknowledgement of what is durable, or a request for what lacks."""

    term: int
    session: int
    is_whole: bool
    """False if the member lacks something that it had acknowledged: it counts for no majority."""
    message: CumulativeAck | Nack


@dataclass(slots=True)
class SnapshotPart:
    """Leader to follower: one part of a snapshot."""

    term: int
    session: int
    number: int
    part: object


@dataclass(frozen=True, slots=True)
class SnapshotAck:
    """Follower to leader: I have that many parts, from the first on."""

    term: int
    session: int
    count: int


@dataclass(frozen=True, slots=True)
class ReadIndex:
    """Follower to leader: which index is no older than now?"""

    term: int
    ticket: int


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """Leader to follower: with all up to ``index`` applied, a read sees what was committed."""

    term: int
    ticket: int
    index: int


ElectionMessage = PreVote | PreVoteGranted | Vote | VoteGranted | HigherTerm | TimeoutNow

LeaderMessage = Keepalive | Admitted | ToFollower | SnapshotPart | ReadFrom
"""From the leader of a term to those that follow it."""

FollowerMessage = Echo | Join | FromFollower | SnapshotAck | ReadIndex
"""To the leader of a term."""

Message = ElectionMessage | LeaderMessage | FollowerMessage
