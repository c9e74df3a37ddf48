"""What clients and the edge broker say to each other, in the mesh's own frames.

A connection begins with the mesh's preamble. Data are node frames: their sender is the publisher,
their one header is the topic, and their messages have the publisher's own numbers in that topic.
Everything else is a control frame, of a kind that the mesh itself does not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from struct import Struct
from typing import Final, TypeVar, get_args, get_type_hints

from wire import framing
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError, RemoteProtocolError
from wire.framing import ControlFrame, NodeFrame

CLIENT_SIZE: Final = 16
"""Bytes of a client's id: as many as those of an endpoint."""

TTL: Final = 2
"""Data are forwarded once: with two hops to live from the publisher, with one from the broker."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a client: who it is, and whose channel it looks for."""

    client: bytes
    topic: str
    """The topic of the channel that should listen here; empty for the default channel."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer: the client is where it wanted to be."""

    broker: bytes
    address: str
    """Where the broker sees the client, for the registry."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The last message of a connection: why it ends."""

    reason: str


@dataclass(frozen=True, slots=True)
class Attach:
    """A subscriber wants a topic on this connection, and no longer on another one."""

    topic: str
    is_known: bool
    """Whether a broker has known of this subscription before: then it wants what is not
    acknowledged yet, and otherwise what comes from now on."""


@dataclass(frozen=True, slots=True)
class Attached:
    """The next data of the topic on this connection have this position; then they count up."""

    topic: str
    incarnation: str
    """Which channel counts: another one begins anew."""
    position: int
    numbers: bytes
    """The last number of each publisher before that; read it with ``read_numbers``."""


@dataclass(frozen=True, slots=True)
class Detach:
    """A subscriber no longer wants a topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class Taken:
    """A subscriber has everything up to a position, and room for more."""

    topic: str
    incarnation: str
    position: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """Every known subscriber has all of this publisher's messages up to a number."""

    topic: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Beat:
    """The connection lives."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A client asks the registry to do something."""

    number: int
    operation: str
    path: str
    data: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The registry did it, or says why not."""

    number: int
    error: str
    is_denied: bool
    """Whether a right is missing, rather than something else."""
    lines: str
    """Whatever was read: nothing, or one value after ``=``; children are joined by newlines."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The client lacks a right to a topic: messages were not taken, or a subscription ended."""

    topic: str
    """Empty if the client has no role at all; then ``Refused`` follows."""
    sequence: int
    """The publisher's number of the last message that was not taken; 0 for a subscription."""
    count: int
    """How many messages were not taken."""
    reason: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A node that the client watches may have changed; empty for all of them."""

    path: str


@dataclass(frozen=True, slots=True)
class Void:
    """Numbers of a publisher up to this one are no messages: the broker refused those."""

    topic: str
    publisher: bytes
    sequence: int


ControlMessage = (
    Hello
    | Welcome
    | Refused
    | Attach
    | Attached
    | Detach
    | Taken
    | Accepted
    | Beat
    | Ask
    | Answer
    | Changed
    | Denied
    | Void
)

_FIRST_KIND: Final = 64
"""The mesh's own kinds are below, so that neither takes the other for one of its own."""

_CLASSES: Final[tuple[type, ...]] = get_args(ControlMessage)
"""In the order of their kinds: new ones come last."""

_KINDS: Final = {kind: number for number, kind in enumerate(_CLASSES, _FIRST_KIND)}
_FIELDS: Final = {
    kind: tuple((field.name, get_type_hints(kind)[field.name]) for field in fields(kind))
    for kind in _CLASSES
}
_MessageT = TypeVar("_MessageT")


def write(message: ControlMessage) -> bytes:
    """Write a control message as a frame."""
    kind = type(message)
    body = encode([getattr(message, name) for name, _ in _FIELDS[kind]])
    return framing.encode_control(_KINDS[kind], body)


def read(frame: ControlFrame) -> ControlMessage:
    """Read a control frame; raises ``DecodeError``."""
    number = frame.kind - _FIRST_KIND
    if not 0 <= number < len(_CLASSES):
        raise DecodeError(
            f"a message of kind {frame.kind}, which an edge broker does not know: an endpoint of"
            " the mesh peers with the port of an endpoint, clients use those in the registry"
        )
    kind = _CLASSES[number]
    values = decode(frame.body)
    names = _FIELDS[kind]
    if not isinstance(values, tuple) or len(values) != len(names):
        raise DecodeError(f"a {kind.__name__} with other fields than {len(names)}")
    for value, (name, wanted) in zip(values, names, strict=True):
        if type(value) is not wanted or (wanted is int and value < 0):
            raise DecodeError(f"a {kind.__name__} whose {name} is {value!r}")
    return kind(*values)  # type: ignore[no-any-return]  # one of the classes of the union


_NUMBER: Final = Struct(f"!{CLIENT_SIZE}sQ")


def write_numbers(numbers: Mapping[bytes, int]) -> bytes:
    """Write publishers' numbers, for ``Attached``."""
    return b"".join(map(_NUMBER.pack, numbers.keys(), numbers.values()))


def read_numbers(data: bytes) -> dict[bytes, int]:
    """Read publishers' numbers; raises ``DecodeError``."""
    if len(data) % _NUMBER.size:
        raise DecodeError(f"numbers of publishers in {len(data)} bytes")
    return dict(_NUMBER.iter_unpack(data))


def read_data(frame: NodeFrame) -> tuple[str, bytes]:
    """Read whose data on which topic a frame holds; raises ``DecodeError``.

    Here a frame has one topic and no gaps, and is neither signed nor forced.
    """
    if len(frame.headers) > 1 or frame.mask is not None or frame.is_signed or frame.is_forced:
        raise DecodeError("data for an endpoint of the mesh: clients send a topic in each frame")
    try:
        return frame.headers[0].decode(), frame.sender
    except UnicodeDecodeError:
        raise DecodeError(f"a topic that is no UTF-8: {frame.headers[0][:40]!r}") from None


def expect(message: object, kind: type[_MessageT]) -> _MessageT:
    """Give the message back if it is what comes now; raises ``RemoteProtocolError``."""
    if isinstance(message, kind):
        return message
    if isinstance(message, Refused):
        raise RemoteProtocolError(message.reason)
    raise RemoteProtocolError(f"{message!r} came where {kind.__name__} was expected")
