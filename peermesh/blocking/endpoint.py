"""The endpoint for threads and the REPL: the same names, and calls that wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

import trio

from endpoint.attaching import (
    BUFFER_SECONDS,
    PATIENCE_SECONDS,
    STALE_SECONDS,
    Attaching,
    Backend,
)
from endpoint.endpoint import AWAIT_PEER_SECONDS, GRACE_SECONDS, RETRY_SECONDS, Endpoint as Core
from endpoint.log import Log as CoreLog
from endpoint.mailbox import Mailbox
from endpoint.outcome import Outcome
from endpoint.settings import Settings
from endpoint.statistics import EndpointStatistics, PeerInfo
from endpoint.store import Store as CoreStore
from endpoint.store_proxy import StoreProxy as CoreProxy
from handshake.credentials import Credentials
from handshake.keyfiles import RolesSource
from peermesh.blocking.log import Log
from peermesh.blocking.outbound import Outbound
from peermesh.blocking.portal import Portal
from peermesh.blocking.publisher import Publisher
from peermesh.blocking.status import StatusSubscriber
from peermesh.blocking.store import Store, StoreProxy
from peermesh.blocking.subscriber import Subscriber
from wire.addresses import join_address
from wire.errors import EndpointClosed
from wire.identifiers import EndpointId
from wire.topics import check_topic
from wire.values import Value


class Endpoint:
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
        self._portal = Portal.acquire()
        self._outbound = Outbound(self._portal, self._core.loop.publication)
        self.publish: Final = self._outbound.publish
        self._lock = threading.Lock()
        self._is_open = True
        self._grace = GRACE_SECONDS
        self._portal.call(self._open)

    async def _open(self) -> None:
        self._closing = trio.Event()
        self._closed = trio.Event()
        opened = trio.Event()
        await self._portal.start(self._live, opened)
        await opened.wait()

    async def _live(self, opened: trio.Event) -> None:
        """Be the one task in which the endpoint is entered and left."""
        try:
            async with self._core:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._outbound.pump)
                    opened.set()
                    await self._closing.wait()
                    with trio.move_on_after(self._grace):
                        await self._outbound.flush()
                    # What is left has had its time: a core that shuts down takes nothing any more.
                    nursery.cancel_scope.cancel()
                await self._core.shutdown(self._grace)
        finally:
            self._outbound.close()
            self._closed.set()

    @property
    def settings(self) -> Settings:
        """Give the settings that are in force."""
        return self._core.settings

    def shutdown(self, grace: float = GRACE_SECONDS) -> None:
        """End, after the peers have what was published before, or after ``grace`` seconds."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        self._grace = grace
        self._portal.call(self._close)
        self._portal.release()

    async def _close(self) -> None:
        self._closing.set()
        await self._closed.wait()

    def _open_portal(self) -> Portal:
        if not self._is_open:
            raise EndpointClosed("the endpoint was shut down: make a new one")
        return self._portal

    # The mesh.

    def node_id(self) -> EndpointId:
        """Give the endpoint's id, which no other endpoint ever has."""
        return self._core.node_id()

    def listen(self, address: str = "127.0.0.1", port: int = 0) -> int:
        """Accept peers at this address; give the port, which 0 lets the system choose."""
        return self._open_portal().call(self._core.listen, address, port)

    def peer(
        self,
        address: str,
        port: int | None = None,
        retry: float = RETRY_SECONDS,
        *,
        timeout: float | None = None,
    ) -> Outcome:
        """Peer with the endpoint that listens there; see ``peermesh.Endpoint.peer``.

        After ``timeout`` seconds it gives up waiting, and false; the attempts go on.
        """
        return self._open_portal().call(self._peer, address, port, retry, timeout)

    async def _peer(
        self, address: str, port: int | None, retry: float, timeout: float | None
    ) -> Outcome:
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            return await self._core.peer(address, port, retry)
        # A ticket is not to be seen.
        where = "the address of the ticket" if port is None else join_address(address, port)
        return Outcome(reached=False, reason=f"no peering with {where} within {timeout} s yet")

    def unpeer(self, address: str, port: int) -> Outcome:
        """End the peering with that address; what was published before still arrives."""
        return self._open_portal().call(self._core.unpeer, address, port)

    def peers(self) -> list[PeerInfo]:
        """List the peers, in the order of their ids, with what flows to and from them."""
        return self._open_portal().call_sync(self._core.peers)

    def await_peer(
        self,
        node_id: EndpointId,
        callback: Callable[[Outcome], object] | None = None,
        timeout: float = AWAIT_PEER_SECONDS,
    ) -> Outcome:
        """Wait until there is a path to an endpoint and its subscriptions are known here.

        With a ``callback`` it returns at once; the callback runs in the background thread.
        """
        return self._open_portal().call(self._core.await_peer, node_id, timeout, callback)

    def statistics(self) -> EndpointStatistics:
        """Give a frozen snapshot in numbers."""
        return self._open_portal().call_sync(self._core.statistics)

    # Messages.

    def publish_nowait(self, topic: str, data: Value, *, to: EndpointId | None = None) -> None:
        """Publish, or raise ``OutboxFull``; then nobody got it."""
        self._outbound.publish_nowait(topic, data, to=to)

    def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in order."""
        self._outbound.publish_batch(batch)

    def publisher(self, topic: str) -> Publisher:
        """Give a publisher for one topic."""
        self._open_portal()
        return Publisher(self._outbound, topic)

    def subscribe(self, *topics: str, queue_size: int | None = None) -> Subscriber:
        """Subscribe to all topics that begin with one of these; ``""`` is every topic."""
        wanted = [check_topic(topic) for topic in topics]
        portal, loop = self._open_portal(), self._core.loop
        mailbox = Mailbox(queue_size or self.settings.queue_size, self.settings.shape())
        subscriber = Subscriber(portal, loop, mailbox)
        portal.call_sync(loop.add_reader, mailbox, subscriber, wanted)
        return subscriber

    def subscribe_status(self) -> StatusSubscriber:
        """Follow what happens in the mesh from now on."""
        portal = self._open_portal()
        return StatusSubscriber(portal, portal.call_sync(self._core.subscribe_status))

    def forward(self, *topics: str) -> None:
        """Have these topics sent here and passed on, as if somebody here had subscribed."""
        self._open_portal().call_sync(self._core.forward, *topics)

    # Stores.

    def attach_master(
        self,
        name: str,
        backend: Backend = Backend.Memory,
        *,
        replicas: int = 0,
        **options: object,
    ) -> Store:
        """Attach the master of a store; see ``peermesh.Endpoint.attach_master``."""
        portal = self._open_portal()
        attaching = self._core.attach_master(name, backend, replicas=replicas, **options)
        return Store(portal, portal.call(self._attach, attaching))

    def attach_clone(
        self,
        name: str,
        *,
        stale_interval: float | None = STALE_SECONDS,
        mutation_buffer_interval: float = BUFFER_SECONDS,
    ) -> Store:
        """Attach a clone of a store; see ``peermesh.Endpoint.attach_clone``."""
        portal = self._open_portal()
        attaching = self._core.attach_clone(
            name,
            stale_interval=stale_interval,
            mutation_buffer_interval=mutation_buffer_interval,
        )
        return Store(portal, portal.call(self._attach, attaching))

    def attach_proxy(
        self, name: str, *, mutation_buffer_interval: float = BUFFER_SECONDS
    ) -> StoreProxy:
        """Use a store without a copy; see ``peermesh.Endpoint.attach_proxy``."""
        portal, attach = self._open_portal(), self._core.attach_proxy

        async def make() -> CoreProxy:
            return await attach(name, mutation_buffer_interval=mutation_buffer_interval)

        return StoreProxy(portal, portal.call(make))

    async def _attach(self, attaching: Attaching[CoreStore]) -> CoreStore:
        return await attaching

    # Logs.

    def attach_log(
        self,
        name: str,
        topics: Iterable[str] = (),
        partitions: int | None = None,
        backend: Backend = Backend.Memory,
        *,
        replicas: int = 0,
        **options: object,
    ) -> Log:
        """Attach the keeper of a log; see ``peermesh.Endpoint.attach_log``."""
        portal, attach = self._open_portal(), self._core.attach_log
        rest: dict[str, Any] = {"replicas": replicas, **options}
        make = partial(attach, name, topics, partitions, backend, **rest)
        return Log(portal, portal.call(self._attach_log, make))

    def attach_log_clone(
        self,
        name: str,
        backend: Backend = Backend.Memory,
        *,
        stale_interval: float | None = STALE_SECONDS,
        patience: float = PATIENCE_SECONDS,
        **options: object,
    ) -> Log:
        """Attach a follower of a log; see ``peermesh.Endpoint.attach_log_clone``."""
        portal, attach = self._open_portal(), self._core.attach_log_clone
        rest: dict[str, Any] = {"stale_interval": stale_interval, "patience": patience, **options}
        make = partial(attach, name, backend, **rest)
        return Log(portal, portal.call(self._attach_log, make))

    def attach_log_proxy(self, name: str, *, patience: float = PATIENCE_SECONDS) -> Log:
        """Use a log without a copy; see ``peermesh.Endpoint.attach_log_proxy``."""
        portal = self._open_portal()
        make = partial(self._core.attach_log_proxy, name, patience=patience)
        return Log(portal, portal.call(self._attach_log, make))

    async def _attach_log(self, attach: Callable[[], Attaching[CoreLog]]) -> CoreLog:
        return await attach()

    def __enter__(self) -> Self:
        """Use it within the block."""
        self._open_portal()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Shut down."""
        self.shutdown()
