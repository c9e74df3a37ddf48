"""What modules send each other: a value, and properties that say something about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from peermesh.brokers.modules.errors import InvalidArgument
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError
from wire.values import Table, Value, freeze


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the bus. It is immutable, so that every receiver may have the same one.

    ``content`` is any value of the mesh, bytes in the seed; what is mutable is copied.
    """

    content: Value = b""
    properties: Mapping[str, str] = Table()

    def __post_init__(self) -> None:
        """Copy what the sender could still change; raises ``InvalidArgument``."""
        pairs = tuple(self.properties.items())
        if not all(type(name) is str and type(text) is str for name, text in pairs):
            raise InvalidArgument("the properties of a message are texts with names that are texts")
        object.__setattr__(self, "properties", Table(pairs))
        if type(self.content) is not bytes:
            object.__setattr__(self, "content", freeze(self.content))

    def encode(self) -> bytes:
        """Serialise the message, for another process or the mesh; raises ``EncodeError``."""
        return encode((self.properties, self.content))

    @classmethod
    def decode(cls, encoded: bytes) -> Message:
        """Read a message back; raises ``DecodeError``."""
        return cls.of_value(decode(encoded))

    @classmethod
    def of_value(cls, value: Value) -> Message:
        """Read a message from the value that it is encoded as; raises ``DecodeError``."""
        match value:
            case (Table() as properties, content):
                try:
                    return cls(content, properties)
                except InvalidArgument as error:
                    raise DecodeError(str(error)) from None
            case _:
                raise DecodeError("a message of the bus is a table of properties, and a value")
