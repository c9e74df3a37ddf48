"""The heart's driver: feeds the endpoint's core and carries out its effects. Decides nothing.

Everything here that takes in a frame or an event is synchronous: no other task runs between a
decision and its effects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import compress
from math import inf
from typing import TYPE_CHECKING, Final, assert_never, cast

import trio

from endpoint.callbacks import Callbacks
from endpoint.flight import FlightRecorder
from endpoint.link.backpressure import Backpressure, Place, grant
from endpoint.link.connection import Connection
from endpoint.link.data_queue import Outgoing, OverflowPolicy
from endpoint.link.greeting import Greeter, Greeting
from endpoint.link.holds import Holds
from endpoint.link.limits import LinkLimits
from endpoint.link.link import HeldTooLong, Observation, SayWithheld
from endpoint.link.liveness import PeerMoving, PeerSlow, PeerStalled
from endpoint.link.peering import Peering
from endpoint.link.rates import PeerRates, Spent
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.effects import (
    DropPeer,
    Effect,
    EmitStatus,
    RightsChanged,
    RoutesChanged,
    SendControl,
)
from endpoint.mesh.routes import CommandReceiver, Plan, Selection
from endpoint.mesh.status import (
    StatusCode,
    StatusEvent,
    peer_slow_event,
    slow_holder_event,
    slow_reader_event,
)
from endpoint.pubsub.journal import PAYLOAD_CHARGE, Way
from endpoint.pubsub.mailbox import Mailbox
from endpoint.pubsub.messages import Reader
from endpoint.pubsub.publishing import Publication
from endpoint.pubsub.reader_monitor import Trouble
from endpoint.pubsub.readers import Readers
from endpoint.pubsub.stream import StatusHub
from endpoint.settings import Settings
from endpoint.tasks import Tasks
from handshake.directory import PeerDirectory
from handshake.effects import Established, Failed
from handshake.keepalive import PeerSilent, PingDue
from net import forking
from net.acceptor import Arrival
from net.transport import RECEIVE_SIZE, Transport
from wire.addresses import join_address
from wire.codec import decode_control, decode_header
from wire.errors import ErrorCode, MeshError, RemoteProtocolError
from wire.framing import ControlFrame, Frame, NodeFrame, Sign, halves
from wire.identifiers import EndpointId
from wire.limits import HANDSHAKE_FRAME_SIZE_MAX
from wire.logs import logger_of
from wire.messages import (
    Announcements,
    ControlMessage,
    Credit,
    DropConn,
    Hold,
    Knowledge,
    PackedType,
    PeerMessage,
    Ping,
    Pong,
    Withheld,
)
from wire.scalars import shorten
from wire.topics import check_topic

if TYPE_CHECKING:
    from endpoint.replicas.runner import Runner

logger = logger_of("peermesh.endpoint")

_COMMAND: Final = PackedType.COMMAND.value

TICK_SECONDS: Final = 0.1
"""How often stores look at their timers: Broker's own interval."""

STORE_GRACE_SECONDS: Final = 3.0
"""How long the end of a store waits for the outcomes of what was asked, as peerings do."""

VIEW_SIZE_MIN: Final = RECEIVE_SIZE // 8
"""Bytes of a frame below which it is copied when it is passed on. A view of it keeps all that was
read with it in memory, however long it waits in an outbox that counts the frame only."""

TICKS_PER_WATCH: Final = 10
"""Ticks between two looks at peers and subscribers: their times are counted in seconds."""


class EndpointLoop:
    """One endpoint at work. Its host for connections, its hands for the core."""

    def __init__(
        self,
        core: EndpointCore,
        settings: Settings,
        *,
        first_sequence: int,
        sign: Sign | None = None,
    ) -> None:
        """Carry out what ``core`` decides; see ``Publication`` for the last two."""
        self.core = core
        self._plan = core.plan
        self.turn = 0
        self.peerings: dict[EndpointId, Peering] = {}
        self.readers = Readers()
        self.stores: dict[str, Runner] = {}
        self._discovered: list[EndpointId] = []
        self.status = StatusHub()
        self.flight = FlightRecorder(core.local)
        self.changed = trio.lowlevel.ParkingLot()
        """Woken when routes change, for those who wait for a peer."""
        directory = PeerDirectory(core.local)
        self.greeter = Greeter(
            directory,
            core,
            self._establish,
            self._fail,
            core.objection,
            settings.frame_size_max,
        )
        self.publication = Publication(core, self, settings.ttl, first_sequence, sign)
        self.send_command = self.publication.command
        self.refresh_rules: Callable[[], None] = lambda: None
        """Uses a file of roles that has changed; for the ports that go by the roles of the mesh."""
        self.retry_of: Callable[[tuple[str, int]], float | None] = lambda address: None
        """Gives the longest pause until an address is dialled again; for events about it."""
        self.dropped = 0
        """Messages that the outboxes of former peers dropped, or still held at the end."""
        self.tasks = Tasks()
        self.start_task = self.tasks.start
        self.callbacks = Callbacks(self.start_task, self.emit)
        self.finish_task = self.tasks.finish
        self.is_open = False
        """Whether peers, stores and logs may come: false before it begins, and once it leaves."""
        self.busy_poll_seconds = settings.busy_poll_microseconds / 1e6
        self.is_polling = False
        self._policy = settings.overflow_policy
        self._frame_size_max = settings.frame_size_max
        self._rates = settings.rates()
        self._limits = LinkLimits(
            window=self._rates.window, stall_seconds=settings.link_stall_seconds
        )
        self.backpressure = Backpressure(
            core, self.peerings, self.publication.holds_changed, settings.hold_seconds_max
        )
        self._connections: dict[Connection, None] = {}
        self._dirty: dict[CommandReceiver, None] = {}
        self._pings = 0

    # Connections.

    async def serve(self, transport: Transport, arrival: Arrival) -> None:
        """Run a connection that was accepted, to its end."""
        greeting = self.prepare(transport, arrival.address, dialled=False)
        greeting.arrival = arrival
        arrival.farewell = partial(self.greeter.refuse, greeting, ErrorCode.LIMIT_EXCEEDED)
        await self.run(greeting)

    def prepare(
        self, transport: Transport, address: tuple[str, int] | None, *, dialled: bool
    ) -> Greeting:
        """Say the first words on a fresh connection; ``run`` has to follow."""
        connection = Connection(
            transport,
            self,
            address=address,
            dialled=dialled,
            policy=self._policy,
            limits=self._limits,
        )
        greeting = self.greeter.begin(connection)
        connection.owner = greeting
        self._connections[connection] = None
        return greeting

    async def run(self, greeting: Greeting) -> None:
        """Run a connection to its end, whatever becomes of it."""
        connection = greeting.connection
        try:
            await connection.run()
        except* Exception:
            logger.exception("a connection to %s failed; this is a bug", connection.address)
        finally:
            del self._connections[connection]
            self.greeter.lost(greeting)
            self._bury(connection)

    def _establish(self, greeting: Greeting, established: Established) -> None:
        peer, connection = established.peer, greeting.connection
        if established.replaces is not None and peer in self.peerings:
            self.part(
                self.peerings[peer],
                StatusCode.PEER_LOST,
                ErrorCode.REDUNDANT_CONNECTION,
                "the peer came anew",
            )
        if greeting.arrival is not None:
            greeting.arrival.prove()
        connection.peer = peer
        connection.decoder.size_max = self._frame_size_max
        connection.decoder.control_size_max = HANDSHAKE_FRAME_SIZE_MAX
        connection.frame_size_max = established.frame_size_max
        connection.owner = self.peerings[peer] = Peering(peer, greeting)
        if self._rates.are_limited:
            connection.rates = PeerRates(self._rates)
        self.backpressure.add(connection.link.data, "messages that pass a relay")
        knowledge = established.knowledge
        for announcement in established.sent:
            knowledge = knowledge.advance(announcement.origin, announcement.time)
        self.flight.hear(established.received)
        effects = self.core.connect(
            peer,
            knowledge,
            established.received,
            connection.address,
            connection.certificate_name,
        )
        # Only now its role is known, for what comes with the next frame.
        connection.link.data.may_hold = self.core.permissions.may_hold_for(peer)
        self.apply(effects)

    def _fail(self, greeting: Greeting, failed: Failed) -> None:
        """Tell of a handshake that somebody else began in vain; of our own, the dialler tells."""
        connection = greeting.connection
        if not connection.dialled and connection.bytes_received:
            where, code, reason = connection.address, failed.code, failed.reason
            event = StatusEvent(StatusCode.PEER_UNAVAILABLE, failed.peer, where, code, reason)
            self.emit(event)

    def part(self, peering: Peering, status: StatusCode, code: ErrorCode, reason: str) -> None:
        """End a peering, for this reason; a peer that we remove is told."""
        connection = peering.connection
        if connection.peer is None:
            return
        peering.status, peering.code, peering.reason = status, code, reason
        if status is StatusCode.PEER_REMOVED:
            connection.say(DropConn(code, reason))
        connection.end()
        self._bury(connection)

    def _bury(self, connection: Connection) -> None:
        """Take leave of a connection that ended, once."""
        peering = connection.owner
        if not isinstance(peering, Peering) or connection.peer is None:
            return
        connection.peer = None
        self.greeter.directory.release(peering.peer, peering.number)
        connection.link.discard()
        self.dropped += connection.link.data.dropped
        self.backpressure.forget(connection)
        if self.peerings.get(peering.peer) is peering:
            del self.peerings[peering.peer]
        for event in list(peering.pongs.values()):
            event.set()
        self.apply(
            self.core.disconnect(
                peering.peer,
                connection.address,
                status=peering.status,
                code=peering.code,
                reason=peering.reason,
            )
        )

    def accuse(self, connection: Connection, error: RemoteProtocolError) -> None:
        """A peer broke the protocol: tell it why, and everybody who follows the events."""
        address = connection.address
        where = "a connection" if address is None else f"the peer at {join_address(*address)}"
        logger.warning("%s broke the protocol and was disconnected: %s", where, error)
        owner = connection.owner
        if isinstance(owner, Peering):
            reason = f"it broke the protocol: {error}"
            self.part(owner, StatusCode.PEER_REMOVED, error.code, reason)
        else:
            assert isinstance(owner, Greeting)
            self.greeter.refuse(owner, error.code, str(error))

    def refused(self, address: tuple[str, int] | None, error: Exception) -> None:
        """Somebody dialled and did not get as far as our handshake."""
        code = error.code if isinstance(error, MeshError) else ErrorCode.UNSPECIFIED
        self.emit(StatusEvent(StatusCode.PEER_UNAVAILABLE, None, address, code, str(error)))

    # Subscribers.

    def add_reader(
        self, mailbox: Mailbox, reader: Reader, topics: Iterable[str], *, local: bool = False
    ) -> None:
        """Have a reader read a mailbox; with ``local`` also what is published at this endpoint."""
        self.add_topics(mailbox, topics, local=local)
        self.backpressure.add(mailbox, mailbox.label)
        self.readers.add(mailbox, reader)

    def add_topics(self, mailbox: Mailbox, topics: Iterable[str], *, local: bool = False) -> None:
        """A subscriber wants more; raises ``NotAllowed`` for what it would never get."""
        wanted = [check_topic(topic) for topic in topics]
        self.core.authorisation.check_subscribe(wanted)
        self.apply(self.core.subscribe(mailbox, wanted, local=local))

    def remove_topics(self, mailbox: Mailbox, topics: Iterable[str] | None) -> None:
        """A subscriber wants less; ``None`` is nothing any more."""
        self.apply(self.core.unsubscribe(mailbox, topics))
        if topics is None:
            self.readers.remove(mailbox)
            self.backpressure.remove(mailbox)
            self.publication.make_room()
        else:
            self.publication.make_room()  # What waits for this subscriber may wait in vain now.

    def topics_of(self, mailbox: Mailbox) -> tuple[str, ...]:
        """Give the prefixes that a subscriber wants."""
        return self.core.topics_of(mailbox)

    # Stores.

    def hear(self, topic: str, hearer: CommandReceiver) -> None:
        """Have the commands on a topic heard; raises ``LimitExceeded``."""
        self.apply(self.core.attach_store(topic, hearer))

    def add_store(self, topic: str, store: Runner) -> None:
        """Have a store live with the endpoint, and hear a topic; raises ``LimitExceeded``."""
        self.hear(topic, store)
        self.stores[topic] = store

    async def close_store(
        self, topic: str, grace: float = STORE_GRACE_SECONDS, deadline: float = inf
    ) -> None:
        """Close a store when everything that was asked has its outcome, or ``grace`` is over.

        The time for its file ends at ``deadline``. It does not count for what comes before: if both
        limits passed while the loop was busy, the file would not even begin to be closed.
        """
        store = self.stores.get(topic)
        if store is None:
            return
        with trio.move_on_after(grace):
            await store.finish()
        with trio.CancelScope(deadline=deadline):
            await self.tasks.finish(f"store {store.name} to be closed", store.close)
            for heard in store.hears_all():
                self.drop_store(heard)

    def drop_store(self, topic: str) -> None:
        """Have nobody hear the commands on a topic any more."""
        self.stores.pop(topic, None)
        self.apply(self.core.detach_store(topic))

    def _tell_stores(self, event: StatusEvent) -> None:
        if event.status is StatusCode.ENDPOINT_UNREACHABLE and event.endpoint is not None:
            self.backpressure.forget_endpoint(event.endpoint)
            for store in list(self.stores.values()):
                self._drive(store, store.unreachable, event.endpoint)
        elif event.status is StatusCode.ENDPOINT_DISCOVERED and event.endpoint is not None:
            self._discovered.append(event.endpoint)

    def _tell_stores_of_discoveries(self) -> None:
        """Let stores call whoever is new, now that there are routes."""
        discovered, self._discovered = self._discovered, []
        for endpoint in discovered:
            for store in list(self.stores.values()):
                self._drive(store, store.discovered, endpoint)

    @staticmethod
    def _drive(store: CommandReceiver, step: Callable[..., None], *arguments: object) -> None:
        """Have a store do something; an error that nothing expects ends that store alone."""
        try:
            step(*arguments)
        except Exception as error:
            store.fail(error)

    @property
    def holds(self) -> Holds:
        """Say which messages wait for a full place elsewhere."""
        return self.backpressure.holds

    # Frames.

    def receive(self, connection: Connection, frame: Frame) -> None:
        """Take in a frame that is no peer's message; raises ``RemoteProtocolError``."""
        owner = connection.owner
        if type(owner) is Peering:
            if type(frame) is ControlFrame:
                message = decode_control(frame.kind, frame.body)
                self._receive_control(owner, connection, message)
        else:
            assert isinstance(owner, Greeting)
            self.greeter.receive(owner, frame)

    def receive_node(self, connection: Connection, frame: NodeFrame) -> None:
        """Take in a peer's messages; raises ``RemoteProtocolError``."""
        assert connection.peer is not None, "asked for peers"
        if frame.kind == _COMMAND:
            connection.commands_received += frame.size
        else:
            connection.link.admit(frame.size)
        connection.messages_received += frame.count
        decide = self._plan
        plan = decide(connection.peer, frame)
        if plan is None:
            return
        if plan.deliveries:
            self._deliver(connection, plan, frame)
        for hop, selection in plan.onward:
            self.pass_on(connection, hop, frame, selection)

    def _deliver(self, connection: Connection, plan: Plan, frame: NodeFrame) -> None:
        head, payloads = plan.head, frame.payloads()
        for receiver, selection in plan.deliveries:
            if selection is None:
                numbers, some, size = frame.numbers, payloads, frame.size
            else:
                numbers = bytes(compress(frame.numbers, selection))
                some = list(compress(payloads, selection))
                size = sum(map(len, some)) + PAYLOAD_CHARGE * len(some)
            if type(receiver) is Mailbox:
                self.readers.note(receiver)
                if receiver.put(head.topics, head.raw, numbers, some, size, frame.is_forced):
                    sender = EndpointId(frame.sender)
                    self.backpressure.fill(receiver, connection, sender, frame.headers, numbers)
            else:
                hearer = cast("CommandReceiver", receiver)
                self._drive(hearer, hearer.receive, head.lead.header.sender, some)
                self._dirty[hearer] = None

    def deliver_here(self, way: Way, payload: bytes, skip: object) -> None:
        """Give what was published here to those of its subscribers that asked for it, but one."""
        size = len(payload) + PAYLOAD_CHARGE
        raw = b"" if way.kind is PackedType.BYTES else b"\0"
        for mailbox in cast("tuple[Mailbox, ...]", way.here):
            if mailbox is skip:
                continue
            self.readers.note(mailbox)
            mailbox.put((way.topic,), raw, b"", (payload,), size, False)  # noqa: FBT003 - as there
        self.readers.tell(more_follows=False)

    def pass_on(
        self, connection: Connection, hop: EndpointId, frame: NodeFrame, selection: Selection
    ) -> None:
        """Send the selected messages of a frame on to a peer, with one hop less to live."""
        peering = self.peerings.get(hop)
        if peering is None:
            return  # The core has not heard yet that it is gone.
        onward = peering.connection
        if selection is None:
            pieces, size, count = frame.forwarded(), frame.size, frame.count
            if size < VIEW_SIZE_MIN:
                pieces = [b"".join(pieces)]
        else:
            pieces, size = frame.part(selection)
            count = selection.count(1)
        if size > onward.frame_size_max:
            if count == 1 or frame.is_signed:
                topic = decode_header(EndpointId(frame.sender), frame.headers[0]).topic
                self.tell_too_large(hop, topic, count)
                return
            for half in halves(selection or b"\1" * count):
                self.pass_on(connection, hop, frame, half)
            return
        outgoing = Outgoing(pieces, size, count, size + PAYLOAD_CHARGE * count, own=False)
        if frame.kind == _COMMAND:
            onward.send_command(outgoing)
            return
        onward.send_data(outgoing, forced=frame.is_forced)
        if onward.link.is_crowded:
            numbers = frame.numbers
            if selection is not None:
                numbers = bytes(compress(numbers, selection))
            sender = EndpointId(frame.sender)
            self.backpressure.fill(onward.link.data, connection, sender, frame.headers, numbers)

    def tell_too_large(self, hop: EndpointId, topic: str, count: int = 1) -> None:
        """Messages were dropped on their way to a peer, which takes no frames so large."""
        size_max = self.peerings[hop].connection.frame_size_max
        reason = f"messages on {shorten(topic)} do not fit into the {size_max} bytes that it takes"
        self.core.too_large.note(hop, reason, count)

    def settle(self, connection: Connection) -> float:
        """Everything that had come was taken in: let stores answer, grant credit, tell readers."""
        if self._dirty:
            dirty, self._dirty = self._dirty, {}
            for store in dirty:
                self._drive(store, store.settle)
        rates, pause = connection.rates, 0.0
        if rates is not None and rates.is_due:
            spent = Spent(
                connection.bytes_received,
                connection.commands_received,
                connection.messages_received,
            )
            pause = rates.settle(trio.current_time(), connection.link, spent)
        if connection.link.received >= connection.link.due_at:
            grant(connection)
        if connection.peer is None:
            self.greeter.weigh(connection)
        is_read_on = connection.is_open and not pause
        self.readers.tell(is_read_on and connection.transport.has_more)
        return pause

    def rest(self) -> None:
        """Nothing more has come for now."""
        self.readers.tell(more_follows=False)

    def release(self, mailbox: Mailbox) -> None:
        """A mailbox has room again: its publishers go on."""
        self.backpressure.relieve(mailbox, has_room=not mailbox.is_holding)
        self.publication.make_room()

    def relieve(self, connection: Connection) -> None:
        """A link was written to: what waits for it may have room again."""
        data, publication = connection.link.data, self.publication
        if publication.on_room is not None and data.has_room:
            publication.on_room()
        self.backpressure.relieve(data, has_room=data.is_passable)

    # Control messages.

    def _receive_control(
        self, peering: Peering, connection: Connection, message: ControlMessage
    ) -> None:
        match message:
            case Credit(total):
                connection.link.grant(total)
                connection.wake()
            case Withheld():
                self.backpressure.hear_withheld(peering.peer, connection)
            case Hold():
                self.backpressure.hear(message)
            case Announcements(items):
                self._hear_news(connection, len(items))
                self.flight.hear(items)
                self.apply(self.core.receive_announcements(peering.peer, items))
            case Knowledge(vector):
                self._hear_news(connection, len(self.core.topology.announcements))
                self.apply(self.core.receive_knowledge(peering.peer, vector))
            case Ping(token, digest):
                self._hear_news(connection, 1)
                connection.answer(Pong(token, self.core.digest()), token)
                self.apply(self.core.receive_digest(peering.peer, digest))
            case Pong(token, _):
                event = peering.pongs.pop(token, None)
                if event is not None:
                    event.set()
            case DropConn(code, reason):
                self.part(peering, StatusCode.PEER_LOST, code, f"the peer ended it: {reason}")
            case _:
                raise RemoteProtocolError(
                    f"{type(message).__name__} after the handshake",
                    ErrorCode.UNEXPECTED_HANDSHAKE_MESSAGE,
                )

    @staticmethod
    def _hear_news(connection: Connection, count: int) -> None:
        """Count announcements that a peer has brought, or asked for."""
        if connection.rates is not None:
            connection.rates.hear_news(trio.current_time(), count)

    def apply(self, effects: Iterable[Effect]) -> None:
        """Carry out what the core decided."""
        for effect in effects:
            match effect:
                case SendControl(peer, message):
                    peering = self.peerings.get(peer)
                    if peering is not None:
                        self._tell(peering.connection, message)
                case EmitStatus(event):
                    self.emit(event)
                    self._tell_stores(event)
                case RoutesChanged():
                    self.publication.invalidate()
                    self.changed.unpark_all()
                case _:
                    self._apply_roles(effect)
        if self._discovered:
            self._tell_stores_of_discoveries()
        self.flight.announce(trio.current_time(), self.core.topology.announcements[self.core.local])

    def _apply_roles(self, effect: RightsChanged | DropPeer) -> None:
        match effect:
            case RightsChanged(topic, endpoint, before, now):
                store = self.stores.get(topic)
                if store is not None:
                    self._drive(store, store.rights_changed, endpoint, before, now)
            case DropPeer(peer, code, reason):
                unfit = self.peerings.get(peer)
                if unfit is not None:
                    self.part(unfit, StatusCode.PEER_REMOVED, code, reason)
            case _:
                assert_never(effect)

    @staticmethod
    def _tell(connection: Connection, message: PeerMessage) -> None:
        """Say news, the latest of each origin; and what else there is, the latest of its kind."""
        if isinstance(message, Announcements):
            for each in message.items:
                connection.say(Announcements((each,)), each.origin)
        else:
            connection.say(message)

    def emit(self, event: StatusEvent, level: int = logging.INFO) -> None:
        """Tell the status subscribers, the log, and the flight recorder."""
        event = self.core.names.add_to(event)
        if event.address is not None:
            event = replace(event, retry=self.retry_of(event.address))
        logger.log(level, "%s", event)
        self.note(event.status, event.reason, event.endpoint)
        self.status.push(event)

    def note(self, kind: str, text: str, about: EndpointId | None = None) -> None:
        """Record something that whoever looks for a mistake will want to know."""
        self.flight.note(trio.current_time(), kind, text, about)

    # Time.

    async def tick_forever(self) -> None:
        """Turn time into ticks."""
        count = 0
        while True:
            await trio.sleep(TICK_SECONDS)
            count += 1
            self.turn += 1
            if self._rates.are_limited:
                self._relax(trio.current_time())
            for store in list(self.stores.values()):
                self._drive(store, store.tick)
            if count % TICKS_PER_WATCH == 0:
                self.watch(trio.current_time())

    def watch(self, now: float) -> None:
        """Look after handshakes, peers and subscribers, once a second."""
        self.greeter.tick(now)
        self.apply(self.core.tick(now))
        for peering in list(self.peerings.values()):
            self._watch_peer(peering, now)
        may_hold = self.core.permissions.may_hold(self.core.local)
        for mailbox, trouble in self.readers.check(now, may_hold=may_hold):
            self._tell_trouble(mailbox, trouble)
        for holder, word in self.backpressure.tick(1.0):
            topics = [self._topic_of(header) for header in word.headers]
            self.emit(slow_holder_event(holder.endpoint, holder.label, topics))

    def _relax(self, now: float) -> None:
        """Grant credit again to peers whose rates are right again."""
        for peering in self.peerings.values():
            connection = peering.connection
            if connection.rates is not None:
                connection.rates.relax(now, connection.link)
                grant(connection)

    def _tell_trouble(self, mailbox: Mailbox, trouble: Trouble | None) -> None:
        """Tell that a subscriber is slow, or that it loses messages from now on."""
        if mailbox.release() or trouble is Trouble.LOSSY:
            self.release(mailbox)
        if trouble is not None:
            topics = self.topics_of(mailbox)
            is_lossy = trouble is Trouble.LOSSY
            self.emit(slow_reader_event(self.core.local, mailbox.label, topics, is_lossy=is_lossy))

    def _topic_of(self, header: bytes) -> str:
        return decode_header(self.core.local, header).topic

    def _watch_peer(self, peering: Peering, now: float) -> None:
        connection = peering.connection
        connection.link.data.may_hold = self.core.permissions.may_hold_for(peering.peer)
        for each in connection.link.tick(
            now,
            heard=connection.bytes_received,
            written=connection.bytes_sent,
            acknowledged=connection.acknowledged,
        ):
            self._observe(peering, each)

    def _observe(self, peering: Peering, seen: Observation) -> None:
        connection = peering.connection
        match seen:
            case PingDue():
                connection.say(Ping(self._next_ping(), self.core.digest()))
            case PeerSilent(seconds):
                reason = f"it was silent for {seconds:.0f} s"
                self.part(peering, StatusCode.PEER_LOST, ErrorCode.CONNECTION_TIMEOUT, reason)
            case PeerStalled(seconds):
                if connection.link.data.policy is OverflowPolicy.DISCONNECT:
                    reason = f"it has taken nothing for {seconds:.0f} s"
                    code = ErrorCode.OUTBOX_OVERFLOW
                    self.part(peering, StatusCode.PEER_REMOVED, code, reason)
                else:
                    connection.room.unpark_all()
                    self.relieve(connection)
            case SayWithheld():
                connection.say(Withheld())
            case HeldTooLong(places):
                for place in places:
                    place.become_lossy()
                    self.backpressure.relieve(cast("Place", place), has_room=True)
            case PeerSlow(is_withheld):
                self.emit(peer_slow_event(peering.peer, is_withheld=is_withheld))
            case PeerMoving():
                pass
            case _:
                assert_never(seen)

    def _next_ping(self) -> int:
        self._pings += 1
        return self._pings

    # The end.

    @trio.lowlevel.enable_ki_protection  # As the task that it belongs to.
    async def drain(self, peering: Peering) -> None:
        """Wait until the peer has taken in everything that was published before."""
        self.publication.cut()
        await self._ask(peering, peering.connection.send_last)

    async def confirm(self, peering: Peering) -> None:
        """Wait until the peer has the peering too: the originator has it half a round trip ago."""
        await self._ask(peering, lambda ping: peering.connection.say(ping, "asked", ping.token))

    async def _ask(self, peering: Peering, send: Callable[[Ping], None]) -> None:
        """Send a ping, and wait for the pong or the end of the peering."""
        if peering.connection.peer is None:
            return
        token = self._next_ping()
        event = peering.pongs[token] = trio.Event()
        send(Ping(token, self.core.digest()))
        try:
            await event.wait()
        finally:
            peering.pongs.pop(token, None)

    def part_all(self, code: ErrorCode, reason: str) -> None:
        """End all peerings and handshakes.

        They leave at once: whoever heard in between that we have some links left would route what
        we published before by those links, which it does not take.
        """
        leaving = list(self.peerings.values())
        self.peerings.clear()
        for peering in leaving:
            self.part(peering, StatusCode.PEER_REMOVED, code, reason)
        self.greeter.end(reason)

    def abort(self) -> None:
        """Break all connections without a word, as the death of the process would; for tests."""
        for connection in list(self._connections):
            connection.is_open = False
            connection.transport.close()

    async def quiet(self) -> None:
        """Wait until the last words of all connections are written, or are too late."""
        for connection in list(self._connections):
            await connection.ended.wait()

    def check_process(self) -> None:
        """Raise ``ForkedEndpoint`` in a child process, where nothing comes that can be awaited."""
        if self.publication.is_forked:
            raise forking.error()

    def forked(self) -> None:
        """Publish nothing, and serve no store: this is a child process."""
        self.is_open = False
        self.publication.close()
        self.publication.is_forked = True
        self.status.is_forked = True
        for store in self.stores.values():
            store.forked()

    def end(self) -> None:
        """Tell everybody who waits that nothing comes any more."""
        self.status.end()
        self.changed.unpark_all()
        self.readers.end()
