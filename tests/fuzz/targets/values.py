"""Values: what is read is written in one form, which is read as the same."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.seeds import golden
from wire.decoding import decode, is_canonical
from wire.encoding import encode
from wire.errors import DecodeError


def check(data: bytes) -> None:
    """Read a value."""
    try:
        value = decode(data)
    except DecodeError:
        assert not is_canonical(data)
        return
    hash(value)
    written = encode(value)
    assert encode(decode(written)) == written
    assert is_canonical(written)
    assert is_canonical(data) == (written == data)


def seeds() -> Iterator[bytes]:
    """Give all values of the golden vectors."""
    for vector in golden("values"):
        yield bytes.fromhex(vector["hex"])
