"""The members of a group as their leader sees them: who has what, who votes, and who takes over.

Here is decided what its journal says of voters: a change that a person asks for, a voter in the
place of its earlier life; and who is to lead next. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stores.group.applied_state import AppliedState
from stores.group.ballot import Ballot
from stores.group.effects import Effect, Send
from stores.group.entries import VotersEntry
from stores.group.followers import Followers
from stores.group.membership import MemberStatus, Wanted, dismissed_after, next_voters
from stores.group.messages import TimeoutNow
from stores.group.positions import MemberId, Voters
from stores.group.quorum import ChangeRefusal, has_majority, refusal_of
from stores.group.reads import ReadRounds
from stores.group.roles import Timing

HEALTHY_TICKS: Final = 5
"""A member that echoed within so many ticks is there, for a change that counts on it."""

CHANGE_TICKS: Final = 10
"""Ticks for which the round of a change counts, and others wait for it: then it is asked anew."""


@dataclass(slots=True)
class _Change:
    """A change of the voters that was asked for, and waits for a round of its own."""

    voters: Voters
    round: int
    """The first round that began after it was asked for."""
    tick: int


@dataclass(slots=True)
class _Transfer:
    """A hand-over under way: the leader takes nothing on meanwhile."""

    to: MemberId
    ticks_left: int


class Electorate:
    """The members in one term of their leader."""

    def __init__(
        self,
        ballot: Ballot,
        state: AppliedState,
        timing: Timing,
        wanted: Wanted,
        followers: Followers,
        rounds: ReadRounds,
    ) -> None:
        """Know what ``followers`` say; a change waits for one of the ``rounds``."""
        self._ballot = ballot
        self._state = state
        self._journal = state.journal
        self._timing = timing
        self._wanted = wanted
        self._followers = followers
        self._rounds = rounds
        self.succession: _Transfer | None = None
        """While another voter is to take the lead: nothing is taken on meanwhile."""
        self._change: _Change | None = None

    # -- what is so ------------------------------------------------------------------------------

    def members(self) -> list[MemberStatus]:
        """Give what is known of all members, this one too."""
        own, voters = self._ballot.member, self._journal.voters.current
        others = (each for each in self._followers.status(voters) if each.member != own)
        own_status = MemberStatus(
            own,
            own in voters,
            is_whole=True,
            match=self._journal.durable,
            silent_ticks=0,
            is_dismissed=own.name in self._journal.voters.dismissed,
        )
        return [own_status, *others]

    @property
    def is_removed(self) -> bool:
        """True if it is committed that the leader is no voter."""
        is_voter = self._ballot.member in self._journal.voters.current
        return not is_voter and self._state.is_voters_committed

    @property
    def has_majority(self) -> bool:
        """True if a majority echoed within the longest election timeout."""
        voters = self._journal.voters.current
        return has_majority(voters, filter(self.is_there, voters))

    @property
    def is_backed(self) -> bool:
        """True if this one and other voters that are whole and in touch are a majority."""
        own, voters = self._ballot.member, self._journal.voters.current
        others = [v for v in voters if self._followers.is_healthy(v, HEALTHY_TICKS)]
        return own in voters and bool(others) and has_majority(voters, (own, *others))

    def matched(self, member: MemberId) -> int:
        """Give the index up to which all is durable at a member."""
        if member == self._ballot.member:
            return self._journal.durable
        return self._followers.matched(member)

    def is_there(self, member: MemberId) -> bool:
        """Tell whether a member may be there: it echoes, or had no time to since the term began."""
        ticks = self._timing.timeout_ticks_max
        is_young = self._followers.tick <= ticks
        is_own = member == self._ballot.member
        return is_young or is_own or self._followers.is_in_touch(member, ticks)

    def is_newer(self, member: MemberId, other: MemberId) -> bool:
        """Tell whether a member came in touch after another one was heard last."""
        return other != self._ballot.member and self._followers.is_newer(member, other)

    # -- changes ---------------------------------------------------------------------------------

    def change(self, voters: Voters, *, is_dismissal: bool) -> ChangeRefusal | None:
        """Put the voters in force that a person asks for; ``None`` if that is done.

        One of them is added or removed. A majority of the new ones has to echo a round that began
        after this was asked for: ask again while it is ``UNCONFIRMED``. With ``is_dismissal`` no
        leader adds the name of one that is removed by itself, before a person has added it.
        """
        before = self._journal.voters.current if is_dismissal else ()
        return self._change_to(voters, [each.name for each in before if each not in voters])

    def dismiss(self, name: str) -> ChangeRefusal | None:
        """Have no leader add a name by itself that has no vote; ``None`` if that is done."""
        if not self._state.is_voters_committed:
            return ChangeRefusal.UNDER_WAY
        self._put(self._journal.voters.current, [name])
        return None

    def _change_to(self, voters: Voters, removed: Sequence[str] = ()) -> ChangeRefusal | None:
        """Put other voters in force, if a majority of them echoed a round of the change.

        Changes go one after the other: none takes the place of one that waits for its round, or
        two that are asked for again and again would both wait for ever.
        """
        if not self._state.is_voters_committed:
            return ChangeRefusal.UNDER_WAY
        refusal = self._refusal_of(voters, 0)
        asked = self._asked_change()
        if asked is not None and asked.voters != voters:
            return refusal or ChangeRefusal.UNDER_WAY
        if refusal is None:
            asked = asked or self._ask(voters)
            if self._refusal_of(voters, asked.round) is not None:
                return ChangeRefusal.UNCONFIRMED
            self._put(voters, removed)
        self._change = None
        return refusal

    def put_alone(self, voter: MemberId) -> None:
        """Put one member alone in force, whatever the others are."""
        self._put((voter,))

    def _put(self, voters: Voters, removed: Sequence[str] = ()) -> None:
        """Put voters in force, and dismiss these names."""
        before, declared = self._journal.voters.dismissed, self._wanted.names
        dismissed = dismissed_after(before, voters, removed, declared)
        self._journal.append(VotersEntry(self._ballot.term, voters, dismissed))

    def replace(self) -> None:
        """Replace a voter's earlier life, or add a voter that is wanted, one at a time."""
        if self._state.is_voters_committed:
            current = self._journal.voters.current
            settled = self._followers.settled(self._state.commit)
            gone = [voter for voter in current if not self.is_there(voter)]
            voters = next_voters(current, settled, gone, self._wanted)
            if voters is not None:
                self._change_to(voters)

    def _asked_change(self) -> _Change | None:
        """Give the change that waits for its round, if it was asked for lately."""
        asked = self._change
        is_late = asked is not None and self._followers.tick - asked.tick > CHANGE_TICKS
        return None if is_late else asked

    def _ask(self, voters: Voters) -> _Change:
        """Have a change wait for a round that begins now."""
        asked = self._change = _Change(voters, self._rounds.round + 1, self._followers.tick)
        self._rounds.is_due = True
        return asked

    def _refusal_of(self, voters: Voters, least_round: int) -> ChangeRefusal | None:
        """Judge a change, where those are there that echoed a round, or a later one."""
        own, followers = self._ballot.member, self._followers

        def has_echoed(member: MemberId) -> bool:
            is_current = followers.echoed(member) >= least_round
            return member == own or (is_current and followers.is_in_touch(member, HEALTHY_TICKS))

        def is_healthy(member: MemberId) -> bool:
            return has_echoed(member) and (member == own or followers.is_whole(member))

        return refusal_of(
            self._journal.voters.current,
            voters,
            is_healthy=is_healthy,
            is_level=lambda member: self.matched(member) >= self._state.commit,
            is_there=self.is_there,
            has_echoed=has_echoed,
        )

    # -- the next leader ---------------------------------------------------------------------------

    def transfer(self, to: MemberId) -> bool:
        """Hand over to a voter; ``False`` if it is none, or not in touch."""
        is_other = to != self._ballot.member and to in self._journal.voters.current
        if not is_other or not self._followers.is_healthy(to, HEALTHY_TICKS):
            return False
        self.succession = _Transfer(to, self._timing.timeout_ticks_min)
        return True

    def hand_over(self) -> list[Effect]:
        """Have the heir of a transfer ask for votes once it is level; give up after a timeout."""
        if self.succession is None:
            return []
        self.succession.ticks_left -= 1
        if self.succession.ticks_left < 0:
            self.succession = None
        elif self.matched(self.succession.to) == self._journal.end_index:
            return [Send(self.succession.to, TimeoutNow(self._ballot.term))]
        return []

    def pass_on(self) -> list[Effect]:
        """Step down: of the voters in touch the one with the longest journal is to take over."""
        others = [v for v in self._journal.voters.current if v != self._ballot.member]
        heir = max(others, key=lambda v: (self.is_there(v), self.matched(v)), default=None)
        return [Send(heir, TimeoutNow(self._ballot.term))] if heir is not None else []
