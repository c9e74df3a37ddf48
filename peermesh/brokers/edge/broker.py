"""The edge broker: a default channel, a channel with two ports for each topic, and a registry.

It carries out what ``hall`` decides. One broker of a registry serves; others stand by, and take
over when its claim is gone.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import trio

from endpoint import arguments
from endpoint.port_access import PortAccess
from endpoint.shielding import shielded
from handshake.rules import Rules
from net.acceptor import Acceptor, Arrival
from net.network import Network
from peermesh.brokers.edge.access import PORT
from peermesh.brokers.edge.guests import Guest, Sink
from peermesh.brokers.edge.hall import Consequence, Hall
from peermesh.brokers.edge.lifecycle import (
    IDLE_SECONDS,
    ChannelMap,
    ClosePorts,
    OpenPorts,
    Ports,
    State,
    Topic,
)
from peermesh.brokers.edge.line import SILENCE_SECONDS, Line, make_network, open_budget
from peermesh.brokers.edge.messages import ControlMessage
from peermesh.brokers.edge.opened import Opened
from peermesh.brokers.edge.ports import ANY_PORT, PortList
from peermesh.brokers.edge.registry import Registry
from peermesh.brokers.edge.reign import Reign
from peermesh.brokers.edge.relay import Acknowledge, Disconnect, Send
from peermesh.brokers.edge.statistics import BrokerStatistics, ChannelStatistics
from peermesh.brokers.edge.subscription import RESUME_SECONDS
from peermesh.brokers.edge.tree import Address, Addresses
from wire.errors import AddressInUse, MeshError
from wire.framing import NodeFrame
from wire.logs import logger_of

logger = logger_of("peermesh.brokers.edge")

LEAVE_SECONDS: Final = 5.0
"""How long the end waits for subscribers to take what they were sent: as long as for one that holds
up its topic. What they have not taken then, its publishers repeat to the next broker."""

TICK_SECONDS: Final = 0.2
"""How often channels are looked after: a fraction of every time that they are held to."""

CONNECTIONS_MAX: Final = 16_384
"""Clients at all ports together, as far as files allow. Beyond, they are refused."""

ANY_PORTS: Final = (ANY_PORT, ANY_PORT)

OPEN_AGAIN_SECONDS: Final = 0.5
"""The pause before other ports are tried, when the system gave none."""


class EdgeBroker(Opened):
    """A broker: ``async with EdgeBroker(registry) as broker``.

    It serves as long as the registry knows no other broker that does; ``await broker.active()``.
    """

    def __init__(  # noqa: PLR0913 - keywords, one for each thing to say
        self,
        registry: Registry,
        *,
        address: str = "127.0.0.1",
        ports: Iterable[int] | None = None,
        default_ports: Ports = ANY_PORTS,
        idle_seconds: float = IDLE_SECONDS,
        network: Network | None = None,
        guard: PortAccess | None = None,
        may_be_known: bool = False,
    ) -> None:
        """Set up, doing nothing yet.

        ``ports`` is the list that topic channels take their two from; without one the system
        chooses. ``default_ports`` are those of the default channel. ``address`` is registered, and
        has to be one that clients can reach; without a ``network`` that says otherwise it is a
        loopback address. ``guard`` has the roles; without one everything is permitted.
        ``may_be_known`` says that clients of an earlier broker may come although nothing of it is
        in the registry.
        """
        self.id: Final = uuid.uuid4().bytes
        self._registry = registry
        self._address = arguments.host("address", address)
        if not isinstance(default_ports, (tuple, list)) or len(default_ports) != len(ANY_PORTS):
            raise TypeError(f"default_ports={default_ports!r:.80}: give two ports, (4040, 4041)")
        receiver, sender = (
            arguments.port("default_ports", port, least=ANY_PORT) for port in default_ports
        )
        self._default_ports = (receiver, sender)
        if ports is not None:
            ports = [arguments.port("ports", port) for port in ports]
        idle_seconds = arguments.seconds("idle_seconds", idle_seconds)
        self._network = network or make_network()
        self._guard = guard or PortAccess(PORT, Rules(), None)
        self._may_be_known = may_be_known
        self._acceptor = Acceptor(self._network, members_max=CONNECTIONS_MAX)
        self._unfinished = open_budget()
        self.hall = Hall(ChannelMap(self.id.hex(), PortList(ports), idle_seconds))
        self._sinks: dict[int, Sink] = {}
        self._guests: dict[int, Guest] = {}
        self._rooms: dict[str, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None
        self._reign: Reign | None = None
        self._is_leaving = False
        self._changed = trio.Event()
        self._progress = trio.lowlevel.ParkingLot()
        """Woken when messages were taken, and when a channel's ports are closed."""
        self.reigns = 0
        """How often this broker began to serve, with nothing of what was before."""

    # Life.

    async def _live(self) -> AsyncIterator[None]:
        """Listen, and claim the registry; at the end, take everything out of it."""
        async with trio.open_nursery() as outer:
            nursery = self._nursery = await outer.start(_shelter)
            try:
                addresses = await self._listen(nursery, "", self._default_ports)
                self._reign = Reign(
                    self._registry, self.id, addresses, self._open_topics, self._is_known
                )
                nursery.start_soon(self._reign.run, self._begin, self._stand_by)
                nursery.start_soon(self._tick_forever)
                self._guard.on_change.append(self._recheck)
                nursery.start_soon(self._guard.refresh_forever)
                try:
                    yield
                finally:
                    await self._leave(self._reign)
            finally:
                nursery.cancel_scope.cancel()

    async def _leave(self, reign: Reign) -> None:
        """Take no more, let subscribers have what was taken, and vanish from the registry."""
        self._is_leaving = True
        self.hall.leave()
        with shielded("subscribers to take what they were sent", LEAVE_SECONDS):
            while reign.is_active and not self.hall.is_taken:
                await self._progress.park()
            for guest in list(self._guests.values()):
                await guest.line.drain()  # Publishers need not repeat what they are told of.
        with shielded("the registry to forget a broker", SILENCE_SECONDS):
            await reign.end()

    async def active(self) -> None:
        """Wait until this broker serves, rather than stands by."""
        while not self.is_active:
            await self._changed.wait()

    def _begin(self, was_there: bool, known: list[tuple[str, bytes]]) -> None:  # noqa: FBT001 - as ``Begin`` says
        logger.info("this broker serves")
        is_held = was_there or self._may_be_known
        until = trio.current_time() + RESUME_SECONDS if is_held else None
        self.hall.begin(until, known)
        self.reigns += 1
        self._announce()

    async def _stand_by(self) -> None:
        logger.warning("another broker serves: this one stands by")
        for guest in list(self._guests.values()):
            guest.refuse("another broker serves now: look it up")
        for scope in list(self._rooms.values()):
            scope.cancel()
        self._announce()
        while self._rooms:
            await self._progress.park()

    def _recheck(self) -> None:
        for guest in list(self._guests.values()):
            guest.recheck()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _tick_forever(self) -> None:
        while True:
            await trio.sleep(TICK_SECONDS)
            self.apply(self.hall.tick(trio.current_time()))

    # Effects.

    def apply(self, effects: Sequence[Consequence]) -> None:
        """Carry out what the hall decided."""
        for effect in effects:
            match effect:
                case Send(number, data, principal):
                    if (sink := self._sinks.get(number)) is not None:
                        sink.send(data, principal)
                case Acknowledge(number, accepted):
                    if (sink := self._sinks.get(number)) is not None:
                        sink.acknowledge(accepted)
                case Disconnect(number, refused):
                    if (sink := self._sinks.get(number)) is not None:
                        sink.refuse(refused.reason)
                case OpenPorts(name, ports):
                    assert self._nursery is not None
                    self._nursery.start_soon(self._run_channel, name, ports)
                case ClosePorts(name):
                    self._rooms[name].cancel()
        self._progress.unpark_all()

    def add_sink(self, number: int, sink: Sink) -> None:
        """Let effects name somebody who is not a connection; for bridges."""
        self._sinks[number] = sink

    # Channels.

    async def _run_channel(self, name: str, ports: Ports) -> None:
        """A channel's own tasks: two ports, what comes by them, and its place in the registry."""
        with trio.CancelScope() as scope:
            self._rooms[name] = scope
            async with trio.open_nursery() as nursery:
                try:
                    addresses = await self._listen(nursery, name, ports)
                except AddressInUse as error:
                    await self._try_others(name, error)
                    return
                assert self._reign is not None
                await self._reign.enter_topic(name, addresses)
                self.hall.channels.opened(name, (addresses.receiver.port, addresses.sender.port))
                await trio.sleep_forever()
        await self._end_channel(name)

    async def _end_channel(self, name: str) -> None:
        assert self._reign is not None
        await self._reign.leave_topic(name)
        del self._rooms[name]
        self.apply(self.hall.channels.closed(name, for_good=not self.is_active))
        self._progress.unpark_all()

    async def _try_others(self, name: str, error: AddressInUse) -> None:
        logger.warning("topic %r gets no ports for now: %s", name, error)
        await trio.sleep(OPEN_AGAIN_SECONDS)
        self.apply(self.hall.channels.not_opened(name))

    def _open_topics(self) -> list[tuple[str, Addresses]]:
        return [
            (topic.channel.topic, self._addresses(topic.ports))
            for topic in self.hall.channels
            if topic.state is State.OPEN and topic.ports is not None
        ]

    def _is_known(self, name: str) -> bool:
        return self.hall.channels.find(name) is not None

    def _addresses(self, ports: Ports) -> Addresses:
        return Addresses(Address(self._address, ports[0]), Address(self._address, ports[1]))

    # Connections.

    async def _listen(self, nursery: trio.Nursery, here: str, ports: Ports) -> Addresses:
        bound: list[int] = []
        listening: list[tuple[list[trio.SocketListener], bool]] = []
        for port, is_receiver in zip(ports, (True, False), strict=True):
            try:
                listeners = await self._network.listen(self._address, port)
            except AddressInUse:
                for others, _ in listening:
                    for listener in others:
                        listener.socket.close()
                raise
            bound.append(listeners[0].socket.getsockname()[1])
            listening.append((listeners, is_receiver))
        for listeners, is_receiver in listening:
            handler = partial(self._accept, here, is_receiver=is_receiver)
            nursery.start_soon(self._acceptor.serve, listeners, handler, nursery.start_soon)
        return self._addresses((bound[0], bound[1]))

    async def _accept(self, here: str, arrival: Arrival, *, is_receiver: bool) -> None:
        if not self.is_active or self._is_leaving:
            return
        seen = arrival.address
        try:
            transport = await arrival.transport()
            principal = self._network.principal(transport)
            line = Line(transport, is_stranger=True, unfinished=self._unfinished)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, MeshError) as error:
            logger.info("a client at %s was refused: %s", seen, error)
            return
        self._guard.refresh()
        guest = Guest(self.hall, line, here, self.apply, self._guard.access, principal)
        address = str(Address(*seen)) if seen is not None else "null"
        topic = self.hall.channels.find(here)
        handle = partial(self._hear, guest, address, arrival, is_receiver=is_receiver)
        arrival.farewell = guest.refuse
        try:
            with self._present(guest, topic if is_receiver else None):
                await line.serve(handle)
        except Exception:
            logger.exception("a connection from %s failed; all others go on", seen)

    @contextlib.contextmanager
    def _present(self, guest: Guest, topic: Topic | None) -> Iterator[None]:
        number = guest.line.number
        self._guests[number] = self._sinks[number] = guest
        if topic is not None:
            topic.publishers += 1
        try:
            yield
        finally:
            if topic is not None:
                topic.publishers -= 1
            del self._guests[number], self._sinks[number]
            self.hall.lost(number)

    def _hear(
        self,
        guest: Guest,
        address: str,
        arrival: Arrival,
        message: NodeFrame | ControlMessage,
        *,
        is_receiver: bool,
    ) -> None:
        if not guest.client:
            guest.greet(message, self.id, address)
            arrival.prove()
        elif is_receiver:
            guest.from_publisher(message)
        else:
            guest.from_subscriber(message)

    @property
    def is_active(self) -> bool:
        """Tell whether this broker serves, rather than stands by."""
        return self._reign is not None and self._reign.is_active

    # Numbers.

    def statistics(self) -> BrokerStatistics:
        """Count what there is."""
        return BrokerStatistics(
            is_active=self.is_active,
            connections=len(self._guests),
            ports_free=self.hall.channels.ports.free,
            channels=tuple(ChannelStatistics.of(topic) for topic in self.hall.channels),
        )


async def _shelter(
    task_status: trio.TaskStatus[trio.Nursery] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Keep a nursery whose tasks go on while the broker leaves, although its block is cancelled."""
    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.shield = True
        task_status.started(nursery)
        await trio.sleep_forever()
