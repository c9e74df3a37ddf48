"""What a leader knows of those that follow it: who echoes, what is durable there, what to send."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from channels import Event
from stores.group.journal import Journal
from stores.group.limits import CATCH_UP_ENTRIES, CATCH_UP_RUN, FOLLOWERS_MAX
from stores.group.membership import IN_TOUCH_TICKS, MemberStatus
from stores.group.messages import FromFollower, ToFollower
from stores.group.positions import MemberId, Voters
from stores.group.quorum import VoterHistory
from stores.group.snapshots import SnapshotSending

SILENT_TICKS: Final = 100
"""Ticks without an echo after which a member without a vote is forgotten, and a snapshot on its way
to any member is given up: ten seconds, as the channel bears. Ids of replicas in memory differ with
each start: the dead ones would gather otherwise."""

BREAK_TICKS: Final = 20
"""Ticks without an echo after which a member that comes back has to prove itself anew."""


@dataclass(slots=True)
class Follower:
    """One member, as its leader sees it."""

    round: int = 0
    """The latest round that it echoed."""
    echoed_tick: int = 0
    touched_tick: int = 0
    """Since when it echoes without a break."""
    session: int = -1
    match: int = 0
    """All up to it is durable there. Only acknowledgements of a whole member raise it."""
    is_whole: bool = False
    wants_vote: bool = False
    sending: SnapshotSending | None = None
    next_index: int = 0
    """The next entry of the journal to send ahead of acknowledgements."""
    catch_up_end: int = 0
    """What was there when the session began, and was not broadcast to it."""

    def begin(self, session: int, agreed: int, end: int) -> None:
        """Start a session. Nothing counts as durable before an acknowledgement in it."""
        self.session, self.match, self.is_whole = session, 0, False
        self.sending = None
        self.next_index, self.catch_up_end = agreed + 1, end

    def catch_up(self, journal: Journal, commit: int, term: int, done: int) -> Iterator[ToFollower]:
        """Give the entries that have room ahead of ``done``, its latest acknowledgement.

        Each run says what is committed, so that it is applied run by run, and not at once.
        """
        end = min(self.catch_up_end, done + CATCH_UP_ENTRIES)
        self.next_index = max(self.next_index, done + 1, journal.first_sequence)
        while self.next_index <= end:
            last = min(self.next_index + CATCH_UP_RUN - 1, end)
            entries = journal.payloads(self.next_index, last)
            yield ToFollower(term, None, Event(term, self.next_index, entries), commit)
            self.next_index = last + 1


class Followers:
    """All members that the leader of one term heard of."""

    def __init__(self, voters: VoterHistory) -> None:
        """Know none. The ``voters`` in force are always let in."""
        self._voters = voters
        self._known: dict[MemberId, Follower] = {}
        self.tick = 0

    def __len__(self) -> int:
        """Count them."""
        return len(self._known)

    def __iter__(self) -> Iterator[tuple[MemberId, Follower]]:
        """Give all of them."""
        return iter(self._known.items())

    def get(self, member: MemberId) -> Follower | None:
        """Give one, if it was heard of."""
        return self._known.get(member)

    def find(self, member: MemberId) -> Follower | None:
        """Give one, known before or not; ``None`` for one without a vote if there are too many."""
        found = self._known.get(member)
        if found is None and (len(self._known) < FOLLOWERS_MAX or member in self._voters.current):
            found = self._known[member] = Follower(echoed_tick=self.tick)
        return found

    def forget(self, member: MemberId) -> None:
        """Know a member no more."""
        self._known.pop(member, None)

    def silent(self) -> list[MemberId]:
        """Give those that have not echoed for ``SILENT_TICKS``."""
        return [
            member
            for member, follower in self._known.items()
            if self.tick - follower.echoed_tick > SILENT_TICKS
        ]

    def matched(self, member: MemberId) -> int:
        """Give the index up to which all is durable at a member, as far as is known."""
        follower = self._known.get(member)
        return follower.match if follower is not None else 0

    def echoed(self, member: MemberId) -> int:
        """Give the latest round that a member echoed."""
        follower = self._known.get(member)
        return follower.round if follower is not None else 0

    def echo(self, member: MemberId, round_number: int) -> None:
        """Note that a member heard a round."""
        follower = self.find(member)
        if follower is not None:
            if self.tick - follower.echoed_tick > BREAK_TICKS or not follower.round:
                follower.touched_tick = self.tick
            follower.round = max(follower.round, round_number)
            follower.echoed_tick = self.tick

    def is_in_touch(self, member: MemberId, ticks: int) -> bool:
        """Tell whether a member echoed a round within so many ticks."""
        follower = self._known.get(member)
        return (
            follower is not None
            and bool(follower.round)
            and (self.tick - follower.echoed_tick <= ticks)
        )

    def is_newer(self, member: MemberId, other: MemberId) -> bool:
        """Tell whether a member came in touch after another one was heard last."""
        newer, older = self._known.get(member), self._known.get(other)
        began = newer.touched_tick if newer is not None and newer.round else self.tick
        return older is None or older.echoed_tick <= began

    def is_whole(self, member: MemberId) -> bool:
        """Tell whether a member is in session and whole, by its own word."""
        follower = self._known.get(member)
        return follower is not None and follower.is_whole

    def is_healthy(self, member: MemberId, ticks: int) -> bool:
        """Tell whether a member is in touch, in session and whole: its votes and acks count."""
        return self.is_whole(member) and self.is_in_touch(member, ticks)

    def settled(self, level: int) -> list[MemberId]:
        """Give the members that ask for a vote, are whole, level, and in touch for long enough.

        Those whose vote a person took are none of them.
        """
        return [
            member
            for member, follower in self._known.items()
            if follower.wants_vote
            and self.is_healthy(member, BREAK_TICKS)
            and follower.match >= level
            and self.tick - follower.touched_tick >= IN_TOUCH_TICKS
            and member.name not in self._voters.dismissed
        ]

    def status(self, voters: Voters) -> list[MemberStatus]:
        """Give what is known of all, voters that were never heard of too."""
        known = {**dict.fromkeys(voters, Follower()), **self._known}
        return [
            MemberStatus(
                member=member,
                is_voter=member in voters,
                is_whole=follower.is_whole,
                match=follower.match,
                silent_ticks=self.tick - follower.echoed_tick,
                is_dismissed=member.name in self._voters.dismissed,
            )
            for member, follower in known.items()
        ]

    def acknowledged(self, member: MemberId, message: FromFollower, sequence: int) -> None:
        """Note what is durable at a member, by its own word in this session."""
        follower = self._known[member]
        follower.is_whole = message.is_whole
        if message.is_whole:
            follower.match = max(follower.match, sequence)
