"""The parts of one member, and how each of its steps ends.

A step ends alike whatever began it: the parts follow the election, what is new is written and said,
and words wait until the promises in them are on the disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stores.group.applied_state import AppliedState
from stores.group.ballot import Ballot, Slots
from stores.group.clock import NO_TIMES, Moment, Times
from stores.group.effects import Effect, LeaderChanged, Promises
from stores.group.election import Election
from stores.group.entries import Entry
from stores.group.following import Following
from stores.group.journal import Journal
from stores.group.leading import Leading
from stores.group.limits import JOURNAL_MAX
from stores.group.machine import Machine
from stores.group.membership import NO_VOTERS_WANTED, MemberStatus, Wanted
from stores.group.positions import Dismissed, MemberId, Position, Voters
from stores.group.roles import DEFAULT_TIMING, Draw, Role, Timing, Trigger


@dataclass(frozen=True, slots=True)
class Stored:
    """What the disk has at the start of a member; of a new one, what it is given."""

    promises: Promises
    slots: Slots
    floor: Position
    voters: Voters
    """Those in force at the floor."""
    entries: Iterable[Entry]
    """The journal above the floor."""
    applied: int
    """The machine has applied all up to it; between the floor and the journal's end."""
    times: Times = NO_TIMES
    is_volatile: bool = False
    """There is no disk: no ``Persist`` is asked for, and what is appended is durable."""
    dismissed: Dismissed = ()
    """As the voters."""


class MemberParts:
    """A member, as far as it is looked at; its steps are of the class above."""

    def __init__(
        self,
        stored: Stored,
        machine: Machine,
        draw: Draw,
        timing: Timing = DEFAULT_TIMING,
        wanted: Wanted = NO_VOTERS_WANTED,
        ack_entries: int = 1,
    ) -> None:
        """Open what the disk has.

        ``draw`` gives random numbers, for timeouts and for terms taken by force. ``wanted`` are the
        voters that it adds as a leader by itself, and asks to be one of. One that waits for
        ``ack_entries`` before it acknowledges them, or for the next round, is not to be a voter.
        """
        journal = Journal(
            stored.floor,
            stored.voters,
            stored.entries,
            is_volatile=stored.is_volatile,
            dismissed=stored.dismissed,
        )
        self.journal = journal
        """Its journal."""
        self.ballot = Ballot(stored.promises, stored.slots, journal.end)
        self.state = AppliedState(journal, machine, stored.applied, stored.times)
        self.election = Election(self.ballot, journal, timing, draw)
        self._timing = timing
        self._wanted = wanted
        wants_vote = wanted.wants(self.id.name)
        self._following = Following(self.ballot, self.state, ack_entries, wants_vote=wants_vote)
        self.leading: Leading | None = None
        """What it does as the leader; ``None`` while it does not lead."""
        self.excessive = 0
        """Up to this entry the journal stays for no follower: its bytes are too many by now."""
        self._moment = Moment(0, 0)
        self._seen: tuple[int, MemberId | None] = (self.ballot.term, None)
        self._changed_at = journal.voters.changed_at

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return (
            f"<Member {self.id} {self.role.name} term={self.ballot.term} leader={self.leader}"
            f" commit={self.state.commit} {self.state.journal!r}>"
        )

    # -- what is so ------------------------------------------------------------------------------

    @property
    def id(self) -> MemberId:
        """The member."""
        return self.ballot.member

    @property
    def role(self) -> Role:
        """What it is in its term."""
        return self.election.role

    @property
    def leader(self) -> MemberId | None:
        """The leader of its term, if it knows one."""
        return self.election.leader

    @property
    def has_room(self) -> bool:
        """True if a request would be taken on: a leader that may serve, and has room for more."""
        return self.leading is not None and self.leading.has_room

    def members(self) -> list[MemberStatus]:
        """Give what a leader knows of all members; nothing while another one leads."""
        return self.leading.electorate.members() if self.leading is not None else []

    @property
    def is_disk_behind(self) -> bool:
        """True if as much waits for the disk as a leader keeps for a member that is slow."""
        journal = self.journal
        excessive = max(self.excessive, journal.end_index - JOURNAL_MAX)
        return excessive > max(journal.durable, journal.floor.index)

    @property
    def missing_count(self) -> int:
        """How many entries a leader is known to have that are not in the journal here."""
        return max(0, self._following.heard_end - self.journal.end_index)

    @property
    def snapshot_parts(self) -> tuple[int, int] | None:
        """How many parts of a snapshot are here, and how many it has; ``None`` without one."""
        return self._following.snapshot_parts

    # -- steps -----------------------------------------------------------------------------------

    def _trigger(self, trigger: Trigger) -> list[Effect]:
        return self.election.take(self.id, trigger) + self._reconcile()

    def _reconcile(self) -> list[Effect]:
        """Have the parts follow the election: who leads has changed, or who votes."""
        effects: list[Effect] = []
        if self.journal.voters.changed_at != self._changed_at:
            self._changed_at = self.journal.voters.changed_at
            effects += self.election.take(self.id, Trigger.VOTERS_CHANGED)
        seen = (self.ballot.term, self.election.leader)
        if seen == self._seen:
            return effects
        if self.leading is not None:
            effects += self.leading.stop()
            self.leading = None
        effects += self._following.stop()
        self._seen = seen
        effects.append(LeaderChanged(*seen))
        if self.role is Role.LEADER:
            self.leading = Leading(self.ballot, self.state, self._timing, self._wanted)
            self.leading.start(self._moment)
        return effects

    def _count_durable(self) -> list[Effect]:
        """Count what is durable now: at the leader, or with a word to it."""
        if self.leading is not None:
            return self.leading.advance()
        return self._following.persisted()

    def _settle(self, effects: list[Effect], *, is_last: bool = False) -> list[Effect]:
        """End a step: write what is new, say what is new, and hold words back for the ballot."""
        effects = effects + self._reconcile()
        while self.journal.keep():
            effects += self._count_durable() + self._reconcile()
        if self.leading is not None and self.leading.is_over:
            effects += self.leading.electorate.pass_on() + self._trigger(Trigger.MAJORITY_LOST)
        if self.leading is not None:
            effects += self.leading.settle(is_last=is_last)
        write = self.journal.next_write(self.state.machine)
        if write is not None:
            effects.append(write)
        return effects if self.ballot.is_settled else self.ballot.settle(effects)
