"""Bytes to values, from peers that are not trusted: what is not one well-formed value is refused.

The walk through the bytes is cbor2's. Left alone, it would also compile regular expressions, build
cycles, read integers of any size and overlook whatever follows the value. Its options, hooks for
every tag, and what stands here hold it back:

- *Trailing bytes.* cbor2 does not tell where it stopped. So it is given an array of two items: the
  bytes, and a terminator that occurs nowhere in them. If the second item is the terminator, the
  first one was all of the bytes.
- *Integers beyond int64, and simple values,* have no hook. Only if there are bytes that might be
  one of them, the decoded value is searched.
- *Keys* of a CBOR map are text or bytes, whose hashes are keyed, so that no peer can choose keys
  that make a dict slow. For tables with other keys see ``wire.encoding``.

Memory is bounded by the bytes: no value takes more than 128 times as much. (What comes near are
tables of one item each.) So large ones are counted first, see ``wire.shape``. Lengths that the
bytes promise are never believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from io import BytesIO
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from operator import itemgetter
from struct import Struct
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from cbor2 import CBORDecoder, CBORTag, loads, undefined

from wire import cbor
from wire.encoding import encode
from wire.errors import DecodeError, EncodeError, ErrorCode
from wire.limits import PAYLOAD_SIZE_MAX, VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX
from wire.scalars import (
    INTEGER_MAX,
    INTEGER_MIN,
    Count,
    Enum,
    Port,
    PortProtocol,
    Timespan,
    Timestamp,
    Value,
    shorten,
)
from wire.shape import check_shape
from wire.values import Set, Table

_PAIR_HEAD: Final = b"\x82"
_TERMINATOR: Final = b"\xf7"
_TERMINATOR_BYTE: Final = 0xF7

_SUSPECTS: Final = b"\x1b\x3b" + bytes(range(0xE0, 0xF4)) + b"\xf7\xf8"
"""Heads of 64-bit integers and of simple values. Text and floats may hold such bytes, too."""

_find_huge: Final = re.compile(rb"[\x1b\x3b][\x80-\xff]").search
_find_simple: Final = re.compile(rb"[\xe0-\xf3\xf7\xf8]").search

_SHORT_BYTES: Final = 0x58
"""The head of bytes whose length is in the byte that follows."""

_SHORT_TEXT: Final = 0x78
"""The head of a text whose length is in the byte that follows."""

_MANY: Final = 8
"""So many texts are looked at together for less than one after the other."""

_HEAD: Final = itemgetter(0)
_LENGTH: Final = itemgetter(1)
_TEXT: Final = itemgetter(slice(2, None))

_unpack_float: Final = Struct("!d").unpack_from


def decode(encoded: bytes) -> Value:
    """Decode exactly one value. Raises ``DecodeError``, and nothing else, if the bytes are none."""
    if not 0 < len(encoded) <= PAYLOAD_SIZE_MAX:
        raise _wrong_size(len(encoded))
    if len(encoded) > VALUE_ENTRIES_MAX:  # as each takes a byte at least
        check_shape(encoded, VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX)
    return _BY_HEAD[encoded[0]](encoded)


def check(encoded: bytes) -> None:
    """Raise ``DecodeError`` unless the bytes are exactly one value."""
    decode(encoded)


def check_all(encoded: Sequence[bytes]) -> None:
    """Raise ``DecodeError`` unless each of them is exactly one value."""
    if len(encoded) < _MANY or not _are_short_texts(encoded):
        for each in encoded:
            decode(each)


def _are_short_texts(encoded: Sequence[bytes]) -> bool:
    """Tell whether all are ASCII texts with one byte of length, as many values of a run are.

    They are looked at all at once, which takes half as long as one after the other.
    """
    try:
        if bytes(map(_HEAD, encoded)).count(_SHORT_TEXT) != len(encoded):
            return False
        lengths = bytes(map(_LENGTH, encoded))
    except IndexError:  # One is too short.
        return False
    is_whole = [*lengths] == [size - 2 for size in map(len, encoded)]
    return is_whole and b"".join(map(_TEXT, encoded)).isascii()


def is_canonical(encoded: bytes) -> bool:
    """Tell whether the bytes are exactly what ``encode`` makes of some value.

    Only such bytes may serve as keys: any value has many other encodings that ``decode`` takes.
    """
    # Short plain text, as most keys are: its head is the shortest, and ASCII is UTF-8.
    if encoded and 0x60 <= encoded[0] < 0x78 and encoded.isascii():
        return len(encoded) == encoded[0] - 0x5F
    try:
        return encode(decode(encoded)) == encoded
    except (DecodeError, EncodeError):
        return False


# Values that stand alone, as payloads often do: what these functions cannot read, or what is not
# right, is left to _decode_any.


def _decode_string(encoded: bytes) -> Value:
    first = encoded[0]
    code = first & 0x1F
    if code < 24:
        start, length = 1, code
    elif code < 28:
        start = 1 + (1 << code - 24)
        length = int.from_bytes(encoded[1:start])
    else:
        return _decode_any(encoded)
    if start + length != len(encoded):
        return _decode_any(encoded)
    if first < 0x60:
        return encoded[start:]
    try:
        return str(encoded[start:], "utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError(f"a text is not UTF-8: {error.reason}") from None


def _decode_short_string(encoded: bytes) -> Value:
    """Decode one with a byte of length, as most payloads are, in little more than half the time."""
    content = encoded[2:]
    if len(encoded) < 2 or encoded[1] != len(content):
        return _decode_string(encoded)
    if encoded[0] != _SHORT_TEXT:
        return content
    try:
        return str(content, "utf-8")
    except UnicodeDecodeError:
        return _decode_string(encoded)  # which says what is wrong


def _decode_small_integer(encoded: bytes) -> Value:
    first = encoded[0]
    if first < 24 and len(encoded) == 1:
        return first
    if first >= 24 and len(encoded) == 1 + (1 << first - 24):
        return int.from_bytes(encoded[1:])
    return _decode_any(encoded)


_CONSTANTS: Final = {cbor.FALSE: False, cbor.TRUE: True, cbor.NONE: None}


def _decode_constant(encoded: bytes) -> Value:
    return _CONSTANTS[encoded] if encoded in _CONSTANTS else _decode_any(encoded)


def _decode_float(encoded: bytes) -> Value:
    if len(encoded) != 9:
        return _decode_any(encoded)
    value: float = _unpack_float(encoded, 1)[0]
    return value


# Tags. Whatever these functions raise, cbor2 wraps in an error of its own.

_Hook: TypeAlias = Callable[[object, bool], Value]
_Reader: TypeAlias = Callable[[object], Value]
_KindT = TypeVar("_KindT")


def _read_ipv4(item: object, _is_immutable: object) -> Value:
    if type(item) is bytes:
        return IPv4Address(_sized(item, 4))
    return IPv4Network(_prefix(item, 4))


def _read_ipv6(item: object, _is_immutable: object) -> Value:
    if type(item) is bytes:
        return IPv6Address(_sized(item, 16))
    return IPv6Network(_prefix(item, 16))


def _read_set(item: object, _is_immutable: object) -> Value:
    return Set.received(_typed(item, tuple))


def _read_table(item: object) -> Value:
    items = _typed(item, tuple)
    return Table.received(list(zip(items[::2], items[1::2], strict=True)))


def _read_count(item: object) -> Value:
    return Count(_typed(item, int))


def _read_port(item: object) -> Value:
    number, protocol = _typed(item, tuple)
    return Port(number, PortProtocol(_typed(protocol, int)))


def _read_enum(item: object) -> Value:
    return Enum(_typed(item, str))


def _read_timestamp(item: object) -> Value:
    return Timestamp.of(_typed(item, int))


def _read_timespan(item: object) -> Value:
    return Timespan.of(_typed(item, int))


def _typed(item: object, kind: type[_KindT]) -> _KindT:
    if type(item) is not kind:
        raise ValueError(f"it holds {shorten(item)}, not {kind.__name__}")
    return item


def _prefix(item: object, size: int) -> tuple[bytes, int]:
    """Read a subnet: the bits of its prefix, and the bytes that they end in."""
    length, octets = _typed(item, tuple)
    return _sized(_typed(octets, bytes).ljust(size, b"\0"), size), _typed(length, int)


def _sized(octets: bytes, size: int) -> bytes:
    if len(octets) != size:
        raise ValueError(f"an address of {len(octets)} bytes")
    return octets


def _refuse(_item: object, _is_immutable: object) -> NoReturn:
    raise ValueError("this tag has no place in the data model")


def _read_other(tag: CBORTag, _is_immutable: object) -> Value:
    reader = _READERS.get(tag.tag)
    if reader is None:
        raise ValueError(f"tag {tag.tag} has no place in the data model")
    return reader(tag.value)


_read_map: Final = Table.received_map

_CBOR2_TAGS: Final = (
    *(0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37),
    *(100, 256, 260, 261, 1004, 43_000, 55_799),
)
"""Tags that cbor2 reads by itself and we refuse: the hook for other tags does not see them."""

_HOOKS: Final[dict[int, _Hook]] = {
    **dict.fromkeys(_CBOR2_TAGS, _refuse),
    cbor.TAG_IPV4: _read_ipv4,
    cbor.TAG_IPV6: _read_ipv6,
    cbor.TAG_SET: _read_set,
}

_READERS: Final[dict[int, _Reader]] = {
    cbor.TAG_COUNT: _read_count,
    cbor.TAG_PORT: _read_port,
    cbor.TAG_ENUM: _read_enum,
    cbor.TAG_TIMESTAMP: _read_timestamp,
    cbor.TAG_TIMESPAN: _read_timespan,
    cbor.TAG_TABLE: _read_table,
}


# Values of any kind.


def _decode_any(encoded: bytes) -> Value:
    value: Value
    try:
        is_suspect = len(encoded.translate(None, _SUSPECTS)) != len(encoded)
        if is_suspect and _TERMINATOR_BYTE in encoded:
            value = _read_stream(encoded)
        else:
            # The options are written out, here and below: ** would cost more than they do.
            value, end = loads(
                _PAIR_HEAD + encoded + _TERMINATOR,
                immutable=True,
                max_depth=VALUE_DEPTH_MAX + 1,
                allow_indefinite=False,
                allow_duplicate_keys=False,
                strict_hashable_types=True,
                semantic_decoders=_HOOKS,
                tag_hook=_read_other,
                object_hook=_read_map,
            )
            if end is not undefined:
                raise _trailing()
        if is_suspect:
            _search_suspect(encoded, value)
    except DecodeError:
        raise
    except Exception as error:  # whatever it trips over, it is the fault of the bytes
        raise DecodeError(f"these bytes are no value: {shorten(error)}") from None
    return value


def _search_suspect(encoded: bytes, value: Value) -> None:
    is_huge = _find_huge(encoded) is not None
    if is_huge or _find_simple(encoded):
        _search((value,), _LEAVES if is_huge else _LEAVES_AND_INTEGERS)


def _read_stream(encoded: bytes) -> Value:
    """Decode bytes that the terminator occurs in: slower, but a stream knows where it is."""
    stream = BytesIO(encoded)
    decoder = CBORDecoder(
        stream,
        max_depth=VALUE_DEPTH_MAX,
        allow_indefinite=False,
        allow_duplicate_keys=False,
        strict_hashable_types=True,
        semantic_decoders=_HOOKS,
        tag_hook=_read_other,
        object_hook=_read_map,
    )
    value: Value = decoder.decode(immutable=True)
    if stream.tell() != len(encoded):
        raise _trailing()
    return value


_LEAVES: Final = frozenset(
    {
        *(type(None), bool, float, str, bytes, Count, Port, Enum),
        *(datetime, timedelta, Timestamp, Timespan),
        *(IPv4Address, IPv6Address, IPv4Network, IPv6Network),
        # Elements of sets, and keys that are not text or bytes, were encoded when they came in.
        Set,
    }
)


_LEAVES_AND_INTEGERS: Final = _LEAVES | {int}


def _search(items: Collection[Any], harmless: frozenset[type]) -> None:
    """Refuse integers beyond 64 bits, and simple values, wherever they are."""
    if harmless.issuperset(map(type, items)):
        return
    for item in items:
        kind = type(item)
        if kind is tuple:
            _search(item, harmless)
        elif kind is Table:
            _search([part for _, part in item.pairs()], harmless)
        elif kind is int:
            if not INTEGER_MIN <= item <= INTEGER_MAX:
                raise DecodeError("an integer does not fit into int64")
        elif kind not in harmless:
            raise DecodeError(f"{shorten(item)} has no place in the data model")


_BY_HEAD: Final[list[Callable[[bytes], Value]]] = [
    *[_decode_small_integer] * 0x1B,
    *[_decode_any] * (0x40 - 0x1B),
    *[_decode_string] * (_SHORT_BYTES - 0x40),
    _decode_short_string,
    *[_decode_string] * (_SHORT_TEXT - _SHORT_BYTES - 1),
    _decode_short_string,
    *[_decode_string] * (0x80 - _SHORT_TEXT - 1),
    *[_decode_any] * (0xF4 - 0x80),
    *[_decode_constant] * 3,
    *[_decode_any] * (cbor.FLOAT_HEAD - 0xF7),
    _decode_float,
    *[_decode_any] * 4,
]
"""How to decode bytes by the first of them."""


def _trailing() -> DecodeError:
    return DecodeError("bytes follow the value")


def _wrong_size(size: int) -> DecodeError:
    if not size:
        return DecodeError("no bytes at all are no value")
    return DecodeError(
        f"a value of {size} bytes, {PAYLOAD_SIZE_MAX} are allowed", ErrorCode.LIMIT_EXCEEDED
    )
