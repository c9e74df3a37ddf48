"""The order of typed keys, as bytes: keys compare as these do, type first and then by value.

Encodings do not serve: in CBOR a shorter text comes before a longer one, whatever they say. The
order is Broker's (first the type, then the value), with bytes beside strings:

none, boolean, count, integer, real, string, bytes, address, subnet, port, timestamp, timespan,
enum, set, table, vector.

Numbers go by value, within their type; reals from minus infinity up, -0.0 before 0.0, NaN last.
Strings and enums go by their UTF-8, which is the order of code points; addresses by their 16 bytes
(an IPv4 address as IPv6 maps it), subnets by address and then length, ports by number and then
protocol. Containers go element by element (sets and tables in the order of their encodings), and a
shorter one comes before the longer ones that it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from struct import Struct
from typing import Any, Final

from wire import cbor
from wire.decoding import decode
from wire.errors import InvalidData
from wire.scalars import nanoseconds_in, nanoseconds_since_epoch
from wire.values import Count, Enum, Port, Set, Table, Timespan, Timestamp

# Ranks begin with one: zero ends strings and containers, and so comes before whatever may follow.
_NONE, _BOOLEAN, _COUNT, _INTEGER, _REAL, _STRING, _BYTES, _ADDRESS = range(1, 9)
_SUBNET, _PORT, _TIMESTAMP, _TIMESPAN, _ENUM, _SET, _TABLE, _VECTOR = range(9, 17)

_END: Final = b"\x00"
_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1
_pack: Final = Struct("!BQ").pack
_pack_real: Final = Struct("!d").pack
_MAPPED: Final = bytes(10) + b"\xff\xff"
"""What IPv6 puts before an IPv4 address."""

_HEAD_SIZES: Final = {24: 2, 25: 3, 26: 5}
"""Bytes of a CBOR head, by its low bits, if it is not a single one."""


def order_of(encoded: bytes) -> bytes:
    """Give the place of an encoded key among all others; no two keys share one."""
    major = encoded[0] >> 5
    if major in (cbor.TEXT, cbor.BYTES):
        # The commonest keys, at a third of the cost of decoding them.
        body = encoded[_HEAD_SIZES.get(encoded[0] & 0x1F, 1) :]
        return _string(_STRING if major == cbor.TEXT else _BYTES, body)
    return _order(decode(encoded))


def _order(value: Any) -> bytes:  # noqa: ANN401 - each type has its own writer
    return _WRITERS[type(value)](value)


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
    start = order_of(encoded)[: -len(_END)]
    if isinstance(prefix, tuple):
        # Ranks are below 255. What begins with 255 belongs to a longer string before it.
        return start, start + b"\xff"
    kept = start.rstrip(b"\xff")
    return start, kept[:-1] + bytes((kept[-1] + 1,))


# -- type by type ----------------------------------------------------------------------------------


def _string(rank: int, body: bytes) -> bytes:
    # A zero within is written so that it sorts after the end, and before all else.
    return bytes((rank,)) + body.replace(b"\x00", b"\x00\xff") + _END


def _signed(rank: int, number: int) -> bytes:
    return _pack(rank, number + _SIGN)


def _real(value: float) -> bytes:
    if value != value:
        return _pack(_REAL, _ALL)
    bits = int.from_bytes(_pack_real(value), "big")
    return _pack(_REAL, bits ^ (_ALL if bits & _SIGN else _SIGN))


def _address_bytes(address: IPv4Address | IPv6Address) -> bytes:
    return address.packed if address.version == 6 else _MAPPED + address.packed


def _address(address: IPv4Address | IPv6Address) -> bytes:
    return bytes((_ADDRESS,)) + _address_bytes(address) + bytes((address.version,))


def _subnet(subnet: IPv4Network | IPv6Network) -> bytes:
    address = ip_address(subnet.network_address)
    ends = bytes((subnet.prefixlen + (0 if subnet.version == 6 else 96), subnet.version))
    return bytes((_SUBNET,)) + _address_bytes(address) + ends


def _port(port: Port) -> bytes:
    return bytes((_PORT,)) + port.number.to_bytes(2, "big") + bytes((port.protocol,))


def _sequence(rank: int, items: Iterable[Any]) -> bytes:
    return bytes((rank,)) + b"".join(map(_order, items)) + _END


def _table(table: Table) -> bytes:
    return _sequence(_TABLE, (part for item in table.items() for part in item))


_WRITERS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda _: bytes((_NONE,)),
    bool: lambda value: bytes((_BOOLEAN, value)),
    Count: lambda value: _pack(_COUNT, value.value),
    int: lambda value: _signed(_INTEGER, value),
    float: _real,
    str: lambda value: _string(_STRING, value.encode()),
    bytes: lambda value: _string(_BYTES, value),
    IPv4Address: _address,
    IPv6Address: _address,
    IPv4Network: _subnet,
    IPv6Network: _subnet,
    Port: _port,
    datetime: lambda value: _signed(_TIMESTAMP, nanoseconds_since_epoch(value)),
    Timestamp: lambda value: _signed(_TIMESTAMP, value.nanoseconds),
    timedelta: lambda value: _signed(_TIMESPAN, nanoseconds_in(value)),
    Timespan: lambda value: _signed(_TIMESPAN, value.nanoseconds),
    Enum: lambda value: _string(_ENUM, value.name.encode()),
    Set: lambda value: _sequence(_SET, value),
    Table: _table,
    tuple: lambda value: _sequence(_VECTOR, value),
}
