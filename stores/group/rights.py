"""Which right of its sender each letter of a group takes. Pure.

A replica judges a letter by what it says, and never by the topic that it came on: a learner needs
less than a voter. What a voter's acknowledgement counts for, it counts for by its name. So all that
is said in the name of a voter takes the right to vote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from handshake.access import Right
from handshake.roles import Rights
from stores.group.messages import (
    Admitted,
    Echo,
    FromFollower,
    HigherTerm,
    Join,
    Keepalive,
    Message,
    PreVote,
    PreVoteGranted,
    ReadFrom,
    ReadIndex,
    SnapshotAck,
    SnapshotPart,
    TimeoutNow,
    ToFollower,
    Vote,
    VoteGranted,
)
from stores.group.positions import MemberId
from stores.group.words import (
    Aim,
    Answered,
    Ask,
    Barred,
    Cede,
    Declined,
    Differs,
    Farewell,
    Greeting,
    JournalEnd,
    Leads,
    Letter,
    Looked,
    Seek,
    Steer,
    Steered,
    Verdict,
    Verify,
    Word,
)

RIGHTS: Final[Mapping[type[Message | Word], Right | None]] = {
    PreVote: Right.VOTE,
    PreVoteGranted: Right.VOTE,
    Vote: Right.VOTE,
    VoteGranted: Right.VOTE,
    HigherTerm: Right.VOTE,
    TimeoutNow: Right.VOTE,
    Keepalive: Right.VOTE,
    Admitted: Right.VOTE,
    ToFollower: Right.VOTE,
    SnapshotPart: Right.VOTE,
    ReadFrom: Right.VOTE,
    Answered: Right.VOTE,
    Declined: Right.VOTE,
    Barred: Right.VOTE,
    Echo: Right.READ,
    Join: Right.READ,
    FromFollower: Right.READ,
    SnapshotAck: Right.READ,
    ReadIndex: Right.READ,
    Greeting: Right.READ,
    JournalEnd: Right.VOTE,
    Cede: Right.VOTE,
    Farewell: Right.READ,
    Verify: Right.VOTE,
    Looked: Right.READ,
    Verdict: Right.VOTE,
    Differs: Right.VOTE,
    Steered: Right.VOTE,
    Steer: Right.VOTE,
    Ask: Right.WRITE,
    Leads: Right.VOTE,
    Seek: None,
}
"""What moves a term, speaks for a leader or answers takes ``vote``: it may be a leader's. So does
what a clone has in the place of its master, which the next one leads on with. What an ``Ask`` takes
is the machine's to say of each of its requests; ``write`` is the usual right. To ``Seek`` takes
none: that a store has a leader is announced to all."""

RightOf = Callable[[object], Right]
"""Gives the right that one of the machine's requests takes."""

IsVoter = Callable[[MemberId], bool]
"""Tells whether a member is a voter in force, or may be one by its declared name."""


@dataclass(frozen=True, slots=True)
class GroupGuard:
    """One sender with limited rights, before one replica."""

    store: str
    who: str
    """The sender, with its name and role, for the text of a refusal."""
    rights: Rights

    def examine(self, letter: Letter, is_voter: IsVoter, right_of: RightOf) -> Barred | None:
        """Say what a letter lacks; ``None`` if it is taken."""
        wanted = right_to(letter, is_voter, right_of)
        if wanted is None or getattr(self.rights, wanted):
            return None
        ticket = letter.content.ticket if isinstance(letter.content, Ask) else None
        return self.bar(wanted, ticket, letter.sender.life)

    def dismiss(self) -> Barred:
        """Say what an endpoint lacks that had more rights until now."""
        return self.bar(Right.VOTE if self.rights.read else Right.READ, None)

    def bar(self, wanted: Right, ticket: int | None, life: int | None = None) -> Barred:
        """Say that a right is missing."""
        return Barred(wanted, ticket, f"{self.who} may not {wanted} {self.store}", life)


def right_to(letter: Letter, is_voter: IsVoter, right_of: RightOf) -> Right | None:
    """Give the right that a letter takes; ``None`` if it takes none."""
    content = letter.content
    if isinstance(content, Ask):
        return right_of(content.request)
    if isinstance(content, Greeting) and content.aim is not Aim.JOIN:
        return Right.VOTE
    if isinstance(content, Join) and content.wants_vote:
        return Right.VOTE
    wanted = RIGHTS[type(content)]
    if wanted is Right.READ and is_voter(letter.sender):
        return Right.VOTE
    return wanted
