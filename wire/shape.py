"""How much a value holds, and how deep, told from its bytes alone: nothing is decoded.

A payload of a few bytes for each value makes a hundred times as much memory. So values are counted
before they are made.
"""

from __future__ import annotations

from typing import Final

from wire import cbor
from wire.errors import DecodeError, ErrorCode

_LONG_HEADS: Final = 24
"""From here on a head's length follows it, in 1, 2, 4 or 8 bytes; then nothing that we read."""

_LENGTH_CODES_END: Final = 28

_STRINGS: Final = (cbor.BYTES, cbor.TEXT)
_NESTING: Final = (cbor.ARRAY, cbor.MAP, cbor.TAG)


def check_shape(encoded: bytes, depth_max: int, entries_max: int) -> None:
    """Raise ``DecodeError`` if the value is deeper, or holds more values, than that.

    The value itself counts, and so do keys. A tag and a container that is not empty take one level
    each. Bytes that are no value may pass: decoding them tells.
    """
    at, end, entries = 0, len(encoded), 0
    left, above = 1, list[int]()  # to come at this level, and at those above
    while at < end:
        while not left:
            if not above:
                return
            left = above.pop()
        left -= 1
        entries += 1
        if entries > entries_max:
            raise _refusal(f"it holds more than {entries_max} values")
        kind, length = encoded[at] >> 5, encoded[at] & 0x1F
        at += 1
        if length >= _LONG_HEADS:
            if length >= _LENGTH_CODES_END:
                return
            size = 1 << length - _LONG_HEADS
            length = int.from_bytes(encoded[at : at + size])
            at += size
        if kind in _STRINGS:
            at += length
        elif kind in _NESTING and (length or kind == cbor.TAG):
            above.append(left)
            left = 1 if kind == cbor.TAG else length << (kind == cbor.MAP)
            entries -= kind == cbor.TAG  # which is one value with what it marks
            if len(above) > depth_max:
                raise _refusal(f"it is nested more than {depth_max} levels deep")


def _refusal(reason: str) -> DecodeError:
    return DecodeError(f"these bytes are no value for us: {reason}", ErrorCode.LIMIT_EXCEEDED)
