"""A member that leads one term: it judges, appends, and says what a majority has.

Each request passes the same way: it is judged by the machine, appended to the journal, broadcast
over the channel and written to the own disk at the same time, committed when a majority of the
voters has it on the disk, applied, and answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from channels import CumulativeAck, Event, Handshake, Producer, ProducerMessage
from stores.group.applied_state import AppliedState
from stores.group.ballot import Ballot
from stores.group.clock import Moment
from stores.group.effects import (
    Broadcast,
    Committed,
    Effect,
    Failed,
    Replied,
    Send,
    Setback,
)
from stores.group.election import Timing
from stores.group.entries import ActionEntry, Entry, LeadEntry, TimeEntry, VotersEntry
from stores.group.followers import Followers
from stores.group.limits import JOURNAL_CHANNEL, UNCOMMITTED_MAX
from stores.group.machine import Append, Staged
from stores.group.messages import (
    Admitted,
    Echo,
    FromFollower,
    Join,
    Keepalive,
    ReadIndex,
    SnapshotAck,
    SnapshotPart,
    TimeoutNow,
    ToFollower,
)
from stores.group.positions import MemberId, Voters
from stores.group.quorum import ChangeRefusal, agreed, has_majority, refusal_of
from stores.group.reads import ReadRounds
from stores.group.snapshots import SnapshotSending
from wire.errors import ErrorCode

HEALTHY_TICKS: Final = 5
"""A member that echoed within so many ticks is there, for a change that counts on it."""

JOURNALLED_CLOCK_TICKS: Final = 100
"""So often the group's clock is journalled: a restart of all loses 10 s of it at most."""


@dataclass(slots=True)
class _Transfer:
    """A hand-over under way: the leader takes nothing on meanwhile."""

    to: MemberId
    ticks_left: int


class Leading:
    """The leader's part of one term. It is the backend of the channel's producer.

    What the producer sends is collected, and given by the method that caused it.
    """

    def __init__(self, ballot: Ballot, state: AppliedState, timing: Timing) -> None:
        """Lead the ballot's term. ``start`` appends the first entry."""
        self._ballot = ballot
        self._state = state
        self._journal = state.journal
        self._timing = timing
        self._followers = Followers()
        self._producer: Producer[MemberId, Entry] = Producer(
            self,
            epoch=ballot.term,
            config=JOURNAL_CHANNEL,
            sequence=self._journal.end.index,
            backlog=self._journal,
        )
        self._rounds = ReadRounds(ballot.member, ballot.term)
        self._waiting: dict[int, list[object]] = {}
        self._first_own = self._journal.end.index + 1
        self._transfer: _Transfer | None = None
        self._write_ticks = 0
        self._clock_ticks = 0
        self._has_news = False
        self._collected: list[Effect] = []

    # -- what is so ------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """True if all that was ever acknowledged is applied: an entry of its own is committed."""
        return self._state.commit >= self._first_own and self._transfer is None

    @property
    def is_removed(self) -> bool:
        """True once the leader's own removal is committed: it leads no more."""
        is_voter = self._ballot.member in self._journal.voters.current
        return not is_voter and self._state.is_voters_committed

    @property
    def has_majority(self) -> bool:
        """True if a majority echoed within the longest election timeout."""
        ticks = self._timing.timeout_ticks_max
        heard = [
            member for member, _ in self._followers if self._followers.is_in_touch(member, ticks)
        ]
        voters = self._journal.voters.current
        is_young = self._followers.tick <= ticks
        return is_young or has_majority(voters, [*heard, self._ballot.member])

    def matched(self, member: MemberId) -> int:
        """Give the index up to which all is durable at a member."""
        if member == self._ballot.member:
            return self._journal.durable
        return self._followers.matched(member)

    @property
    def wanted_index(self) -> int:
        """The last entry that no follower in session may ask for."""
        ends = [
            follower.sending.snapshot.position.index
            for _, follower in self._followers
            if follower.sending is not None
        ]
        return min([self._producer.sequence - self._producer.unacknowledged, *ends])

    # -- from callers ----------------------------------------------------------------------------

    def start(self, moment: Moment) -> list[Effect]:
        """Start the term: nothing is served before its first entry is committed."""
        self._state.stage_all()
        times = self._state.clock.run_to(moment)
        self._append(LeadEntry(self._ballot.term, times))
        self._rounds.is_wanted = True
        return self._take()

    def propose(self, caller: object, request: object) -> list[Effect]:
        """Judge a request, and append what it comes to."""
        if not self.is_ready:
            return [Failed(caller, Setback.NOT_READY, self._ballot.member)]
        if self._journal.end.index - self._state.commit >= UNCOMMITTED_MAX:
            return [Failed(caller, Setback.NO_ROOM, self._ballot.member)]
        judgement = self._state.machine.judge(request, self._state.clock.times)
        if isinstance(judgement, Append):
            index = self._append(ActionEntry(self._ballot.term, judgement.body))
        elif isinstance(judgement, Staged):
            index = judgement.index
        else:
            return [Replied(caller, judgement.value)]
        self._waiting.setdefault(index, []).append(caller)
        return self._take()

    def read(self, caller: object, reader: MemberId | None = None) -> list[Effect]:
        """Have a read wait for one round of echoes, together with all others of this step."""
        if not self.is_ready:
            return self._rounds.refuse(caller, reader, Setback.NOT_READY)
        return self._rounds.add(caller, reader, self._state.commit)

    def change(self, voters: Voters) -> ChangeRefusal | None:
        """Put other voters in force, one of them added or removed; ``None`` if that is done."""
        if not self.is_ready:
            return ChangeRefusal.NOT_READY
        if not self._state.is_voters_committed:
            return ChangeRefusal.UNDER_WAY
        own = self._ballot.member
        refusal = refusal_of(
            self._journal.voters.current,
            voters,
            is_healthy=lambda member: (
                member == own or self._followers.is_healthy(member, HEALTHY_TICKS)
            ),
            is_level=lambda member: self.matched(member) >= self._state.commit,
        )
        if refusal is None:
            self._append(VotersEntry(self._ballot.term, voters))
        return refusal

    def transfer(self, to: MemberId) -> bool:
        """Hand over to a voter; ``False`` if it is none, or not in touch."""
        is_other = to != self._ballot.member and to in self._journal.voters.current
        if not is_other or not self._followers.is_healthy(to, HEALTHY_TICKS):
            return False
        self._transfer = _Transfer(to, self._timing.timeout_ticks_min)
        return True

    # -- from followers --------------------------------------------------------------------------

    def on_echo(self, sender: MemberId, message: Echo) -> list[Effect]:
        """Count an echo for its round and all before it."""
        self._followers.echo(sender, min(message.round, self._rounds.round))
        return self._serve_reads()

    def on_join(self, sender: MemberId, message: Join) -> list[Effect]:
        """Start a session: agree on what both have, and send the rest.

        Sessions only grow. A repeated ``Join`` changes nothing, as its answer is under way.
        """
        follower = self._followers.find(sender)
        if follower is None or message.session <= follower.session:
            return []
        common = self._journal.agreed(message.ends)
        self._producer.discard(sender)
        follower.begin(message.session, common, self._journal.end.index)
        if common < self._journal.floor.index:
            snapshot = self._state.freeze()
            follower.sending = SnapshotSending(snapshot, self._ballot.term, message.session)
            common = snapshot.position.index
        else:
            self._producer.add(sender, after=common)
        head = follower.sending.head if follower.sending is not None else None
        admitted = Admitted(
            term=self._ballot.term,
            session=message.session,
            agreed=common,
            end=self._journal.end.index,
            heartbeat_interval_ticks=JOURNAL_CHANNEL.heartbeat_interval_ticks,
            snapshot=head,
        )
        self._collected.append(Send(sender, admitted))
        if follower.sending is not None:
            self._send_all(sender, follower.sending.more())
        else:
            self._send_all(sender, follower.catch_up(self._journal, self._ballot.term, common))
        return self._take()

    def on_snapshot_ack(self, sender: MemberId, message: SnapshotAck) -> list[Effect]:
        """Send more of a snapshot; after its last part the channel begins."""
        follower = self._followers.get(sender)
        if follower is None or follower.sending is None or follower.session != message.session:
            return []
        sending = follower.sending
        self._send_all(sender, sending.acknowledge(message.count))
        if sending.is_done:
            index = sending.snapshot.position.index
            follower.begin(message.session, index, self._journal.end.index)
            if index >= self._journal.floor.index:
                self._producer.add(sender, after=index)
                self._send_all(sender, follower.catch_up(self._journal, self._ballot.term, index))
        return self._take()

    def on_channel(self, sender: MemberId, message: FromFollower) -> list[Effect]:
        """Take in what a follower acknowledges or lacks."""
        follower = self._followers.get(sender)
        if follower is None or follower.session != message.session:
            return []
        self._producer.receive(sender, message.message)
        if isinstance(message.message, CumulativeAck):
            done = min(message.message.sequence, self._journal.end.index)
            self._followers.acknowledged(sender, message, done)
            if follower.next_index <= follower.catch_up_end:
                entries = follower.catch_up(self._journal, self._ballot.term, done)
                self._send_all(sender, entries)
        return self.advance() + self._take()

    def on_read_index(self, sender: MemberId, message: ReadIndex) -> list[Effect]:
        """Answer a follower's read after the next round."""
        return self.read(message.ticket, sender)

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
        self._has_news = True
        effects: list[Effect] = [Committed(first, index)]
        for done in sorted(done for done in self._waiting if done <= index):
            callers = self._waiting.pop(done)
            effects += [Replied(caller, answers.get(done)) for caller in callers]
        return effects + self._serve_reads()

    def tick(self, moment: Moment) -> list[Effect]:
        """Let one tick pass: heartbeats, what is due, what seems lost."""
        self._followers.tick += 1
        self._write_ticks = self._write_ticks + 1 if self._journal.is_writing else 0
        times = self._state.clock.run_to(moment)
        self._producer.tick()
        for member, follower in self._followers:
            if follower.sending is not None:
                self._send_all(member, follower.sending.tick())
        if self.is_ready:
            if (body := self._state.machine.due(times)) is not None:
                self._append(ActionEntry(self._ballot.term, body))
                self._clock_ticks = 0
            self._clock_ticks += 1
            if self._clock_ticks >= JOURNALLED_CLOCK_TICKS:
                self._clock_ticks = 0
                self._append(TimeEntry(self._ballot.term, times))
        self._hand_over()
        self._rounds.is_wanted = True
        return self._take()

    def settle(self) -> list[Effect]:
        """End a step: what is new leaves at once, and once."""
        effects: list[Effect] = []
        is_round, self._rounds.is_wanted = self._rounds.is_wanted, False
        self._rounds.round += is_round
        if is_round or self._has_news:
            effects.append(Broadcast(self._keepalive()))
        self._has_news = False
        return effects + self._serve_reads() if is_round else effects

    def stop(self) -> list[Effect]:
        """End the term here: what waits may be committed by another leader, or not."""
        self._state.machine.undo()
        self._state.clock.stop()
        failed = [caller for callers in self._waiting.values() for caller in callers]
        self._waiting.clear()
        effects: list[Effect] = [Failed(caller, Setback.UNKNOWN, None) for caller in failed]
        return effects + self._rounds.stop()

    def pass_on(self) -> list[Effect]:
        """Ask the voter with the longest journal to take over, as this member steps down."""
        others = [v for v in self._journal.voters.current if v != self._ballot.member]
        heir = max(others, key=self.matched, default=None)
        return [Send(heir, TimeoutNow(self._ballot.term))] if heir is not None else []

    @property
    def is_disk_stuck(self) -> bool:
        """True if a write has not ended within the shortest election timeout."""
        return self._write_ticks > self._timing.timeout_ticks_min

    # -- steps -----------------------------------------------------------------------------------

    def _append(self, entry: Entry) -> int:
        index = self._journal.append(entry)
        if isinstance(entry, ActionEntry):
            self._state.machine.stage(self._journal.end, entry.body)
        self._producer.produce(entry)
        return index

    def _keepalive(self) -> Keepalive:
        end, times = self._journal.end.index, self._state.clock.times
        return Keepalive(self._ballot.term, self._rounds.round, self._state.commit, end, times)

    def _serve_reads(self) -> list[Effect]:
        return self._rounds.serve(self._journal.voters.current, self._followers.echoed)

    def _hand_over(self) -> None:
        """Have the heir of a transfer ask for votes once it is level; give up after a timeout."""
        if self._transfer is None:
            return
        self._transfer.ticks_left -= 1
        if self._transfer.ticks_left < 0:
            self._transfer = None
        elif self.matched(self._transfer.to) == self._journal.end.index:
            self._collected.append(Send(self._transfer.to, TimeoutNow(self._ballot.term)))

    def _send_all(self, to: MemberId, messages: Iterable[SnapshotPart | ToFollower]) -> None:
        self._collected += [Send(to, message) for message in messages]

    def _take(self) -> list[Effect]:
        collected, self._collected = self._collected, []
        return collected

    # -- the producer's backend ------------------------------------------------------------------

    def send(
        self,
        producer: Producer[MemberId, Entry],
        handle: MemberId,
        message: ProducerMessage[Entry],
    ) -> None:
        """Send an answer to one follower. Its handshake is a part of ``Admitted``."""
        follower = self._followers.get(handle)
        if follower is not None and not isinstance(message, Handshake):
            word = ToFollower(self._ballot.term, follower.session, message)
            self._collected.append(Send(handle, word))

    def broadcast(
        self, producer: Producer[MemberId, Entry], message: ProducerMessage[Entry]
    ) -> None:
        """Send entries to all. Keepalives say where the journal ends, in place of heartbeats."""
        if isinstance(message, Event):
            self._collected.append(Broadcast(ToFollower(self._ballot.term, None, message)))

    def drop(
        self, producer: Producer[MemberId, Entry], handle: MemberId, reason: ErrorCode
    ) -> None:
        """Learn that a follower fell silent: it joins again when it is back."""

    def handshake_completed(self, producer: Producer[MemberId, Entry], handle: MemberId) -> None:
        """Learn that a follower has begun."""
