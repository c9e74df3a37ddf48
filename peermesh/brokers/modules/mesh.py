"""A module that joins a bus to the mesh: it publishes what it receives, and what it hears."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from endpoint.pubsub.messages import Missed
from peermesh.blocking.calls import Endpoint
from peermesh.blocking.subscriber import Subscriber
from peermesh.brokers.modules.errors import BrokerError, InboxFull
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import Port
from wire.errors import DecodeError
from wire.logs import logger_of
from wire.topics import check_topic
from wire.values import Value

logger = logger_of("peermesh.brokers.modules")

TOPIC_PROPERTY = "topic"
"""The property of a message from the mesh that says on which topic it came."""


class MeshModule:
    """The mesh, as a module: it receives for the mesh, and publishes what comes from there.

    Messages of a bus travel as a table of properties and the content. What others publish comes as
    the content of a message. The property ``topic`` of each is the topic on which it came.
    """

    def __init__(
        self, endpoint: Endpoint, *, publishes: str | None = None, subscribes: Iterable[str] = ()
    ) -> None:
        """Publish on the topic ``publishes``, and hear topics that begin with ``subscribes``.

        The endpoint stays its owner's, which peers and ends it.
        """
        self._endpoint = endpoint
        self._topic = check_topic(publishes) if publishes is not None else None
        self._topics = tuple(map(check_topic, subscribes))
        self._subscriber: Subscriber | None = None

    def attach(self, port: Port) -> None:
        """Subscribe, and begin to hear."""
        if self._topics:
            self._subscriber = self._endpoint.subscribe(*self._topics)
            threading.Thread(
                target=_hear,
                args=(self._subscriber, port),
                name=f"peermesh module {port.name} hears",
                daemon=True,
            ).start()

    def receive(self, message: Message) -> None:
        """Publish a message on the mesh, waiting while it has no room."""
        if self._topic is None:
            raise BrokerError("this module only hears: give it a topic that it publishes on")
        self._endpoint.publish(self._topic, message.as_value())

    def close(self) -> None:
        """Hear no more."""
        if self._subscriber is not None:
            self._subscriber.close()


def _hear(subscriber: Subscriber, port: Port) -> None:
    for topic, data in subscriber:
        if isinstance(data, Missed):
            logger.warning("module %s: %d messages of the mesh were missed", port.name, data.count)
            continue
        try:
            port.publish(message_from(topic, data))
        except InboxFull as error:
            logger.warning("module %s: %s", port.name, error)
        except BrokerError:
            return  # The module was removed meanwhile.


def message_from(topic: str, data: Value) -> Message:
    """Make a message of what the mesh has published."""
    try:
        message = Message.of_value(data)
    except DecodeError:
        message = Message(data)
    # The topic is what the mesh says: a sender that has such a property does not choose it.
    return Message(message.content, {**message.properties, TOPIC_PROPERTY: topic})
