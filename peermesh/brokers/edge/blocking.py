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
from functools import partial, wraps
from typing import Concatenate, Generic, ParamSpec, TypeVar

import trio

from endpoint import arguments as checks
from endpoint.closing import Closing
from handshake.credentials import Credentials
from handshake.keyfiles import RolesSource
from peermesh.blocking.portal import Portal
from peermesh.brokers.edge import publisher, subscriber
from peermesh.brokers.edge.errors import EdgeClosed
from peermesh.brokers.edge.host import Host, open_edge_broker
from peermesh.brokers.edge.options import Options
from peermesh.brokers.edge.registry import Registry
from peermesh.brokers.edge.remote import RemoteRegistry, check_address
from peermesh.brokers.edge.statistics import BrokerStatistics
from wire.values import Value

Inner = TypeVar("Inner")
Result = TypeVar("Result")
Given = ParamSpec("Given")


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

    def __init__(self, make: Callable[[AsyncExitStack], Awaitable[Inner]]) -> None:
        self._portal = Portal.acquire()
        self._is_open = True
        self.inner: Inner
        """What lives there: only the loop may touch it."""
        self._closing: trio.Event
        self._closed: trio.Event
        try:
            self._portal.call(self._open, make)
        except BaseException:
            self._is_open = False
            self._portal.release()
            raise

    async def _open(self, make: Callable[[AsyncExitStack], Awaitable[Inner]]) -> None:
        self._closing, self._closed = trio.Event(), trio.Event()
        opened, errors = trio.Event(), list[Exception]()

        async def live() -> None:
            try:
                async with AsyncExitStack() as stack:
                    self.inner = await make(stack)
                    opened.set()
                    await self._closing.wait()
            except Exception as error:
                if opened.is_set():
                    raise
                errors.append(error)
            finally:
                opened.set()
                self._closed.set()

        self._portal.spawn(live)
        await opened.wait()
        if errors:
            raise errors[0]

    def call(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """Run an async function in the loop, and wait for its result; raises ``EdgeClosed``."""
        return self._open_portal().call(function)

    def look(self, function: Callable[[], Result]) -> Result:
        """Run a function in the loop, and wait for its result; raises ``EdgeClosed``."""
        return self._open_portal().call_sync(function)

    def _open_portal(self) -> Portal:
        if not self._is_open:
            raise EdgeClosed("it is closed: make a new one")
        return self._portal

    def close(self) -> None:
        """Close it, as the end of its block does."""
        if self._is_open:
            self._is_open = False
            self._portal.call(self._end)
            self._portal.release()

    async def _end(self) -> None:
        self._closing.set()
        await self._closed.wait()


def _waiting(
    method: Callable[Concatenate[Inner, Given], Awaitable[Result]],
) -> Callable[Concatenate[_Living[Inner], Given], Result]:
    """Make of an async method one that waits."""

    @wraps(method)
    def call(living: _Living[Inner], /, *given: Given.args, **named: Given.kwargs) -> Result:
        return living.call(partial(method, living.inner, *given, **named))

    return call


def _looking(
    method: Callable[Concatenate[Inner, Given], Result],
) -> Callable[Concatenate[_Living[Inner], Given], Result]:
    """Make of a method one that is called in the loop."""

    @wraps(method)
    def look(living: _Living[Inner], /, *given: Given.args, **named: Given.kwargs) -> Result:
        return living.look(partial(method, living.inner, *given, **named))

    return look


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
        if where is not None:
            credentials = _checked(where).credentials if credentials is None else credentials

        async def make(stack: AsyncExitStack) -> Host:
            registry = None if where is None else await where.enter(stack)
            opening = open_edge_broker(
                options=options, registry=registry, credentials=credentials, roles=roles
            )
            return await stack.enter_async_context(opening)

        super().__init__(make)
        address = self.inner.registry_address
        allow_plain = options is not None and options.allow_plain
        self._registry = where
        if address is not None:
            self._registry = Where(address, credentials=credentials, allow_plain=allow_plain)

    @property
    def registry(self) -> Where:
        """Say where its clients find the registry."""
        assert self._registry is not None
        return self._registry

    def active(self) -> None:
        """Wait until this broker serves, rather than stands by."""
        self.call(self.inner.broker.active)

    def statistics(self) -> BrokerStatistics:
        """Count what there is."""
        return self.look(self.inner.broker.statistics)


def _checked(where: object) -> Where:
    if not isinstance(where, Where):
        raise TypeError(f"where={where!r:.80} is {type(where).__name__}: give a Where")
    return where


class _Client(_Living[Inner]):
    """A publisher or a subscriber, and the registry that it uses."""

    def __init__(
        self, kind: Callable[..., AbstractAsyncContextManager[Inner]], where: Where
    ) -> None:
        place = _checked(where)

        async def make(stack: AsyncExitStack) -> Inner:
            registry = await place.enter(stack)
            trust = {"credentials": place.credentials, "allow_plain": place.allow_plain}
            return await stack.enter_async_context(kind(registry, **trust))

        super().__init__(make)


class Publisher(_Client[publisher.Publisher]):
    """Sends messages on topics; see ``peermesh.brokers.edge.Publisher``."""

    def __init__(self, where: Where) -> None:
        """Find the broker through the registry there."""
        super().__init__(publisher.Publisher, where)

    send = _waiting(publisher.Publisher.send)
    flush = _waiting(publisher.Publisher.flush)
    stop = _waiting(publisher.Publisher.stop)
    statistics = _looking(publisher.Publisher.statistics)

    def send_batch(self, topic: str, messages: Iterable[Value]) -> None:
        """Send many messages, crossing the threads once."""

        async def send() -> None:
            for message in messages:
                await self.inner.send(topic, message)

        self.call(send)


class Subscriber(_Client[subscriber.Subscriber]):
    """Receives messages on topics; see ``peermesh.brokers.edge.Subscriber``."""

    def __init__(self, where: Where) -> None:
        """Find the broker through the registry there."""
        super().__init__(subscriber.Subscriber, where)

    subscribe = _waiting(subscriber.Subscriber.subscribe)
    unsubscribe = _waiting(subscriber.Subscriber.unsubscribe)
    get = _waiting(subscriber.Subscriber.get)
    poll = _looking(subscriber.Subscriber.poll)
    statistics = _looking(subscriber.Subscriber.statistics)
