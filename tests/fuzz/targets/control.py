"""Control messages and headers: what is read can be written, and is read as the same."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.seeds import golden
from wire.codec import decode_control, decode_header, encode_control, encode_header
from wire.errors import DecodeError
from wire.identifiers import EndpointId

SENDER = EndpointId(bytes(range(16)))
HEADER = 255
"""Stands where the kind of a control message does."""


def check(data: bytes) -> None:
    """Read a message of the kind that the first byte names, or a header."""
    kind, body = (data[0] if data else 0), data[1:]
    try:
        if kind == HEADER:
            assert encode_header(decode_header(SENDER, body)) == body
            return
        message = decode_control(kind, body)
    except DecodeError:
        return
    kind_again, body_again = encode_control(message)
    assert kind_again == kind
    assert decode_control(kind, body_again) == message


def seeds() -> Iterator[bytes]:
    """Give all control messages and headers of the golden vectors."""
    for vector in golden("control"):
        yield bytes((vector["kind"],)) + bytes.fromhex(vector["hex"])
    for vector in golden("headers"):
        yield bytes((HEADER,)) + bytes.fromhex(vector["hex"])
