"""Values to bytes: CBOR (RFC 8949) in the one deterministic form that each value has.

Shortest heads, floats of 64 bits with one NaN, maps and sets sorted by the encoding of their keys
and elements: any encoding serves as a store key, and two stores with equal content hash alike.

Written in Python on purpose: cbor2 takes 1, 1.0 and true for the same key, and writes integers that
we refuse. The time is about that of cbor2 6: a little less for nested events, a quarter more for a
flat record, though two and a half times as much for long lists of text. What costs time is the walk
through a value, so containers write their commonest items themselves, without a call for each.

Tags (see ``wire.cbor``): 52 and 54 for addresses and subnets (RFC 9164), 258 for sets, and six of
our own. Times are 64-bit nanoseconds under our tags, not the maps of RFC 9581: those have integer
keys, which we forbid to the decoder (see ``wire.decoding``), and take a third more room. A
table is a CBOR map if all of its keys are text or bytes. Otherwise it is an array of keys and
values in turn under a tag: generic decoders confuse the keys 1, 1.0 and true of a map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import pairwise
from operator import index
from struct import Struct
from typing import Any, Final, TypeAlias

from wire import cbor
from wire.cbor import (
    ARRAY_HEADS,
    BYTES_HEADS,
    FLOAT_HEAD,
    HEADS_COUNT,
    MAP_HEADS,
    NAN,
    SMALL_END,
    SMALL_INTEGERS,
    SMALL_MIN,
    TEXT_HEADS,
    head,
)
from wire.errors import DecodeError, EncodeError
from wire.limits import PAYLOAD_SIZE_MAX, VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX
from wire.scalars import (
    INTEGER_MAX,
    INTEGER_MIN,
    Count,
    Enum,
    Port,
    Timespan,
    Timestamp,
    Value,
    nanoseconds_in,
    nanoseconds_since_epoch,
    shorten,
)
from wire.shape import check_shape

PLANS_MAX: Final = 512
"""Kinds of tables whose sorted keys are remembered, in 1 MiB or so; beyond, all are forgotten."""

PLAN_KEYS_MAX: Final = 32
"""Keys of a table that is worth remembering: larger ones are data, not records."""

PLAN_SIZE_MAX: Final = 1024
"""Bytes of the keys of a table that is worth remembering."""

WRITERS_MAX: Final = 256
"""Types whose writer is remembered: programs that make up types without end exist."""

Parts: TypeAlias = list[bytes]
Writer: TypeAlias = Callable[[Any, Parts, int], None]
"""Appends one encoded value to the parts, at most so many levels of nesting deep."""

_Plan: TypeAlias = list[tuple[bytes, Any]]
"""The keys of a map: each with its encoding, and sorted by it."""

_pack_float: Final = Struct("!Bd").pack


class _LimitPassed(EncodeError):
    """The value as a whole is too much; no place in it is to blame."""


def encode(value: Value) -> bytes:
    """Encode a value. Equal values of equal type have equal encodings, and no others have.

    Raises ``EncodeError``, whose text names the place, such as ``data[1]['x']``, if an integer does
    not fit into 64 bits, a ``datetime`` has no time zone, a type is not in the data model, nesting
    passes ``VALUE_DEPTH_MAX``, the encoding ``PAYLOAD_SIZE_MAX``, or what it holds
    ``VALUE_ENTRIES_MAX``.
    """
    try:
        # Short text and bytes, as keys and payloads often are, at half the cost.
        if type(value) is str and len(value) < HEADS_COUNT:
            text = value.encode()
            if len(text) < HEADS_COUNT:
                return TEXT_HEADS[len(text)] + text
        elif type(value) is bytes and len(value) < HEADS_COUNT:
            return BYTES_HEADS[len(value)] + value
        kind = type(value)
        parts: Parts = []
        (_WRITERS.get(kind) or _find_writer(kind))(value, parts, VALUE_DEPTH_MAX)
        encoded = b"".join(parts)
        if len(encoded) > PAYLOAD_SIZE_MAX:
            raise _too_large(len(encoded))
    except _LimitPassed as passed:
        raise EncodeError(str(passed)) from None
    except (EncodeError, UnicodeEncodeError) as error:
        raise _locate(value, "data", error) from None
    if len(encoded) > VALUE_ENTRIES_MAX:  # as each takes a byte at least
        _check_entries(encoded)
    return encoded


def _check_entries(encoded: bytes) -> None:
    try:
        check_shape(encoded, VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX)
    except DecodeError:
        raise EncodeError(
            f"data holds more than {VALUE_ENTRIES_MAX} values: send several messages, or bytes"
        ) from None


# Containers. A tag and a container that is not empty take one level of depth each, as cbor2 counts
# them. The loops of _write_sequence and _write_map are alike but for the keys, and repeat what
# _write_text, _write_integer and _write_real do, to save a call for each item.


def _write_sequence(items: Sequence[Any], parts: Parts, depth: int) -> None:
    size = len(items)
    write = parts.append
    write(ARRAY_HEADS[size] if size < HEADS_COUNT else head(cbor.ARRAY, size))
    if not size:
        return
    if depth <= 0 or len(parts) > PAYLOAD_SIZE_MAX:
        raise _limit_passed(depth, len(parts))
    depth -= 1
    for item in items:
        kind = type(item)
        if kind is str:
            text = item.encode()
            length = len(text)
            write(TEXT_HEADS[length] if length < HEADS_COUNT else head(cbor.TEXT, length))
            write(text)
        elif kind is int and SMALL_MIN <= item < SMALL_END:
            write(SMALL_INTEGERS[item])
        elif kind is float:
            write(_pack_float(FLOAT_HEAD, item) if item == item else NAN)
        else:
            (_WRITERS.get(kind) or _find_writer(kind))(item, parts, depth)
    if len(items) != size:
        raise EncodeError("a list changed while it was encoded: guard it from other threads")


def _write_dict(table: dict[Any, Any], parts: Parts, depth: int) -> None:
    keys = tuple(table)
    _write_planned(table, _PLANS.get(keys) or _plan(keys), parts, depth)


def _write_mapping(table: Mapping[Any, Any], parts: Parts, depth: int) -> None:
    # To look a plan up would hash the keys: see _sort.
    _write_planned(table, _plan(tuple(table)), parts, depth)


def _write_planned(table: Mapping[Any, Any], plan: _Plan | None, parts: Parts, depth: int) -> None:
    if plan is None:
        _write_table(table, parts, depth)
    else:
        _write_map(table, plan, parts, depth)


def _write_map(table: Mapping[Any, Any], keys: _Plan, parts: Parts, depth: int) -> None:
    size = len(keys)
    write = parts.append
    write(MAP_HEADS[size] if size < HEADS_COUNT else head(cbor.MAP, size))
    if not size:
        return
    if depth <= 0 or len(parts) > PAYLOAD_SIZE_MAX:
        raise _limit_passed(depth, len(parts))
    depth -= 1
    for encoded_key, key in keys:
        write(encoded_key)
        item = table[key]
        kind = type(item)
        if kind is str:
            text = item.encode()
            length = len(text)
            write(TEXT_HEADS[length] if length < HEADS_COUNT else head(cbor.TEXT, length))
            write(text)
        elif kind is int and SMALL_MIN <= item < SMALL_END:
            write(SMALL_INTEGERS[item])
        elif kind is float:
            write(_pack_float(FLOAT_HEAD, item) if item == item else NAN)
        else:
            (_WRITERS.get(kind) or _find_writer(kind))(item, parts, depth)


_PLANS: Final[dict[tuple[Any, ...], _Plan]] = {}


def _plan(keys: tuple[Any, ...]) -> _Plan | None:
    """Sort the keys of a map by their encoding; ``None`` if they make no map but a table.

    Records of one kind have the same keys in the same order, so that remembering pays.
    """
    if not all(isinstance(key, (str, bytes)) for key in keys):
        return None
    plan = [(encoded, keys[place]) for encoded, place in _sort(keys, 0)]
    is_record = len(keys) <= PLAN_KEYS_MAX and sum(len(text) for text, _ in plan) <= PLAN_SIZE_MAX
    if is_record and all(type(key) in (str, bytes) for key in keys):
        if len(_PLANS) >= PLANS_MAX:
            _PLANS.clear()
        _PLANS[keys] = plan
    return plan


def _sort(keys: Sequence[Any], depth: int) -> list[tuple[bytes, int]]:
    """Sort keys by their encoding, as pairs of that and their place; refuse two NaNs, and the like.

    They are encoded once and never hashed or looked up: if tables are keys of tables, and so on,
    doing anything twice at every level is a thousand times the work.
    """
    pairs: list[tuple[bytes, int]] = []
    for place, key in enumerate(keys):
        parts: Parts = []
        _write(key, parts, depth)
        pairs.append((b"".join(parts), place))
    pairs.sort()
    for (before, _), (after, place) in pairwise(pairs):
        if before == after:
            raise EncodeError(f"{shorten(keys[place])} is in it twice: take one of them out")
    return pairs


def _write_table(table: Mapping[Any, Any], parts: Parts, depth: int) -> None:
    items = list(table.items())
    parts.append(cbor.TABLE_HEAD)
    parts.append(head(cbor.ARRAY, 2 * len(items)))
    depth = _descend(parts, depth, levels=2)
    for encoded_key, place in _sort([key for key, _ in items], depth):
        parts.append(encoded_key)
        _write(items[place][1], parts, depth)


def _write_set(elements: AbstractSet[Any], parts: Parts, depth: int) -> None:
    items = list(elements)
    parts.append(cbor.SET_HEAD)
    parts.append(head(cbor.ARRAY, len(items)))
    depth = _descend(parts, depth, levels=2 if items else 1)
    parts += [encoded for encoded, _ in _sort(items, depth)]


def _write(value: object, parts: Parts, depth: int) -> None:
    kind = type(value)
    (_WRITERS.get(kind) or _find_writer(kind))(value, parts, depth)


def _descend(parts: Parts, depth: int, *, levels: int = 1) -> int:
    """Give the levels of depth that are left inside of tags and containers."""
    if depth < levels or len(parts) > PAYLOAD_SIZE_MAX:
        raise _limit_passed(depth - levels + 1, len(parts))
    return depth - levels


def _limit_passed(depth: int, parts_count: int) -> EncodeError:
    if depth > 0:
        # Every part has a byte. A small value that holds itself many times over ends here.
        return _too_large(parts_count)
    return _LimitPassed(
        f"data is nested more than {VALUE_DEPTH_MAX} levels deep, or holds itself: flatten it"
    )


def _too_large(size: int) -> EncodeError:
    return _LimitPassed(
        f"data takes {size} bytes or more when encoded, {PAYLOAD_SIZE_MAX} are allowed: "
        "publish it in pieces, or pass the name of a file"
    )


# Single values.


def _write_none(_value: None, parts: Parts, _depth: int) -> None:
    parts.append(cbor.NONE)


def _write_bool(value: object, parts: Parts, _depth: int) -> None:
    parts.append(cbor.TRUE if value else cbor.FALSE)


def _write_integer(value: int, parts: Parts, _depth: int) -> None:
    if SMALL_MIN <= value < SMALL_END:
        parts.append(SMALL_INTEGERS[value])
    elif 0 <= value <= INTEGER_MAX:
        parts.append(head(cbor.UNSIGNED, value))
    elif INTEGER_MIN <= value < 0:
        parts.append(head(cbor.NEGATIVE, ~value))
    else:
        hint = "Count holds it" if 0 <= value < 2**64 else "text or bytes may hold it"
        raise EncodeError(f"an int of {value.bit_length()} bits does not fit into int64: {hint}")


def _write_real(value: float, parts: Parts, _depth: int) -> None:
    parts.append(_pack_float(FLOAT_HEAD, value) if value == value else NAN)


def _write_text(value: str, parts: Parts, _depth: int) -> None:
    text = str.encode(value)
    size = len(text)
    parts.append(TEXT_HEADS[size] if size < HEADS_COUNT else head(cbor.TEXT, size))
    parts.append(text)


def _write_bytes(value: bytes, parts: Parts, _depth: int) -> None:
    size = len(value)
    parts.append(BYTES_HEADS[size] if size < HEADS_COUNT else head(cbor.BYTES, size))
    parts.append(value)


def _write_count(value: Count, parts: Parts, depth: int) -> None:
    _descend(parts, depth)
    parts.append(cbor.COUNT_HEAD)
    parts.append(head(cbor.UNSIGNED, value.value))


def _write_port(value: Port, parts: Parts, depth: int) -> None:
    _descend(parts, depth, levels=2)
    parts.append(cbor.PORT_HEAD)
    parts += (ARRAY_HEADS[2], head(cbor.UNSIGNED, value.number), SMALL_INTEGERS[value.protocol])


def _write_enum(value: Enum, parts: Parts, depth: int) -> None:
    _descend(parts, depth)
    parts.append(cbor.ENUM_HEAD)
    _write_text(value.name, parts, depth)


def _write_datetime(value: datetime, parts: Parts, depth: int) -> None:
    if type(value) is not datetime and getattr(value, "nanosecond", None):
        raise EncodeError(f"{value!r} is finer than datetime: use Timestamp.of(nanoseconds)")
    _write_time(cbor.TIMESTAMP_HEAD, nanoseconds_since_epoch(value), parts, depth)


def _write_timedelta(value: timedelta, parts: Parts, depth: int) -> None:
    if type(value) is not timedelta and getattr(value, "nanoseconds", None):
        raise EncodeError(f"{value!r} is finer than timedelta: use Timespan.of(nanoseconds)")
    _write_time(cbor.TIMESPAN_HEAD, nanoseconds_in(value), parts, depth)


def _write_timestamp(value: Timestamp, parts: Parts, depth: int) -> None:
    _write_time(cbor.TIMESTAMP_HEAD, value.nanoseconds, parts, depth)


def _write_timespan(value: Timespan, parts: Parts, depth: int) -> None:
    _write_time(cbor.TIMESPAN_HEAD, value.nanoseconds, parts, depth)


def _write_time(tag: bytes, nanoseconds: int, parts: Parts, depth: int) -> None:
    _descend(parts, depth)
    parts.append(tag)
    _write_integer(nanoseconds, parts, depth)


def _write_address(value: IPv4Address | IPv6Address, parts: Parts, depth: int) -> None:
    if getattr(value, "scope_id", None) is not None:
        raise EncodeError(f"{value} has a zone, which means nothing on another host: leave it out")
    _descend(parts, depth)
    parts.append(cbor.IPV4_HEAD if value.version == 4 else cbor.IPV6_HEAD)
    _write_bytes(value.packed, parts, depth)


def _write_subnet(value: IPv4Network | IPv6Network, parts: Parts, depth: int) -> None:
    _descend(parts, depth, levels=2)
    parts.append(cbor.IPV4_HEAD if value.version == 4 else cbor.IPV6_HEAD)
    parts += (ARRAY_HEADS[2], SMALL_INTEGERS[value.prefixlen])
    _write_bytes(value.network_address.packed.rstrip(b"\0"), parts, depth)


_WRITERS: Final[dict[type, Writer]] = {
    type(None): _write_none,
    bool: _write_bool,
    int: _write_integer,
    float: _write_real,
    str: _write_text,
    bytes: _write_bytes,
    list: _write_sequence,
    tuple: _write_sequence,
    dict: _write_dict,
    set: _write_set,
    frozenset: _write_set,
    Count: _write_count,
    Port: _write_port,
    Enum: _write_enum,
    datetime: _write_datetime,
    Timestamp: _write_timestamp,
    timedelta: _write_timedelta,
    Timespan: _write_timespan,
    IPv4Address: _write_address,
    IPv6Address: _write_address,
    IPv4Network: _write_subnet,
    IPv6Network: _write_subnet,
}


def _write_int_like(value: int, parts: Parts, depth: int) -> None:
    _write_integer(index(value), parts, depth)


def _write_bytes_like(value: bytes | bytearray | memoryview, parts: Parts, depth: int) -> None:
    _write_bytes(bytes(value), parts, depth)


_FALLBACKS: Final[tuple[tuple[type, Writer], ...]] = (
    (int, _write_int_like),
    (float, _write_real),
    (str, _write_text),
    (bytes, _write_bytes_like),
    (bytearray, _write_bytes_like),
    (memoryview, _write_bytes_like),
    (list, _write_sequence),
    (tuple, _write_sequence),
    (Mapping, _write_mapping),
    (AbstractSet, _write_set),
    (datetime, _write_datetime),
    (timedelta, _write_timedelta),
)
"""How relatives of the known types are written: enums of ints, named tuples, proxies, and more."""


def _find_writer(kind: type) -> Writer:
    for base, writer in _FALLBACKS:
        if issubclass(kind, base):
            if len(_WRITERS) < WRITERS_MAX:
                _WRITERS[kind] = writer
            return writer
    raise EncodeError(
        f"{kind.__module__}.{kind.__qualname__} is not in the data model: "
        "convert it to text, a number, bytes, a list or a dict"
    )


# Errors. Encoding keeps no track of where it is; who fails pays for finding out.


def _locate(value: object, place: str, error: Exception) -> EncodeError:
    """Say which part of the value the error is about."""
    for part, part_place in _parts_of(value, place):
        try:
            _write(part, [], VALUE_DEPTH_MAX)
        except (EncodeError, UnicodeEncodeError) as fault:
            return _locate(part, part_place, fault)
    if isinstance(error, UnicodeEncodeError):
        return EncodeError(f"{place}: {shorten(value)} holds a lone surrogate: send it as bytes")
    return EncodeError(f"{place}: {error}")


def _parts_of(value: object, place: str) -> Iterator[tuple[object, str]]:
    if isinstance(value, Mapping):
        yield from ((key, f"a key of {place}") for key in value)
        yield from ((item, f"{place}[{shorten(key)}]") for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((item, f"{place}[{number}]") for number, item in enumerate(value))
    elif isinstance(value, AbstractSet):
        yield from ((element, f"an element of {place}") for element in value)
