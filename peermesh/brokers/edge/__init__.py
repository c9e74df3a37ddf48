"""A broker with a channel of its own for each topic, found through a registry.

::

    async with open_edge_broker() as host, RemoteRegistry([host.registry_address]) as registry:
        async with Publisher(registry) as publisher, Subscriber(registry) as subscriber:
            await subscriber.subscribe("greetings")
            await publisher.send("greetings", "hello")
            print(await subscriber.get())

Clients need not be peers of the mesh.
"""

from peermesh.brokers.edge.broker import EdgeBroker
from peermesh.brokers.edge.errors import EdgeClosed, EdgeError, RegistryError
from peermesh.brokers.edge.host import Broker, Host, open_edge_broker
from peermesh.brokers.edge.options import Bridged, Options
from peermesh.brokers.edge.publisher import Publisher
from peermesh.brokers.edge.registry import Registry
from peermesh.brokers.edge.remote import RemoteRegistry
from peermesh.brokers.edge.statistics import BrokerStatistics, ChannelStatistics, RouteStatistics
from peermesh.brokers.edge.subscriber import Subscriber
from peermesh.brokers.edge.where import Where

__all__ = [
    "Bridged",
    "Broker",
    "BrokerStatistics",
    "ChannelStatistics",
    "EdgeBroker",
    "EdgeClosed",
    "EdgeError",
    "Host",
    "Options",
    "Publisher",
    "Registry",
    "RegistryError",
    "RemoteRegistry",
    "RouteStatistics",
    "Subscriber",
    "Where",
    "open_edge_broker",
]
