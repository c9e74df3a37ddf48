"""One member of a group: all of its parts behind one door.

Inputs are messages, ticks, what the disk has done, and what callers want. Each gives a list of
effects for the driver. There is no clock, disk or chance in here.
"""

from __future__ import annotations

from collections.abc import Iterable

from stores.group.clock import Moment
from stores.group.effects import (
    Effect,
    Failed,
    Setback,
)
from stores.group.limits import JOURNAL_MAX
from stores.group.machine import Answer, Done
from stores.group.member_parts import MemberParts
from stores.group.messages import (
    Admitted,
    Echo,
    FollowerMessage,
    FromFollower,
    HigherTerm,
    Join,
    Keepalive,
    LeaderMessage,
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
from stores.group.positions import MemberId, Voters
from stores.group.quorum import ChangeRefusal
from stores.group.roles import Trigger


class Member(MemberParts):
    """A replica's part in its group, as learner, follower, candidate or leader."""

    # -- what comes in ---------------------------------------------------------------------------

    def start(self, moment: Moment) -> list[Effect]:
        """Start: the ballot is saved before the first word leaves."""
        self._moment = moment
        effects = self.ballot.start(self.journal.end)
        if self.journal.voters.current == (self.id,) and self.ballot.is_whole:
            effects += self._trigger(Trigger.TIMEOUT)  # There is no other voter to wait for.
        return self._settle(effects)

    def tick(self, moment: Moment) -> list[Effect]:
        """Let one tick pass. After a pause all that came meanwhile has to be taken in first."""
        self._moment = moment
        effects = self.ballot.tick()
        if self.leading is None:
            effects += self._following.tick(is_disk_behind=self.is_disk_behind)
        else:
            effects += self.leading.tick(moment)
            if self.leading.is_disk_stuck:
                effects += self.leading.electorate.pass_on() + self._trigger(Trigger.MAJORITY_LOST)
            elif not self.leading.electorate.has_majority:
                effects += self._trigger(Trigger.MAJORITY_LOST)
        return self._settle(effects + self.election.tick())

    def receive(self, sender: MemberId, message: Message) -> list[Effect]:
        """Take in what another member says."""
        match message:  # Those of each entry are looked for first.
            case ToFollower() | Admitted() | SnapshotPart() | ReadFrom():
                effects = self._from_leader(sender, message)
            case FromFollower() | Echo() | Join() | SnapshotAck() | ReadIndex():
                effects = self._from_follower(sender, message)
            case Keepalive():
                effects = self.election.take(sender, message) + self._reconcile()
                if sender == self.leader and message.term == self.ballot.term:
                    effects += self._following.on_keepalive(sender, message)
            case (
                PreVote() | PreVoteGranted() | Vote() | VoteGranted() | HigherTerm() | TimeoutNow()
            ):
                effects = self.election.take(sender, message)
        return self._settle(effects)

    def welcome(self, member: MemberId) -> list[Effect]:
        """Let a member that has just come know who leads, if this one does."""
        return self._settle([] if self.leading is None else self.leading.welcome(member))

    def persisted(self, token: int) -> list[Effect]:
        """Learn that a ``Persist`` is on the disk."""
        journal, effects = self.journal, list[Effect]()
        journal.persisted(token)
        if journal.durable >= journal.floor.index:
            effects += self.ballot.raise_mark(journal.position(journal.durable))
        return self._settle(effects + self._count_durable())

    def parts_staged(self, token: int) -> list[Effect]:
        """Learn that a ``StageParts`` is on the disk."""
        return self._settle(self._following.parts_staged(token))

    def promises_saved(self, token: int) -> list[Effect]:
        """Learn that a ``SavePromises`` is on the disk."""
        self.ballot.promises_saved(token)
        return self._settle([])

    def marks_synced(self, number: int) -> list[Effect]:
        """Learn that a ``SyncMarks`` is over."""
        self.ballot.marks_synced(number)
        return self._settle([])

    def unreachable(self, member: MemberId) -> list[Effect]:
        """Take a hint: a connection to a member was reset. It is no vote, it only saves waiting."""
        return self._settle(self.election.take(member, Trigger.LEADER_UNREACHABLE))

    def farewell(self, member: MemberId) -> list[Effect]:
        """Learn that a member closed: it is waited for no more, and is a leader no more."""
        if self.leading is not None:
            self.leading.forget(member)
        return self.unreachable(member)

    # -- what callers want -----------------------------------------------------------------------

    def propose(self, caller: object, request: object) -> list[Effect]:
        """Have a request judged; ``Replied`` or ``Failed`` names the caller, once."""
        return self.propose_all([(caller, request)])

    def propose_all(self, asked: Iterable[tuple[object, object]]) -> list[Effect]:
        """Have requests of callers judged in one step: what they come to travels together."""
        effects: list[Effect] = []
        for caller, request in asked:
            if self.leading is None:
                effects.append(Failed(caller, Setback.NOT_LEADER, self.leader))
            else:
                effects += self.leading.propose(caller, request)
        return self._settle(effects)

    def decide(self, request: object) -> Done | Answer | None:
        """Have a request judged, applied and answered in one step, where no other has a word.

        ``None`` where that is not so: ``propose`` it. ``settle`` once ``has_word``.
        """
        if self.leading is None or not self.ballot.is_settled:
            return None
        return self.leading.decide(request)

    @property
    def has_word(self) -> bool:
        """True if those that follow do not know yet how much is committed.

        Entries tell them, and the next tick. ``settle`` does at once: call it when no more is
        proposed for now.
        """
        return self.leading is not None and self.leading.has_word

    def settle(self) -> list[Effect]:
        """Tell those that follow what was decided, and what is committed."""
        if self.leading is None or not self.leading.has_word:
            return []
        return self._settle([], is_last=True)

    def run_to(self, moment: Moment) -> None:
        """Have what a leader judges from now on bear this time, and not that of the last tick."""
        if self.leading is not None:
            self.state.clock.run_to(moment)

    def do_due(self) -> list[Effect]:
        """Have done what the machine's time has come for, ahead of the next tick."""
        if self.leading is not None and self.leading.is_ready:
            self.leading.do_due(self.state.clock.times)
        return self._settle([])

    def probe(self) -> list[Effect]:
        """Ask all that follow for what they have, now and not at the next tick."""
        if self.leading is not None:
            self.leading.probe()
        return self._settle([])

    def read(self, caller: object) -> list[Effect]:
        """Have a linearizable read begin; ``Readable`` or ``Failed`` names the caller.

        At a follower a lost message loses the read: its caller asks again after a time of its own.
        """
        if self.leading is None:
            return self._settle(self._following.read(caller))
        return self._settle(self.leading.read(caller))

    def forget_read(self, caller: object) -> None:
        """Forget a read that its caller wants no more."""
        self._following.forget_read(caller)

    def change(
        self, voters: Voters, *, is_dismissal: bool = True
    ) -> tuple[ChangeRefusal | None, list[Effect]]:
        """Add or remove one voter, for its next life or as a ``is_dismissal``; says why not."""
        if self.leading is None or not self.leading.is_ready:
            return ChangeRefusal.NOT_READY, []
        refusal = self.leading.electorate.change(voters, is_dismissal=is_dismissal)
        return refusal, self._settle([])

    def dismiss(self, name: str) -> tuple[ChangeRefusal | None, list[Effect]]:
        """Have no leader give a name a vote by itself that has none; says why not."""
        if self.leading is None:
            return ChangeRefusal.NOT_READY, []
        refusal = self.leading.electorate.dismiss(name)
        return refusal, self._settle([])

    def transfer(self, to: MemberId) -> tuple[bool, list[Effect]]:
        """Hand the lead over to a voter; ``False`` if that cannot begin now."""
        has_begun = self.leading is not None and self.leading.electorate.transfer(to)
        return has_begun, self._settle([])

    def force(self) -> list[Effect]:
        """Lead alone, without a majority: a person says that the other voters are gone.

        What a majority of them had and this member lacks is lost. The others' journals are cut to
        this one as far as they are not committed; where they are, ``HistoryConflict`` tells. What
        a regressed member lacks is given up, too: it is whole then.

        A leader with a majority behind it has nothing to force: it leads, and goes on.
        """
        if self.leading is not None and self.leading.electorate.is_backed:
            return self._settle([])
        effects = self._seize(self.id)
        if not self.ballot.is_whole:
            journal = self.journal
            effects += self.ballot.make_whole(
                journal.position(max(journal.durable, journal.floor.index))
            )
        return self._settle(effects)

    def concede(self) -> list[Effect]:
        """Note for good that others may have what this member lacks.

        It leads nothing before it has what they have, also after a restart.
        """
        self.ballot.doubt()
        return self._settle([])

    def cede(self, to: MemberId) -> list[Effect]:
        """Lead until ``to`` has all that is here, as the only voter from now on; then it leads.

        For a member of a group whose voters are gone for good. It is ``force`` in favour of another
        member: each entry counts once that one has it, and the first that counts is the change of
        voters itself, by which this member leads no more. Asked for again meanwhile, it changes
        nothing; it leads anew if it had to stop before ``to`` had all.
        """
        is_under_way = self.leading is not None and self.journal.voters.current == (to,)
        if is_under_way or not self.ballot.is_whole:
            return []
        return self._settle(self._seize(to))

    def compact(self, index: int) -> int:
        """Forget the journal up to an index, and give up to where it was done.

        The machine's state on the disk has to have all up to it. Followers in session keep what
        they may ask for, unless it is ``excessive``; one that is away gets a snapshot later.
        """
        index = min(index, self.state.commit, self.journal.durable)
        if self.leading is not None:
            excessive = max(self.excessive, self.journal.end_index - JOURNAL_MAX)
            index = min(index, max(excessive, self.leading.feeding.wanted_index))
        if index > self.journal.floor.index:
            self.journal.compact(index)
        return self.journal.floor.index

    # -- steps -----------------------------------------------------------------------------------

    def _from_leader(self, sender: MemberId, message: LeaderMessage) -> list[Effect]:
        is_of_term = message.term == self.ballot.term and self.leading is None
        if not is_of_term or sender != self.election.leader:
            return []
        match message:
            case ToFollower():
                return self._following.on_channel(message)
            case Admitted():
                return self._following.on_admitted(message)
            case SnapshotPart():
                return self._following.on_part(message)
            case ReadFrom():
                return self._following.on_read_from(message)
            case Keepalive():
                raise AssertionError(message)

    def _from_follower(self, sender: MemberId, message: FollowerMessage) -> list[Effect]:
        if message.term != self.ballot.term or self.leading is None:
            return []
        match message:
            case FromFollower():
                return self.leading.on_channel(sender, message)
            case Echo():
                return self.leading.on_echo(sender, message)
            case Join():
                return self.leading.on_join(sender, message)
            case SnapshotAck():
                return self.leading.on_snapshot_ack(sender, message)
            case ReadIndex():
                return self.leading.on_read_index(sender, message)

    def _seize(self, voter: MemberId) -> list[Effect]:
        """Take the lead by force, and put one member alone in force as voter."""
        effects = self._trigger(Trigger.FORCED)
        assert self.leading is not None
        self.leading.electorate.put_alone(voter)
        return effects
