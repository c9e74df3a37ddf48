"""The letters that encoded values are spelled with: CBOR heads, and the tags that we use."""

from __future__ import annotations

from struct import Struct
from typing import Final

UNSIGNED: Final = 0
NEGATIVE: Final = 1
BYTES: Final = 2
TEXT: Final = 3
ARRAY: Final = 4
MAP: Final = 5
TAG: Final = 6

TAG_IPV4: Final = 52
TAG_IPV6: Final = 54
TAG_SET: Final = 258
# The rest is ours, from the range that IANA gives to whoever comes first; unassigned there. None of
# their bytes is a suspect to wire.decoding.
TAG_COUNT: Final = 38_144
TAG_PORT: Final = 38_145
TAG_ENUM: Final = 38_146
TAG_TIMESTAMP: Final = 38_147
TAG_TIMESPAN: Final = 38_148
TAG_TABLE: Final = 38_149

_pack_8: Final = Struct("!BB").pack
_pack_16: Final = Struct("!BH").pack
_pack_32: Final = Struct("!BI").pack
_pack_64: Final = Struct("!BQ").pack


def head(major: int, argument: int) -> bytes:
    """Write the head of a data item in its shortest form; the argument has at most 64 bits."""
    top = major << 5
    if argument < 24:
        return bytes((top | argument,))
    if argument < 1 << 8:
        return _pack_8(top | 24, argument)
    if argument < 1 << 16:
        return _pack_16(top | 25, argument)
    if argument < 1 << 32:
        return _pack_32(top | 26, argument)
    return _pack_64(top | 27, argument)


HEADS_COUNT: Final = 256
"""Sizes whose heads are written beforehand."""

BYTES_HEADS: Final = [head(BYTES, size) for size in range(HEADS_COUNT)]
TEXT_HEADS: Final = [head(TEXT, size) for size in range(HEADS_COUNT)]
ARRAY_HEADS: Final = [head(ARRAY, size) for size in range(HEADS_COUNT)]
MAP_HEADS: Final = [head(MAP, size) for size in range(HEADS_COUNT)]

IPV4_HEAD: Final = head(TAG, TAG_IPV4)
IPV6_HEAD: Final = head(TAG, TAG_IPV6)
SET_HEAD: Final = head(TAG, TAG_SET)
COUNT_HEAD: Final = head(TAG, TAG_COUNT)
PORT_HEAD: Final = head(TAG, TAG_PORT)
ENUM_HEAD: Final = head(TAG, TAG_ENUM)
TIMESTAMP_HEAD: Final = head(TAG, TAG_TIMESTAMP)
TIMESPAN_HEAD: Final = head(TAG, TAG_TIMESPAN)
TABLE_HEAD: Final = head(TAG, TAG_TABLE)

SMALL_MIN: Final = -256
SMALL_END: Final = 1024
SMALL_INTEGERS: Final = [
    *(head(UNSIGNED, number) for number in range(SMALL_END)),
    *(head(NEGATIVE, ~number) for number in range(SMALL_MIN, 0)),
]
"""Encoded integers, with the negative ones at the end, where negative indexes find them."""

NONE: Final = b"\xf6"
FALSE: Final = b"\xf4"
TRUE: Final = b"\xf5"
NAN: Final = b"\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00"
"""The one form of all that is not a number."""

FLOAT_HEAD: Final = 0xFB
