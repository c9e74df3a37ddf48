"""The order of encoded keys, as bytes: that of the values, see ``wire.order``."""

from __future__ import annotations

from typing import Final

from wire import cbor
from wire.decoding import decode
from wire.errors import InvalidData
from wire.order import BYTES, END, STRING, place_of, place_of_string

_HEAD_SIZES: Final = {24: 2, 25: 3, 26: 5}
"""Bytes of a CBOR head, by its low bits, if it is not a single one."""


def order_of(encoded: bytes) -> bytes:
    """Give the place of an encoded key among all others; no two keys share one."""
    major = encoded[0] >> 5
    if major in (cbor.TEXT, cbor.BYTES):
        # The commonest keys, at a third of the cost of decoding them.
        body = encoded[_HEAD_SIZES.get(encoded[0] & 0x1F, 1) :]
        return place_of_string(STRING if major == cbor.TEXT else BYTES, body)
    return place_of(decode(encoded))


def prefix_range(encoded: bytes) -> tuple[bytes, bytes]:
    """Give the first place, and the first one after, of all keys that begin with an encoded one.

    A string begins strings, bytes begin bytes, a vector begins vectors by its elements; each begins
    itself, too. Raises ``InvalidData`` for any other type: nothing begins with a number.
    """
    prefix = decode(encoded)
    if not isinstance(prefix, (str, bytes, tuple)):
        raise InvalidData(
            f"nothing begins with {type(prefix).__name__}: a prefix is text, bytes or a vector"
        )
    start = order_of(encoded)[: -len(END)]
    if isinstance(prefix, tuple):
        # Ranks are below 255. What begins with 255 belongs to a longer string before it.
        return start, start + b"\xff"
    kept = start.rstrip(b"\xff")
    return start, kept[:-1] + bytes((kept[-1] + 1,))
