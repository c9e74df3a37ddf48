"""The edge broker: a default channel, a channel with two ports for each topic, and a registry.

It carries out what ``hall`` decides. One broker of a registry serves; others stand by, and take
over when its claim is gone.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from typing import Final

import trio

from endpoint.port_access import PortAccess
from endpoint.shielding import shielded
from handshake.rules import Rules
from net.acceptor import Arrival
from net.network import Network
from peermesh.brokers.edge.access import PORT
from peermesh.brokers.edge.guests import Guest, Sink
from peermesh.brokers.edge.hall import Consequence, Hall
from peermesh.brokers.edge.lifecycle import (
    ChannelMap,
    ClosePorts,
    OpenPorts,
    PortList,
    Ports,
)
from peermesh.brokers.edge.line import SILENCE_SECONDS, Line, make_network
from peermesh.brokers.edge.messages import Welcome
from peermesh.brokers.edge.opened import Opened
from peermesh.brokers.edge.options import Options
from peermesh.brokers.edge.reception import Badge, Reception
from peermesh.brokers.edge.registry import Registry
from peermesh.brokers.edge.reign import Reign
from peermesh.brokers.edge.relay import Send
from peermesh.brokers.edge.statistics import BrokerStatistics, ChannelStatistics
from peermesh.brokers.edge.subscription import RESUME_SECONDS
from peermesh.brokers.edge.tree import Address, Addresses
from wire.errors import AddressInUse
from wire.logs import logger_of

logger = logger_of("peermesh.brokers.edge")

LEAVE_SECONDS: Final = 5.0
"""How long the end waits for subscribers to take what they were sent: as long as for one that holds
up its topic. What they have not taken then, its publishers repeat to the next broker."""

TICK_SECONDS: Final = 0.2
"""How often channels are looked after: a fraction of every time that they are held to."""

CONNECTIONS_MAX: Final = 16_384
"""Clients at all ports together, as far as files allow. Beyond, they are refused."""

OPEN_AGAIN_SECONDS: Final = 0.5
"""The pause before other ports are tried, when the system gave none."""


class EdgeBroker(Opened):
    """A broker: ``async with EdgeBroker(registry) as broker``.

    It serves as long as the registry knows no other broker that does; ``await broker.active()``.
    """

    def __init__(
        self,
        registry: Registry,
        options: Options | None = None,
        *,
        network: Network | None = None,
        guard: PortAccess | None = None,
        may_be_known: bool = False,
    ) -> None:
        """Set up, doing nothing yet.

        Without a ``network`` that says otherwise the address has to be a loopback one. ``guard``
        has the roles; without one everything is permitted. ``may_be_known`` says that clients of an
        earlier broker may come although nothing of it is in the registry.
        """
        self.id: Final = uuid.uuid4().bytes
        self._registry = registry
        self._options = options or Options()
        self._address = self._options.address
        self._network = network or make_network()
        self._guard = guard or PortAccess(PORT, Rules(), None)
        self._may_be_known = may_be_known
        self._is_leaving = False
        self.reception = Reception(
            self._network,
            self._guard,
            PORT,
            members_max=CONNECTIONS_MAX,
            is_open=lambda: self.is_active and not self._is_leaving,
        )
        ports, idle_seconds = PortList(self._options.ports), self._options.idle_seconds
        self.hall = Hall(ChannelMap(self.id.hex(), ports, idle_seconds))
        self._sinks: dict[int, Sink] = {}
        self._rooms: dict[str, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None
        self._reign: Reign | None = None
        self._changed = trio.Event()
        self._progress = trio.lowlevel.ParkingLot()
        """Woken when messages were taken, and when a channel's ports are closed."""
        self.on_reign: list[Callable[[], object]] = []
        """Called when this broker begins to serve, with nothing of what was before."""

    # Life.

    async def _live(self) -> AsyncIterator[None]:
        """Listen, and claim the registry; at the end, take everything out of it."""
        async with trio.open_nursery() as outer:
            nursery = self._nursery = await outer.start(_shelter)
            try:
                ports = await self._listen(nursery, "", self._options.default_ports)
                addresses = Addresses.at(self._address, ports)
                self._reign = Reign(self._registry, self.id, addresses, self.hall.channels)
                nursery.start_soon(self._reign.run, self._begin, self._stand_by)
                nursery.start_soon(self._tick_forever)
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
            for guest in list(self.reception.visitors.values()):
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
        for heed in self.on_reign:
            heed()
        self._announce()

    async def _stand_by(self) -> None:
        logger.warning("another broker serves: this one stands by")
        for guest in list(self.reception.visitors.values()):
            guest.line.refuse("another broker serves now: look it up")
        for scope in list(self._rooms.values()):
            scope.cancel()
        self._announce()
        while self._rooms:
            await self._progress.park()

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
                case Send(number, what, principal):
                    if (sink := self._sinks.get(number)) is not None:
                        sink.send(what, principal)
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
                    bound = await self._listen(nursery, name, ports)
                except AddressInUse as error:
                    await self._try_others(name, error)
                    return
                assert self._reign is not None
                await self._reign.enter_topic(name, bound)
                self.hall.channels.opened(name, bound)
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

    # Connections.

    async def _listen(self, nursery: trio.Nursery, here: str, ports: Ports) -> Ports:
        """Listen at two ports, or at none; give what the system made of them."""
        bound: list[int] = []
        listening: list[list[trio.SocketListener]] = []
        for port in ports:
            try:
                listeners = await self._network.listen(self._address, port)
            except AddressInUse:
                for listener in chain(*listening):
                    listener.socket.close()
                raise
            bound.append(listeners[0].socket.getsockname()[1])
            listening.append(listeners)
        for listeners, is_publisher in zip(listening, (True, False), strict=True):
            receive = partial(self._receive, here, is_publisher=is_publisher)
            nursery.start_soon(self.reception.serve, listeners, receive, nursery)
        return bound[0], bound[1]

    @asynccontextmanager
    async def _receive(
        self, here: str, line: Line, badge: Badge, arrival: Arrival, *, is_publisher: bool
    ) -> AsyncIterator[Guest]:
        address = "null" if arrival.address is None else str(Address(*arrival.address))
        welcome = Welcome(self.id, address)
        guest = Guest(line, badge, self.hall, self.apply, welcome, here, is_publisher=is_publisher)
        topic = self.hall.channels.find(here) if is_publisher else None
        self._sinks[line.number] = guest
        if topic is not None:
            topic.publishers += 1
        try:
            yield guest
        finally:
            if topic is not None:
                topic.publishers -= 1
            del self._sinks[line.number]
            self.hall.lost(line.number)

    @property
    def is_active(self) -> bool:
        """Tell whether this broker serves, rather than stands by."""
        return self._reign is not None and self._reign.is_active

    # Numbers.

    def statistics(self) -> BrokerStatistics:
        """Count what there is."""
        return BrokerStatistics(
            is_active=self.is_active,
            connections=len(self.reception.visitors),
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
