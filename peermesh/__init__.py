"""A brokerless peer-to-peer mesh: publish/subscribe, replicated stores, barriers that explain.

This is the trio API: what may wait is ``async``. ``peermesh.blocking`` has the same names for
threads and the REPL.
"""

from endpoint import (
    Endpoint,
    EndpointStatistics,
    Message,
    Missed,
    OutboxStatistics,
    Outcome,
    OverflowPolicy,
    PeerInfo,
    Publisher,
    Settings,
    SettingsError,
    StatusCode,
    StatusEvent,
    StatusSubscriber,
    Subscriber,
)
from endpoint.attaching import Backend
from endpoint.receipts import Receipt
from endpoint.store import Store
from endpoint.watching import Change, Watch
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from stores.batch import Batch
from wire.errors import MeshError
from wire.identifiers import EndpointId
from wire.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value

__all__ = [
    "Backend",
    "Batch",
    "Change",
    "ClusterSecret",
    "Count",
    "Credentials",
    "Endpoint",
    "EndpointId",
    "EndpointStatistics",
    "Enum",
    "MeshError",
    "Message",
    "Missed",
    "OutboxStatistics",
    "Outcome",
    "OverflowPolicy",
    "PeerInfo",
    "Port",
    "Publisher",
    "Receipt",
    "Set",
    "Settings",
    "SettingsError",
    "StatusCode",
    "StatusEvent",
    "StatusSubscriber",
    "Store",
    "Subscriber",
    "Table",
    "Timespan",
    "Timestamp",
    "Value",
    "Watch",
]
