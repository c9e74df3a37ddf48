"""The edge broker and its clients for threads and the REPL: the same names, and calls that wait.

::

    with Broker() as broker, Publisher(broker.registry) as publisher:
        publisher.send("greetings", "hello")

All of them live in the one trio loop of ``peermesh.blocking``. Each call crosses into its thread;
``send_batch`` and ``poll`` do so once for many messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Generic, TypeVar

import trio

from endpoint import arguments as checks
from endpoint.closing import Closing
from endpoint.pubsub.messages import Message
from handshake.credentials import Credentials
from handshake.keyfiles import RolesSource
from peermesh.blocking.portal import Portal
from peermesh.brokers.edge import publisher, subscriber
from peermesh.brokers.edge.errors import EdgeClosed
from peermesh.brokers.edge.host import Host, Options, open_edge_broker
from peermesh.brokers.edge.registry import Registry
from peermesh.brokers.edge.remote import RemoteRegistry, check_address
from peermesh.brokers.edge.statistics import BrokerStatistics, RouteStatistics
from wire.values import Value

Inner = TypeVar("Inner")
Result = TypeVar("Result")


class Where:
    """Where the registry is: ``Where(("host", port))``, or ``Where(zookeeper="host:2181")``."""

    def __init__(
        self,
        *addresses: tuple[str, int],
        zookeeper: str | None = None,
        credentials: Credentials | None = None,
        allow_plain: bool = False,
    ) -> None:
        """Name the registry ports of one or more brokers, or the hosts of ZooKeeper.

        ``credentials`` are for the registry, and for the channels that it leads to.
        """
        self._addresses = tuple(check_address(address) for address in addresses)
        self._zookeeper = None if zookeeper is None else checks.text("zookeeper", zookeeper)
        self.credentials = credentials
        self.allow_plain = allow_plain

    async def enter(self, stack: AsyncExitStack) -> Registry:
        """Open the registry, in the loop."""
        if self._zookeeper is None:
            remote = RemoteRegistry(
                self._addresses, credentials=self.credentials, allow_plain=self.allow_plain
            )
            return await stack.enter_async_context(remote)
        from peermesh.brokers.edge.zookeeper import ZooKeeperRegistry

        return await stack.enter_async_context(ZooKeeperRegistry(self._zookeeper))


class _Living(Closing, Generic[Inner]):
    """Something that is entered and left in the loop's thread, by one task of its own."""

    def __init__(self, where: Where | None) -> None:
        if where is not None and not isinstance(where, Where):
            raise TypeError(f"where={where!r:.80} is {type(where).__name__}: give a Where")
        self._where = where
        self._portal = Portal.acquire()
        self._closing: trio.Event
        self._closed: trio.Event
        self._is_open = True
        self._inner: Inner
        try:
            self._portal.call(self._open)
        except BaseException:
            self._is_open = False
            self._portal.release()
            raise

    def _make(self, registry: Registry | None) -> AbstractAsyncContextManager[Inner]:
        raise NotImplementedError

    async def _open(self) -> None:
        self._closing, self._closed = trio.Event(), trio.Event()
        opened, errors = trio.Event(), list[Exception]()
        self._portal.spawn(partial(self._live, opened, errors))
        await opened.wait()
        if errors:
            raise errors[0]

    async def _live(self, opened: trio.Event, errors: list[Exception]) -> None:
        try:
            async with AsyncExitStack() as stack:
                registry = await self._where.enter(stack) if self._where is not None else None
                self._inner = await stack.enter_async_context(self._make(registry))
                opened.set()
                await self._closing.wait()
        except Exception as error:
            if opened.is_set():
                raise
            errors.append(error)
        finally:
            opened.set()
            self._closed.set()

    def _call(self, function: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
        if not self._is_open:
            raise EdgeClosed("it is closed: make a new one")
        return self._portal.call(function, *arguments)

    def _look(self, function: Callable[[], Result]) -> Result:
        if not self._is_open:
            raise EdgeClosed("it is closed: make a new one")
        return self._portal.call_sync(function)

    def close(self) -> None:
        """Close it, as the end of its block does."""
        if self._is_open:
            self._is_open = False
            self._portal.call(self._end)
            self._portal.release()

    async def _end(self) -> None:
        self._closing.set()
        await self._closed.wait()


class Broker(_Living[Host]):
    """A broker that runs from the moment that it is made."""

    def __init__(
        self,
        options: Options | None = None,
        *,
        where: Where | None = None,
        credentials: Credentials | None = None,
        roles: RolesSource | None = None,
    ) -> None:
        """Start; with ``where``, use that registry, and its credentials if no others are given.

        ``roles`` say what clients may do, by the names in their certificates.
        """
        self._options = options
        self._roles = roles
        if credentials is None and where is not None:
            credentials = where.credentials
        self._credentials = credentials
        super().__init__(where)

    def _make(self, registry: Registry | None) -> AbstractAsyncContextManager[Host]:
        return open_edge_broker(
            options=self._options,
            registry=registry,
            credentials=self._credentials,
            roles=self._roles,
        )

    @property
    def registry(self) -> Where:
        """Say where its clients find the registry."""
        address = self._inner.registry_address
        if address is not None:
            allow_plain = self._options is not None and self._options.allow_plain
            return Where(address, credentials=self._credentials, allow_plain=allow_plain)
        assert self._where is not None
        return self._where

    def active(self) -> None:
        """Wait until this broker serves, rather than stands by."""
        self._call(self._inner.broker.active)

    def statistics(self) -> BrokerStatistics:
        """Count what there is."""
        return self._look(self._inner.broker.statistics)


class Publisher(_Living[publisher.Publisher]):
    """Sends messages on topics; see ``peermesh.brokers.edge.Publisher``."""

    def _make(self, registry: Registry | None) -> AbstractAsyncContextManager[publisher.Publisher]:
        assert registry is not None
        assert self._where is not None
        where = self._where
        return publisher.Publisher(
            registry, credentials=where.credentials, allow_plain=where.allow_plain
        )

    def send(self, topic: str, message: Value) -> None:
        """Send a message; waits while the topic's buffer is full."""
        self._call(self._inner.send, topic, message)

    def send_batch(self, topic: str, messages: Iterable[Value]) -> None:
        """Send many messages, crossing the threads once."""

        async def send() -> None:
            for message in messages:
                await self._inner.send(topic, message)

        self._call(send)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the broker has accepted everything; false after ``timeout`` seconds."""
        return self._call(self._inner.flush, timeout)

    def stop(self, topic: str) -> None:
        """Stop a topic's sender, after the broker has accepted what was sent.

        Raises ``EdgeError`` after ``STOPPED_MAX`` topics, ``NotAllowed`` and ``EdgeClosed``.
        """
        self._call(self._inner.stop, topic)

    def statistics(self) -> list[RouteStatistics]:
        """Count, for each topic."""
        return self._look(self._inner.statistics)


class Subscriber(_Living[subscriber.Subscriber]):
    """Receives messages on topics; see ``peermesh.brokers.edge.Subscriber``."""

    def _make(
        self, registry: Registry | None
    ) -> AbstractAsyncContextManager[subscriber.Subscriber]:
        assert registry is not None
        assert self._where is not None
        where = self._where
        return subscriber.Subscriber(
            registry, credentials=where.credentials, allow_plain=where.allow_plain
        )

    def subscribe(self, topic: str, timeout: float | None = None) -> bool:
        """Want a topic; false after ``timeout`` seconds without a broker."""

        async def subscribe() -> bool:
            return await self._inner.subscribe(topic, timeout=timeout)

        return self._call(subscribe)

    def unsubscribe(self, topic: str) -> None:
        """No longer want a topic."""
        self._call(self._inner.unsubscribe, topic)

    def get(self, timeout: float | None = None) -> Message:
        """Wait for the next message; raises ``TimeoutError``."""
        return self._call(self._inner.get, timeout)

    def poll(self) -> list[Message]:
        """Take all messages that are there, without waiting."""
        return self._look(self._inner.poll)

    def statistics(self) -> list[RouteStatistics]:
        """Count, for each topic."""
        return self._look(self._inner.statistics)
