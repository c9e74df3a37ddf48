"""A broker of durable topics over a line protocol that a person can speak with telnet.

::

    async with Endpoint() as endpoint, open_broker(endpoint, Place(folder=Path("topics"))):
        async with Publisher("till-3") as publisher:
            await publisher.publish(1, "orders", b"tea")
        async with Consumer("billing", "orders") as consumer:
            message = await consumer.get()
            await consumer.done()

Exactly once: each message of a named publisher is stored once, and each consumer gets it once,
whoever crashes.
"""

from peermesh.brokers.qos2.broker import Ports, QoS2Broker, open_broker
from peermesh.brokers.qos2.client import Consumer, Publisher
from peermesh.brokers.qos2.entries import Letter
from peermesh.brokers.qos2.errors import BrokerError, BrokerUnavailable, Denied, Refused, TakenOver
from peermesh.brokers.qos2.letters import DeadLetters
from peermesh.brokers.qos2.limits import Pace
from peermesh.brokers.qos2.names import ConsumerName
from peermesh.brokers.qos2.place import Place
from peermesh.brokers.qos2.receiver import Incoming
from peermesh.brokers.qos2.shelf import open_shelf
from peermesh.brokers.qos2.topics import Topic, TopicContent, Topics

__all__ = [
    "BrokerError",
    "BrokerUnavailable",
    "Consumer",
    "ConsumerName",
    "DeadLetters",
    "Denied",
    "Incoming",
    "Letter",
    "Pace",
    "Place",
    "Ports",
    "Publisher",
    "QoS2Broker",
    "Refused",
    "TakenOver",
    "Topic",
    "TopicContent",
    "Topics",
    "open_broker",
    "open_shelf",
]
