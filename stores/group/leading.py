"""A member that leads one term: it judges, appends, and says what a majority has.

Each request passes the same way: it is judged by the machine, appended to the journal, broadcast
over the channel and written to the own disk at the same time, committed when a majority of the
voters has it on the disk, applied, and answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stores.group.applied_state import AppliedState
from stores.group.ballot import Ballot
from stores.group.clock import Moment, Times
from stores.group.effects import (
    Broadcast,
    Committed,
    Effect,
    Failed,
    Readable,
    Replied,
    Send,
    Setback,
)
from stores.group.entries import ActionEntry, LeadEntry, TimeEntry, VotersEntry
from stores.group.feeding import Feeding
from stores.group.followers import Followers
from stores.group.limits import UNCOMMITTED_MAX
from stores.group.machine import Answer, Done, Staged
from stores.group.membership import MemberStatus, Wanted, next_voters
from stores.group.messages import (
    Echo,
    FromFollower,
    Join,
    Keepalive,
    ReadFrom,
    ReadIndex,
    SnapshotAck,
    TimeoutNow,
)
from stores.group.positions import MemberId, Position, Voters
from stores.group.quorum import ChangeRefusal, agreed, has_majority, refusal_of
from stores.group.reads import ReadRounds
from stores.group.roles import Timing

HEALTHY_TICKS: Final = 5
"""A member that echoed within so many ticks is there, for a change that counts on it."""

CHANGE_TICKS: Final = 10
"""Ticks for which the round of a change counts: then its caller has to ask anew."""

JOURNALLED_CLOCK_TICKS: Final = 100
"""So often the group's clock is journalled: a restart of all loses 10 s of it at most."""


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


class Leading:
    """The leader's part of one term."""

    def __init__(self, ballot: Ballot, state: AppliedState, timing: Timing, wanted: Wanted) -> None:
        """Lead the ballot's term. ``start`` appends the first entry."""
        self._wanted = wanted
        self._ballot = ballot
        self._state = state
        self._journal = state.journal
        self._timing = timing
        self._followers = Followers()
        self.feeding = Feeding(ballot.member, ballot.term, state, self._followers)
        """What it sends to those that follow."""
        self._rounds = ReadRounds(ballot.member)
        self._is_round_due = False
        self._waiting: dict[int, list[object]] = {}
        self._first_own = self._journal.end.index + 1
        self._transfer: _Transfer | None = None
        self._change: _Change | None = None
        self._write_ticks = 0
        self._writing: int | None = None
        """The write that was under way at the last tick."""
        self._clock_ticks = 0

    # -- what is so ------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """True if all that was ever acknowledged is applied: an entry of its own is committed."""
        return self._state.commit >= self._first_own and self._transfer is None

    @property
    def has_room(self) -> bool:
        """True if a request would be taken on."""
        return self.is_ready and self._journal.end_index - self._state.commit < UNCOMMITTED_MAX

    @property
    def is_followed(self) -> bool:
        """True if other members were heard of in this term."""
        return bool(self._followers)

    def members(self) -> list[MemberStatus]:
        """Give what is known of all members, this one too."""
        own, voters = self._ballot.member, self._journal.voters.current
        others = (each for each in self._followers.status(voters) if each.member != own)
        own_status = MemberStatus(
            own, own in voters, is_whole=True, match=self._journal.durable, silent_ticks=0
        )
        return [own_status, *others]

    @property
    def is_removed(self) -> bool:
        """True once the leader's own removal is committed: it leads no more."""
        is_voter = self._ballot.member in self._journal.voters.current
        return not is_voter and self._state.is_voters_committed

    @property
    def has_majority(self) -> bool:
        """True if a majority echoed within the longest election timeout."""
        voters = self._journal.voters.current
        return has_majority(voters, filter(self._is_there, voters))

    def matched(self, member: MemberId) -> int:
        """Give the index up to which all is durable at a member."""
        if member == self._ballot.member:
            return self._journal.durable
        return self._followers.matched(member)

    # -- from callers ----------------------------------------------------------------------------

    def start(self, moment: Moment) -> None:
        """Start the term: nothing is served before its first entry is committed."""
        self._state.stage_all()
        times = self._state.clock.run_to(moment)
        self._state.machine.lead(times, self._ballot.term)
        self._journal.append(LeadEntry(self._ballot.term, times))
        self._is_round_due = True

    def propose(self, caller: object, request: object) -> list[Effect]:
        """Judge a request, and append what it comes to."""
        if not self.is_ready:
            return [Failed(caller, Setback.NOT_READY, self._ballot.member)]
        if not self.has_room:
            return [Failed(caller, Setback.NO_ROOM, self._ballot.member)]
        if (done := self.decide(request)) is not None:
            return [Replied(caller, done.value)]
        judgement = self._state.machine.judge(request, self._state.clock.times)
        if isinstance(judgement, Answer):
            replied = Replied(caller, judgement.value)
            return self._rounds.add(replied, caller, self._journal.end_index)
        index = judgement.index if isinstance(judgement, Staged) else self._act(judgement.body)
        self._waiting.setdefault(index, []).append(caller)
        return []

    def decide(self, request: object) -> Done | Answer | None:
        """Judge, apply and append in one step where this member alone decides, without a disk.

        ``None`` where others have a word, or something waits; then nothing was done.
        """
        journal, state, term = self._journal, self._state, self._ballot.term
        end = journal.end_index
        is_clear = state.commit == end >= self._first_own and self._transfer is None
        is_alone = journal.is_volatile and journal.voters.current == (self._ballot.member,)
        if not is_clear or not is_alone:
            return None
        position = Position(term, end + 1)
        done = state.machine.perform(position, request, state.clock.times)
        if isinstance(done, Done):
            if self.is_followed:
                journal.append(ActionEntry(term, done.body))
                journal.keep()
            else:  # Who comes later takes a snapshot.
                journal.pass_over(position)
                self.feeding.skip()
            state.commit = end + 1
        return done

    def read(self, caller: object) -> list[Effect]:
        """Have a read wait for one round of echoes, together with all that wait."""
        if not self.is_ready:
            return self._rounds.refuse(caller, Setback.NOT_READY)
        return self._rounds.add(Readable(caller), caller, self._state.commit)

    def probe(self) -> None:
        """Have this step send a round, which all answer."""
        self._is_round_due = True

    def change(self, voters: Voters) -> ChangeRefusal | None:
        """Put other voters in force, one of them added or removed; ``None`` if that is done.

        A majority of the new ones has to echo a round that began after this was asked for: ask
        again while it is ``UNCONFIRMED``.
        """
        if not self.is_ready:
            return ChangeRefusal.NOT_READY
        if not self._state.is_voters_committed:
            return ChangeRefusal.UNDER_WAY
        refusal = self._refusal_of(voters, 0)
        if refusal is None and self._refusal_of(voters, self._round_for(voters)) is not None:
            refusal = ChangeRefusal.UNCONFIRMED
        if refusal is None:
            self._change = None
            self._journal.append(VotersEntry(self._ballot.term, voters))
        return refusal

    def _round_for(self, voters: Voters) -> int:
        """Give the round that a change waits for; it begins now, if this is the first asking."""
        asked, tick = self._change, self._followers.tick
        if asked is None or asked.voters != voters or tick - asked.tick > CHANGE_TICKS:
            asked = self._change = _Change(voters, self._rounds.round + 1, tick)
            self._is_round_due = True
        return asked.round

    def _refusal_of(self, voters: Voters, least_round: int) -> ChangeRefusal | None:
        """Judge a change, where those are healthy that echoed a round, or a later one."""
        own, followers = self._ballot.member, self._followers

        def is_healthy(member: MemberId) -> bool:
            is_current = followers.echoed(member) >= least_round
            return member == own or (is_current and followers.is_healthy(member, HEALTHY_TICKS))

        return refusal_of(
            self._journal.voters.current,
            voters,
            is_healthy=is_healthy,
            is_level=lambda member: self.matched(member) >= self._state.commit,
            is_there=self._is_there,
        )

    def put_alone(self, voter: MemberId) -> None:
        """Put one member alone in force, whatever the others are."""
        self._journal.append(VotersEntry(self._ballot.term, (voter,)))

    def transfer(self, to: MemberId) -> bool:
        """Hand over to a voter; ``False`` if it is none, or not in touch."""
        is_other = to != self._ballot.member and to in self._journal.voters.current
        if not is_other or not self._followers.is_healthy(to, HEALTHY_TICKS):
            return False
        self._transfer = _Transfer(to, self._timing.timeout_ticks_min)
        return True

    def forget(self, member: MemberId) -> None:
        """Learn that a member closed: one without a vote is waited for no more."""
        if member not in self._journal.voters.current:
            self.feeding.forget(member)

    # -- from followers --------------------------------------------------------------------------

    def welcome(self, member: MemberId) -> list[Effect]:
        """Let a member that has just come know who leads, ahead of the next tick."""
        return [Send(member, self._keepalive())]

    def on_echo(self, sender: MemberId, message: Echo) -> list[Effect]:
        """Count an echo for its round and all before it."""
        self._followers.echo(sender, min(message.round, self._rounds.round))
        return []

    def on_join(self, sender: MemberId, message: Join) -> list[Effect]:
        """Let a member follow, and know at once how much of what it gets is committed."""
        self.feeding.join(sender, message)
        self.feeding.told_commit = -1  # It has to be told again, behind what it gets.
        return []

    def on_snapshot_ack(self, sender: MemberId, message: SnapshotAck) -> list[Effect]:
        """Send a follower more of a snapshot."""
        self.feeding.snapshot_ack(sender, message)
        return []

    def on_channel(self, sender: MemberId, message: FromFollower) -> list[Effect]:
        """Take in what a follower acknowledges or lacks."""
        self.feeding.receive(sender, message)
        return self.advance()

    def on_read_index(self, sender: MemberId, message: ReadIndex) -> list[Effect]:
        """Answer a follower's read after the next round; it asks again if it hears nothing."""
        if not self.is_ready:
            return []
        index = self._state.commit
        answer = Send(sender, ReadFrom(self._ballot.term, message.ticket, index))
        return self._rounds.add(answer, None, index)

    # -- from the disk, and time -----------------------------------------------------------------

    def advance(self) -> list[Effect]:
        """Commit what a majority has, if it is of this term, and answer those that waited.

        An entry of an earlier term may be on a majority and be overwritten all the same: it counts
        as committed when one of this leader's own is, after it.
        """
        index = agreed(self._journal.voters.current, self.matched)
        first = self._state.commit + 1
        if index < first or self._journal.term_at(index) != self._ballot.term:
            return []
        answers = self._state.advance(index)
        effects: list[Effect] = [Committed(first, index)]
        for done in range(first, index + 1) if self._waiting else ():
            callers = self._waiting.pop(done, ())
            effects += [Replied(caller, answers.get(done)) for caller in callers]
        return effects

    def tick(self, moment: Moment) -> list[Effect]:
        """Let one tick pass: heartbeats, what is due, what seems lost."""
        self._followers.tick += 1
        before, self._writing = self._writing, self._journal.writing
        is_same = self._writing is not None and self._writing == before
        self._write_ticks = self._write_ticks + 1 if is_same else 0
        times = self._state.clock.run_to(moment)
        self.feeding.tick()
        self.feeding.leave_silent(self._journal.voters.current)
        if self.is_ready:
            self.do_due(times)
            self._clock_ticks += 1
            if self._clock_ticks >= JOURNALLED_CLOCK_TICKS and self._state.machine.has_deadlines():
                self._clock_ticks = 0
                self._journal.append(TimeEntry(self._ballot.term, times))
            self._replace_voters()
        self._is_round_due = True
        return self._hand_over()

    def do_due(self, times: Times) -> None:
        """Have done what the machine's time has come for."""
        if (body := self._state.machine.due(times)) is not None:
            self._act(body)
            self._clock_ticks = 0

    def settle(self) -> list[Effect]:
        """End a step: what is new leaves at once, and once."""
        effects = self.feeding.take() + self._serve_reads()
        is_round = self._is_round_due or self._rounds.begins()
        self._rounds.round += is_round
        commit, feeding = self._state.commit, self.feeding
        if is_round or (commit > feeding.told_commit and self.is_followed):
            effects.append(Broadcast(self._keepalive()))
            feeding.told_commit = commit
        self._is_round_due = False
        return effects

    def stop(self) -> list[Effect]:
        """End the term here: what waits may be committed by another leader, or not."""
        self._state.machine.undo()
        self._state.clock.stop()
        failed = [caller for callers in self._waiting.values() for caller in callers]
        self._waiting.clear()
        effects: list[Effect] = [Failed(caller, Setback.UNKNOWN, None) for caller in failed]
        return effects + self._rounds.stop()

    def pass_on(self) -> list[Effect]:
        """Step down: of the voters in touch the one with the longest journal is to take over."""
        others = [v for v in self._journal.voters.current if v != self._ballot.member]
        heir = max(others, key=lambda v: (self._is_there(v), self.matched(v)), default=None)
        return [Send(heir, TimeoutNow(self._ballot.term))] if heir is not None else []

    @property
    def is_disk_stuck(self) -> bool:
        """True if a write has not ended within the shortest election timeout.

        Not where no other voter could take over: then its disk is as slow as it is.
        """
        is_late = self._write_ticks > self._timing.timeout_ticks_min
        return is_late and self._journal.voters.current != (self._ballot.member,)

    # -- steps -----------------------------------------------------------------------------------

    def _act(self, body: object) -> int:
        index = self._journal.append(ActionEntry(self._ballot.term, body))
        self._state.machine.stage(self._journal.end, body)
        return index

    def _keepalive(self) -> Keepalive:
        end, times = self.feeding.end, self._state.clock.times
        return Keepalive(self._ballot.term, self._rounds.round, self._state.commit, end, times)

    def _is_there(self, member: MemberId) -> bool:
        """Tell whether a member may be there: it echoes, or had no time to since the term began."""
        ticks = self._timing.timeout_ticks_max
        is_young = self._followers.tick <= ticks
        is_own = member == self._ballot.member
        return is_young or is_own or self._followers.is_in_touch(member, ticks)

    def _serve_reads(self) -> list[Effect]:
        voters, commit = self._journal.voters.current, self._state.commit
        return self._rounds.serve(voters, self._followers.echoed, commit)

    def _replace_voters(self) -> None:
        """Replace a voter's earlier life, or add a voter that is wanted, one at a time."""
        if self._state.is_voters_committed:
            current = self._journal.voters.current
            settled = self._followers.settled(self._state.commit)
            gone = [voter for voter in current if not self._is_there(voter)]
            voters = next_voters(current, settled, gone, self._wanted)
            if voters is not None:
                self.change(voters)

    def _hand_over(self) -> list[Effect]:
        """Have the heir of a transfer ask for votes once it is level; give up after a timeout."""
        if self._transfer is None:
            return []
        self._transfer.ticks_left -= 1
        if self._transfer.ticks_left < 0:
            self._transfer = None
        elif self.matched(self._transfer.to) == self._journal.end.index:
            return [Send(self._transfer.to, TimeoutNow(self._ballot.term))]
        return []
