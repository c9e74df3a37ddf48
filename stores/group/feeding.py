"""What a leader sends to those that follow it: the journal over a channel, and snapshots.

A follower joins with the ends of its journal. It gets what comes after the last entry that both
share: out of the journal, a few runs ahead of its acknowledgements, then with all others. If the
journal does not reach back that far, a snapshot comes first.
"""

from __future__ import annotations

from collections.abc import Iterable

from channels import (
    CumulativeAck,
    Event,
    Handshake,
    Producer,
    ProducerMessage,
    UnknownConsumer,
)
from stores.group.applied_state import AppliedState
from stores.group.effects import Broadcast, Effect, Send, Snapshot
from stores.group.entries import Entry
from stores.group.followers import Followers
from stores.group.limits import JOURNAL_CHANNEL
from stores.group.messages import (
    Admitted,
    FromFollower,
    Join,
    SnapshotAck,
    SnapshotPart,
    ToFollower,
)
from stores.group.positions import MemberId, Voters
from stores.group.snapshots import SnapshotSending
from wire.errors import ErrorCode


class Feeding:
    """Sends one term's journal. It is the backend of the channel's producer.

    What is to be sent is collected, and given by ``take`` at the end of a step: entries that were
    appended in one step travel together, with the commit index that they lead to. Where the leader
    is the only voter they wait for its disk, so that they travel once, and are committed then.
    """

    def __init__(
        self, leader: MemberId, term: int, state: AppliedState, followers: Followers
    ) -> None:
        """Send what comes after the journal's end, and what followers lack before it."""
        self._alone = (leader,)
        self._term = term
        self._state = state
        self._journal = state.journal
        self._followers = followers
        self._producer: Producer[MemberId, Entry] = Producer(
            self,
            epoch=term,
            config=JOURNAL_CHANNEL,
            sequence=self._journal.end_index,
            backlog=self._journal,
        )
        self._collected: list[Effect] = []
        self.told_commit = 0
        """The commit index that was sent to all last; keepalives raise it, too."""

    @property
    def end(self) -> int:
        """The last entry that was sent."""
        return self._producer.sequence

    @property
    def wanted_index(self) -> int:
        """The last entry that no follower in session may ask for."""
        ends = [sending.snapshot.position.index for sending in self.sendings()]
        return min([self._producer.sequence - self._producer.unacknowledged, *ends])

    def feeds(self, member: MemberId) -> bool:
        """Tell whether a member gets entries as they come: its channel has begun."""
        return self._producer.has_begun(member)

    def take(self) -> list[Effect]:
        """Give what was collected, and the entries that are to be sent now."""
        journal, sent = self._journal, self._producer.sequence
        is_alone = journal.voters.current == self._alone
        until = self._state.commit if is_alone else journal.end_index
        if until > sent:
            self._producer.produce_run(journal.payloads(sent + 1, until))
        collected, self._collected = self._collected, []
        return collected

    def skip(self) -> None:
        """Count an entry that no journal keeps: no member follows."""
        self._producer.skip()

    def tick(self) -> None:
        """Let one tick pass: silent followers end, parts of snapshots are sent again."""
        self._producer.tick()
        for member, follower in self._followers:
            if follower.sending is not None:
                self._send_all(member, follower.sending.tick())

    def forget(self, member: MemberId) -> None:
        """Send a member nothing more, and wait for none of its words."""
        self._producer.discard(member)
        self._followers.forget(member)

    def leave_silent(self, voters: Voters) -> None:
        """Forget members that are silent for long; a voter keeps its place, but no snapshot."""
        for member in self._followers.silent():
            if member not in voters:
                self.forget(member)
            elif (follower := self._followers.get(member)) is not None:
                follower.sending = None

    def join(self, sender: MemberId, message: Join) -> None:
        """Start a session: agree on what both have, and send the rest.

        Sessions only grow. A repeated ``Join`` changes nothing, as its answer is under way.
        """
        follower = self._followers.find(sender)
        if follower is None or message.session <= follower.session:
            return
        follower.wants_vote = message.wants_vote
        # What waits for the own disk was not sent yet, whatever a follower says.
        common = min(self._journal.agreed(message.ends), self.end)
        self._producer.discard(sender)
        follower.begin(message.session, common, self._producer.sequence)
        if common < self._journal.floor.index:
            sending = SnapshotSending(self._frozen(common), self._term, message.session)
            follower.sending = sending
            common = sending.snapshot.position.index
            self._admit(sender, message.session, common, sending)
            self._send_all(sender, sending.more())
        else:
            self._admit(sender, message.session, common, None)
            self._open(sender, common)

    def snapshot_ack(self, sender: MemberId, message: SnapshotAck) -> None:
        """Send more of a snapshot; after its last part the channel begins."""
        follower = self._followers.get(sender)
        if follower is None or follower.sending is None or follower.session != message.session:
            return
        sending = follower.sending
        self._send_all(sender, sending.acknowledge(message.count))
        if sending.is_done:
            index = sending.snapshot.position.index
            follower.begin(message.session, index, self._producer.sequence)
            if index >= self._journal.floor.index:
                self._open(sender, index)

    def receive(self, sender: MemberId, message: FromFollower) -> None:
        """Take in what a follower acknowledges or lacks, in its latest session alone."""
        follower = self._followers.get(sender)
        if follower is None or follower.session != message.session:
            # It would wait for ever for what it lacks: it has to join again. An older session of a
            # member that has is over there, too, and it ignores this.
            word = ToFollower(self._term, message.session, UnknownConsumer(self._term))
            self._collected.append(Send(sender, word))
            return
        self._producer.receive(sender, message.message)
        if isinstance(message.message, CumulativeAck):
            done = min(message.message.sequence, self._journal.end_index)
            self._followers.acknowledged(sender, message, done)
            if follower.next_index <= follower.catch_up_end:
                commit = self._state.commit
                self._send_all(sender, follower.catch_up(self._journal, commit, self._term, done))

    def sendings(self) -> list[SnapshotSending]:
        """Give the snapshots that are under way."""
        return [each.sending for _, each in self._followers if each.sending is not None]

    def give_up(self, member: MemberId, session: int) -> None:
        """Send no more of a snapshot that cannot be read; the member asks for another one."""
        follower = self._followers.get(member)
        if follower is not None and follower.session == session:
            follower.sending = None

    # -- steps -----------------------------------------------------------------------------------

    def _frozen(self, common: int) -> Snapshot:
        """Freeze the state, or share what was frozen for another follower if it still fits."""
        for sending in self.sendings():
            snapshot = sending.snapshot
            is_late = snapshot.position.index >= self._journal.floor.index
            if is_late and snapshot.after <= common:
                return snapshot
        return self._state.freeze(common)

    def _admit(
        self, to: MemberId, session: int, agreed: int, sending: SnapshotSending | None
    ) -> None:
        head = sending.head if sending is not None else None
        end = self._journal.end_index
        self._collected.append(Send(to, Admitted(self._term, session, agreed, end, head)))

    def _open(self, to: MemberId, after: int) -> None:
        """Open the channel, and send what the follower lacks of the journal."""
        follower = self._followers.get(to)
        assert follower is not None, to
        self._producer.add(to, after=after)
        self._send_all(to, follower.catch_up(self._journal, self._state.commit, self._term, after))

    def _send_all(self, to: MemberId, messages: Iterable[SnapshotPart | ToFollower]) -> None:
        self._collected += [Send(to, message) for message in messages]

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
            commit = self._state.commit if isinstance(message, Event) else 0
            word = ToFollower(self._term, follower.session, message, commit)
            self._collected.append(Send(handle, word))

    def broadcast(
        self, producer: Producer[MemberId, Entry], message: ProducerMessage[Entry]
    ) -> None:
        """Send entries to all. Keepalives say where the journal ends, in place of heartbeats."""
        if isinstance(message, Event):
            self.told_commit = commit = self._state.commit
            self._collected.append(Broadcast(ToFollower(self._term, None, message, commit)))

    def drop(
        self, producer: Producer[MemberId, Entry], handle: MemberId, reason: ErrorCode
    ) -> None:
        """Learn that a follower fell silent: it joins again when it is back."""

    def handshake_completed(self, producer: Producer[MemberId, Entry], handle: MemberId) -> None:
        """Learn that a follower has begun."""
