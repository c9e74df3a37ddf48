"""A member that leads one term: it judges, appends, and says what a majority has.

Each request passes the same way: it is judged by the machine, appended to the journal, broadcast
over the channel and written to the own disk at the same time, committed when a majority of the
voters has it on the disk, applied, and answered.
"""

from __future__ import annotations

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
from stores.group.electorate import Electorate
from stores.group.entries import ActionEntry, LeadEntry, TimeEntry
from stores.group.feeding import Feeding
from stores.group.followers import Followers
from stores.group.limits import UNCOMMITTED_MAX, UNCOMMITTED_SIZE_MAX
from stores.group.machine import Answer, Done, Staged
from stores.group.membership import Wanted
from stores.group.messages import (
    Echo,
    FromFollower,
    Join,
    Keepalive,
    ReadFrom,
    ReadIndex,
    SnapshotAck,
)
from stores.group.positions import MemberId, Position
from stores.group.quorum import agreed
from stores.group.reads import ReadRounds
from stores.group.roles import Timing

JOURNALLED_CLOCK_TICKS: Final = 100
"""So often the group's clock is journalled: a restart of all loses 10 s of it at most."""

CALLERS_MAX: Final = 8
"""Callers that wait for one entry: one that asks again while it is not committed listens to the
latest answer, and some of its letters may overtake each other."""


class Leading:
    """The leader's part of one term."""

    def __init__(self, ballot: Ballot, state: AppliedState, timing: Timing, wanted: Wanted) -> None:
        """Lead the ballot's term. ``start`` appends the first entry."""
        self._ballot = ballot
        self._state = state
        self._journal = state.journal
        self._timing = timing
        self._followers = Followers(self._journal.voters)
        self.feeding = Feeding(ballot.member, ballot.term, state, self._followers)
        """What it sends to those that follow."""
        self._rounds = ReadRounds(ballot.member)
        self.electorate = Electorate(ballot, state, timing, wanted, self._followers, self._rounds)
        """The members, and which of them vote."""
        self._waiting: dict[int, list[object]] = {}
        self._appended = 0
        """What the machine's traffic is once all is applied that was appended in this term."""
        self._first_own = self._journal.end_index + 1
        """With this entry, once it is committed, all before it is, too."""
        self._write_ticks = 0
        self._writing: int | None = None
        """The write that was under way at the last tick."""
        self._clock_ticks = 0

    # -- what is so ------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """True if all that was ever acknowledged is applied, and the lead is not handed over."""
        return self._state.commit >= self._first_own and self.electorate.succession is None

    @property
    def is_over(self) -> bool:
        """True for one that is no voter, once those who are have all that it has."""
        return self._state.commit >= self._first_own and self.electorate.is_removed

    @property
    def has_room(self) -> bool:
        """True if a request would be taken on."""
        return self.is_ready and not self._is_full

    @property
    def _is_full(self) -> bool:
        """True if as much waits for a majority as may."""
        count = self._journal.end_index - self._state.commit
        size = self._appended - self._state.machine.traffic
        return count >= UNCOMMITTED_MAX or size >= UNCOMMITTED_SIZE_MAX

    # -- from callers ----------------------------------------------------------------------------

    def start(self, moment: Moment) -> None:
        """Start the term: nothing is served before its first entry is committed."""
        self._state.stage_all()
        times = self._state.clock.run_to(moment)
        self._state.machine.lead(times, self._ballot.term)
        self._journal.append(LeadEntry(self._ballot.term, times))
        self._rounds.is_due = True

    def propose(self, caller: object, request: object) -> list[Effect]:
        """Judge a request, and append what it comes to."""
        if (done := self.decide(request)) is not None:
            return [Replied(caller, done.value, isinstance(done, Done))]
        if not self.is_ready:
            return [Failed(caller, Setback.NOT_READY, self._ballot.member)]
        if self._is_full:
            return [Failed(caller, Setback.NO_ROOM, self._ballot.member)]
        judgement = self._state.machine.judge(request, self._state.clock.times)
        if isinstance(judgement, Answer):
            replied = Replied(caller, judgement.value)
            return self._rounds.add(replied, caller, self._journal.end_index)
        index = judgement.index if isinstance(judgement, Staged) else self._act(judgement.body)
        callers = self._waiting.setdefault(index, [])
        callers.append(caller)
        if len(callers) > CALLERS_MAX:
            return [Failed(callers.pop(0), Setback.NO_ROOM, self._ballot.member)]
        return []

    def decide(self, request: object) -> Done | Answer | None:
        """Judge, apply and append in one step where this member alone decides, without a disk.

        ``None`` where others have a word, or something waits; then nothing was done.
        """
        journal, state, term = self._journal, self._state, self._ballot.term
        end = journal.end_index
        is_alone = journal.is_volatile and journal.voters.current == (self._ballot.member,)
        if not is_alone or state.commit != end or not self.is_ready:
            return None
        position = Position(term, end + 1)
        done = state.machine.perform(position, request, state.clock.times)
        if isinstance(done, Done):
            if self._followers:
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
        self._rounds.is_due = True

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
        index = agreed(self._journal.voters.current, self.electorate.matched)
        first = self._state.commit + 1
        if index < first or self._journal.term_at(index) != self._ballot.term:
            return []
        answers = self._state.advance(index)
        effects: list[Effect] = [Committed(first, index)]
        for done in range(first, index + 1) if self._waiting else ():
            callers = self._waiting.pop(done, ())
            effects += [Replied(caller, answers.get(done), is_in_entry=True) for caller in callers]
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
            self.electorate.replace()
        self._rounds.is_due = True
        return self.electorate.hand_over()

    def do_due(self, times: Times) -> None:
        """Have done what the machine's time has come for."""
        if (body := self._state.machine.due(times)) is not None:
            self._act(body)
            self._clock_ticks = 0

    @property
    def has_word(self) -> bool:
        """True if those that follow do not know yet how much is committed."""
        return self._state.commit > self.feeding.told_commit and bool(self._followers)

    def settle(self, *, is_last: bool) -> list[Effect]:
        """End a step: what is new leaves once. A commit goes with entries, or with the last step.

        The last one is that of a turn of the driver, in which callers that were answered ask anew.
        """
        voters, commit = self._journal.voters.current, self._state.commit
        effects = self.feeding.take() + self._rounds.serve(voters, self._followers.echoed, commit)
        is_round = self._rounds.begins()
        self._rounds.round += is_round
        if is_round or (is_last and self.has_word):
            effects.append(Broadcast(self._keepalive()))
            self.feeding.told_commit = commit
        self._rounds.is_due = False
        return effects

    def stop(self) -> list[Effect]:
        """End the term here: what waits may be committed by another leader, or not."""
        self._state.machine.undo()
        self._state.clock.stop()
        failed = [caller for callers in self._waiting.values() for caller in callers]
        self._waiting.clear()
        effects: list[Effect] = [Failed(caller, Setback.UNKNOWN, None) for caller in failed]
        return effects + self._rounds.stop()

    @property
    def is_disk_stuck(self) -> bool:
        """True if a write has not ended within the shortest election timeout.

        Not where no other voter could take over: then its disk is as slow as it is.
        """
        is_late = self._write_ticks > self._timing.timeout_ticks_min
        return is_late and self._journal.voters.current != (self._ballot.member,)

    # -- steps -----------------------------------------------------------------------------------

    def _act(self, body: object) -> int:
        machine, journal = self._state.machine, self._journal
        self._appended = max(self._appended, machine.traffic) + machine.size_of(body)
        index = journal.append(ActionEntry(self._ballot.term, body))
        machine.stage(journal.end, body)
        return index

    def _keepalive(self) -> Keepalive:
        end, times = self.feeding.end, self._state.clock.times
        return Keepalive(self._ballot.term, self._rounds.round, self._state.commit, end, times)
