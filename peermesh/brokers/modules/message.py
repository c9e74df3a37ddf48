"""What modules send each other: a value, and properties that say something about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from peermesh.brokers.modules.errors import InvalidArgument, NoValue
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError, EncodeError
from wire.escaping import is_whole
from wire.limits import VALUE_DEPTH_MAX
from wire.values import Set, Table, Value, freeze

_INTEGER_END: Final = 2**63


_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Message:
    """A message of the bus. It is immutable, so that every receiver may have the same one.

    ``content`` is any value of the mesh, bytes in the seed; what is mutable is copied. Nothing is
    encoded here: a link inside of the process has no need of it.
    """

    content: Value = b""
    properties: Mapping[str, str] = field(default_factory=lambda: _NONE, hash=False)
    """Texts by their names: a read-only view of a copy."""

    def __post_init__(self) -> None:
        """Copy what the sender could still change.

        Raises ``NoValue``, a ``TypeError``, for a content that is no value of the mesh, and
        ``InvalidArgument`` for properties that are no texts.
        """
        if self.properties is not _NONE:
            object.__setattr__(self, "properties", _copied(self.properties))
        if type(self.content) is not bytes:
            object.__setattr__(self, "content", _frozen(self.content, VALUE_DEPTH_MAX))

    def encode(self) -> bytes:
        """Serialise the message, for another process or the mesh; raises ``EncodeError``.

        SRS_BROKER_17_008.
        """
        return encode(self.as_value())

    def as_value(self) -> Value:
        """Give the value that the message travels as."""
        return dict(self.properties), self.content

    def __repr__(self) -> str:
        """Show what to paste to get this message back."""
        return f"Message(content={self.content!r}, properties={dict(self.properties)!r})"

    def __reduce__(self) -> tuple[type[Message], tuple[Value, dict[str, str]]]:
        """Pickle and copy by the parts."""
        return Message, (self.content, dict(self.properties))

    @classmethod
    def decode(cls, encoded: bytes) -> Message:
        """Read a message back; raises ``DecodeError``. SRS_BROKER_17_017."""
        return cls.of_value(decode(encoded))

    @classmethod
    def of_value(cls, value: Value) -> Message:
        """Read a message from the decoded value that it travels as; raises ``DecodeError``."""
        match value:
            case (Table() as properties, content):
                try:
                    read = _copied(properties) if properties else _NONE
                except InvalidArgument as error:
                    raise DecodeError(str(error)) from None
                return cls.of_received(content, read)
            case _:
                raise DecodeError("a message of the bus is a table of properties, and a value")

    @classmethod
    def of_received(cls, content: Value, properties: Mapping[str, str]) -> Message:
        """Make a message of a decoded value, which is immutable and needs no check."""
        message = cls.__new__(cls)
        object.__setattr__(message, "content", content)
        object.__setattr__(message, "properties", properties)
        return message


def _copied(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Copy properties; raises ``InvalidArgument`` for anything but texts with names."""
    if not isinstance(properties, Mapping):
        raise InvalidArgument(f"properties are a dict of texts, not {type(properties).__name__}")
    texts = dict(properties)
    for each in (*texts, *texts.values()):
        if type(each) is not str or not is_whole(each):
            raise InvalidArgument(
                f"{each!r} among the properties of a message: names and values are texts"
            )
    return MappingProxyType(texts)


def _frozen(value: Value, depth: int) -> Value:
    """Give a content as a receiver would get it; raises ``NoValue`` unless it is a value.

    Plain scalars, lists and dicts of texts are judged without encoding them. The rest is small, or
    has to be encoded to become immutable.
    """
    kind = type(value)
    if kind is str:
        if not is_whole(str(value)):
            raise NoValue("a text with a lone surrogate is no value of the mesh: send it as bytes")
        return value
    if value is None or kind in (bytes, float, bool, Table, Set):
        return value
    if isinstance(value, int) and kind is int and -_INTEGER_END <= value < _INTEGER_END:
        return value
    if isinstance(value, (list, tuple)):
        _descend(depth)
        return tuple(_frozen(each, depth - 1) for each in value)
    if isinstance(value, Mapping) and all(type(key) is str and is_whole(key) for key in value):
        _descend(depth)
        ordered = sorted(value, key=encode)  # as received tables are
        return Table.received_map({key: _frozen(value[key], depth - 1) for key in ordered}, None)
    try:
        encode(value)
        return freeze(value)
    except EncodeError as error:
        raise NoValue(f"no value of the mesh: {error}") from None


def _descend(depth: int) -> None:
    if depth <= 0:
        raise NoValue(
            f"a content nested more than {VALUE_DEPTH_MAX} levels deep, or in itself, is no value"
            " of the mesh: flatten it"
        )
