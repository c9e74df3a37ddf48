"""The endpoint for threads and the REPL: the same names, and calls that wait."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, overload

import trio

from endpoint import arguments
from endpoint.arguments import NodeId
from endpoint.barriers import Callback, Seconds, barrier
from endpoint.bound import Bound
from endpoint.closing import AsyncClosing
from endpoint.endpoint import (
    AWAIT_PEER_SECONDS,
    AWAIT_SUBSCRIBED_SECONDS,
    GRACE_SECONDS,
    PEER_SECONDS,
    RETRY_SECONDS,
    Endpoint as Core,
)
from endpoint.outcome import Outcome
from endpoint.pubsub.options import AS_SET, AsSet, make_mailbox
from endpoint.replicas.attaching import (
    BUFFER_SECONDS,
    PATIENCE_SECONDS,
    STALE_SECONDS,
    Attaching,
    Backend,
)
from endpoint.replicas.logs.log import Log as CoreLog
from endpoint.replicas.stores.store import Store as CoreStore
from endpoint.settings import Settings
from endpoint.statistics import EndpointStatistics, PeerInfo
from handshake.credentials import Credentials
from handshake.keyfiles import RolesSource
from peermesh.blocking.living import Life, Passage
from peermesh.blocking.log import Log
from peermesh.blocking.outbound import Outbound
from peermesh.blocking.publisher import Publisher
from peermesh.blocking.pump import Pump
from peermesh.blocking.replica_log import ReplicaLog
from peermesh.blocking.status import StatusSubscriber
from peermesh.blocking.store import ReplicaStore, Store, StoreProxy
from peermesh.blocking.subscriber import Subscriber
from wire.identifiers import EndpointId
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.inspection import Snapshot

HandleT = TypeVar("HandleT", bound=AsyncClosing)


class Endpoint(Bound):
    """One participant of the mesh, for plain Python: ``with Endpoint() as endpoint``.

    It works from the moment that it is made, as the seed's does; ``shutdown``, or the end of the
    block, ends it. All methods may be called from any thread at any time.
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
        """Start; see ``peermesh.Endpoint`` for the arguments."""
        self._core = Core(
            credentials=credentials,
            settings_file=settings_file,
            endpoint_id=endpoint_id,
            roles=roles,
            **settings,
        )
        loop = self._core.loop
        self._life = life = Life(self._core)
        self._passage = Passage(life)
        allow = loop.core.authorisation.check_publish
        self._outbound = Outbound(self._passage, allow)
        self._pump = Pump(self._outbound, loop.publication)
        self.publish: Final = self._outbound.publish
        life.open(self._leave, self._pump.run)

    async def _leave(self) -> None:
        """Have what was published leave, and then the endpoint."""
        grace = self._life.grace
        with trio.move_on_after(grace):
            await self._pump.flush()
        # What is left has had its time: a core that shuts down takes nothing any more.
        self._pump.close()
        await self._core.shutdown(grace)

    def __repr__(self) -> str:
        """Show name and id, where it listens, and how many peers it has."""
        who = self._core.names.full(self.node_id())
        return self._passage.show(f"Endpoint {who}", self._core)

    @property
    def settings(self) -> Settings:
        """Give the settings that are in force."""
        return self._core.settings

    def shutdown(self, grace: Seconds = GRACE_SECONDS) -> None:
        """End, after the peers have what was published before, or after ``grace`` seconds.

        Waits until the endpoint is over, in every thread that calls it. Does nothing in a child
        process. Ctrl-C ends the waiting, and the endpoint ends on its own.
        """
        self._life.close(arguments.seconds("grace", grace, default=GRACE_SECONDS))

    def _open_passage(self) -> Passage:
        self._passage.check()
        return self._passage

    # The mesh.

    def node_id(self) -> EndpointId:
        """Give the endpoint's id, which no other endpoint ever has."""
        return self._core.node_id()

    def name_of(self, node_id: NodeId) -> str:
        """Give how an endpoint is called here; see ``peermesh.Endpoint.name_of``."""
        wanted = arguments.endpoint_id("node_id", node_id)
        return self._open_passage().call_sync(self._core.name_of, wanted)

    def listen(self, address: str = "127.0.0.1", port: int | str = 0) -> int:
        """Accept peers at this address; see ``peermesh.Endpoint.listen``."""
        return self._open_passage().call(self._core.listen, address, port)

    def peer(
        self,
        address: str,
        port: int | str | None = None,
        retry: Seconds = RETRY_SECONDS,
        timeout: Seconds = PEER_SECONDS,
    ) -> Outcome:
        """Peer with the endpoint that listens there; see ``peermesh.Endpoint.peer``."""
        return self._open_passage().call(self._core.peer, address, port, retry, timeout)

    def unpeer(self, address: str, port: int | str | None = None) -> Outcome:
        """End the peering with that address; see ``peermesh.Endpoint.unpeer``."""
        return self._open_passage().call(self._core.unpeer, address, port)

    def peers(self) -> list[PeerInfo]:
        """List the peers, in the order of their ids, with what flows to and from them."""
        return self._open_passage().call_sync(self._core.peers)

    @overload
    def await_peer(self, node_id: NodeId, timeout: Seconds = AWAIT_PEER_SECONDS) -> Outcome: ...

    @overload
    def await_peer(
        self, node_id: NodeId, callback: Callback, timeout: Seconds = AWAIT_PEER_SECONDS
    ) -> None: ...

    def await_peer(
        self,
        node_id: NodeId,
        *positional: Seconds | Callback,
        timeout: Seconds = AWAIT_PEER_SECONDS,
        callback: Callback | None = None,
    ) -> Outcome | None:
        """Wait until there is a path to an endpoint; see ``peermesh.Endpoint.await_peer``.

        A ``callback`` runs in a thread of its own, and may call anything.
        """
        wanted = arguments.endpoint_id("node_id", node_id)
        how = barrier("await_peer", positional, timeout, callback, AWAIT_PEER_SECONDS)
        wait = partial(self._core.await_peer, wanted, timeout=how.seconds, callback=how.callback)
        return self._open_passage().call(wait)

    def await_subscribed(
        self, topic: str, count: int = 1, timeout: Seconds = AWAIT_SUBSCRIBED_SECONDS
    ) -> Outcome:
        """Wait until so many others subscribe; see ``peermesh.Endpoint.await_subscribed``."""
        return self._open_passage().call(self._core.await_subscribed, topic, count, timeout)

    def known_stores(self) -> tuple[str, ...]:
        """Name the stores in reach, sorted; see ``peermesh.Endpoint.known_stores``."""
        return self._open_passage().call_sync(self._core.known_stores)

    def known_groups(self) -> tuple[str, ...]:
        """Name those that a replica group keeps; see ``peermesh.Endpoint.known_groups``."""
        return self._open_passage().call_sync(self._core.known_groups)

    def known_log_groups(self) -> tuple[str, ...]:
        """Name those that a replica group keeps; see ``peermesh.Endpoint.known_log_groups``."""
        return self._open_passage().call_sync(self._core.known_log_groups)

    def known_logs(self) -> tuple[str, ...]:
        """Name the logs in reach, sorted; see ``peermesh.Endpoint.known_logs``."""
        return self._open_passage().call_sync(self._core.known_logs)

    def describe(self) -> Snapshot:
        """Give a frozen snapshot of everything here; see ``peermesh.Endpoint.describe``."""
        return self._open_passage().call_sync(self._core.describe)

    def statistics(self) -> EndpointStatistics:
        """Give a frozen snapshot in numbers."""
        return self._open_passage().call_sync(self._core.statistics)

    # Messages.

    def publish_nowait(self, topic: str, data: Value, *, to: NodeId | None = None) -> None:
        """Publish without waiting, or raise ``OutboxFull``; then nothing was sent."""
        self._outbound.publish_nowait(topic, data, to=to)

    def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in order; those before a wrong one are published."""
        self._outbound.publish_batch(batch)

    def publisher(self, topic: str) -> Publisher:
        """Give a publisher for one topic."""
        self._open_passage()
        return Publisher(self._outbound, topic)

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
        """Subscribe to all topics that begin with one of these; see ``peermesh.Endpoint``."""
        wanted = arguments.topics("topics", topics)
        passage, loop = self._open_passage(), self._core.loop
        mailbox = make_mailbox(
            self.settings.queueing(),
            self.settings.shape(),
            wanted,
            queue_size=queue_size,
            queue_bytes=queue_bytes,
            overflow=overflow,
            stall_seconds=stall_seconds,
            name=name,
            may_hold=loop.core.permissions.may_hold(loop.core.local),
        )
        subscriber = Subscriber(passage, loop, mailbox, wanted)
        passage.call_sync(partial(loop.add_reader, mailbox, subscriber, wanted, local=local))
        return subscriber

    def subscribe_status(self) -> StatusSubscriber:
        """Follow what happens in the mesh from now on."""
        passage = self._open_passage()
        return StatusSubscriber(passage, passage.call_sync(self._core.subscribe_status))

    def forward(self, *topics: str | Iterable[str]) -> None:
        """Have these topics sent here and forwarded, as if a subscriber were here."""
        self._open_passage().call_sync(self._core.forward, *topics)

    # Stores.

    def attach_master(
        self,
        name: str,
        backend: Backend | str = Backend.Memory,
        *,
        fresh: bool = False,
        **options: object,
    ) -> Store:
        """Attach the master of a store; see ``peermesh.Endpoint.attach_master``."""
        rest: dict[str, Any] = {"fresh": fresh, **options}
        return self._attach_store(partial(self._core.attach_master, name, backend, **rest))

    def attach_clone(
        self,
        name: str,
        *,
        stale_interval: Seconds = STALE_SECONDS,
        mutation_buffer_interval: Seconds = BUFFER_SECONDS,
    ) -> Store:
        """Attach a clone of a store; see ``peermesh.Endpoint.attach_clone``."""
        attach = partial(
            self._core.attach_clone,
            name,
            stale_interval=stale_interval,
            mutation_buffer_interval=mutation_buffer_interval,
        )
        return self._attach_store(attach)

    def _attach_store(self, attach: Callable[[], Attaching[CoreStore]]) -> Store:
        passage = self._open_passage()
        store = passage.call(_attach, attach)
        return Store(passage.of(f"store {store.name()}"), store)

    def attach_replica(
        self,
        name: str,
        *,
        voters: Iterable[str] | int = (),
        found: bool = False,
        backend: Backend | str = Backend.Memory,
        **options: object,
    ) -> ReplicaStore:
        """Attach a replica of an electing group; see ``peermesh.Endpoint.attach_replica``."""
        rest: dict[str, Any] = {"voters": voters, "found": found, "backend": backend, **options}
        passage = self._open_passage()
        replica = passage.call(_attach, partial(self._core.attach_replica, name, **rest))
        return ReplicaStore(passage.of(f"store {replica.name()}"), replica)

    def attach_proxy(
        self, name: str, *, mutation_buffer_interval: Seconds = BUFFER_SECONDS
    ) -> StoreProxy:
        """Use a store without a copy; see ``peermesh.Endpoint.attach_proxy``."""
        passage, interval = self._open_passage(), mutation_buffer_interval
        attach = partial(self._core.attach_proxy, name, mutation_buffer_interval=interval)
        proxy = passage.call(_attach, attach)
        return StoreProxy(passage.of(f"store {proxy.name()}"), proxy)

    # Logs.

    def attach_log(
        self,
        name: str,
        topics: str | Iterable[str] = (),
        partitions: int | None = None,
        backend: Backend | str = Backend.Memory,
        *,
        replicas: int = 0,
        **options: object,
    ) -> Log:
        """Attach the keeper of a log; see ``peermesh.Endpoint.attach_log``."""
        rest: dict[str, Any] = {"replicas": replicas, **options}
        attach = partial(self._core.attach_log, name, topics, partitions, backend, **rest)
        return self._attach_log(attach)

    def attach_log_clone(
        self,
        name: str,
        backend: Backend | str = Backend.Memory,
        *,
        stale_interval: Seconds = STALE_SECONDS,
        patience: Seconds = PATIENCE_SECONDS,
        **options: object,
    ) -> Log:
        """Attach a follower of a log; see ``peermesh.Endpoint.attach_log_clone``."""
        rest: dict[str, Any] = {"stale_interval": stale_interval, "patience": patience, **options}
        return self._attach_log(partial(self._core.attach_log_clone, name, backend, **rest))

    def attach_log_proxy(self, name: str, *, patience: Seconds = PATIENCE_SECONDS) -> Log:
        """Use a log without a copy; see ``peermesh.Endpoint.attach_log_proxy``."""
        return self._attach_log(partial(self._core.attach_log_proxy, name, patience=patience))

    def attach_log_replica(
        self,
        name: str,
        *,
        voters: Iterable[str] = (),
        partitions: int | None = None,
        backend: Backend | str = Backend.Memory,
        **options: object,
    ) -> ReplicaLog:
        """Attach a replica of a log's group; see ``peermesh.Endpoint.attach_log_replica``."""
        rest: dict[str, Any] = {"voters": voters, "partitions": partitions, **options}
        passage = self._open_passage()
        attach = partial(self._core.attach_log_replica, name, backend=backend, **rest)
        replica = passage.call(_attach, attach)
        return ReplicaLog(passage.of(f"log {replica.name()}"), replica)

    def _attach_log(self, attach: Callable[[], Attaching[CoreLog]]) -> Log:
        passage = self._open_passage()
        log = passage.call(_attach, attach)
        return Log(passage.of(f"log {log.name()}"), log)

    def __enter__(self) -> Self:
        """Use it within the block."""
        self._passage.check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Shut down."""
        self.shutdown()


async def _attach(attach: Callable[[], Attaching[HandleT]]) -> HandleT:
    return await attach()
