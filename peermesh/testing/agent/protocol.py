"""What a cluster and its agents say to each other, as frames of our own encoding. Pure.

A frame is the length of a value in 32 bits, and the value. Calls go one way, replies, errors and
flight records the other. Calls and replies tell which flight records their author knows of, so that
what a test does to one node is in causal order with what happens at another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from endpoint.flight import Record
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError
from wire.identifiers import ENDPOINT_ID_SIZE, EndpointId
from wire.limits import PAYLOAD_SIZE_MAX
from wire.values import Value

LENGTH: Final = Struct("!I")

Met = tuple[tuple[EndpointId, int], ...]
"""Flight records that the author of a message knows of: of each node the latest."""


@dataclass(frozen=True, slots=True)
class Call:
    """Do something, and reply under this number."""

    number: int
    method: str
    arguments: tuple[Any, ...]
    met: Met


@dataclass(frozen=True, slots=True)
class Cancel:
    """Nobody waits for the reply to this call any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call gave."""

    number: int
    value: Value
    met: Met


@dataclass(frozen=True, slots=True)
class Failure:
    """What a call raised: the name of the class, and the text."""

    number: int
    error: str
    text: str
    met: Met


@dataclass(frozen=True, slots=True)
class Noted:
    """The flight recorder made a record: it is told at once, since the agent may be killed next."""

    record: Record


Message = Call | Cancel | Reply | Failure | Noted

_KINDS: Final[Mapping[str, type]] = {
    "call": Call,
    "cancel": Cancel,
    "reply": Reply,
    "failure": Failure,
}
_WORDS: Final = {kind: word for word, kind in _KINDS.items()}


def to_bytes(message: Message) -> bytes:
    """Write a message as one frame; raises ``EncodeError`` for what is no value."""
    if isinstance(message, Noted):
        value: tuple[Any, ...] = ("noted", *_fields(message.record))
    else:
        value = (_WORDS[type(message)], *_fields(message))
    encoded = encode(value)
    return LENGTH.pack(len(encoded)) + encoded


def _fields(item: Call | Cancel | Reply | Failure | Record) -> tuple[Any, ...]:
    names: tuple[str, ...] = type(item).__slots__
    return tuple(getattr(item, name) for name in names)


class Inbox:
    """Bytes in, in any chunks; messages out. Raises ``DecodeError`` for what is no message."""

    def __init__(self) -> None:
        """Begin empty."""
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Take bytes in, and give the messages that are complete."""
        self._buffer += chunk
        while len(self._buffer) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._buffer)
            if size > PAYLOAD_SIZE_MAX:
                raise DecodeError(f"a frame of {size} bytes; {PAYLOAD_SIZE_MAX} are allowed here")
            end = LENGTH.size + size
            if len(self._buffer) < end:
                return
            encoded = bytes(self._buffer[LENGTH.size : end])
            del self._buffer[:end]
            yield _from_value(decode(encoded))


def _from_value(value: Value) -> Message:
    match value:
        case ("noted", *fields):
            return Noted(_record(fields))
        case ("call", int(number), str(method), tuple() as arguments, met):
            return Call(number, method, arguments, _met(met))
        case ("cancel", int(number)):
            return Cancel(number)
        case ("reply", int(number), result, met):
            return Reply(number, result, _met(met))
        case ("failure", int(number), str(error), str(text), met):
            return Failure(number, error, text, _met(met))
        case _:
            raise DecodeError(f"{value!r:.100} is no message between a cluster and its agents")


def _record(fields: list[Any]) -> Record:
    match fields:
        case [node, int(number), float(at), str(kind), str(text), about, int(time), heard, met]:
            who = None if about is None else _id(about)
            return Record(_id(node), number, at, kind, text, who, time, _met(heard), _met(met))
        case _:
            raise DecodeError("what an agent noted is no flight record")


def _met(pairs: object) -> Met:
    match pairs:
        case tuple():
            return tuple(_pair(pair) for pair in pairs)
        case _:
            raise DecodeError("no list of flight records")


def _pair(pair: object) -> tuple[EndpointId, int]:
    match pair:
        case (node, int(number)):
            return _id(node), number
        case _:
            raise DecodeError("no number of a flight record")


def _id(node: object) -> EndpointId:
    if type(node) is not bytes or len(node) != ENDPOINT_ID_SIZE:
        raise DecodeError("no id of a node")
    return EndpointId(node)
