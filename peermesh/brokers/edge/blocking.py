"""The edge broker and its clients for threads and the REPL.

Written by ``tools/doors.py``: change the trio class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from endpoint import arguments
from peermesh.brokers.edge.errors import EdgeClosed
from peermesh.brokers.edge.host import Broker as CoreBroker
from peermesh.brokers.edge.outgoing import BUFFER_SIZE
from peermesh.brokers.edge.publisher import Publisher as CorePublisher
from peermesh.brokers.edge.standing import EdgeStanding
from peermesh.brokers.edge.subscriber import Subscriber as CoreSubscriber
from peermesh.brokers.edge.where import Where

if TYPE_CHECKING:
    from collections.abc import Iterable

    from endpoint.pubsub.messages import Message
    from handshake.credentials import Credentials
    from handshake.keyfiles import RolesSource
    from peermesh.brokers.edge.options import Options
    from peermesh.brokers.edge.registry import Registry
    from peermesh.brokers.edge.statistics import BrokerStatistics, RouteStatistics
    from wire.values import Value

__all__ = ["Broker", "Publisher", "Subscriber", "Where"]


class Broker(EdgeStanding):
    """A broker that is alone, and runs from the moment that it is opened."""

    def __init__(
        self,
        options: Options | None = None,
        *,
        where: Where | None = None,
        credentials: Credentials | None = None,
        roles: RolesSource | None = None,
    ) -> None:
        """Bring a registry; with ``where``, use that one, and its credentials without others.

        ``roles`` say what clients may do, by the names in their certificates.
        """
        self._passage, self._broker = self._stand(
            CoreBroker(options, where=where, credentials=credentials, roles=roles)
        )

    @property
    def registry(self) -> Where:
        """Where its clients find the registry."""
        return self._broker.registry

    def active(self) -> None:
        """Wait until this broker serves, rather than stands by."""
        return self._passage.call(self._broker.active)

    def statistics(self) -> BrokerStatistics:
        """Count what there is."""
        return self._passage.call_sync(self._broker.statistics)


class Publisher(EdgeStanding):
    """Sends messages on topics: ``async with Publisher(registry) as publisher``.

    A topic's messages go by the default channel until the topic has a channel of its own, and while
    none can be reached. Without a broker they wait in the topic's buffer.
    """

    def __init__(
        self,
        registry: Registry | Where,
        *,
        buffer_size: int = BUFFER_SIZE,
        credentials: Credentials | None = None,
        allow_plain: bool = False,
    ) -> None:
        """Find the broker through a registry, or through the one that it is said where to find.

        A topic's buffer holds ``buffer_size`` messages before ``send`` waits. A ``Where`` has
        credentials of its own, if no others are given.
        """
        self._passage, self._publisher = self._stand(
            CorePublisher(
                registry, buffer_size=buffer_size, credentials=credentials, allow_plain=allow_plain
            )
        )

    def send(self, topic: str, message: Value) -> None:
        """Send a message, in order with all others on its topic; waits while the buffer is full.

        Raises ``InvalidTopic``, ``EncodeError``, ``EdgeClosed``, and ``NotAllowed`` if the broker
        has refused messages on this topic since the last call: those are not sent again.
        """
        return self._passage.call(self._publisher.send, topic, message)

    def send_batch(self, topic: str, messages: Iterable[Value]) -> None:
        """Send many messages, as ``send`` does each; threads cross once for all of them."""
        return self._passage.call(
            self._publisher.send_batch, topic, list(arguments.several("messages", messages))
        )

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the broker has accepted everything; false after ``timeout`` seconds.

        Raises ``NotAllowed`` if it has refused some of it, and ``EdgeClosed``.
        """
        return self._passage.call(self._publisher.flush, timeout)

    def stop(self, topic: str) -> None:
        """Stop a topic's sender, after the broker has accepted what was sent.

        Raises ``EdgeError`` if ``STOPPED_MAX`` other topics are stopped: the sender goes on.
        Raises ``NotAllowed`` if the broker has refused some of it, and ``EdgeClosed``.
        """
        return self._passage.call(self._publisher.stop, topic)

    def statistics(self) -> list[RouteStatistics]:
        """Count, for each topic."""
        return self._passage.call_sync(self._publisher.statistics)


class Subscriber(EdgeStanding):
    """Receives messages on topics: ``async with Subscriber(registry) as subscriber``.

    A topic comes by the default channel until it has a channel of its own.
    """

    def __init__(
        self,
        registry: Registry | Where,
        *,
        credentials: Credentials | None = None,
        allow_plain: bool = False,
    ) -> None:
        """Find the broker through a registry, or through the one that it is said where to find.

        A ``Where`` has credentials of its own, if no others are given.
        """
        self._passage, self._subscriber = self._stand(
            CoreSubscriber(registry, credentials=credentials, allow_plain=allow_plain)
        )

    def subscribe(self, topic: str, timeout: float | None = None) -> bool:
        """Want a topic, whether it exists or not; wait until a broker knows of it.

        False after ``timeout`` seconds without a broker; the subscription stands, and becomes
        effective later. Raises ``InvalidTopic``, ``EdgeClosed`` and ``NotAllowed``.
        """
        return self._passage.call(self._subscriber.subscribe, topic, timeout)

    def is_attached(self, topic: str) -> bool:
        """Tell whether a broker knows of the subscription now."""
        return self._passage.call_sync(self._subscriber.is_attached, topic)

    def unsubscribe(self, topic: str) -> None:
        """No longer want a topic; what came before can still be read."""
        return self._passage.call(self._subscriber.unsubscribe, topic)

    def get(self, timeout: float | None = None) -> Message:
        """Wait for the next message, for ``timeout`` seconds at most: its topic, and its data.

        ``Missed(n)`` comes in the place of messages that were lost on their way to us. Raises
        ``TimeoutError``, ``EdgeClosed`` when it is closed and was read to its end, and once
        ``NotAllowed`` for a topic whose subscription ended because the right to it was withdrawn.
        """
        return self._passage.call(self._subscriber.get, timeout)

    def poll(self) -> list[Message]:
        """Take all messages that are there, without waiting; raises ``NotAllowed`` as ``get``."""
        return self._passage.call_sync(self._subscriber.poll)

    def available(self) -> int:
        """Count the messages that are there."""
        return self._passage.call_sync(self._subscriber.available)

    def __iter__(self) -> Self:
        """Iterate until it is closed."""
        return self

    def __next__(self) -> Message:
        """Wait for the next message."""
        try:
            return self.get()
        except EdgeClosed:
            raise StopIteration from None

    def statistics(self) -> list[RouteStatistics]:
        """Count, for each topic."""
        return self._passage.call_sync(self._subscriber.statistics)
