"""What a cluster and its agents say to each other."""

from __future__ import annotations

from collections.abc import Iterator

from endpoint.flight import Record
from peermesh.testing.agent.protocol import (
    Call,
    Cancel,
    Failure,
    Inbox,
    Noted,
    Reply,
    to_bytes,
)
from tests.fuzz.wires import pieces_of
from wire.errors import DecodeError
from wire.identifiers import EndpointId

NODE = EndpointId(bytes(16))


def check(data: bytes) -> None:
    """Read it in pieces as the first byte says: what is read is written and read again."""
    inbox = Inbox()
    try:
        for piece in pieces_of(data[1:], data[0] if data else 0):
            for message in inbox.feed(piece):
                written = to_bytes(message)  # which is equal where NaN is not
                assert list(map(to_bytes, Inbox().feed(written))) == [written]
    except DecodeError:
        return


def seeds() -> Iterator[bytes]:
    """Give one message of each kind."""
    met = ((NODE, 3),)
    record = Record(NODE, 1, 0.5, "kind", "text", NODE, 2, met, met)
    for message in (
        Call(1, "publish", ("t", (1, None)), met),
        Cancel(1),
        Reply(1, {"a": 1.5}, met),
        Failure(1, "MeshError", "no", ()),
        Noted(record),
    ):
        yield b"\x00" + to_bytes(message)
        yield b"\x03" + to_bytes(message) * 2
