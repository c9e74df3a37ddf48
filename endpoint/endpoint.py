"""The endpoint: the one object that a user of the mesh holds, in trio (seed 7.1)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar, Unpack, overload

import trio

from endpoint import arguments
from endpoint.admin.service import AdminService
from endpoint.arguments import NodeId
from endpoint.barriers import Barrier, Callback, Seconds, barrier, wait_or_tell
from endpoint.bound import Bound
from endpoint.dialer import Dialer
from endpoint.link.connection import LAST_WORDS_SECONDS
from endpoint.link.greeting import Greeting
from endpoint.link.peering import Peering
from endpoint.loop import EndpointLoop
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.naming import program_name
from endpoint.mesh.proving import Proving, make_signer
from endpoint.mesh.status import StatusCode, StatusEvent, credentials_event, rules_event
from endpoint.outcome import Outcome
from endpoint.pubsub.mailbox import Mailbox
from endpoint.pubsub.messages import Reader
from endpoint.pubsub.options import AS_SET, AsSet, QueueOptions, make_mailbox
from endpoint.pubsub.publisher import Publisher
from endpoint.pubsub.stream import StatusSubscriber
from endpoint.pubsub.subscriber import Subscriber
from endpoint.replicas.attaching import (
    ANSWER_SECONDS,
    BUFFER_SECONDS,
    PATIENCE_SECONDS,
    STALE_SECONDS,
    Attaching,
    Backend,
    backend_of,
    declared_voters,
    first_use,
    topics_of,
)
from endpoint.settings import Settings, authorise
from endpoint.shielding import shielded
from endpoint.statistics import DialInfo, EndpointStatistics, PeerInfo
from endpoint.surroundings import surroundings
from endpoint.tasks import FINISH_SECONDS
from handshake.credentials import Credentials
from handshake.keyfiles import RolesSource
from handshake.rules import Rules
from handshake.ticket import JoinTicket
from net import forking
from net.acceptor import MEMBERS_SHARE, Acceptor, Arrival
from net.network import REFRESH_SECONDS, Network, files_max
from net.transport import Transport
from wire.addresses import join_address, split_address
from wire.errors import (
    CredentialsError,
    EndpointClosed,
    ErrorCode,
    MeshError,
    PeerUnavailable,
)
from wire.identifiers import EndpointId
from wire.logs import logger_of
from wire.public import public
from wire.topics import (
    CLONE_SUFFIX,
    FOLLOWER_SUFFIX,
    GROUP_SUFFIX,
    KEEPER_SUFFIX,
    LOG_GROUP_SUFFIX,
    MASTER_SUFFIX,
    check_topic,
)
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.inspection import Snapshot
    from endpoint.replicas.logs.attachments import LogAttachments
    from endpoint.replicas.logs.log import Log, ReplicaLog
    from endpoint.replicas.stores.attachments import StoreAttachments
    from endpoint.replicas.stores.store import ReplicaStore, Store
    from endpoint.replicas.stores.store_proxy import StoreProxy

logger = logger_of("peermesh.endpoint")

ReaderT = TypeVar("ReaderT", bound=Reader)

AWAIT_PEER_SECONDS: Final = 10.0
"""Broker's own default for ``await_peer``."""

AWAIT_SUBSCRIBED_SECONDS: Final = 10.0
"""As long as a peer is waited for: an announcement takes the same way."""

PEER_SECONDS: Final = 10.0
"""How long ``peer`` waits by default. Attempts go on after it."""

RETRY_SECONDS: Final = 10.0
"""The longest pause between two attempts to peer: Broker's own retry interval."""

GRACE_SECONDS: Final = 3.0
"""How long the end of a peering waits for what was published before: Broker's own."""

INTERVAL_SECONDS_MAX: Final = 1e9
"""The longest interval that is counted, 31 years: for ever, to a mesh."""

_HERE: Final = "this endpoint"
"""What goes by the roles of the mesh, in events."""

NAMES_MAX: Final = 8
"""Endpoints that a sentence names before it says "and so on": a mesh may have ten thousand."""


@public
class Endpoint(Bound):
    """One participant of the mesh: ``async with Endpoint() as endpoint``.

    It listens, peers with others, publishes, subscribes, and holds stores. Leaving the block does
    what ``shutdown`` does, in about ``GRACE_SECONDS`` and one more at most, and up to
    ``FINISH_SECONDS`` longer if a disk does not answer: this also holds within a time limit of
    less. Until then it works, even when the block is cancelled: what is
    shielded can use it to put things in order. A second Ctrl-C leaves at once.
    """

    def __init__(
        self,
        *,
        credentials: Credentials | None = None,
        settings_file: str | os.PathLike[str] | None = None,
        endpoint_id: EndpointId | None = None,
        roles: RolesSource | None = None,
        **settings: object,
    ) -> None:
        """Set up with settings.

        ``credentials`` turn TLS on, as ``secret`` and other settings do. ``roles`` (a TOML file, or
        the same as dicts) say what each certificate's name may do; without them everybody who is in
        may do everything. The file is read again when it changes. Keyword arguments are the fields
        of ``Settings``, and go before ``PEERMESH_*`` variables, which go before ``settings_file``
        (TOML). ``endpoint_id`` is random unless a test wants a certain one: no two endpoints may
        ever share an id. Raises ``SettingsError``, ``RolesError`` and ``CredentialsError``.
        """
        if credentials is not None and not isinstance(credentials, Credentials):
            raise TypeError(
                f"credentials={credentials!r}: give Credentials.from_secret(...) or"
                " Credentials.from_files(...)"
            )
        if endpoint_id is not None:
            endpoint_id = arguments.endpoint_id("endpoint_id", endpoint_id)
        file = Path(settings_file) if settings_file is not None else None
        self.settings = Settings.load(settings, os.environ, file)
        self._around = around = surroundings.get()
        if credentials is None:
            credentials = self.settings.credentials()
        seed = around.new_seed if self.settings.sign else None
        signer = make_signer(seed, credentials, endpoint_id)
        self._proving = Proving(credentials, around.now_ns, signer)
        self._id = endpoint_id or (around.new_id() if signer is None else signer.endpoint_id)
        self._rules = Rules(roles or self.settings.roles or None)
        self._core = EndpointCore(
            self._id,
            forwarding=self.settings.forwarding,
            label=self.settings.name or program_name(around.program()),
            authorisation=authorise(self._rules.roles, credentials, self.settings),
            proof=self._proving,
            endpoints_max=self.settings.endpoints_max,
            subscriptions_max=self.settings.subscriptions_max,
        )
        self.names: Final = self._core.names
        self.loop = EndpointLoop(
            self._core,
            self.settings,
            # A clock in ns always runs ahead of the number of messages sent before a restart.
            first_sequence=around.now_ns(),
            sign=None if signer is None else signer.sign,
        )
        self.loop.refresh_rules = self._refresh_rules
        self.loop.retry_of = self._retry_of
        self.admin: Final = AdminService(
            self.loop,
            around.new_seed(),
            lambda: self.describe().to_dict(),
            is_answering=self.settings.admin,
        )
        self._store_attachments: StoreAttachments | None = None
        self._log_attachments: LogAttachments | None = None
        self._network = Network(
            credentials,
            allow_plain=self.settings.allow_plain,
            open_stream=around.open_tcp_stream,
            open_listeners=around.open_tcp_listeners,
            make_transport=around.make_transport,
            on_refresh=self._on_refresh,
        )
        self._nursery: trio.Nursery | None = None
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._addresses: dict[trio.CancelScope, str] = {}
        """Where this endpoint listens, by the scope that ends it."""
        self._dialers: dict[tuple[str, int], Dialer] = {}
        self._acceptor = Acceptor(
            self._network,
            newcomers_max=self.settings.handshakes_max,
            on_crowded=self._on_crowded,
        )
        self._ended = trio.Event()
        self._began = 0.0
        self.host_lag: Callable[[], float] | None = None
        """Tells how long the loop was late that trio is a guest of; for a front end."""
        self.publish: Final = self.loop.publication.publish

    def _on_refresh(self, error: CredentialsError | None) -> None:
        if error is None:
            try:
                self._go_by(self._network.credentials)
            except CredentialsError as unfit:
                error = unfit
        self.loop.emit(credentials_event(error))

    def _go_by(self, credentials: Credentials | None) -> None:
        """Announce what these credentials prove."""
        self._proving.renew(credentials)
        self.loop.apply(self._core.rename(None if credentials is None else credentials.name))

    def _refresh_rules(self) -> None:
        """Go by the roles of a file that has changed, if it can be used; tell of either."""
        try:
            is_changed = self._rules.refresh()
        except CredentialsError as error:
            self.loop.emit(rules_event(error, _HERE))
            return
        if is_changed:
            self.loop.apply(self._core.set_roles(self._rules.roles))
            self.loop.emit(rules_event(None, _HERE))

    async def _refresh_rules_forever(self) -> None:
        while True:
            await trio.sleep(REFRESH_SECONDS)
            self._refresh_rules()

    # Life.

    async def __aenter__(self) -> Self:
        """Start the endpoint's tasks; raises ``EndpointClosed`` the second time.

        Raises ``RuntimeError`` where no task of trio runs it.
        """
        if not trio.lowlevel.in_trio_task():
            raise RuntimeError(
                "peermesh.Endpoint runs in a task of trio: take peermesh.aio.Endpoint for asyncio,"
                " or peermesh.blocking.Endpoint for plain calls"
            )
        if self._manager is not None:
            raise EndpointClosed("an endpoint lives once, in one block: make a new one")
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        self.loop.tasks.begin(self._nursery)
        self.loop.is_open = self.loop.publication.is_open = True
        self._began = trio.current_time()
        forking.tell(self)
        self.loop.start_task(self.loop.tick_forever)
        self.loop.start_task(self.loop.publication.flush_forever)
        if self._network.is_refreshable:
            self.loop.start_task(self._network.refresh_forever)
        if self._rules.is_refreshable:
            self.loop.start_task(self._refresh_rules_forever)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Shut down, and leave no task behind."""
        assert self._nursery is not None
        assert self._manager is not None
        try:
            await self.shutdown()
        finally:
            self.loop.tasks.end()
            self._nursery.cancel_scope.cancel()
            try:
                suppressed = await self._manager.__aexit__(kind, value, traceback)
            except BaseExceptionGroup as group:
                if group.exceptions != (value,):
                    raise
                suppressed = False  # The body's own error goes on as itself.
        return suppressed

    async def shutdown(self, grace: Seconds = GRACE_SECONDS) -> None:
        """End: no new peers, then the stores, then all that was published leaves.

        Waits for ``grace`` seconds at most for stores and peers that do not answer, and for some
        seconds more for a disk in the middle of a write. May be called twice, and does nothing in a
        child process. In threads what was published goes ahead, for as long at most. There each
        call waits for the end, and Ctrl-C ends the waiting: the endpoint ends on its own.
        """
        grace = arguments.seconds("grace", grace, default=GRACE_SECONDS)
        if self.loop.publication.is_forked:
            return  # What is there is the parent's.
        if self.loop.is_open:
            self.loop.is_open = False
            # In a task of the endpoint: whatever becomes of the caller, it comes to its end. Only
            # an interrupt, which no shield keeps away, leaves everything at once.
            self.loop.start_task(self._leave, grace)
        if self._nursery is not None:
            with shielded("the endpoint to leave", 2 * (grace + FINISH_SECONDS)):
                await self._ended.wait()

    async def _leave(self, grace: float) -> None:
        try:
            await self._part_in_order(grace)
        finally:
            self.loop.end()
            self._ended.set()

    async def _part_in_order(self, grace: float) -> None:
        """Let go of listeners, stores and peers: within ``grace`` seconds if disks answer."""
        for scope in list(self._addresses):
            scope.cancel()
        for dialer in list(self._dialers.values()):
            dialer.stop()
        deadline = trio.current_time() + grace
        async with trio.open_nursery() as nursery:
            for topic in list(self.loop.stores):
                nursery.start_soon(self._close_store, topic, grace / 2, deadline)
        # What a slow disk has taken of the time is not at the expense of what was published.
        with trio.CancelScope(deadline=max(deadline, trio.current_time() + grace / 2)):
            async with trio.open_nursery() as nursery:
                for peering in self.loop.peerings.values():
                    nursery.start_soon(self.loop.drain, peering)
        self.loop.publication.close()
        self.loop.part_all(ErrorCode.SHUTTING_DOWN, "the endpoint shuts down")
        with trio.move_on_after(2 * LAST_WORDS_SECONDS):
            await self.loop.quiet()
        with trio.move_on_after(FINISH_SECONDS):
            await self.loop.tasks.all_finished()

    @trio.lowlevel.enable_ki_protection  # As the task that it belongs to.
    async def _close_store(self, topic: str, grace: float, deadline: float) -> None:
        try:
            await self.loop.close_store(topic, grace, deadline)
        except Exception:
            logger.exception("a store could not be closed; all else is left in order")

    def _part(self, peering: Peering, reason: str, code: ErrorCode = ErrorCode.NONE) -> None:
        self.loop.part(peering, StatusCode.PEER_REMOVED, code, reason)

    def _start(self, function: Callable[..., object], *arguments: object) -> None:
        self._check_open()
        self.loop.start_task(function, *arguments)

    def forked(self) -> None:
        """Refuse what is asked from now on: this is a child process; see ``net.forking``."""
        self.loop.forked()

    def _check_open(self) -> None:
        self.loop.check_process()
        if not self.loop.is_open:
            raise self.loop.publication.closed()

    # Who and where.

    @property
    def credentials(self) -> Credentials | None:
        """Give the credentials in force, for front ends that go with this endpoint."""
        return self._network.credentials

    def node_id(self) -> EndpointId:
        """Give the endpoint's id, which no other endpoint ever has."""
        return self._id

    def name_of(self, node_id: NodeId) -> str:
        """Give how an endpoint is called here, for people to read; its id if it has no name.

        That is what its certificate of an own authority calls it, with a ``*`` after it; or else
        what it calls itself, which nothing proves. Two of one name are told apart by the first
        digits of their ids, as in ``store-a~3f2a``. No right may depend on it.
        """
        return self.names.short(arguments.endpoint_id("node_id", node_id))

    def __repr__(self) -> str:
        """Show name and id, where it listens, and how many peers it has."""
        where = ", ".join(self._addresses.values())
        state = f"listening {where}" if where else "open" if self.loop.is_open else "not open"
        return f"<Endpoint {self.names.full(self._id)} {state} peers={len(self.loop.peerings)}>"

    async def listen(self, address: str = "127.0.0.1", port: int | str = 0) -> int:
        """Accept peers at this address; give the port, which 0 lets the system choose.

        Raises ``AddressInvalid`` for a host that is none of this machine, ``AddressInUse``,
        ``LimitExceeded`` when the process may open no more files, and ``InsecureAddress`` beyond
        loopback without credentials.
        """
        address = arguments.host("address", address)
        port = arguments.port("port", port, least=0)
        self._check_open()
        listeners = await self._network.listen(address, port)
        if not self.loop.is_open:
            for listener in listeners:
                listener.socket.close()
        self._start(self._listen, listeners, scope := trio.CancelScope())
        bound: int = listeners[0].socket.getsockname()[1]
        self._addresses[scope] = join_address(address, bound)
        return bound

    async def _listen(self, listeners: list[trio.SocketListener], scope: trio.CancelScope) -> None:
        with scope:
            await self._acceptor.serve(listeners, self._receive, self.loop.start_task)
        self._addresses.pop(scope, None)

    async def _receive(self, arrival: Arrival) -> None:
        peers_max = min(self.settings.connections_max, files_max() // MEMBERS_SHARE)
        if len(self.loop.peerings) >= peers_max or not self.loop.is_open:
            return
        try:
            transport = await arrival.transport()
        except (MeshError, OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
            self.loop.refused(arrival.address, error)
            return
        self._refresh_rules()
        if not self.loop.is_open:
            transport.close()
            return
        await self.loop.serve(transport, arrival)

    def _on_crowded(self, arrival: Arrival, reason: str) -> None:
        if arrival.farewell is None:  # Others are refused by our own handshake, which tells it.
            self.loop.refused(arrival.address, PeerUnavailable(reason))

    async def peer(
        self,
        address: str,
        port: int | str | None = None,
        retry: Seconds = RETRY_SECONDS,
        timeout: Seconds = PEER_SECONDS,
    ) -> Outcome:
        """Peer with the endpoint that listens there; true once messages can flow both ways.

        ``address`` is a host; or without a port, ``"HOST:PORT"`` or a join ticket (``peermesh
        ticket new``). A ticket holds address, port and secret: it lets an endpoint in that has no
        credentials, and has neither listened nor peered before.

        False after ``timeout`` seconds, with the reason of the last attempt; attempts go on, and
        the peering is renewed whenever it is lost, until ``unpeer``. ``retry`` is the longest pause
        between attempts in seconds; 0 makes one attempt, and renews nothing.
        """
        address, number, ticket = _address_of(address, port)
        retry = arguments.seconds("retry", retry, default=RETRY_SECONDS)
        timeout = arguments.seconds("timeout", timeout)
        self._check_open()
        if ticket is not None:
            self._network.adopt(ticket.secret)
            self._go_by(self._network.credentials)
        self._network.check(address)
        key = (address, number)
        dialer = self._dialers.get(key)
        if dialer is not None and (peer := dialer.peer) in self.loop.peerings:
            who = self.names.full(peer)
            return Outcome(reached=True, reason=f"peered with {who} already")
        if dialer is None or dialer.first is not None:
            dialer = self._renew(dialer, key, retry)
        with trio.move_on_after(timeout):
            await dialer.settled.wait()
        # An outcome that is false is one, too.
        return dialer.give_up(timeout) if dialer.first is None else dialer.first

    def _renew(self, dialer: Dialer | None, key: tuple[str, int], retry: float) -> Dialer:
        if dialer is not None:
            dialer.stop()
        connect = partial(self._connect, *key)
        dialer = Dialer(self.loop, connect, key, retry=retry, chance=self._around.chance)
        self._dialers[key] = dialer
        self._start(self._dial, dialer)
        return dialer

    async def _connect(self, address: str, port: int) -> Transport:
        transport = await self._network.connect(address, port)
        self._refresh_rules()
        return transport

    async def _dial(self, dialer: Dialer) -> None:
        try:
            await dialer.run(self._run)
        finally:
            if self._dialers.get(dialer.address) is dialer:
                del self._dialers[dialer.address]

    def _run(self, greeting: Greeting) -> None:
        self.loop.start_task(self.loop.run, greeting)

    async def unpeer(self, address: str, port: int | str | None = None) -> Outcome:
        """End the peering with that address; what was published before still arrives.

        The address is the one given to ``peer``, or that of an inbound peer as ``peers`` shows it.
        """
        address, number, _ = _address_of(address, port)
        self._check_open()
        key = (address, number)
        dialer = self._dialers.get(key)
        peering = self._find(key, dialer)
        if dialer is not None:
            dialer.stop()
            del self._dialers[key]
        if peering is None and dialer is None:
            reason = f"cannot unpeer from {join_address(*key)}: it is no peer; see peers()"
            event = StatusEvent(
                StatusCode.CANNOT_REMOVE_PEER, None, key, ErrorCode.PEER_INVALID, reason
            )
            self.loop.emit(event)
            return Outcome(reached=False, reason=reason)
        if peering is not None:
            with trio.move_on_after(GRACE_SECONDS):
                await self.loop.drain(peering)
            self._part(peering, "unpeered")
        return Outcome(reached=True, reason=f"no longer peered with {join_address(*key)}")

    def _find(self, key: tuple[str, int], dialer: Dialer | None) -> Peering | None:
        if dialer is not None and dialer.peer is not None:
            return self.loop.peerings.get(dialer.peer)
        for peering in self.loop.peerings.values():
            if peering.connection.address == key:
                return peering
        return None

    def _retry_of(self, address: tuple[str, int]) -> float | None:
        dialer = self._dialers.get(address)
        return None if dialer is None else dialer.retry

    def dialled(self) -> list[DialInfo]:
        """List the addresses that ``peer`` named and that are dialled still, or again, sorted."""
        peerings = self.loop.peerings
        peered = {peering.connection.address for peering in peerings.values()}
        return [
            dialer.info()
            for address, dialer in sorted(self._dialers.items())
            # One that was dialled by both has the address that it dialled from.
            if address not in peered and dialer.peer not in peerings
        ]

    def peers(self) -> list[PeerInfo]:
        """List the peers, in the order of their ids, with what flows to and from them."""
        return [
            PeerInfo(
                node_id=peer,
                name=self.names.short(peer),
                address=peering.connection.address,
                certificate_name=peering.connection.certificate_name,
                is_outbound=peering.connection.dialled,
                messages_received=peering.connection.messages_received,
                bytes_received=peering.connection.bytes_received,
                bytes_sent=peering.connection.bytes_sent,
                outbox=peering.connection.link.statistics(),
            )
            for peer, peering in sorted(self.loop.peerings.items())
        ]

    @overload
    async def await_peer(
        self, node_id: NodeId, timeout: Seconds = AWAIT_PEER_SECONDS
    ) -> Outcome: ...

    @overload
    async def await_peer(
        self, node_id: NodeId, callback: Callback, timeout: Seconds = AWAIT_PEER_SECONDS
    ) -> None: ...

    async def await_peer(
        self,
        node_id: NodeId,
        *positional: Seconds | Callback,
        timeout: Seconds = AWAIT_PEER_SECONDS,
        callback: Callback | None = None,
    ) -> Outcome | None:
        """Wait until there is a path to an endpoint; false after ``timeout`` seconds.

        True over any number of hops. The reason says what is missing, also when the endpoint
        closes. It says nothing of the other direction, nor of subscriptions that the other endpoint
        makes later: see ``await_subscribed``. With a ``callback``, in the place of the timeout or
        before it, it returns ``None`` at once, and the callback is given the outcome later.
        """
        wanted = arguments.endpoint_id("node_id", node_id)
        how = barrier("await_peer", positional, timeout, callback, AWAIT_PEER_SECONDS)
        self._check_open()
        return await self._wait(how, self._await_peer, wanted)

    async def _wait(
        self, how: Barrier, function: Callable[..., Awaitable[Outcome]], *values: object
    ) -> Outcome | None:
        """Wait for a barrier; or have its callback told later."""
        call = self.loop.callbacks.call
        return await wait_or_tell(how, partial(function, *values), self._start, call)

    async def _await_peer(self, node_id: EndpointId, timeout: float) -> Outcome:
        with trio.move_on_after(timeout):
            while not self._core.reach.includes(node_id) and self.loop.is_open:
                await self.loop.changed.park()
        if self._core.reach.includes(node_id):
            return Outcome(
                reached=True, reason=f"endpoint {self.names.full(node_id)} is known here"
            )
        if not self.loop.is_open:
            return Outcome(reached=False, reason="the endpoint was shut down")
        reason = self._core.names.explain_absence(node_id, self._core.reach)
        self.loop.note("barrier", f"await_peer gave up after {timeout} s: {reason}", node_id)
        return Outcome(reached=False, reason=reason)

    async def await_subscribed(
        self, topic: str, count: int = 1, timeout: Seconds = AWAIT_SUBSCRIBED_SECONDS
    ) -> Outcome:
        """Wait until so many other endpoints known here subscribe to a topic.

        What is published on it from then on goes to them. False after ``timeout`` seconds, and
        the reason names those that do. ``count`` is 1 or more.
        """
        topic = check_topic(topic)
        count = arguments.count("count", count)
        timeout = arguments.seconds("timeout", timeout)
        self._check_open()
        with trio.move_on_after(timeout):
            while len(self._core.reach.subscribers(topic)) < count and self.loop.is_open:
                await self.loop.changed.park()
        found = self._core.reach.subscribers(topic)
        names = ", ".join(map(self.names.full, found[:NAMES_MAX])) or "none"
        names += " and others" if len(found) > NAMES_MAX else ""
        if len(found) >= count:
            return Outcome(reached=True, reason=f"topic {topic!r} has the subscribers {names}")
        if not self.loop.is_open:
            return Outcome(reached=False, reason="the endpoint was shut down")
        reason = (
            f"{len(found)} of {count} endpoints subscribe to {topic!r} after {timeout:g} s:"
            f" {names}; {len(self._core.reach)} endpoints are reachable from here"
        )
        self.loop.note("barrier", f"await_subscribed gave up: {reason}")
        return Outcome(reached=False, reason=reason)

    # Messages.

    def publish_nowait(self, topic: str, data: Value, *, to: NodeId | None = None) -> None:
        """Publish without waiting, or raise ``OutboxFull``; then nothing was sent."""
        self._check_open()
        self.loop.publication.publish_nowait(topic, data, to)

    async def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in order, waiting for room between them.

        Up to a thousand are taken at a time. Of those among which one is refused, or after which
        the batch raises, some or all are not published; in threads, those before it are.
        """
        self._check_open()
        await self.loop.publication.publish_batch(batch)

    def publisher(self, topic: str) -> Publisher:
        """Give a publisher for one topic."""
        self._check_open()
        return Publisher(self.loop.publication, topic)

    def subscribe(
        self,
        *topics: str | Iterable[str],
        queue_size: int | None = None,
        queue_bytes: int | None = None,
        overflow: str | None = None,
        stall_seconds: Seconds | AsSet = AS_SET,
        name: str | None = None,
        local: bool = False,
    ) -> Subscriber:
        """Subscribe to all topics that begin with one of these; ``""`` is every topic.

        One list of topics is taken, too. With ``local`` it also gets what this endpoint itself
        publishes. What is published before the publisher's endpoint knows of the subscription does
        not come: await_subscribed there. The ``name`` is shown where publishers wait for it.

        ``queue_size`` messages and ``queue_bytes`` may wait. What a full queue means, ``overflow``
        says: ``"wait"`` has publishers of these topics wait, and nothing is lost while it is read
        at least once in ``stall_seconds`` (``None``: however long that takes); ``"drop_oldest"``
        and ``"drop_newest"`` drop, and ``Missed`` stands in the gap; ``"error"`` ends the
        subscription, and each read from then on raises ``SubscriberOverflow``.
        """
        wanted = arguments.topics("topics", topics)
        return self._open_reader(
            wanted,
            local=local,
            queue_size=queue_size,
            queue_bytes=queue_bytes,
            overflow=overflow,
            stall_seconds=stall_seconds,
            name=name,
        )

    def _open_reader(
        self, topics: Sequence[str], *, local: bool, **options: Unpack[QueueOptions]
    ) -> Subscriber:
        return self.read_with(partial(Subscriber, self.loop), topics, local=local, **options)

    def read_with(
        self,
        make: Callable[[Mailbox], ReaderT],
        topics: Sequence[str],
        *,
        local: bool,
        **options: Unpack[QueueOptions],
    ) -> ReaderT:
        """Subscribe, and have what is made for the mailbox read it; for front ends, too."""
        mailbox = make_mailbox(
            self.settings.queueing(),
            self.settings.shape(),
            topics,
            may_hold=self._core.permissions.may_hold(self._id),
            **options,
        )
        self._check_open()
        reader = make(mailbox)
        self.loop.add_reader(mailbox, reader, topics, local=local)
        return reader

    def subscribe_status(self, *codes: StatusCode | str) -> StatusSubscriber:
        """Follow what happens in the mesh from now on: events of these kinds, or of all kinds."""
        wanted = [arguments.choice("codes", code, StatusCode) for code in codes]
        self._check_open()
        return self.loop.status.subscribe(wanted)

    def forward(self, *topics: str | Iterable[str]) -> None:
        """Have these topics sent here and forwarded, as if a subscriber were here."""
        wanted = arguments.topics("topics", topics)
        self._check_open()
        self.loop.apply(self._core.forward(wanted))

    # Stores.

    def attach_master(
        self,
        name: str,
        backend: Backend | str = Backend.Memory,
        *,
        fresh: bool = False,
        **options: object,
    ) -> Attaching[Store]:
        """Attach the master of a store: ``async with endpoint.attach_master("name") as store``.

        ``Backend.SQLite`` needs ``path``, and takes ``synchronous``, and ``key_file`` or ``keys``
        for a file that is encrypted. Beyond ``max_entries`` (10 million) or ``max_bytes`` of keys
        and values (2 GiB) nothing more is taken, with ``QuotaExceeded``; ``None`` sets no limit.
        What is acknowledged is here alone: ``attach_replica`` has a majority keep it. With
        ``fresh`` no clone is asked what it has of an earlier life, and a file whose ballot is lost
        is led with what it has. Raises ``MasterExists`` if a master of that name is known, or a
        clone is promoted meanwhile, ``BackendFailure``, ``InvalidData``, ``ReplicaRegressed``,
        ``StoreConflict``, and ``CredentialsError`` for a key.
        """
        name = arguments.text("name", name)
        backend = backend_of(backend)
        arguments.refuse_replicas(options)
        attach = partial(self._stores().attach_master, fresh=bool(fresh))
        return Attaching(partial(attach, name, backend, options))

    def attach_clone(
        self,
        name: str,
        *,
        stale_interval: Seconds = STALE_SECONDS,
        mutation_buffer_interval: Seconds = BUFFER_SECONDS,
    ) -> Attaching[Store]:
        """Attach a clone of a store: ``async with endpoint.attach_clone("name") as store``.

        Its master need not be known yet, nor be a direct peer. After ``stale_interval`` seconds
        without it reads raise ``StaleData``; ``None`` means never. Mutations wait for a master for
        ``mutation_buffer_interval`` seconds, and then fail. Raises ``NoSuchMaster`` where the
        master itself lives.
        """
        name = arguments.text("name", name)
        stale = _interval("stale_interval", stale_interval)
        buffer = _limit("mutation_buffer_interval", mutation_buffer_interval)
        return Attaching(partial(self._stores().attach_clone, name, stale, buffer))

    def attach_replica(
        self,
        name: str,
        *,
        voters: Iterable[str] | int = (),
        found: bool = False,
        backend: Backend | str = Backend.Memory,
        patience: Seconds = ANSWER_SECONDS,
        **options: object,
    ) -> Attaching[ReplicaStore]:
        """Attach a replica of a store whose group of replicas elects its leader.

        ``voters`` are names of endpoints (``Endpoint(name=...)``), the same in the same order at
        all. The first one founds the group once all have been heard. An endpoint that is not among
        them has a learner: a replica without a vote. Without ``voters`` it is a learner of
        whichever group of this name there is.

        ``voters`` may be a number instead: the group's leader makes replicas that were attached so
        voters until it has as many, each once it is level and was in touch for ten seconds. One of
        them, and no other, is given ``found=True``: it founds the group once more than half of that
        number, itself included, have answered that they know of none. Until the second voter is
        there it alone has what is acknowledged.

        What is written here waits for an answer of the group for ``patience`` seconds, and fails at
        once where no majority is heard any more. ``Backend.SQLite`` needs ``path``. Raises
        ``MasterExists`` if the store has a master, ``InvalidData``, ``NotAllowed`` without the
        right ``vote``, of a learner ``read``, and ``BackendFailure``.
        """
        name = arguments.text("name", name)
        declared = declared_voters(voters, is_founder=found)
        backend, seconds = backend_of(backend), _limit("patience", patience)
        attach = self._stores().attach_replica
        return Attaching(partial(attach, name, declared, backend, options, seconds))

    def attach_proxy(
        self, name: str, *, mutation_buffer_interval: Seconds = BUFFER_SECONDS
    ) -> Attaching[StoreProxy]:
        """Use a store without a copy: ``async with endpoint.attach_proxy("name") as store``.

        Every read asks the nearest replica, over any number of hops, and raises ``StaleData`` if
        none answers; every write goes to the master. Mutations wait for a master for
        ``mutation_buffer_interval`` seconds, and then fail. Raises ``StoreError`` where the store
        has a handle already.
        """
        name = arguments.text("name", name)
        buffer = _limit("mutation_buffer_interval", mutation_buffer_interval)
        return Attaching(partial(self._stores().attach_proxy, name, buffer))

    # Logs.

    def attach_log(
        self,
        name: str,
        topics: str | Iterable[str] = (),
        partitions: int | None = None,
        backend: Backend | str = Backend.Memory,
        *,
        fresh: bool = False,
        **options: object,
    ) -> Attaching[Log]:
        """Attach the keeper of a log: ``async with endpoint.attach_log("name") as log``.

        It collects what others publish on topics that begin with one of ``topics``. ``partitions``
        is one for a new log, and stays. ``keep_seconds``, ``keep_count`` and ``keep_bytes`` say
        how much each partition keeps, all for ever if not given: the oldest entries go. Beyond
        ``max_entries`` or ``max_bytes`` of all partitions appends are refused with
        ``QuotaExceeded``: 10 million and 2 GiB in memory, 64 GiB in a file, ``None`` for no limit.
        ``Backend.SQLite`` needs ``path``, and takes what that of a store takes. What is
        acknowledged is here alone: ``attach_log_replica`` has a majority keep it. With ``fresh`` no
        follower is asked what it has of an earlier life, and a file whose ballot is lost is led
        with what it has. Raises ``MasterExists`` if a keeper of that name is known,
        ``InvalidData``, ``BackendFailure``, ``ReplicaRegressed``, ``StoreConflict``, and
        ``CredentialsError`` for a key.
        """
        name = arguments.text("name", name)
        wanted = topics_of(topics)
        backend = backend_of(backend)
        arguments.refuse_replicas(options, "log")
        if partitions is not None:
            partitions = arguments.count("partitions", partitions)
        attach = partial(self._logs().attach_keeper, fresh=bool(fresh))
        return Attaching(partial(attach, name, wanted, partitions, backend, options))

    def attach_log_clone(
        self,
        name: str,
        backend: Backend | str = Backend.Memory,
        *,
        stale_interval: Seconds = STALE_SECONDS,
        patience: Seconds = PATIENCE_SECONDS,
        **options: object,
    ) -> Attaching[Log]:
        """Attach a follower of a log, with a copy of its own that reads are served from.

        What it appends fails with ``KeeperUnreachable`` when there has been no keeper for
        ``patience`` seconds. After ``stale_interval`` seconds without one reads raise
        ``StaleData``; ``None`` means never.
        """
        name = arguments.text("name", name)
        backend = backend_of(backend)
        stale, limit = _interval("stale_interval", stale_interval), _limit("patience", patience)
        attach = self._logs().attach_follower
        return Attaching(partial(attach, name, backend, options, stale, limit))

    def attach_log_proxy(
        self, name: str, *, patience: Seconds = PATIENCE_SECONDS
    ) -> Attaching[Log]:
        """Use a log without a copy: every read asks its keeper, over any number of hops.

        Without a keeper for ``patience`` seconds, appends and reads raise ``KeeperUnreachable``.
        """
        name = arguments.text("name", name)
        limit = _limit("patience", patience)
        return Attaching(partial(self._logs().attach_proxy, name, limit))

    def attach_log_replica(
        self,
        name: str,
        *,
        voters: Iterable[str] | int = (),
        found: bool = False,
        partitions: int | None = None,
        backend: Backend | str = Backend.Memory,
        patience: Seconds = ANSWER_SECONDS,
        **options: object,
    ) -> Attaching[ReplicaLog]:
        """Attach a replica of a log whose group of replicas elects its leader.

        ``voters``, ``found`` and ``patience`` are as ``attach_replica`` takes them. ``partitions``
        is one for a new log, and stays: the first leader's number is that of all. It takes 10
        million entries and 2 GiB at most, if ``set_quota`` says nothing else. ``Backend.SQLite``
        needs ``path``. Raises ``MasterExists`` if the log has a keeper, ``InvalidData``,
        ``NotAllowed`` without the right ``vote``, of a learner ``read``, ``BackendFailure``, and
        ``CredentialsError`` for a key.
        """
        name = arguments.text("name", name)
        declared = declared_voters(voters, is_founder=found)
        backend, seconds = backend_of(backend), _limit("patience", patience)
        if partitions is not None:
            partitions = arguments.count("partitions", partitions)
        attach = self._logs().attach_replica
        return Attaching(partial(attach, name, declared, partitions, backend, options, seconds))

    def _stores(self) -> StoreAttachments:
        self._check_open()
        if self._store_attachments is None:
            with first_use():
                from endpoint.replicas.stores.attachments import StoreAttachments

            name = self._name_in_groups()
            self._store_attachments = StoreAttachments(self.loop, self._around, name)
        return self._store_attachments

    def _logs(self) -> LogAttachments:
        self._check_open()
        if self._log_attachments is None:
            with first_use():
                from endpoint.replicas.logs.attachments import LogAttachments

            name, subscribe = self._name_in_groups(), self.subscribe
            self._log_attachments = LogAttachments(self.loop, self._around, name, subscribe)
        return self._log_attachments

    def _name_in_groups(self) -> str:
        authorisation = self._core.authorisation
        # A certificate that is made from a cluster secret proves no name.
        proven = authorisation.name if authorisation.are_names_proven else None
        return proven or self.settings.name

    def known_stores(self) -> tuple[str, ...]:
        """Name the stores in reach: a master, or at another endpoint a clone or replica; sorted.

        It is what has been announced so far: right after ``peer()``, all that the peer knows.
        """
        return self._core.reach.names_of(MASTER_SUFFIX, CLONE_SUFFIX, GROUP_SUFFIX)

    def known_groups(self) -> tuple[str, ...]:
        """Name those of the known stores that a replica group keeps, sorted."""
        return self._core.reach.groups()

    def known_logs(self) -> tuple[str, ...]:
        """Name the logs in reach: a keeper, or elsewhere a follower or replica; sorted."""
        return self._core.reach.names_of(KEEPER_SUFFIX, FOLLOWER_SUFFIX, LOG_GROUP_SUFFIX)

    def known_log_groups(self) -> tuple[str, ...]:
        """Name those of the known logs that a replica group keeps, sorted."""
        return self._core.reach.log_groups()

    def describe(self) -> Snapshot:
        """Give a frozen snapshot of everything here, with the process: what ``describe`` tells.

        It holds names and counts, no value of a store and no message. ``to_dict`` makes it JSON.
        """
        self._check_open()
        with first_use():
            from endpoint.inspection import inspect

        uptime = trio.current_time() - self._began
        return inspect(self.loop, self.statistics(), uptime_seconds=uptime)

    def statistics(self) -> EndpointStatistics:
        """Give a frozen snapshot in numbers."""
        peers = tuple(self.peers())
        mailboxes = list(self.loop.readers)
        return EndpointStatistics(
            peers=peers,
            endpoints_known=len(self._core.topology.reachable()),
            messages_published=self.loop.publication.messages,
            messages_waiting=sum(mailbox.waiting for mailbox in mailboxes),
            messages_dropped=self.loop.dropped
            + sum(mailbox.dropped for mailbox in mailboxes)
            + sum(peer.outbox.dropped_messages for peer in peers),
            messages_duplicate=self._core.routing.duplicates,
            messages_malformed=sum(mailbox.malformed for mailbox in mailboxes),
            messages_refused=self._core.authorisation.refusals.total,
            messages_forged=self._core.forgeries.total,
            host_lag=None if self.host_lag is None else self.host_lag(),
        )


def _address_of(address: str, port: int | str | None) -> tuple[str, int, JoinTicket | None]:
    """Give host and port, and the ticket if they stand in one."""
    address = arguments.host("address", address)
    found = split_address(address)
    if port is not None:
        if found is not None and not address.startswith("[") and address.count(":") == 1:
            raise ValueError(
                f"address={address!r} holds a port, and port={port!r} is one: give one"
            )
        return address, arguments.port("port", port), None
    if found is not None:
        return found[0], arguments.port("port", found[1]), None
    ticket = JoinTicket.parse(address)
    return ticket.host, ticket.port, ticket


def _interval(name: str, value: Seconds) -> float | None:
    """Check an interval of which ``None`` is no end."""
    return None if value is None else _limit(name, value)


def _limit(name: str, value: Seconds) -> float:
    return arguments.seconds(name, value, most=INTERVAL_SECONDS_MAX)
