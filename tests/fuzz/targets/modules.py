"""The line between a broker and the process of a module: whatever the process sends."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.pipe import Pipe
from tests.fuzz.wires import pieces_of
from wire.encoding import encode
from wire.errors import DecodeError
from wire.values import Value


def check(data: bytes) -> None:
    """Send it, cut as the first byte says: values that are read again, or the line's end."""
    ours, theirs = socket.socketpair()
    with ours, theirs, contextlib.closing(Pipe(ours)) as pipe:
        for piece in pieces_of(data[1:], 16 * data[0] if data else 0):
            theirs.sendall(piece)
        theirs.close()
        with contextlib.suppress(DecodeError):
            while (value := pipe.receive()) is not None:
                _take(value)


def _take(value: Value) -> None:
    match value:
        case ("publish" | "receive", message):
            taken = Message.of_value(message)
            assert Message.decode(taken.encode()).encode() == taken.encode()


def seeds() -> Iterator[bytes]:
    """Give one value of each kind, and some in a row."""
    message = Message(b"x", {"a": "b"})
    values: tuple[Value, ...] = (
        ("ready",),
        ("publish", (message.properties, message.content)),
        ("failed", "no"),
        ("done",),
    )
    whole = [len(data).to_bytes(4, "big") + data for data in map(encode, values)]
    yield from (b"\x00" + each for each in whole)
    yield b"\x01" + b"".join(whole)
    yield b"\x00" + whole[0][:-1]
