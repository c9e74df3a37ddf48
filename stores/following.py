"""Loads the snapshot of the master that a clone's seeker found, and follows its stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from channels import (
    Consumer,
    ConsumerMessage,
    Handshake,
    HandshakeRequest,
    UnknownConsumer,
)
from stores import commands
from stores.actions import WriterId
from stores.broadcasting import STORE_CHANNEL
from stores.commands import AckCloneCommand, Content, InternalCommand
from stores.effects import Effect, Multicast, Unicast
from stores.encoding import encode_command
from stores.seeker import (
    Depose,
    Drop,
    Follow,
    LeaderId,
    Refuse,
    Search,
    Seeker,
    SeekerEffect,
    State,
)
from stores.snapshots import Chunk, SnapshotSink
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId


class Follower(Protocol):
    """The clone that the state is for."""

    @property
    def resolved_request(self) -> int:
        """The last request whose outcome is known, with all before it."""

    def install(self, snapshot: SnapshotSink, welcome: InternalCommand, *, is_new: bool) -> None:
        """Replace the state by a snapshot, of a new master or of the one before.

        What is consumed next comes after it.
        """

    def consume(self, payload: bytes, sequence: int) -> None:
        """Do what the master did; raises ``DecodeError`` if it makes no sense."""

    def on_replicated(self, sequence: int) -> None:
        """Learn that enough clones have everything up to this event."""

    def on_synced(self) -> None:
        """Learn that the state is up to date, as far as is known."""


class Following:
    """Loads, follows, and begins anew, as the seeker says.

    Reads go on from the last state meanwhile. Every attempt has a session number of its own, so
    that nothing meant for an earlier one can do harm.
    """

    def __init__(
        self, follower: Follower, writer: WriterId, effects: list[Effect], session: int
    ) -> None:
        """Append to ``effects``. No earlier clone of this entity had the session number."""
        self.seeker = Seeker(has_copy=True)
        self._follower = follower
        self._writer = writer
        self._entity = writer.entity
        self._effects = effects
        self._session = session
        self._leader_session = session
        self._state_of: LeaderId | None = None
        self._consumer: Consumer[bytes] = Consumer(self, config=STORE_CHANNEL)
        self._welcome: InternalCommand | None = None
        self._offset = 0  # the last event in the snapshot that is loaded, or being loaded
        self._sink: SnapshotSink | None = None
        self._error: DecodeError | None = None

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        return f"<Following {self.seeker!r} {self._consumer!r}>"

    # -- what the clone does ---------------------------------------------------------------------

    def start(self) -> None:
        """Search for a master."""
        self._search()

    def receive(self, command: InternalCommand, now_ns: int) -> bool:
        """Take in what a master sent; true if it is ours, and something for the clone itself.

        Raises ``DecodeError`` if an action makes no sense.
        """
        epoch = command.epoch
        if command.session not in (None, self._session) or epoch is None:
            return False
        sender = LeaderId(epoch, command.sender)
        if type(command.content) is AckCloneCommand:
            self._on_ack_clone(command, sender, now_ns)
            return False
        if effects := self.seeker.hear(sender, now_ns):
            self._carry_out(effects, command)
        return self.seeker.follows(sender) and self._on_ours(command)

    def tick(self) -> None:
        """Let one tick pass."""
        self._consumer.tick()
        if self._sink is not None:
            self._ask_for_chunks(self._sink.tick())
        self._carry_out(self.seeker.tick())
        self._attach_if_broken()

    def endpoint_unreachable(self, endpoint: EndpointId) -> None:
        """Take note that there is no path to an endpoint any more."""
        self._carry_out(self.seeker.unreachable(endpoint))

    def endpoint_discovered(self) -> None:
        """Take note that there is a path to another endpoint: it may have a master."""
        self._carry_out(self.seeker.discovered())

    def stop(self) -> None:
        """Follow no master any more, unless ``restart`` is called."""
        self._consumer.stop()
        if self.seeker.leader is not None:
            self.send_to_master(commands.DetachCommand())

    def restart(self) -> None:
        """Follow again."""
        self._attach("it was let go")

    def reject(self, error: DecodeError) -> None:
        """Load everything anew, as what the stream made is wrong; raises the error."""
        self._error = error
        self._consumer.stop()
        self._attach_if_broken()

    def send_to_master(self, content: Content, sequence: int = 0) -> None:
        """Send a command in this session."""
        assert self.seeker.leader is not None, f"{self!r}: there has been no master yet"
        self._send(self.seeker.leader, content, sequence)

    # -- what the clone asks ---------------------------------------------------------------------

    @property
    def is_level(self) -> bool:
        """True once a snapshot is loaded, until another one has to be; in touch or not."""
        return self.seeker.state in (State.IN_TOUCH, State.LOST)

    @property
    def missing_count(self) -> int:
        """How many events of the master are known of, and are not here."""
        return self._consumer.missing_count

    @property
    def position(self) -> int:
        """The last event of which the effect can be read."""
        return self._consumer.next_sequence - 1

    def explain(self) -> str:
        """Say why it is not in touch; empty if it is."""
        leader = self.seeker.leader
        if leader is None or self.seeker.state is State.SEARCHING:
            return "no master found"
        if self._sink is not None:
            return f"the snapshot is being loaded: {self._sink.progress}"
        if self.seeker.state is State.LOST:
            return f"out of touch with the master at {leader.entity}"
        return ""

    # -- steps: messages -------------------------------------------------------------------------

    def _carry_out(
        self, effects: Iterable[SeekerEffect], command: InternalCommand | None = None
    ) -> None:
        """Do what the seeker decided, about the command if there is one."""
        for effect in effects:
            match effect:
                case Search():
                    self._search()
                case Follow():
                    assert command is not None, effect
                    self._load(command, effect)
                case Drop():
                    self._session += 1
                    self._sink = self._welcome = None
                    self._renew_consumer()
                case Refuse(leader):
                    self._send(leader, commands.DetachCommand())
                case Depose(leader):
                    assert command is not None, effect
                    self._depose(leader, command)
                case _:
                    self._effects.append(effect)

    def _on_ours(self, command: InternalCommand) -> bool:
        """Take in what the master sent that is followed; true if it is for the clone itself."""
        match command.content:
            case commands.Actions():
                self._on_event(command)
            case commands.SnapshotChunkCommand(chunk):
                self._on_chunk(chunk, command.sequence)
            case commands.MasterClosedCommand(_, text):
                self._attach(f"it closed: {text}")
            case (
                commands.BarrierAnswerCommand()
                | commands.HistoryAnswerCommand()
                | commands.VerifyAnswerCommand()
            ):
                return True
            case commands.ReplicatedCommand():
                self._follower.on_replicated(command.sequence)
            case _:
                self._on_event(command)
        return False

    def _on_ack_clone(self, command: InternalCommand, sender: LeaderId, now_ns: int) -> None:
        """Load a snapshot from its start, unless this is a repetition or a rival's."""
        is_ours = self.seeker.state is not State.SEARCHING and self.seeker.follows(sender)
        if is_ours and command.sequence > self._offset:
            # A session is for one snapshot: in this one, late acknowledgements of ours may claim
            # that we have the new one already.
            self._attach("it had dropped this clone")
            return
        self._carry_out(self.seeker.hear(sender, now_ns, offers=True), command)
        if is_ours and command.sequence == self._offset:
            self._acknowledge()  # the first acknowledgement got lost

    def _depose(self, master: LeaderId, command: InternalCommand) -> None:
        """Tell a master of the later term, if it spoke to this clone."""
        if isinstance(command.content, AckCloneCommand) or command.session is not None:
            payload = self._encoded(commands.DetachCommand(), 0, self.seeker.known_epoch)
            self._effects.append(Unicast(master.entity.endpoint, payload))

    def _on_chunk(self, chunk: Chunk, sequence: int) -> None:
        if self._sink is None or self._welcome is None or sequence != self._offset:
            return
        self._ask_for_chunks(self._sink.receive(chunk))
        if self._sink.is_complete:
            self._install(self._sink, self._welcome)

    def _on_event(self, command: InternalCommand) -> None:
        """Hand a message of the master's channel to its consumer."""
        message = commands.producer_message(command)
        if message is None or type(message) is Handshake:
            return
        if type(message) is UnknownConsumer and self.seeker.state is State.LOADING:
            self._attach("it does not know this clone any more")
            return
        self._consumer.receive(message)
        content = command.content
        if type(content) is commands.KeepaliveCommand and content.is_urgent:
            self._acknowledge()
        self._attach_if_broken()

    # -- steps: snapshots ------------------------------------------------------------------------

    def _load(self, command: InternalCommand, decision: Follow) -> None:
        content, former = command.content, decision.former
        assert isinstance(content, AckCloneCommand), command
        if self._consumer.is_connected or decision.leader != former:
            self._renew_consumer()
        if former is not None and decision.leader != former:
            # It may have answered this session too: that answer has to stay good.
            goodbye = commands.DetachCommand()
            payload = self._encoded(goodbye, 0, former.epoch, self._leader_session)
            self._effects.append(Unicast(former.entity.endpoint, payload))
        self._leader_session = self._session
        self._welcome = command
        self._offset = command.sequence
        self._sink = SnapshotSink()
        if content.chunk is None:
            self._ask_for_chunks(self._sink.ask())
        else:
            self._on_chunk(content.chunk, self._offset)

    def _install(self, snapshot: SnapshotSink, command: InternalCommand) -> None:
        """Replace the state by the snapshot, and go on with the events after it."""
        handshake = commands.producer_message(command)
        assert isinstance(handshake, Handshake), command
        assert self._consumer.accepts(handshake), (self._consumer, handshake)
        self._sink = self._welcome = None
        is_new_master = self.seeker.leader != self._state_of
        self._state_of = self.seeker.leader
        self._follower.install(snapshot, command, is_new=is_new_master)
        self._carry_out(self.seeker.level())
        self._consumer.receive(handshake)
        self._follower.on_synced()
        self._attach_if_broken()

    def _ask_for_chunks(self, indexes: Sequence[int]) -> None:
        if indexes:
            self.send_to_master(commands.SnapshotRequestCommand(tuple(indexes)))

    def _attach(self, reason: str) -> None:
        """Start anew: the one that answers is the master from then on."""
        self._carry_out(self.seeker.let_go(reason))

    def _attach_if_broken(self) -> None:
        if not self._consumer.is_closed:
            return
        error, self._error = self._error, None
        self._attach("the channel from it broke" if error is None else str(error))
        if error is not None:
            raise error

    def _renew_consumer(self) -> None:
        self._consumer.stop()
        self._consumer = Consumer(self, config=STORE_CHANNEL)

    # -- steps: sending --------------------------------------------------------------------------

    def _search(self) -> None:
        content = commands.HandshakeRequestCommand(self._writer, self._follower.resolved_request)
        known = self.seeker.known_epoch or None
        self._effects.append(Multicast(self._encoded(content, 0, known)))

    def _send(self, to: LeaderId, content: Content, sequence: int = 0) -> None:
        payload = self._encoded(content, sequence, to.epoch)
        self._effects.append(Unicast(to.entity.endpoint, payload))

    def _acknowledge(self) -> None:
        if self._consumer.is_connected:
            self.send_to_master(commands.CumulativeAckCommand(), self.position)

    def _encoded(
        self, content: Content, sequence: int, epoch: int | None, session: int | None = None
    ) -> bytes:
        number = self._session if session is None else session
        return encode_command(InternalCommand(sequence, self._entity, number, epoch, content))

    # -- the channel's backend -------------------------------------------------------------------

    def consume_run(self, consumer: Consumer[bytes], payloads: Sequence[bytes]) -> None:
        """Hand the actions over; one that makes no sense ends the channel."""
        try:
            for sequence, payload in enumerate(payloads, consumer.next_sequence):
                self._follower.consume(payload, sequence)
        except DecodeError as error:
            self._error = error
            consumer.stop()

    def send(self, consumer: Consumer[bytes], message: ConsumerMessage) -> None:
        """Put a message of the channel to the master in the form of a command (seed 7.5.1)."""
        if not isinstance(message, HandshakeRequest):
            sequence, content = commands.consumer_command(message)
            self.send_to_master(content, sequence)
        elif self.seeker.state is not State.SEARCHING:
            # The snapshot takes its time: the master shall not give us up meanwhile.
            request = self._follower.resolved_request
            self.send_to_master(commands.HandshakeRequestCommand(self._writer, request))

    def consume_nil(self, consumer: Consumer[bytes]) -> ErrorCode:
        """Give up: without that event the state would be none that the master ever had."""
        return ErrorCode.BROKEN_CLONE

    def close(self, consumer: Consumer[bytes], reason: ErrorCode) -> None:
        """Wait for the caller that handed over the message to notice."""
