"""What a leader sends to those that follow it: the journal over a channel, and snapshots.

A follower joins with the ends of its journal. It gets what comes after the last entry that both
share: out of the journal, a few runs ahead of its acknowledgements, then with all others. If the
journal does not reach back that far, a snapshot comes first.
"""

from __future__ import annotations

from collections.abc import Iterable

from channels import CumulativeAck, Event, Handshake, Producer, ProducerMessage
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
from stores.group.positions import MemberId
from stores.group.snapshots import SnapshotSending
from wire.errors import ErrorCode


class Feeding:
    """Sends one term's journal. It is the backend of the channel's producer.

    What is to be sent is collected, and given by ``take`` at the end of a step.
    """

    def __init__(self, term: int, state: AppliedState, followers: Followers) -> None:
        """Send what comes after the journal's end, and what followers lack before it."""
        self._term = term
        self._state = state
        self._journal = state.journal
        self._followers = followers
        self._producer: Producer[MemberId, Entry] = Producer(
            self,
            epoch=term,
            config=JOURNAL_CHANNEL,
            sequence=self._journal.end.index,
            backlog=self._journal,
        )
        self._collected: list[Effect] = []

    @property
    def wanted_index(self) -> int:
        """The last entry that no follower in session may ask for."""
        ends = [sending.snapshot.position.index for sending in self._sendings()]
        return min([self._producer.sequence - self._producer.unacknowledged, *ends])

    def take(self) -> list[Effect]:
        """Give what was collected."""
        collected, self._collected = self._collected, []
        return collected

    def produce(self, entry: Entry) -> None:
        """Send an entry that was appended."""
        self._producer.produce(entry)

    def skip(self) -> None:
        """Count an entry that no journal keeps: no member follows."""
        self._producer.skip()

    def tick(self) -> None:
        """Let one tick pass: silent followers end, parts of snapshots are sent again."""
        self._producer.tick()
        for member, follower in self._followers:
            if follower.sending is not None:
                self._send_all(member, follower.sending.tick())

    def join(self, sender: MemberId, message: Join) -> None:
        """Start a session: agree on what both have, and send the rest.

        Sessions only grow. A repeated ``Join`` changes nothing, as its answer is under way.
        """
        follower = self._followers.find(sender)
        if follower is None or message.session <= follower.session:
            return
        common = self._journal.agreed(message.ends)
        self._producer.discard(sender)
        follower.begin(message.session, common, self._journal.end.index)
        if common < self._journal.floor.index:
            sending = SnapshotSending(self._frozen(), self._term, message.session)
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
            follower.begin(message.session, index, self._journal.end.index)
            if index >= self._journal.floor.index:
                self._open(sender, index)

    def receive(self, sender: MemberId, message: FromFollower) -> None:
        """Take in what a follower acknowledges or lacks, in its latest session alone."""
        follower = self._followers.get(sender)
        if follower is None or follower.session != message.session:
            return
        self._producer.receive(sender, message.message)
        if isinstance(message.message, CumulativeAck):
            done = min(message.message.sequence, self._journal.end.index)
            self._followers.acknowledged(sender, message, done)
            if follower.next_index <= follower.catch_up_end:
                self._send_all(sender, follower.catch_up(self._journal, self._term, done))

    # -- steps -----------------------------------------------------------------------------------

    def _sendings(self) -> list[SnapshotSending]:
        return [each.sending for _, each in self._followers if each.sending is not None]

    def _frozen(self) -> Snapshot:
        """Freeze the state, or share what was frozen for another follower if it still fits."""
        for sending in self._sendings():
            if sending.snapshot.position.index >= self._journal.floor.index:
                return sending.snapshot
        return self._state.freeze()

    def _admit(
        self, to: MemberId, session: int, agreed: int, sending: SnapshotSending | None
    ) -> None:
        head = sending.head if sending is not None else None
        end = self._journal.end.index
        self._collected.append(Send(to, Admitted(self._term, session, agreed, end, head)))

    def _open(self, to: MemberId, after: int) -> None:
        """Open the channel, and send what the follower lacks of the journal."""
        follower = self._followers.get(to)
        assert follower is not None, to
        self._producer.add(to, after=after)
        self._send_all(to, follower.catch_up(self._journal, self._term, after))

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
            word = ToFollower(self._term, follower.session, message)
            self._collected.append(Send(handle, word))

    def broadcast(
        self, producer: Producer[MemberId, Entry], message: ProducerMessage[Entry]
    ) -> None:
        """Send entries to all. Keepalives say where the journal ends, in place of heartbeats."""
        if isinstance(message, Event):
            self._collected.append(Broadcast(ToFollower(self._term, None, message)))

    def drop(
        self, producer: Producer[MemberId, Entry], handle: MemberId, reason: ErrorCode
    ) -> None:
        """Learn that a follower fell silent: it joins again when it is back."""

    def handshake_completed(self, producer: Producer[MemberId, Entry], handle: MemberId) -> None:
        """Learn that a follower has begun."""
