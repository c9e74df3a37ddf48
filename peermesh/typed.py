"""The names of ``peermesh`` for type checkers. Written by ``tools/doors.py``."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from endpoint.endpoint import Endpoint as Endpoint
    from endpoint.inspection import Snapshot as Snapshot
    from endpoint.link.data_queue import OverflowPolicy as OverflowPolicy
    from endpoint.link.link import OutboxStatistics as OutboxStatistics
    from endpoint.mesh.status import StatusCode as StatusCode, StatusEvent as StatusEvent
    from endpoint.outcome import Outcome as Outcome
    from endpoint.pubsub.messages import Message as Message, Missed as Missed
    from endpoint.pubsub.publisher import Publisher as Publisher
    from endpoint.pubsub.queueing import Overflow as Overflow
    from endpoint.pubsub.stream import StatusSubscriber as StatusSubscriber
    from endpoint.pubsub.subscriber import Subscriber as Subscriber
    from endpoint.replicas.attaching import Backend as Backend
    from endpoint.replicas.handle import GroupMember as GroupMember
    from endpoint.replicas.logs.log import Log as Log, ReplicaLog as ReplicaLog
    from endpoint.replicas.logs.log_consumer import LogConsumer as LogConsumer
    from endpoint.replicas.logs.log_reading import LogEntry as LogEntry, Start as Start
    from endpoint.replicas.logs.log_receipts import (
        AppendReceipt as AppendReceipt,
        LogPromotion as LogPromotion,
    )
    from endpoint.replicas.receipts import Receipt as Receipt
    from endpoint.replicas.stores.events import Events as Events, StoreEvent as StoreEvent
    from endpoint.replicas.stores.locks import (
        Elected as Elected,
        Elections as Elections,
        FencingToken as FencingToken,
        Lock as Lock,
    )
    from endpoint.replicas.stores.outcomes import (
        Promotion as Promotion,
        Verification as Verification,
    )
    from endpoint.replicas.stores.reading import Entry as Entry, Page as Page, Reader as Reader
    from endpoint.replicas.stores.session import Session as Session
    from endpoint.replicas.stores.store import ReplicaStore as ReplicaStore, Store as Store
    from endpoint.replicas.stores.store_proxy import StoreProxy as StoreProxy
    from endpoint.replicas.stores.watching import Change as Change, Commit as Commit, Watch as Watch
    from endpoint.settings import Settings as Settings
    from endpoint.statistics import (
        DialInfo as DialInfo,
        EndpointStatistics as EndpointStatistics,
        PeerInfo as PeerInfo,
    )
    from handshake.credentials import Credentials as Credentials
    from handshake.secret import ClusterSecret as ClusterSecret
    from handshake.ticket import JoinTicket as JoinTicket
    from peermesh import aio as aio, blocking as blocking, errors as errors
    from peermesh.gateways import (
        link_zeek as link_zeek,
        serve_webhdfs as serve_webhdfs,
        serve_websocket as serve_websocket,
    )
    from stores.batch import Batch as Batch
    from stores.digests import ReplicaDigest as ReplicaDigest
    from stores.disk.store_keys import write_new_key as write_new_key
    from stores.history import ChangeOf as ChangeOf
    from stores.log.bookmarks import LogBookmark as LogBookmark
    from stores.log.runs import Position as Position
    from stores.sealing import StorageKeys as StorageKeys
    from stores.table import ChangeKind as ChangeKind
    from stores.watches import Bookmark as Bookmark, Gap as Gap
    from wire.errors import (
        ErrorCode as ErrorCode,
        MeshError as MeshError,
        SettingsError as SettingsError,
    )
    from wire.identifiers import EndpointId as EndpointId
    from wire.plain import plain as plain
    from wire.scalars import (
        Count as Count,
        Enum as Enum,
        Port as Port,
        PortProtocol as PortProtocol,
        Timespan as Timespan,
        Timestamp as Timestamp,
        Value as Value,
    )
    from wire.values import Set as Set, Table as Table
