"""A member that follows: it joins its leader, catches up, and applies what is committed.

The journal comes over an ordered, complete channel: the leader is its producer. An acknowledgement
says what is durable here, not what has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from channels import Consumer, ConsumerMessage, CumulativeAck, Handshake, Heartbeat, Nack
from stores.group.applied_state import AppliedState
from stores.group.ballot import Ballot
from stores.group.effects import (
    Committed,
    Effect,
    Failed,
    HistoryConflict,
    Readable,
    Send,
    Setback,
    Snapshot,
)
from stores.group.entries import Entry
from stores.group.limits import JOURNAL_CHANNEL, READS_MAX
from stores.group.messages import (
    Admitted,
    Echo,
    FromFollower,
    Join,
    Keepalive,
    ReadFrom,
    ReadIndex,
    SnapshotAck,
    SnapshotPart,
    ToFollower,
)
from stores.group.positions import MemberId
from stores.group.snapshots import SnapshotReceiving
from stores.group.terms import is_forced
from wire.errors import DecodeError, ErrorCode

JOIN_TICKS: Final = 4
JOIN_TICKS_MAX: Final = 32
"""Ticks after which a ``Join`` without an answer is repeated, in a new session: at first, and at
last. Each time it is twice as many, as an answer that takes longer to come is none any more."""

CONFLICT_TICKS: Final = 100
"""Ticks between two attempts to follow a leader that lacks what is committed here."""

SNAPSHOT_TICKS: Final = 20
"""Ticks without a part after which a snapshot is given up, and asked for anew."""


class Following:
    """What a member does under leaders of others; kept while it leads, and idle then.

    It is the backend of the channel's consumer. What the consumer sends is collected, and given by
    the method that caused it.
    """

    def __init__(
        self, ballot: Ballot, state: AppliedState, ack_entries: int, *, wants_vote: bool
    ) -> None:
        """Follow no leader yet; acknowledge every ``ack_entries``, and what is there at a round.

        One that ``wants_vote`` tells its leader that it is to be a voter.
        """
        self._ballot = ballot
        self._state = state
        self._leader: MemberId | None = None
        self.heard_end = 0
        """The end of the journal of the leader that was heard last."""
        self._ack_entries = ack_entries
        self._wants_vote = wants_vote
        self._session = ballot.starts << 32
        self._echoed = self._acknowledged = -1
        """The last round of this leader, and the last entry of this session, that were told."""
        self._consumer: Consumer[Entry] | None = None
        self._receiving: SnapshotReceiving | None = None
        self._staging = 0
        """The latest ``StageParts``."""
        self._join_ticks, self._pause = 0, JOIN_TICKS
        self._goal: int | None = None
        self._ticket = self._session
        """That of the last read; a late word for one of an earlier start lets none begin."""
        self._asked: dict[int, object] = {}
        """By ticket, who waits for an index."""
        self._tickets: dict[object, int] = {}
        self._reads: list[tuple[int, object]] = []
        self._collected: list[Effect] = []

    @property
    def is_joined(self) -> bool:
        """True while the journal's channel stands."""
        return self._consumer is not None

    @property
    def snapshot_parts(self) -> tuple[int, int] | None:
        """How many parts of a snapshot are here, and how many it has; ``None`` without one."""
        receiving = self._receiving
        return None if receiving is None else (receiving.count, receiving.head.part_count)

    @property
    def _may_echo(self) -> bool:
        """False for one that lacks what it had, until the leader knows of no earlier session.

        To a leader that believes in that one an echo would say that a whole member is there: it
        would count on it for a change of the voters.
        """
        is_known = self._consumer is not None or self._receiving is not None
        return self._ballot.is_whole or is_known

    def stop(self) -> list[Effect]:
        """End the session: the term is over, or this member leads."""
        if self._consumer is not None:
            self._consumer.stop()
        self._consumer = self._receiving = self._leader = self._goal = None
        self._join_ticks, self._pause = 0, JOIN_TICKS
        self._echoed = -1
        callers = [*self._asked.values(), *(caller for _, caller in self._reads)]
        self._asked, self._tickets, self._reads = {}, {}, []
        return [Failed(caller, Setback.NOT_LEADER, None) for caller in callers]

    # -- from the leader -------------------------------------------------------------------------

    def on_keepalive(self, sender: MemberId, message: Keepalive) -> list[Effect]:
        """Answer a round, join if there is no session, and apply what is committed."""
        self._leader = sender
        self.heard_end = message.end
        self._state.clock.hear(message.times)
        effects: list[Effect] = []
        is_round = message.round > self._echoed and self._may_echo
        if is_round:  # It is sent again between two rounds, with another commit index.
            self._echoed = message.round
            effects.append(Send(sender, Echo(message.term, message.round)))
        if self._consumer is None:
            if self._receiving is None and self._join_ticks <= 0:
                # Ahead of the echo: what an earlier session had promised counts no more then.
                effects.insert(0, self._join())
            return effects
        self._consumer.receive(Heartbeat(message.term, message.end))
        if self._consumer is not None:
            effects += self._commit(min(message.commit, self._consumer.next_sequence - 1))
            if is_round and self._done > self._acknowledged:
                effects += self._acknowledge()
        return effects + self._take()

    def on_admitted(self, message: Admitted) -> list[Effect]:
        """Start the session: cut what the leader does not have, or wait for a snapshot."""
        is_waiting = self._consumer is None and self._receiving is None
        if not is_waiting or message.session != self._session:
            return []
        journal = self._state.journal
        if not self._keeps <= message.agreed:
            return self._refuse(message)
        if message.snapshot is not None:
            self._receiving = SnapshotReceiving(message.snapshot, message.end)
            self._staging += 1  # A write of an earlier one that is under way is none of this one's.
            return self._receive_parts()
        effects: list[Effect] = []
        if message.agreed > journal.end_index:
            return effects
        if message.agreed < journal.end_index:
            effects += self._ballot.lower_mark(journal.position(message.agreed))
            self._state.truncate(message.agreed)
        return effects + self._begin(message.agreed, message.end)

    def on_part(self, message: SnapshotPart) -> list[Effect]:
        """Take a part of a snapshot in; with the last one, install it."""
        if self._receiving is None or message.session != self._session:
            return []
        if self._receiving.takes(message.number):
            kept = self._state.machine.prepare(message.number, message.part)
            self._receiving.take(message.part, kept)
        return self._receive_parts()

    def parts_staged(self, token: int) -> list[Effect]:
        """Learn that a ``StageParts`` is on the disk; its snapshot may be given up by now."""
        if self._receiving is None or token != self._staging:
            return []
        self._receiving.staged()
        return self._go_on()

    def on_channel(self, message: ToFollower) -> list[Effect]:
        """Take in what the channel brings."""
        if self._consumer is None or message.session not in (None, self._session):
            return []
        self._consumer.receive(message.message)
        effects: list[Effect] = []
        if self._consumer is not None and message.commit:
            effects = self._commit(min(message.commit, self._consumer.next_sequence - 1))
        return effects + self._take()

    def on_read_from(self, message: ReadFrom) -> list[Effect]:
        """Let a read begin once all up to an index is applied."""
        if message.ticket not in self._asked:
            return []
        caller = self._asked.pop(message.ticket)
        del self._tickets[caller]
        self._reads.append((message.index, caller))
        return self._serve_reads()

    # -- from the owner --------------------------------------------------------------------------

    def tick(self, *, is_disk_behind: bool) -> list[Effect]:
        """Let one tick pass. Nothing more is taken on while too much waits for the disk."""
        self._join_ticks = max(self._join_ticks - 1, int(is_disk_behind))
        if is_disk_behind and self._consumer is not None:
            self._consumer.stop()
            self._consumer = None
        if self._receiving is not None:
            self._receiving.tick()
            if self._receiving.idle_ticks > SNAPSHOT_TICKS:
                self._receiving = None
        if self._consumer is not None:
            self._consumer.tick()
        return self._take()

    def read(self, caller: object) -> list[Effect]:
        """Ask the leader for an index that is not older than now; or again, under one ticket."""
        if self._leader is None:
            return [Failed(caller, Setback.NOT_LEADER, None)]
        ticket = self._tickets.get(caller)
        if ticket is None:
            if len(self._asked) + len(self._reads) >= READS_MAX:
                return [Failed(caller, Setback.NO_ROOM, self._leader)]
            self._ticket = ticket = self._ticket + 1
            self._asked[ticket], self._tickets[caller] = caller, ticket
        return [Send(self._leader, ReadIndex(self._ballot.term, ticket))]

    def forget_read(self, caller: object) -> None:
        """Forget what a caller asked for, and wants no more."""
        self._asked.pop(self._tickets.pop(caller, 0), None)

    def persisted(self) -> list[Effect]:
        """Acknowledge what is durable now; with all that the leader had, count again."""
        journal = self._state.journal
        effects = [] if self._receiving is None else self._go_on()
        durable = journal.durable
        if self._consumer is None or durable < journal.floor.index:
            return effects
        if not self._ballot.is_whole and self._goal is not None and durable >= self._goal:
            effects += self._ballot.make_whole(journal.position(durable))
            return effects + self._acknowledge()
        if self._done < self._acknowledged + self._ack_entries:
            return effects
        return effects + self._acknowledge()

    # -- steps -----------------------------------------------------------------------------------

    def _join(self) -> Send:
        assert self._leader is not None
        self._session += 1
        self._join_ticks, self._pause = self._pause, min(2 * self._pause, JOIN_TICKS_MAX)
        ends = self._state.journal.ends()
        return Send(self._leader, Join(self._ballot.term, self._session, ends, self._wants_vote))

    def _receive_parts(self) -> list[Effect]:
        assert self._receiving is not None
        assert self._leader is not None
        count = self._receiving.count
        ack = Send(self._leader, SnapshotAck(self._ballot.term, self._session, count))
        snapshot = self._receiving.snapshot
        if snapshot is None:
            return [ack, *self._stage_parts()]
        journal = self._state.journal
        if journal.durable < min(snapshot.after, journal.end_index):
            return [ack]  # What it leaves out has to be on the disk.
        end, self._receiving = self._receiving.end, None
        return [ack, *self._install(snapshot, end)]

    def _go_on(self) -> list[Effect]:
        """Go on with a snapshot after a write; one that is none after all is given up."""
        try:
            return self._receive_parts()
        except DecodeError:
            return []

    def _stage_parts(self) -> list[Effect]:
        """Write what has come; not before an earlier snapshot is installed that was staged, too."""
        journal = self._state.journal
        if self._receiving is None or journal.durable < journal.floor.index:
            return []
        staged = self._receiving.next_staged(self._staging + 1)
        if staged is not None:
            self._staging = staged.token
        return [] if staged is None else [staged]

    @property
    def _keeps(self) -> int:
        """The index up to which nothing is dropped: what is committed, or may well be.

        A voter that was alone acknowledged what it sent without a word of the others. A member
        that took over from it by force may lack that.
        """
        journal = self._state.journal
        was_alone = len(journal.voters.current) == 1
        if was_alone and is_forced(self._ballot.term, journal.end.term):
            return journal.end_index
        return self._state.commit

    def _refuse(self, message: Admitted) -> list[Effect]:
        """Keep what is here, although the leader lacks it, and follow it no further."""
        assert self._leader is not None
        self._join_ticks = CONFLICT_TICKS
        return [HistoryConflict(self._leader, message.agreed, self._keeps)]

    def _install(self, snapshot: Snapshot, end: int) -> list[Effect]:
        if snapshot.after > self._state.journal.end_index:
            raise DecodeError(f"a snapshot leaves out entries up to {snapshot.after}")
        last, known = snapshot.position.index, max(self._state.commit, snapshot.after)
        if last < known:
            raise DecodeError(f"a snapshot ends at {last}, and {known} is committed here")
        # Both journals share them, and the leader's state is of a later one.
        effects = self._commit(snapshot.after)
        first = self._state.commit + 1
        self._state.install(snapshot)
        effects += self._ballot.lower_mark(snapshot.position)
        effects.append(Committed(first, snapshot.position.index))
        effects += self._serve_reads()
        return effects + self._begin(snapshot.position.index, end)

    def _begin(self, agreed: int, end: int) -> list[Effect]:
        """Open the channel after what both journals have."""
        term = self._ballot.term
        self._goal, self._acknowledged, self._pause = end, -1, JOIN_TICKS
        self._consumer = Consumer(self, config=JOURNAL_CHANNEL, epoch_min=term)
        interval_ticks = JOURNAL_CHANNEL.heartbeat_interval_ticks
        self._consumer.receive(Handshake(term, agreed, interval_ticks))
        return self._take() + self.persisted()

    def _commit(self, index: int) -> list[Effect]:
        first = self._state.commit + 1
        if index < first:
            return []
        self._state.advance(index)
        committed = Committed(first, index)
        return [committed, *self._serve_reads()] if self._reads else [committed]

    def _serve_reads(self) -> list[Effect]:
        commit = self._state.commit
        ready = [caller for index, caller in self._reads if index <= commit]
        self._reads = [read for read in self._reads if read[0] > commit]
        return [Readable(caller) for caller in ready]

    def _acknowledge(self) -> list[Effect]:
        """Say what is durable."""
        self._acknowledged = done = self._done
        return self._say(CumulativeAck(self._ballot.term, done))

    @property
    def _done(self) -> int:
        """The last entry that is durable, of what this session brought or found here."""
        assert self._consumer is not None
        return min(self._state.journal.durable, self._consumer.next_sequence - 1)

    def _say(self, message: CumulativeAck | Nack) -> list[Effect]:
        assert self._leader is not None
        is_whole = self._ballot.is_whole
        word = FromFollower(self._ballot.term, self._session, is_whole, message)
        return [Send(self._leader, word)]

    def _take(self) -> list[Effect]:
        collected, self._collected = self._collected, []
        return collected

    # -- the consumer's backend ------------------------------------------------------------------

    def consume_run(self, consumer: Consumer[Entry], payloads: Sequence[Entry]) -> None:
        """Append what comes; it is acknowledged once it is durable.

        Terms that no leader of this term has in its journal end the session.
        """
        journal, term = self._state.journal, self._ballot.term
        assert journal.end_index + 1 == consumer.next_sequence, journal
        last = journal.end_term
        for entry in payloads:
            if not last <= entry.term <= term:
                consumer.stop()
                self._consumer = None
                return
            journal.append(entry)
            last = entry.term

    def send(self, consumer: Consumer[Entry], message: ConsumerMessage) -> None:
        """Send what the consumer says; what it has processed is what is durable."""
        if isinstance(message, Nack):
            self._collected += self._say(message)
        elif isinstance(message, CumulativeAck) and self._consumer is not None:
            self._collected += self._acknowledge()

    def consume_nil(self, consumer: Consumer[Entry]) -> ErrorCode | None:
        """End the session: the leader's journal begins later. The next one brings a snapshot."""
        return ErrorCode.BROKEN_CLONE

    def close(self, consumer: Consumer[Entry], reason: ErrorCode) -> None:
        """Learn that the session is over; the next keepalive leads to another one."""
        self._consumer = None
