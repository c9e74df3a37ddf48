"""A brokerless peer-to-peer mesh: publish/subscribe, replicated stores, barriers that explain.

This is the trio API: what may wait is ``async``. ``peermesh.blocking`` has the same names for
threads and the REPL.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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
from wire.errors import MeshError
from wire.identifiers import EndpointId
from wire.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value

if TYPE_CHECKING:
    from endpoint.receipts import Receipt
    from endpoint.store import Store
    from endpoint.watching import Change, Watch
    from handshake.credentials import Credentials
    from handshake.secret import ClusterSecret
    from stores.batch import Batch

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

_LATER = {
    "Batch": "stores.batch",
    "Change": "endpoint.watching",
    "ClusterSecret": "handshake.secret",
    "Credentials": "handshake.credentials",
    "Receipt": "endpoint.receipts",
    "Store": "endpoint.store",
    "Watch": "endpoint.watching",
}
"""Names whose modules are imported when they are first used, so that importing stays cheap."""


def __getattr__(name: str) -> object:
    """Import what was not needed until now."""
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
