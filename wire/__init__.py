"""What travels between endpoints, and nothing of how: values, topics, clocks, messages, bytes.

Pure, and at the bottom of the house: no part of it knows a socket, a clock or any package above.
``encode`` and ``decode`` turn values into bytes and back, ``wire.codec`` does so with messages, and
``wire.framing`` cuts them out of a stream. ``decode`` and its like are the border to peers that
are not trusted: bytes come out as something valid, or as ``DecodeError``. Every limit stands in
``wire.limits``, every error in ``wire.errors``, every letter of the encoding in ``wire.cbor``.
"""

from __future__ import annotations

from wire.clocks import LamportTime, VectorTime
from wire.codec import ControlKind, decode_control, decode_header, encode_control, encode_header
from wire.decoding import check, decode, is_canonical
from wire.encoding import encode
from wire.errors import DecodeError, EncodeError, ErrorCode, InvalidTopic, MeshError
from wire.identifiers import EndpointId, EntityId
from wire.messages import Announcement, ControlMessage, NodeHeader, PackedType
from wire.topics import (
    SubscriptionCounts,
    Subscriptions,
    check_topic,
    join,
    proxy_topic,
    store_topics,
)
from wire.values import (
    Count,
    Enum,
    Port,
    PortProtocol,
    Set,
    Table,
    Timespan,
    Timestamp,
    Value,
    freeze,
)

__all__ = [
    "Announcement",
    "ControlKind",
    "ControlMessage",
    "Count",
    "DecodeError",
    "EncodeError",
    "EndpointId",
    "EntityId",
    "Enum",
    "ErrorCode",
    "InvalidTopic",
    "LamportTime",
    "MeshError",
    "NodeHeader",
    "PackedType",
    "Port",
    "PortProtocol",
    "Set",
    "SubscriptionCounts",
    "Subscriptions",
    "Table",
    "Timespan",
    "Timestamp",
    "Value",
    "VectorTime",
    "check",
    "check_topic",
    "decode",
    "decode_control",
    "decode_header",
    "encode",
    "encode_control",
    "encode_header",
    "freeze",
    "is_canonical",
    "join",
    "proxy_topic",
    "store_topics",
]
