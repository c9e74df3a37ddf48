"""The names of the API, once for all of its doors, and how they are imported when first used.

A program that only wants the version, or its own help, does not pay for a mesh.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

SHARED: Final = {
    "AppendReceipt": "endpoint.replicas.logs.log_receipts",
    "Backend": "endpoint.replicas.attaching",
    "Batch": "stores.batch",
    "Bookmark": "stores.watches",
    "Change": "endpoint.replicas.stores.watching",
    "ChangeKind": "stores.table",
    "ChangeOf": "stores.history",
    "ClusterSecret": "handshake.secret",
    "Commit": "endpoint.replicas.stores.watching",
    "Count": "wire.scalars",
    "Credentials": "handshake.credentials",
    "DialInfo": "endpoint.statistics",
    "Elected": "endpoint.replicas.stores.locks",
    "EndpointId": "wire.identifiers",
    "EndpointStatistics": "endpoint.statistics",
    "Entry": "endpoint.replicas.stores.reading",
    "Enum": "wire.scalars",
    "ErrorCode": "wire.errors",
    "FencingToken": "endpoint.replicas.stores.locks",
    "Gap": "stores.watches",
    "GroupMember": "endpoint.replicas.handle",
    "JoinTicket": "handshake.ticket",
    "LogBookmark": "stores.log.bookmarks",
    "LogEntry": "endpoint.replicas.logs.log_reading",
    "LogPromotion": "endpoint.replicas.logs.log_receipts",
    "MeshError": "wire.errors",
    "Message": "endpoint.pubsub.messages",
    "Missed": "endpoint.pubsub.messages",
    "OutboxStatistics": "endpoint.link.link",
    "Outcome": "endpoint.outcome",
    "Overflow": "endpoint.pubsub.queueing",
    "OverflowPolicy": "endpoint.link.data_queue",
    "Page": "endpoint.replicas.stores.reading",
    "PeerInfo": "endpoint.statistics",
    "Port": "wire.scalars",
    "PortProtocol": "wire.scalars",
    "Position": "stores.log.runs",
    "Promotion": "endpoint.replicas.stores.outcomes",
    "Receipt": "endpoint.replicas.receipts",
    "ReplicaDigest": "stores.digests",
    "Set": "wire.values",
    "Settings": "endpoint.settings",
    "SettingsError": "wire.errors",
    "Start": "endpoint.replicas.logs.log_reading",
    "Snapshot": "endpoint.inspection",
    "StatusCode": "endpoint.mesh.status",
    "StatusEvent": "endpoint.mesh.status",
    "StorageKeys": "stores.sealing",
    "StoreEvent": "endpoint.replicas.stores.events",
    "Table": "wire.values",
    "Timespan": "wire.scalars",
    "Timestamp": "wire.scalars",
    "Value": "wire.scalars",
    "Verification": "endpoint.replicas.stores.outcomes",
    "plain": "wire.plain",
    "write_new_key": "stores.disk.store_keys",
}
"""What is the same thing in all doors, and where it is defined."""

COLOURED: Final = {
    "Elections": "endpoint.replicas.stores.locks",
    "Endpoint": "endpoint.endpoint",
    "Events": "endpoint.replicas.stores.events",
    "Lock": "endpoint.replicas.stores.locks",
    "Log": "endpoint.replicas.logs.log",
    "LogConsumer": "endpoint.replicas.logs.log_consumer",
    "Publisher": "endpoint.pubsub.publisher",
    "Reader": "endpoint.replicas.stores.reading",
    "ReplicaLog": "endpoint.replicas.logs.log",
    "ReplicaStore": "endpoint.replicas.stores.store",
    "Session": "endpoint.replicas.stores.session",
    "StatusSubscriber": "endpoint.pubsub.stream",
    "Store": "endpoint.replicas.stores.store",
    "StoreProxy": "endpoint.replicas.stores.store_proxy",
    "Subscriber": "endpoint.pubsub.subscriber",
    "Watch": "endpoint.replicas.stores.watching",
    "link_zeek": "peermesh.gateways",
    "serve_webhdfs": "peermesh.gateways",
    "serve_websocket": "peermesh.gateways",
}
"""What waits, and so is another thing in each door: where trio's is."""

GATEWAYS: Final = ("link_zeek", "serve_webhdfs", "serve_websocket")
"""Functions that give context managers."""

MODULES: Final = ("aio", "blocking", "errors")
"""What of ``peermesh`` is a module."""

_BLOCKING: Final = {
    "Publisher": "peermesh.blocking.publisher",
    "Subscriber": "peermesh.blocking.subscriber",
    **dict.fromkeys(GATEWAYS, "peermesh.blocking.gateways"),
}

_AIO: Final = {
    "Publisher": "endpoint.pubsub.publisher",  # It waits as its endpoint says.
    "Subscriber": "peermesh.aio.hot",
    **dict.fromkeys(GATEWAYS, "peermesh.aio.gateways"),
}
"""What is in other modules of these doors than ``calls``."""

TRIO: Final[Mapping[str, str]] = SHARED | COLOURED
BLOCKING: Final[Mapping[str, str]] = (
    SHARED | dict.fromkeys(COLOURED, "peermesh.blocking.calls") | _BLOCKING
)
AIO: Final[Mapping[str, str]] = SHARED | dict.fromkeys(COLOURED, "peermesh.aio.calls") | _AIO


def importer(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Make the ``__getattr__`` of a package, which imports each name when it is first used."""

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
