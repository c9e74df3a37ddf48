"""The QoS-2 broker and its clients for threads and the REPL.

Written by ``tools/doors.py``: change the trio class.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from peermesh.blocking.calls import Endpoint
from peermesh.blocking.standing import Standing
from peermesh.brokers.qos2.broker import (
    Ports,
    QoS2Broker as CoreQoS2Broker,
    open_broker as core_open_broker,
)
from peermesh.brokers.qos2.client import Consumer as CoreConsumer, Publisher as CorePublisher
from peermesh.brokers.qos2.limits import CONSUMER_PORT, PUBLISHER_PORT, Pace
from peermesh.doors.handles import check_handle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from endpoint.barriers import Seconds
    from handshake.credentials import Credentials
    from handshake.keyfiles import RolesSource
    from peermesh.blocking.way import Way
    from peermesh.brokers.qos2.entries import Letter
    from peermesh.brokers.qos2.letters import DeadLetters as CoreDeadLetters
    from peermesh.brokers.qos2.names import ConsumerName
    from peermesh.brokers.qos2.place import Place
    from peermesh.brokers.qos2.receiver import Incoming
    from peermesh.brokers.qos2.topics import Topic, TopicContent, Topics as CoreTopics


class Publisher(Standing):
    """Publishes under a name: a message with an id that was stored already is not stored again."""

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
        self._passage, self._publisher = self._stand(
            CorePublisher(name, port, host, credentials=credentials, allow_plain=allow_plain)
        )

    def publish(
        self, message_id: int, topics: str | Iterable[str], payload: bytes, timeout: Seconds = None
    ) -> None:
        """Return once the message is durable on all its topics; try until it is.

        Ids only grow. After a restart, repeat the message of which you do not know. Raises
        ``Refused`` for what the broker will never take, ``Denied`` where a right is missing, and
        ``BrokerUnavailable`` after ``timeout`` seconds: then publish it again, with its id.
        """
        return self._passage.call(self._publisher.publish, message_id, topics, payload, timeout)


class Consumer(Standing):
    """Takes the messages of topics under a name, one after the other, each once.

    ``handled`` is the last number that was dealt with in each topic, as far as the caller keeps
    it. Without it a message may come twice, when the process died between dealing with it and
    ``done``.
    """

    def __init__(
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
        self._passage, self._consumer = self._stand(
            CoreConsumer(
                name,
                topics,
                port,
                host,
                handled=handled,
                credentials=credentials,
                allow_plain=allow_plain,
            )
        )

    def get(self, timeout: Seconds = None) -> Incoming:
        """Wait for the next message; call ``done`` or ``refuse`` for it before the next.

        Asked again before that, gives the same. Raises ``Refused``, ``Denied`` where a right is
        missing or was withdrawn, ``TakenOver`` when another consumer logged in under this name, and
        ``BrokerUnavailable`` if none came within ``timeout`` seconds.
        """
        return self._passage.call(self._consumer.get, timeout)

    def done(self, timeout: Seconds = None) -> None:
        """Tell that the message is dealt with; return when it will not come again.

        When the connection is lost meanwhile it may, and is told from a new one by its number. So
        it is after ``BrokerUnavailable``, which is raised after ``timeout`` seconds.
        """
        return self._passage.call(self._consumer.done, timeout)

    def refuse(self, reason: str, *, is_final: bool = False) -> None:
        """Have it sent again after a while; in the end, or at once, it is a dead letter."""
        return self._passage.call(self._consumer.refuse, reason, is_final=is_final)


class DeadLetters:
    """The dead letters of a broker, over its shelf: the broker's own, or a follower's."""

    def __init__(self, passage: Way, core: CoreDeadLetters) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._dead_letters = core

    def list(self) -> list[Letter]:
        """Give all that were neither replayed nor purged, the oldest first."""
        return self._passage.call(self._dead_letters.list)

    def get(self, number: int) -> Letter:
        """Give one; raises ``Refused`` if there is none of this number."""
        return self._passage.call(self._dead_letters.get, number)

    def replay(self, number: int, *, to_all: bool = False) -> Letter:
        """Publish one on its topic again, for the consumer that it failed at, or for all.

        Once, however often this is interrupted and repeated. Raises ``Refused``.
        """
        return self._passage.call(self._dead_letters.replay, number, to_all=to_all)

    def purge(self, number: int) -> Letter:
        """Remove one; raises ``Refused``. Its bytes go with the oldest ones."""
        return self._passage.call(self._dead_letters.purge, number)


class Topics:
    """The topics of a broker, over its shelf: the broker's own, or a follower's."""

    def __init__(self, passage: Way, core: CoreTopics) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._topics = core

    def list(self) -> list[Topic]:
        """Give all topics, by name. It asks the catalogue only, and opens none of them."""
        return self._passage.call(self._topics.list)

    def get(self, name: str) -> TopicContent:
        """Look into a topic; raises ``Refused`` if there is none of this name."""
        return self._passage.call(self._topics.get, name)

    def delete(self, name: str) -> None:
        """Delete a topic: its messages, read or not, the places of consumers, publishers' ids.

        Consumers that are subscribed to it are disconnected; who names it again makes it anew.
        Raises ``Refused`` if there is none, or for ``dead_letter``, and ``BrokerUnavailable`` if
        its keeper has not done it in time; then it is done later.
        """
        return self._passage.call(self._topics.delete, name)

    def consumers(self) -> tuple[ConsumerName, ...]:
        """Give all names under which a consumer has logged in, in their order."""
        return self._passage.call(self._topics.consumers)

    def forget(self, consumer: str) -> None:
        """Forget a consumer: what it has had of each topic, and whose its name is.

        A connection of it can acknowledge nothing more. Who logs in under its name later begins
        with the oldest message of each topic. Raises ``Refused`` if there is none.
        """
        return self._passage.call(self._topics.forget, consumer)


class QoS2Broker:
    """A running broker. Use ``open_broker``."""

    def __init__(self, passage: Way, core: CoreQoS2Broker) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._qo_s2_broker = core

    @property
    def publisher_port(self) -> int:
        """Where publishers connect."""
        return self._qo_s2_broker.publisher_port

    @property
    def consumer_port(self) -> int:
        """Where consumers connect."""
        return self._qo_s2_broker.consumer_port

    def statistics(self) -> dict[str, int]:
        """Give what was counted, by name; see ``Counters``, and ``Shelf.usage``."""
        return self._passage.call_sync(self._qo_s2_broker.statistics)

    @property
    def letters(self) -> DeadLetters:
        """Its dead letters."""
        return DeadLetters(self._passage, self._qo_s2_broker.letters)

    @property
    def topics(self) -> Topics:
        """Its topics."""
        return Topics(self._passage, self._qo_s2_broker.topics)


@contextmanager
def open_broker(
    endpoint: Endpoint,
    place: Place | None = None,
    ports: Ports | None = None,
    pace: Pace | None = None,
    roles: RolesSource | None = None,
) -> Iterator[QoS2Broker]:
    """Run a broker on an endpoint, until the end of the block.

    ``roles`` say what clients may do, by the names in their certificates; without, those of the
    endpoint.
    Raises ``InsecureAddress``, ``AddressInUse`` and whatever the stores raise.
    """
    check_handle("endpoint", endpoint, Endpoint)
    passage, core = endpoint.inside()
    with passage.hosted(core_open_broker(core, place, ports, pace, roles)) as found:
        yield QoS2Broker(passage, found)
