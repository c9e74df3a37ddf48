"""How a clone finds a master, loads its state and keeps in touch: the reading half of a clone."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

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
from stores.effects import Effect, MasterFound, MasterLost, Multicast, SecondMaster, Unicast
from stores.encoding import encode_command
from stores.epochs import term_of
from stores.snapshots import Chunk, SnapshotSink
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId

SILENCE_TICKS: Final = 20
"""Ticks without a word after which a master counts as lost: four of its heartbeats."""

SEARCH_INTERVAL_TICKS: Final = 2
"""Ticks between two calls for a master, as in Broker."""

RIVALS_MAX: Final = 64
"""Other masters of the same name that are remembered, so that each is told of once."""

RIVAL_COUNT: Final = 3
"""Heartbeats after which another master is taken to be alive: what comes together may be late."""

RIVAL_PAUSE_TICKS: Final = STORE_CHANNEL.heartbeat_interval_ticks
"""Ticks between two messages that count as two heartbeats: a link that was cut brings any number of
messages of the last master together."""


class Phase(Enum):
    """How far a clone is with its master."""

    SEARCHING = "searching for the master"
    LOADING = "loading a snapshot"
    SYNCED = "synced"


class MasterId(NamedTuple):
    """Who a clone follows. A master that was restarted is another one, and later ones are greater.

    One is built for every command, and compared at the speed of C.
    """

    epoch: int
    entity: EntityId


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
    """Searches, loads, follows; begins anew when the master is replaced or does not know us.

    Reads go on from the last state meanwhile. Every attempt has a session number of its own, so
    that nothing meant for an earlier one can do harm.
    """

    def __init__(
        self, follower: Follower, writer: WriterId, effects: list[Effect], session: int
    ) -> None:
        """Append to ``effects``. No earlier clone of this entity had the session number."""
        self.phase = Phase.SEARCHING
        self.is_lost = False
        """True while the master that the state came from is out of touch."""
        self.heard_ns = 0
        """When the master was heard last."""
        self.master: MasterId | None = None
        """Who is followed, or was last."""
        self._follower = follower
        self._writer = writer
        self._entity = writer.entity
        self._effects = effects
        self._session = session
        self._master_session = session
        self.known_epoch = 0
        """The highest that any master is known to have. One of an earlier term is not followed."""
        self._state_of: MasterId | None = None
        self._has_searched = False
        self._tick = 0
        self._silent_ticks = 0
        self._rivals: dict[MasterId, tuple[int, int]] = {}  # heartbeats, and the tick of the last
        self._consumer: Consumer[bytes] = Consumer(self, config=STORE_CHANNEL)
        self._welcome: InternalCommand | None = None
        self._offset = 0  # the last event in the snapshot that is loaded, or being loaded
        self._sink: SnapshotSink | None = None
        self._error: DecodeError | None = None

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        lost = " (lost)" if self.is_lost else ""
        return f"<Following {self.master}{lost} {self.phase.value} {self._consumer!r}>"

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
        sender = MasterId(epoch, command.sender)
        if epoch > self.known_epoch:
            self.known_epoch = epoch
        elif epoch < self.known_epoch and self._is_fenced(sender):
            self._on_fenced(command, sender)
            return False
        if type(command.content) is AckCloneCommand:
            self._on_ack_clone(command, sender)
        if sender != self.master:
            self._on_other_master(sender)
            return False
        self._hear(now_ns)
        return self._on_ours(command)

    def tick(self) -> None:
        """Let one tick pass."""
        self._tick += 1
        self._silent_ticks += 1
        self._has_searched = False
        self._consumer.tick()
        if self._sink is not None:
            self._ask_for_chunks(self._sink.tick())
        if self.phase is not Phase.SEARCHING and self._silent_ticks >= SILENCE_TICKS:
            self._miss(f"silent for {self._silent_ticks} ticks")
        if self.phase is Phase.SYNCED and self.is_lost and self._tick % SEARCH_INTERVAL_TICKS == 0:
            self._search()
        self._attach_if_broken()

    def endpoint_unreachable(self, endpoint: EndpointId) -> None:
        """Take note that there is no path to an endpoint any more."""
        if self.master is not None and self.master.entity.endpoint == endpoint:
            self._miss("its endpoint is unreachable")

    def endpoint_discovered(self) -> None:
        """Take note that there is a path to another endpoint: it may have a master."""
        if self.phase is Phase.SEARCHING or self.is_lost:
            self._search()

    def stop(self) -> None:
        """Follow no master any more, unless ``restart`` is called."""
        self._consumer.stop()
        if self.master is not None:
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
        assert self.master is not None, f"{self.phase}: there has been no master yet"
        self._send(self.master, content, sequence)

    # -- what the clone asks ---------------------------------------------------------------------

    @property
    def is_in_touch(self) -> bool:
        """True if the state is the master's, as far as is known."""
        return self.phase is Phase.SYNCED and not self.is_lost

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
        if self.phase is Phase.SEARCHING:
            return "no master found"
        if self._sink is not None:
            return f"the snapshot is being loaded: {self._sink.progress}"
        assert self.master is not None, self.phase
        return f"out of touch with the master at {self.master.entity}" if self.is_lost else ""

    def is_from_master(self, command: InternalCommand) -> bool:
        """Tell whether the master that is followed sent a command, in whatever session."""
        return self.master == MasterId(command.epoch or 0, command.sender)

    # -- steps: messages -------------------------------------------------------------------------

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

    def _on_ack_clone(self, command: InternalCommand, sender: MasterId) -> None:
        """Load a snapshot from its start, unless this is a repetition or a rival's."""
        is_ours = sender == self.master
        if self.phase is Phase.SEARCHING:
            self._load(command, sender)
        elif is_ours and command.sequence > self._offset:
            # A session is for one snapshot: in this one, late acknowledgements of ours may claim
            # that we have the new one already.
            self._attach("it had dropped this clone")
        elif is_ours and command.sequence == self._offset:
            self._acknowledge()  # the first acknowledgement got lost
        elif is_ours:
            pass  # overtaken by a later one
        elif self._is_preferred(sender):
            self._load(command, sender)
        else:
            self._send(sender, commands.DetachCommand())  # it shall not wait for us

    def _is_fenced(self, master: MasterId) -> bool:
        """Tell whether another master was promoted after that one, as far as is known."""
        return term_of(master.epoch) < term_of(self.known_epoch)

    def _on_fenced(self, command: InternalCommand, sender: MasterId) -> None:
        """Tell a master that it was deposed, when it speaks to us; follow it no longer."""
        if isinstance(command.content, AckCloneCommand) or command.session is not None:
            content = commands.DetachCommand()
            payload = self._encoded(content, 0, self.known_epoch)
            self._effects.append(Unicast(sender.entity.endpoint, payload))
        if sender == self.master and self.phase is not Phase.SEARCHING:
            self._attach("it was deposed")
        else:
            self._count_rival(sender)

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
        if type(message) is UnknownConsumer and self.phase is Phase.LOADING:
            self._attach("it does not know this clone any more")
            return
        self._consumer.receive(message)
        content = command.content
        if type(content) is commands.KeepaliveCommand and content.is_urgent:
            self._acknowledge()
        self._attach_if_broken()

    # -- steps: snapshots ------------------------------------------------------------------------

    def _load(self, command: InternalCommand, sender: MasterId) -> None:
        content = command.content
        assert isinstance(content, AckCloneCommand), command
        if self._consumer.is_connected or sender != self.master:
            self._renew_consumer()
        if self.master is not None and sender != self.master:
            # It may have answered this session too: that answer has to stay good.
            epoch = self.master.epoch
            payload = self._encoded(commands.DetachCommand(), 0, epoch, self._master_session)
            self._effects.append(Unicast(self.master.entity.endpoint, payload))
        self.master, self._master_session = sender, self._session
        self.phase = Phase.LOADING
        self._welcome = command
        self._offset = command.sequence
        self._sink = SnapshotSink()
        self._silent_ticks = 0
        if content.chunk is None:
            self._ask_for_chunks(self._sink.ask())
        else:
            self._on_chunk(content.chunk, self._offset)

    def _install(self, snapshot: SnapshotSink, command: InternalCommand) -> None:
        """Replace the state by the snapshot, and go on with the events after it."""
        handshake = commands.producer_message(command)
        assert isinstance(handshake, Handshake), command
        assert self._consumer.accepts(handshake), (self._consumer, handshake)
        self.phase, self._sink, self._welcome = Phase.SYNCED, None, None
        self.is_lost = False
        is_new_master = self.master != self._state_of
        self._state_of = self.master
        self._follower.install(snapshot, command, is_new=is_new_master)
        self._tell_found()
        self._consumer.receive(handshake)
        self._follower.on_synced()
        self._attach_if_broken()

    def _ask_for_chunks(self, indexes: Sequence[int]) -> None:
        if indexes:
            self.send_to_master(commands.SnapshotRequestCommand(tuple(indexes)))

    # -- steps: masters --------------------------------------------------------------------------

    def _hear(self, now_ns: int) -> None:
        self.heard_ns = now_ns
        self._silent_ticks = 0
        if self.is_lost and self.phase is Phase.SYNCED:
            self.is_lost = False
            self._tell_found()

    def _tell_found(self) -> None:
        assert self.master is not None, self.phase
        self._effects.append(MasterFound(self.master.entity, self.master.epoch))

    def _on_other_master(self, other: MasterId) -> None:
        """Search anew if the one we follow was replaced; otherwise tell of the rival, once."""
        if self.phase is Phase.SEARCHING or self.master is None:
            if not self._has_searched:
                self._search()
        elif self._is_preferred(other):
            self._attach(f"the master at {other.entity} took over")
        else:
            self._count_rival(other)

    def _count_rival(self, other: MasterId) -> None:
        if self.master is None or other.entity == self.master.entity:
            return
        if other not in self._rivals and len(self._rivals) >= RIVALS_MAX:
            return
        count, last = self._rivals.get(other, (0, self._tick - RIVAL_PAUSE_TICKS))
        if self._tick - last >= RIVAL_PAUSE_TICKS:
            self._rivals[other] = (count + 1, self._tick)
            if count + 1 == RIVAL_COUNT:
                self._effects.append(SecondMaster(other.entity, other.epoch))

    def _is_preferred(self, other: MasterId) -> bool:
        """Decide between two masters, at every clone in the same way: the later one leads.

        An earlier one of the same term is better than none; but not better than one that is giving
        us its snapshot.
        """
        master = self.master
        if master is None or other > master:
            return True
        return self.is_lost and self.phase is not Phase.LOADING

    def _miss(self, reason: str) -> None:
        """Keep the place in the master's stream, as it may come back; a half snapshot is no use."""
        if self.phase is Phase.LOADING:
            self._attach(reason)
        elif self.phase is Phase.SYNCED:
            self._lose(reason)

    def _lose(self, reason: str) -> None:
        if self._state_of is not None and not self.is_lost:
            self.is_lost = True
            self._effects.append(MasterLost(self._state_of.entity, reason))

    def _attach(self, reason: str) -> None:
        """Start anew: the one that answers is the master from then on."""
        self._lose(reason)
        self._session += 1
        self.phase, self._sink, self._welcome = Phase.SEARCHING, None, None
        self._renew_consumer()
        self._search()

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
        self._has_searched = True
        content = commands.HandshakeRequestCommand(self._writer, self._follower.resolved_request)
        known = self.known_epoch or None
        self._effects.append(Multicast(self._encoded(content, 0, known)))

    def _send(self, to: MasterId, content: Content, sequence: int = 0) -> None:
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
        elif self.phase is Phase.SEARCHING:
            self._search()
        else:
            # The snapshot takes its time: the master shall not give us up meanwhile.
            request = self._follower.resolved_request
            self.send_to_master(commands.HandshakeRequestCommand(self._writer, request))

    def consume_nil(self, consumer: Consumer[bytes]) -> ErrorCode:
        """Give up: without that event the state would be none that the master ever had."""
        return ErrorCode.BROKEN_CLONE

    def close(self, consumer: Consumer[bytes], reason: ErrorCode) -> None:
        """Wait for the caller that handed over the message to notice."""
