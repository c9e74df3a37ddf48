"""The QoS-2 broker: two ports, their connections, and what holds them up (seed: Message Broker)."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, assert_never

import trio

from endpoint import arguments
from endpoint.endpoint import Endpoint
from endpoint.port_access import PortAccess
from handshake.credentials import Credentials
from handshake.exposure import is_loopback
from handshake.keyfiles import RolesSource
from handshake.principals import Principal
from handshake.rules import Rules
from net.acceptor import Acceptor, Arrival, RestingStream
from net.network import Network
from peermesh.brokers.qos2.access import BEGIN, LOGIN, PORT, SUBSCRIBE, Rights
from peermesh.brokers.qos2.backlog import Backlog
from peermesh.brokers.qos2.consumer_session import ConsumerSession
from peermesh.brokers.qos2.conversation import Conversation, Work
from peermesh.brokers.qos2.counters import Counters
from peermesh.brokers.qos2.errors import Refused, TakenOver
from peermesh.brokers.qos2.letters import DeadLetters
from peermesh.brokers.qos2.limits import (
    CONNECTIONS_MAX,
    CONSUMER_PORT,
    PUBLISHER_PORT,
    STAKES,
    UNFINISHED_SIZE_MAX,
    Pace,
)
from peermesh.brokers.qos2.place import Place
from peermesh.brokers.qos2.publisher_session import PublisherSession
from peermesh.brokers.qos2.shelf import Shelf, open_shelf
from peermesh.brokers.qos2.steps import (
    Bury,
    Commit,
    Enter,
    Fetch,
    Open,
    Steps,
    Store,
)
from peermesh.brokers.qos2.supervision import supervise
from peermesh.brokers.qos2.topics import Topics
from peermesh.brokers.unfinished import Unfinished
from wire.errors import MeshError, PeerNotTrusted, PeerUnavailable
from wire.logs import logger_of

logger = logger_of(__name__)

KEEPALIVE_SECONDS: Final = 60
"""Silence after which the system asks whether a client's machine is still there."""

SWEEP_SECONDS_MIN: Final = 0.01
"""The shortest pause between looks for empty topics, whatever the pace."""

Tell = Callable[[], Steps]


@dataclass(frozen=True, slots=True)
class Ports:
    """Where clients connect. Port 0 lets the system choose."""

    host: str = "127.0.0.1"
    publishers: int = PUBLISHER_PORT
    consumers: int = CONSUMER_PORT
    allow_plain: bool = False
    """Whether plain text may be reached from other machines."""
    credentials: Credentials | None = None
    """For TLS, with clients that have some of the same authority. Without, loopback is plain, as
    telnet is, and other hosts use the endpoint's."""

    def __post_init__(self) -> None:
        """Check the arguments."""
        arguments.host("host", self.host)
        for name in ("publishers", "consumers"):
            object.__setattr__(self, name, arguments.port(name, getattr(self, name), least=0))


class QoS2Broker:
    """A running broker. Use ``open_broker``."""

    publisher_port: int
    """Where publishers connect."""
    consumer_port: int
    """Where consumers connect."""

    def __init__(self, shelf: Shelf, pace: Pace, guard: PortAccess) -> None:
        """Serve what is on the shelf, by the roles of ``guard``."""
        self.shelf = shelf
        self._guard = guard
        self._visits: set[_Visit] = set()
        self.counters = Counters()
        self.publisher_port = 0
        self.consumer_port = 0
        self._pace = pace
        self._consumers: dict[str, Conversation] = {}
        self._unfinished = Unfinished[Conversation](UNFINISHED_SIZE_MAX)

    def statistics(self) -> dict[str, int]:
        """Give what was counted, by name; see ``Counters``, and ``Shelf.usage``."""
        topics = len(self.shelf.topics())
        return {**self.counters.as_dict(), "topics": topics, **self.shelf.usage()}

    @property
    def letters(self) -> DeadLetters:
        """Its dead letters."""
        return DeadLetters(self.shelf)

    @property
    def topics(self) -> Topics:
        """Its topics."""
        return Topics(self.shelf)

    async def serve_publisher(
        self, stream: trio.abc.Stream, arrival: Arrival, principal: Principal
    ) -> None:
        """Talk with one publisher; it makes room for others while it is silent."""
        rights = self._rights(principal)
        session = PublisherSession(self._pace)
        stream = RestingStream(stream, arrival)
        self.counters.publishers += 1
        try:
            work = partial(self._store, session, arrival, rights)
            seconds = self._pace.send_seconds
            conversation = Conversation(stream, session, work, seconds, self._unfinished)
            await self._talk(conversation, arrival)
        finally:
            self.counters.publishers -= 1

    def _rights(self, principal: Principal) -> Rights:
        self._guard.refresh()
        return Rights(self._guard.access, principal)

    def recheck(self) -> None:
        """End the consumers whose subscriptions the roles no longer permit."""
        for visit in list(self._visits):
            visit.recheck()

    async def _store(
        self, session: PublisherSession, arrival: Arrival, rights: Rights, step: Work
    ) -> Tell:
        assert isinstance(step, Store)
        try:
            rights.check(BEGIN, *step.topics)
            arrival.prove()
            is_repeated = await self.shelf.store(step, rights.principal)
        except MeshError as error:
            self.counters.refused += 1
            return partial(session.refused, _reason(error))
        self.counters.repeated += is_repeated
        self.counters.published += not is_repeated
        return session.stored

    async def serve_consumer(
        self, stream: trio.abc.Stream, arrival: Arrival, principal: Principal
    ) -> None:
        """Talk with one consumer."""

        def admit(name: str, conversation: Conversation) -> None:
            arrival.prove()
            self._admit(name, conversation)

        session, rights = ConsumerSession(self._pace), self._rights(principal)
        visit = _Visit(self.shelf, self.counters, session, rights, admit)
        visit.conversation = Conversation(
            stream, visit.session, visit.perform, self._pace.send_seconds, self._unfinished
        )
        self._visits.add(visit)
        self.counters.consumers += 1
        try:
            await self._talk(visit.conversation, arrival)
        finally:
            self.counters.consumers -= 1
            self._visits.discard(visit)
            for name in [name for name, at in self._consumers.items() if at is visit.conversation]:
                del self._consumers[name]

    def _admit(self, name: str, conversation: Conversation) -> None:
        """Let a consumer in; an earlier connection under its name goes at once."""
        earlier = self._consumers.get(name)
        if earlier is not None:
            earlier.end("TAKEN OVER")
        self._consumers[name] = conversation

    async def sweep(self) -> None:
        """End topics that are empty and without use; for ever."""
        seconds = self._pace.empty_seconds
        while True:
            await trio.sleep(max(seconds / 4, SWEEP_SECONDS_MIN))
            read = {topic for visit in self._visits for topic in visit.session.topics}
            if self.shelf.place.voters and self.shelf.decides:
                await self.shelf.open_topics.resume_ends()
            for topic in self.shelf.open_topics.idle(seconds):
                if topic not in read:
                    await self.shelf.open_topics.end_if_empty(topic)

    def turned_away(self, *_: object) -> None:
        """Count a connection that had to make room."""
        self.counters.turned_away += 1

    async def _talk(self, conversation: Conversation, arrival: Arrival) -> None:
        arrival.farewell = lambda _reason: conversation.end("TOO MANY CONNECTIONS")
        await conversation.run()
        if conversation.closed_because is not None:
            self.counters.cut += 1
            logger.info("a connection was cut: %s", conversation.closed_because)


def _reason(error: MeshError) -> str:
    """Say to a client why not; what is wrong with disks and nodes is for the broker's own log."""
    if isinstance(error, Refused | TakenOver):
        return str(error)
    logger.warning("a client was told UNAVAILABLE: %s", error)
    return "UNAVAILABLE"


class _Visit:
    """One connection of a consumer, from its login on with a backlog."""

    conversation: Conversation

    def __init__(
        self,
        shelf: Shelf,
        counters: Counters,
        session: ConsumerSession,
        rights: Rights,
        admit: Callable[[str, Conversation], None],
    ) -> None:
        self.session = session
        self._shelf = shelf
        self._counters = counters
        self._rights = rights
        self._admit = admit
        self._backlog: Backlog | None = None

    async def perform(self, step: Work) -> Tell:
        """Do a step, and give what to tell the session."""
        try:
            return await self._do(step)
        except MeshError as error:
            is_lost = isinstance(step, Commit | Bury | Fetch)
            tell = self.session.lost if is_lost else self.session.refused
            return partial(tell, _reason(error))

    def recheck(self) -> None:
        """End the connection if its login, or a topic, is no longer permitted."""
        if self.session.name is None:
            return
        try:
            self._rights.check(LOGIN, self.session.name)
            self._rights.check(SUBSCRIBE, *self.session.topics)
        except Refused as error:
            self.conversation.end(str(error))

    async def _do(self, step: Work) -> Tell:
        match step:
            case Enter(login):
                self._rights.check(LOGIN, login.name)
                if not await self._shelf.owns(login.name, self._rights.principal):
                    raise self._rights.refusal(LOGIN, login.name)
                token = uuid.uuid4().bytes
                await self._shelf.enter(login.name, token)
                self._backlog = Backlog(
                    self._shelf, self._counters, login.name, token, self._rights.principal
                )
                self._admit(login.name, self.conversation)
                return self.session.entered
            case Store():
                raise AssertionError("consumers publish nothing")
            case _:
                assert self._backlog is not None
                return await self._with(self._backlog, step)

    async def _with(self, backlog: Backlog, step: Open | Fetch | Commit | Bury) -> Tell:
        match step:
            case Open(topic):
                self._rights.check(SUBSCRIBE, topic)
                await backlog.open(topic)
                self._rights.check(SUBSCRIBE, topic)  # the roles may have changed meanwhile
                return self.session.opened
            case Fetch(number, topics):
                delivery = await backlog.next(topics)
                return partial(self.session.fetched, number, delivery)
            case Commit(delivery):
                await backlog.commit(delivery)
                return self.session.committed
            case Bury():
                await backlog.bury(step)
                return self.session.buried
            case _:
                assert_never(step)


class _Port:
    """Accepts connections, and keeps each one's failures from the others."""

    def __init__(
        self,
        host: str,
        acceptor: Acceptor,
        serve: Callable[[trio.abc.Stream, Arrival, Principal], Awaitable[None]],
        counters: Counters,
    ) -> None:
        self.listeners: list[trio.SocketListener] = []
        self._host = host
        self._acceptor = acceptor
        self._serve = serve
        self._counters = counters

    async def listen(self, port: int) -> int:
        """Open the port, and give its number; raises ``AddressInUse``."""
        self.listeners = await self._acceptor.network.listen(self._host, port)
        number: int = self.listeners[0].socket.getsockname()[1]
        return number

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        for listener in self.listeners:
            listener.socket.close()

    async def accept(self, connections: trio.Nursery, port: int) -> None:
        """Accept for ever. What ended an earlier attempt has closed the port; connections stay."""
        if any(listener.socket.fileno() < 0 for listener in self.listeners):
            await self.listen(port)
        await self._acceptor.serve(self.listeners, self._handle, connections.start_soon)

    async def _handle(self, arrival: Arrival) -> None:
        try:
            arrival.keep_alive(KEEPALIVE_SECONDS)
            stream = await arrival.secure()
            await self._serve(stream, arrival, self._acceptor.network.principal(stream))
        except (PeerNotTrusted, PeerUnavailable) as error:
            self._counters.not_trusted += 1
            logger.info("a client was refused: %s", error)
        except (OSError, trio.BrokenResourceError):
            pass  # It was gone before it said anything.
        except Exception:
            self._counters.failed += 1
            logger.exception("a connection failed")


def _make_network(ports: Ports, endpoint: Endpoint) -> Network:
    """Decide how the ports are protected; raises ``InsecureAddress``."""
    credentials = ports.credentials
    if credentials is None and not (ports.allow_plain or is_loopback(ports.host)):
        credentials = endpoint.credentials
    network = Network(
        credentials,
        allow_plain=ports.allow_plain,
        stakes=STAKES,
    )
    network.check(ports.host)
    return network


@asynccontextmanager
async def open_broker(
    endpoint: Endpoint,
    place: Place | None = None,
    ports: Ports | None = None,
    pace: Pace | None = None,
    roles: RolesSource | None = None,
) -> AsyncIterator[QoS2Broker]:
    """Run a broker on an endpoint, until the end of the block.

    ``roles`` say what clients may do, by the names in their certificates; without, those of the
    endpoint.
    Raises ``InsecureAddress``, ``AddressInUse`` and whatever the stores raise.
    """
    ports = ports or Ports()
    network = _make_network(ports, endpoint)
    async with open_shelf(endpoint, place or Place()) as shelf:
        guard = PortAccess(PORT, Rules(roles), endpoint.loop)
        broker = QoS2Broker(shelf, pace or Pace(), guard)
        guard.on_change.append(broker.recheck)
        acceptor = Acceptor(network, members_max=CONNECTIONS_MAX, on_crowded=broker.turned_away)
        publishers = _Port(ports.host, acceptor, broker.serve_publisher, broker.counters)
        consumers = _Port(ports.host, acceptor, broker.serve_consumer, broker.counters)
        async with publishers, consumers:
            broker.publisher_port = await publishers.listen(ports.publishers)
            broker.consumer_port = await consumers.listen(ports.consumers)
            # Connections live in this nursery, so that who accepts them may fall without them.
            async with trio.open_nursery() as connections:
                parts: dict[str, Callable[[], Awaitable[object]]] = {
                    "publisher server": partial(
                        publishers.accept, connections, broker.publisher_port
                    ),
                    "consumer server": partial(consumers.accept, connections, broker.consumer_port),
                }
                parts["keeper of topics"] = shelf.follow
                if not shelf.place.is_follower:
                    parts["sweeper of empty topics"] = broker.sweep
                connections.start_soon(guard.refresh_forever)
                for name, part in parts.items():
                    connections.start_soon(supervise, name, part)
                try:
                    yield broker
                finally:
                    connections.cancel_scope.cancel()
