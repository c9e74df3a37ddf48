"""A brokerless peer-to-peer mesh: publish/subscribe, replicated stores, barriers that explain.

This is the trio API: what may wait is ``async``. ``peermesh.blocking`` has the same names for
threads and the REPL.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from endpoint.attaching import Backend
    from endpoint.endpoint import Endpoint
    from endpoint.log import Log, Start
    from endpoint.mailbox import Message, Missed
    from endpoint.outbox import OverflowPolicy
    from endpoint.outcome import Outcome
    from endpoint.promoting import Promotion
    from endpoint.publisher import Publisher
    from endpoint.reading import Entry
    from endpoint.receipts import Receipt
    from endpoint.settings import Settings, SettingsError
    from endpoint.statistics import EndpointStatistics, PeerInfo
    from endpoint.status import StatusCode, StatusEvent
    from endpoint.store import Store
    from endpoint.stream import StatusSubscriber
    from endpoint.subscriber import Subscriber
    from endpoint.verifying import Verification
    from endpoint.watching import Change, Commit, Watch
    from handshake.credentials import Credentials
    from handshake.secret import ClusterSecret
    from stores.batch import Batch
    from stores.watches import Bookmark, Gap
    from wire.errors import MeshError
    from wire.identifiers import EndpointId
    from wire.plain import plain
    from wire.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value

__all__ = [
    "Backend",
    "Batch",
    "Bookmark",
    "Change",
    "ClusterSecret",
    "Commit",
    "Count",
    "Credentials",
    "Endpoint",
    "EndpointId",
    "EndpointStatistics",
    "Entry",
    "Enum",
    "Gap",
    "Log",
    "MeshError",
    "Message",
    "Missed",
    "Outcome",
    "OverflowPolicy",
    "PeerInfo",
    "Port",
    "Promotion",
    "Publisher",
    "Receipt",
    "Set",
    "Settings",
    "SettingsError",
    "Start",
    "StatusCode",
    "StatusEvent",
    "StatusSubscriber",
    "Store",
    "Subscriber",
    "Table",
    "Timespan",
    "Timestamp",
    "Value",
    "Verification",
    "Watch",
    "plain",
]

_HOMES = {
    "Backend": "endpoint.attaching",
    "Batch": "stores.batch",
    "Bookmark": "stores.watches",
    "Change": "endpoint.watching",
    "ClusterSecret": "handshake.secret",
    "Commit": "endpoint.watching",
    "Count": "wire.values",
    "Credentials": "handshake.credentials",
    "Endpoint": "endpoint.endpoint",
    "EndpointId": "wire.identifiers",
    "EndpointStatistics": "endpoint.statistics",
    "Entry": "endpoint.reading",
    "Enum": "wire.values",
    "Gap": "stores.watches",
    "Log": "endpoint.log",
    "MeshError": "wire.errors",
    "Message": "endpoint.mailbox",
    "Missed": "endpoint.mailbox",
    "Outcome": "endpoint.outcome",
    "OverflowPolicy": "endpoint.outbox",
    "PeerInfo": "endpoint.statistics",
    "Port": "wire.values",
    "Promotion": "endpoint.promoting",
    "Publisher": "endpoint.publisher",
    "Receipt": "endpoint.receipts",
    "Set": "wire.values",
    "Settings": "endpoint.settings",
    "SettingsError": "endpoint.settings",
    "Start": "endpoint.log",
    "StatusCode": "endpoint.status",
    "StatusEvent": "endpoint.status",
    "StatusSubscriber": "endpoint.stream",
    "Store": "endpoint.store",
    "Subscriber": "endpoint.subscriber",
    "Table": "wire.values",
    "Timespan": "wire.values",
    "Timestamp": "wire.values",
    "Value": "wire.values",
    "Verification": "endpoint.verifying",
    "Watch": "endpoint.watching",
    "plain": "wire.plain",
}
"""Where each name is defined. It is imported when it is first used: a program that only wants the
version, or its own help, does not pay for a mesh."""


def __getattr__(name: str) -> object:
    """Import a name when it is first used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what there is, for completion."""
    return __all__
