"""The broker and its clients for threads and the REPL; see ``peermesh.brokers.qos2``.

::

    with Broker(folder="topics") as broker, Publisher("till-3", broker.publisher_port) as publisher:
        publisher.publish(1, "orders", b"tea")
"""

from __future__ import annotations

import queue
from collections.abc import Awaitable, Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TypeVar

import trio

from endpoint import arguments as checks
from endpoint.closing import Closing
from endpoint.endpoint import Endpoint
from handshake.credentials import Credentials
from handshake.keyfiles import RolesSource
from peermesh.blocking.portal import Portal
from peermesh.brokers.qos2 import client
from peermesh.brokers.qos2.broker import Ports, QoS2Broker, open_broker
from peermesh.brokers.qos2.entries import Letter
from peermesh.brokers.qos2.errors import BrokerUnavailable
from peermesh.brokers.qos2.letters import DeadLetters
from peermesh.brokers.qos2.limits import CONSUMER_PORT, PUBLISHER_PORT, Pace
from peermesh.brokers.qos2.place import Place
from peermesh.brokers.qos2.receiver import Incoming
from peermesh.brokers.qos2.topics import Topic, TopicContent, Topics

Result = TypeVar("Result")


class _Blocking(Closing):
    """What all three have in common: the way into the loop, and its end."""

    def __init__(self) -> None:
        self._portal = Portal.acquire()
        self._is_open = True

    def _call(
        self,
        function: Callable[..., Awaitable[Result]],
        *arguments: object,
        timeout: float | None = None,
    ) -> Result:
        """Run something over there; raises ``BrokerUnavailable`` after so many seconds."""
        limit = checks.seconds("timeout", timeout)

        async def call() -> Result:
            with trio.fail_after(limit):
                return await function(*arguments)

        try:
            return self._portal.call(call)
        except trio.TooSlowError:
            raise BrokerUnavailable(f"no answer within {limit:g} s: ask again") from None

    async def _end(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of it."""
        if self._is_open:
            self._is_open = False
            try:
                self._portal.call(self._end)
            finally:
                self._portal.release()


class Publisher(_Blocking):
    """Publishes under a name, each id once; see ``peermesh.brokers.qos2.Publisher``."""

    def __init__(
        self,
        name: str,
        port: int = PUBLISHER_PORT,
        host: str = "127.0.0.1",
        *,
        credentials: Credentials | None = None,
        allow_plain: bool = False,
    ) -> None:
        """Connect when it is needed; raises ``InsecureAddress``."""
        self._core = client.Publisher(
            name, port, host, credentials=credentials, allow_plain=allow_plain
        )
        super().__init__()

    def publish(
        self,
        message_id: int,
        topics: str | Iterable[str],
        payload: bytes,
        timeout: float | None = None,
    ) -> None:
        """Return once the message is durable on all its topics; try for so many seconds.

        Raises ``Refused``, and ``BrokerUnavailable``: then publish it again, with its id.
        """
        self._call(self._core.publish, message_id, topics, payload, timeout=timeout)

    async def _end(self) -> None:
        await self._core.aclose()


class Consumer(_Blocking):
    """Takes each message once; see ``peermesh.brokers.qos2.Consumer``."""

    def __init__(  # noqa: PLR0913 - five of them can be left out
        self,
        name: str,
        topics: str | Iterable[str],
        port: int = CONSUMER_PORT,
        host: str = "127.0.0.1",
        *,
        handled: Mapping[str, int] | None = None,
        credentials: Credentials | None = None,
        allow_plain: bool = False,
    ) -> None:
        """Connect when it is needed; raises ``InsecureAddress``."""
        self._core = client.Consumer(
            name,
            topics,
            port,
            host,
            handled=handled,
            credentials=credentials,
            allow_plain=allow_plain,
        )
        super().__init__()

    def get(self, timeout: float | None = None) -> Incoming:
        """Wait for the next message; raises ``BrokerUnavailable`` if none came in time."""
        return self._call(self._core.get, timeout=timeout)

    def done(self, timeout: float | None = None) -> None:
        """Tell that it is dealt with; return when it will not come again."""
        self._call(self._core.done, timeout=timeout)

    def refuse(self, reason: str, *, is_final: bool = False) -> None:
        """Have it sent again after a while; in the end, or at once, it is a dead letter."""

        async def refuse() -> None:
            await self._core.refuse(reason, is_final=is_final)

        self._call(refuse)

    async def _end(self) -> None:
        await self._core.aclose()


class Broker(_Blocking):
    """A broker with an endpoint of its own, in the background."""

    def __init__(
        self,
        folder: str | PathLike[str] | None = None,
        ports: Ports | None = None,
        pace: Pace | None = None,
        roles: RolesSource | None = None,
    ) -> None:
        """Start it; without a folder it keeps nothing. ``roles`` say what clients may do.

        Raises what ``open_broker`` raises.
        """
        super().__init__()
        self._place = Place(folder=None if folder is None else Path(folder))
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        started: queue.SimpleQueue[QoS2Broker | BaseException] = queue.SimpleQueue()
        self._portal.start_soon(self._run, started, ports, pace, roles)
        found = started.get()
        if not isinstance(found, QoS2Broker):
            self._is_open = False
            self._portal.release()
            raise found
        self._core = found
        self.publisher_port = found.publisher_port
        self.consumer_port = found.consumer_port

    async def _run(
        self,
        started: queue.SimpleQueue[QoS2Broker | BaseException],
        ports: Ports | None,
        pace: Pace | None,
        roles: RolesSource | None,
    ) -> None:
        try:
            with self._scope:
                async with (
                    Endpoint() as endpoint,
                    open_broker(endpoint, self._place, ports, pace, roles) as broker,
                ):
                    started.put(broker)
                    await trio.sleep_forever()
        except BaseExceptionGroup as group:
            started.put(_first(group))
        except Exception as error:
            started.put(error)
        finally:
            self._ended.set()

    def statistics(self) -> dict[str, int]:
        """Give what was counted, by name."""
        return self._portal.call_sync(self._core.statistics)

    def letters(self) -> list[Letter]:
        """Give the dead letters."""
        return self._call(DeadLetters(self._core.shelf).list)

    def replay(self, number: int) -> Letter:
        """Publish a dead letter again, for the consumer that it failed at."""
        return self._call(DeadLetters(self._core.shelf).replay, number)

    def purge(self, number: int) -> Letter:
        """Remove a dead letter."""
        return self._call(DeadLetters(self._core.shelf).purge, number)

    def topics(self) -> list[Topic]:
        """Give the topics, by name."""
        return self._call(Topics(self._core.shelf).list)

    def topic(self, name: str) -> TopicContent:
        """Look into a topic; raises ``Refused`` if there is none of this name."""
        return self._call(Topics(self._core.shelf).get, name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its messages, read or not; see ``Topics.delete``."""
        self._call(Topics(self._core.shelf).delete, name)

    async def _end(self) -> None:
        self._scope.cancel()
        await self._ended.wait()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Take the first error out of the groups around it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
