"""Control messages and node headers to bytes and back: the one place that sees unchecked ones.

What leaves here is valid: ids have their size, lists are sorted and bounded, topics are topics.
A control message is the number of its class and a CBOR array of its fields, in the order of the
class; both ends find either in one table. The preamble is not one of them: see ``wire.framing``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final, TypeVar

from wire import limits
from wire.clocks import LamportTime, VectorTime
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode, InvalidTopic
from wire.identifiers import ENDPOINT_ID_SIZE, EndpointId, is_label
from wire.messages import (
    Announcement,
    Announcements,
    ControlMessage,
    Credit,
    DropConn,
    Hello,
    Hold,
    Knowledge,
    NodeHeader,
    OriginatorAck,
    OriginatorSyn,
    PackedType,
    Ping,
    Pong,
    ResponderSynAck,
    Seal,
    Withheld,
)
from wire.scalars import INTEGER_MAX, Value, shorten
from wire.topics import check_topic, command_name, is_minimal
from wire.values import Table

DIGEST_SIZE: Final = 8

_ItemT = TypeVar("_ItemT")


class ControlKind(IntEnum):
    """What a control frame holds. Zero is the kind of node frames."""

    HELLO = 1
    ORIGINATOR_SYN = 2
    RESPONDER_SYN_ACK = 3
    ORIGINATOR_ACK = 4
    DROP_CONN = 5
    ANNOUNCEMENTS = 6
    KNOWLEDGE = 7
    PING = 8
    PONG = 9
    CREDIT = 10
    WITHHELD = 11
    HOLD = 12


_ERROR_CODES: Final = {int(code): code for code in ErrorCode}
_RECEIVER_SIZES: Final = {b"\0": 0, b"\1": ENDPOINT_ID_SIZE}
"""Bytes of the receiver in a header, by the byte that says whether there is one."""

_PACKED_TYPES: Final = {int(packed_type): packed_type for packed_type in PackedType}


# Single fields: what they accept of decoded bytes.


def _refusal(wanted: str, item: object) -> DecodeError:
    return DecodeError(f"{shorten(item)} came where {wanted} belongs")


def _read_id(item: object) -> EndpointId:
    if type(item) is not bytes or len(item) != ENDPOINT_ID_SIZE:
        raise _refusal("an endpoint id", item)
    return EndpointId(item)


def _read_time(item: object) -> LamportTime:
    if type(item) is not int or not 0 < item <= limits.LAMPORT_TIME_MAX:
        raise _refusal("a logical time", item)
    return LamportTime(item)


def _read_flag(item: object) -> bool:
    if type(item) is not bool:
        raise _refusal("true or false", item)
    return item


def _read_name(item: object) -> str | None:
    if item is None:
        return None
    if type(item) is not str or len(item.encode()) > limits.NAME_SIZE_MAX:
        raise _refusal("a certificate's name, or none", item)
    return item


def _read_label(item: object) -> str | None:
    if item is not None and (type(item) is not str or not is_label(item)):
        raise _refusal("the name of an endpoint, or none", item)
    return item


def _read_number(item: object) -> int:
    if type(item) is not int or not 0 <= item <= INTEGER_MAX:
        raise _refusal("a number", item)
    return item


def _read_frame_size(item: object) -> int:
    """Read how large a frame the peer takes. Later versions may allow more than this one sends."""
    size = _read_number(item)
    if size < limits.FRAME_SIZE_MIN:
        raise DecodeError(
            f"a limit of {size} bytes for a frame; it has to be {limits.FRAME_SIZE_MIN} or more"
        )
    return size


def _read_digest(item: object) -> int:
    if type(item) is not bytes or len(item) != DIGEST_SIZE:
        raise _refusal("a digest", item)
    return int.from_bytes(item)


def _write_digest(digest: int) -> bytes:
    # All of 64 bits: more than the integers of the data model hold.
    return digest.to_bytes(DIGEST_SIZE)


def _read_code(item: object) -> ErrorCode:
    """Accept any number: later versions may know more of them."""
    return _ERROR_CODES.get(_read_number(item), ErrorCode.UNSPECIFIED)


def _read_reason(item: object) -> str:
    if type(item) is not str or len(item) > limits.REASON_SIZE_MAX:
        raise _refusal("a reason", item)
    return item


def _write_reason(reason: str) -> str:
    # A reason is for people, and often the text of some error: it must not become another one.
    return reason[: limits.REASON_SIZE_MAX].encode(errors="replace").decode()


def _read_knowledge(item: object) -> VectorTime:
    if type(item) is not Table or len(item) > limits.KNOWLEDGE_MAX:
        raise _refusal("a vector of times", item)
    return VectorTime({_read_id(origin): _read_time(time) for origin, time in item.items()})


def _read_topic(item: object) -> str:
    try:
        return check_topic(item)
    except InvalidTopic as error:
        raise DecodeError(str(error), ErrorCode.INVALID_TOPIC) from None


def _read_command_topic(item: object) -> str:
    if type(item) is not str or len(item.encode()) > limits.TOPIC_SIZE_MAX:
        raise _refusal("a topic of commands", item)
    if command_name(item) is None:
        raise DecodeError(f"{shorten(item)} is no topic of commands", ErrorCode.INVALID_TOPIC)
    return item


def _read_sized(size: int) -> Callable[[object], bytes]:
    def read(item: object) -> bytes:
        if type(item) is not bytes or len(item) != size:
            raise _refusal(f"{size} bytes", item)
        return item

    return read


def _read_certificate(item: object) -> bytes:
    if type(item) is not bytes or len(item) > limits.CERTIFICATE_SIZE_MAX:
        raise _refusal("a certificate, or what its key signed", item)
    return item


# Lists.


def _read_list(item: object, size_max: int, read: Callable[[object], _ItemT]) -> tuple[_ItemT, ...]:
    if type(item) is not tuple:
        raise _refusal("a list", item)
    if len(item) > size_max:
        raise DecodeError(
            f"a list of {len(item)} items, {size_max} are allowed", ErrorCode.LIMIT_EXCEEDED
        )
    return tuple(map(read, item))


def _check_sorted(items: Sequence[Any]) -> None:
    for before, after in pairwise(items):
        if before >= after:
            raise DecodeError(f"{shorten(after)} does not sort behind {shorten(before)}")


def _read_links(item: object) -> tuple[EndpointId, ...]:
    links = _read_list(item, limits.LINKS_MAX, _read_id)
    _check_sorted(links)
    return links


def _read_subscriptions(item: object) -> tuple[str, ...]:
    subscriptions = _read_list(item, limits.SUBSCRIPTIONS_MAX, _read_topic)
    if not is_minimal(subscriptions):
        raise DecodeError("the subscriptions are not the sorted minimal set of prefixes")
    return subscriptions


def _read_stores(item: object) -> tuple[str, ...]:
    stores = _read_list(item, limits.STORES_MAX, _read_command_topic)
    _check_sorted(stores)
    return stores


def _read_certificates(item: object) -> tuple[bytes, ...]:
    return _read_list(item, limits.CERTIFICATES_MAX, _read_certificate)


def _read_seal(item: object) -> Seal | None:
    return None if item is None else _read_fields(Seal, _SEAL_SHAPE, item)


def _write_seal(seal: Seal | None) -> Value:
    return None if seal is None else _write_fields(seal, _SEAL_SHAPE)


def _read_announcement(item: object) -> Announcement:
    return _read_fields(Announcement, _ANNOUNCEMENT_SHAPE, item)


def _write_announcement(announcement: Announcement) -> list[Value]:
    return _write_fields(announcement, _ANNOUNCEMENT_SHAPE)


def _read_announcements(item: object) -> tuple[Announcement, ...]:
    return _read_list(item, limits.KNOWLEDGE_MAX, _read_announcement)


def _write_announcements(announcements: tuple[Announcement, ...]) -> list[Value]:
    return [_write_announcement(announcement) for announcement in announcements]


def _read_held_headers(item: object) -> tuple[bytes, ...]:
    headers = _read_list(item, limits.HEADERS_MAX, _read_held_header)
    if sum(map(len, headers)) > limits.HELD_HEADERS_SIZE_MAX:
        raise DecodeError("a hold with headers of too many bytes", ErrorCode.LIMIT_EXCEEDED)
    return headers


def _read_held_header(item: object) -> bytes:
    if type(item) is not bytes or not 0 < len(item) <= limits.HEADER_SIZE_MAX:
        raise _refusal("a header", item)
    return item


def _read_hold_label(item: object) -> str:
    if type(item) is not str or len(item) > limits.HOLD_LABEL_SIZE_MAX:
        raise _refusal("the name of a subscription", item)
    return item


# Shapes.


@dataclass(frozen=True, slots=True)
class _Field:
    """How one field is read; and how it is written, if it is no value as it stands."""

    read: Callable[[object], Any]
    write: Callable[[Any], Value] | None = None


_Shape = dict[str, _Field]
"""The fields of a class by name, in its order."""

_ID: Final = _Field(_read_id)
_NUMBER: Final = _Field(_read_number)
_DIGEST: Final = _Field(_read_digest, _write_digest)
_FRAME_SIZE: Final = _Field(_read_frame_size)
_KNOWLEDGE: Final = _Field(_read_knowledge)
_ANNOUNCEMENTS: Final = _Field(_read_announcements, _write_announcements)

_SEAL_SHAPE: Final[_Shape] = {
    "key": _Field(_read_sized(limits.SIGNING_KEY_SIZE)),
    "certificates": _Field(_read_certificates),
    "endorsement": _Field(_read_certificate),
    "signature": _Field(_read_sized(limits.SIGNATURE_SIZE)),
}

_ANNOUNCEMENT_SHAPE: Final[_Shape] = {
    "origin": _ID,
    "time": _Field(_read_time),
    "links": _Field(_read_links),
    "subscriptions": _Field(_read_subscriptions),
    "stores": _Field(_read_stores),
    "forwarding": _Field(_read_flag),
    "name": _Field(_read_name),
    "label": _Field(_read_label),
    "seal": _Field(_read_seal, _write_seal),
}

_CONTROL: Final[dict[ControlKind, tuple[type[ControlMessage], _Shape]]] = {
    ControlKind.HELLO: (
        Hello,
        {"sender": _ID, "knowledge": _KNOWLEDGE, "frame_size_max": _FRAME_SIZE},
    ),
    ControlKind.ORIGINATOR_SYN: (
        OriginatorSyn,
        {
            "sender": _ID,
            "knowledge": _KNOWLEDGE,
            "announcements": _ANNOUNCEMENTS,
            "frame_size_max": _FRAME_SIZE,
        },
    ),
    ControlKind.RESPONDER_SYN_ACK: (ResponderSynAck, {"announcements": _ANNOUNCEMENTS}),
    ControlKind.ORIGINATOR_ACK: (OriginatorAck, {}),
    ControlKind.DROP_CONN: (
        DropConn,
        {"code": _Field(_read_code), "reason": _Field(_read_reason, _write_reason)},
    ),
    ControlKind.ANNOUNCEMENTS: (Announcements, {"items": _ANNOUNCEMENTS}),
    ControlKind.KNOWLEDGE: (Knowledge, {"vector": _KNOWLEDGE}),
    ControlKind.PING: (Ping, {"token": _NUMBER, "digest": _DIGEST}),
    ControlKind.PONG: (Pong, {"token": _NUMBER, "digest": _DIGEST}),
    ControlKind.CREDIT: (Credit, {"total_bytes": _NUMBER}),
    ControlKind.WITHHELD: (Withheld, {}),
    ControlKind.HOLD: (
        Hold,
        {
            "sender": _ID,
            "holder": _ID,
            "place": _NUMBER,
            "label": _Field(_read_hold_label),
            "headers": _Field(_read_held_headers),
            "is_all": _Field(_read_flag),
        },
    ),
}
_KINDS: Final = {message_class: kind for kind, (message_class, _) in _CONTROL.items()}

_PARTS: Final = ((Announcement, _ANNOUNCEMENT_SHAPE), (Seal, _SEAL_SHAPE))

for _class, _shape in (*_CONTROL.values(), *_PARTS):
    assert [field.name for field in fields(_class)] == list(_shape), f"{_class} has other fields"


def _write_fields(message: object, shape: _Shape) -> list[Value]:
    written = []
    for name, field in shape.items():
        item = getattr(message, name)
        written.append(field.write(item) if field.write else item)
    return written


def _read_fields(message_class: type[_ItemT], shape: _Shape, item: object) -> _ItemT:
    if type(item) is not tuple or len(item) != len(shape):
        raise _refusal(f"{message_class.__name__} with {len(shape)} fields", item)
    return message_class(
        *(field.read(part) for field, part in zip(shape.values(), item, strict=True))
    )


def encode_control(message: ControlMessage) -> tuple[ControlKind, bytes]:
    """Give the kind and the body of a control message; a preamble is none."""
    kind = _KINDS[type(message)]
    return kind, encode(_write_fields(message, _CONTROL[kind][1]))


def encode_unsigned(announcement: Announcement) -> bytes:
    """Give the bytes that the signature in an announcement's seal is over."""
    assert announcement.seal is not None, "only sealed announcements are signed"
    unsigned = replace(announcement, seal=replace(announcement.seal, signature=b""))
    return encode(_write_announcement(unsigned))


def decode_control(kind: int, body: bytes) -> ControlMessage:
    """Read a control message. Raises ``DecodeError``, and nothing else, if it is none."""
    try:
        message_class, shape = _CONTROL[ControlKind(kind)]
    except ValueError:
        raise DecodeError(f"no control message has the kind {kind}") from None
    return _read_fields(message_class, shape, decode(body))


def encode_header(header: NodeHeader) -> bytes:
    """Write the header of a node message, whose topic its maker has checked, without the sender.

    Raises ``InvalidTopic`` if the topic leaves no room for the rest of the header.
    """
    receiver = b"\0" if header.receiver is None else b"\1" + header.receiver
    encoded = bytes((header.type,)) + receiver + header.topic.encode()
    if len(encoded) > limits.HEADER_SIZE_MAX:
        raise InvalidTopic(f"the topic {shorten(header.topic)} is too long: shorten it")
    return encoded


def decode_header(sender: EndpointId, encoded: bytes) -> NodeHeader:
    """Read a header of a frame of ``sender``. Raises ``DecodeError``, and nothing else, if bad.

    A header has one encoding: encoded headers are keys of route caches, and each header is to have
    one place there. Commands go to ``NAME/<$>/KIND``, and nothing else does. A kind that this
    version does not know is no breach: only its receiver needs to know it.
    """
    kind, flag = encoded[:1], encoded[1:2]
    known_type = _PACKED_TYPES.get(kind[0]) if kind else None
    if known_type is None:
        raise _refusal("the type of a packed message", kind)
    if flag not in _RECEIVER_SIZES:
        raise _refusal("0 or 1 for a receiver", flag)
    topic_start = 2 + _RECEIVER_SIZES[flag]
    receiver = _read_id(encoded[2:topic_start]) if flag == b"\1" else None
    try:
        topic = encoded[topic_start:].decode()
    except UnicodeDecodeError:
        raise _refusal("a topic in UTF-8", encoded[topic_start:]) from None
    read = _read_command_topic if known_type is PackedType.COMMAND else _read_topic
    return NodeHeader(known_type, sender, receiver, read(topic))
