"""Values of the mesh as Broker's JSON, and back: one table for both directions.

Each value is an object of two members, ``{"@data-type": "count", "data": 7}``. Whatever is written
is read as the same value, bytes apart: Broker's text is UTF-8 by convention alone, so that they are
written as text, with backslashes for what is none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, NamedTuple

from wire.escaping import escape
from wire.scalars import (
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
from wire.times import read_timespan, read_timestamp, write_timespan, write_timestamp
from wire.values import Set, Table

TYPE: Final = "@data-type"
DATA: Final = "data"

REASON_SIZE_MAX: Final = 200
"""Characters of the reason why something is no value: some of them quote what was there."""

text: Final[Callable[[str], str]] = json.JSONEncoder(ensure_ascii=False).encode
"""Writes a JSON string."""


class NoValue(ValueError):
    """JSON that is no value; the text says what is wrong with it."""


class _Kind(NamedTuple):
    """One of Broker's types: which types of Python it has, and how its data is written and read."""

    name: str
    types: tuple[type, ...]
    write: Callable[[Any], str]
    read: Callable[[Any], Value]


def members(value: Value) -> str:
    """Write the two members of a value's object, without its braces: a message has more."""
    name, write = _WRITERS[type(value)]
    return f'"{TYPE}": "{name}", "{DATA}": {write(value)}'


def read(found: object) -> Value:
    """Read the value of an object that ``json`` has read; raises ``NoValue``."""
    if not isinstance(found, dict) or TYPE not in found or DATA not in found:
        raise NoValue(f'{shorten(found)} is no value: write {{"{TYPE}": …, "{DATA}": …}}')
    name, data = found[TYPE], found[DATA]
    reader = _READERS.get(name) if isinstance(name, str) else None
    if reader is None:
        raise NoValue(f"there is no type {shorten(name)}; there are {', '.join(_READERS)}")
    try:
        return reader(data)
    except NoValue:
        raise
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        reason = escape(str(error))[:REASON_SIZE_MAX]
        raise NoValue(f"{shorten(data)} is no {name}: {reason}") from None


# -- type by type ----------------------------------------------------------------------------------


def _exactly(kind: type, data: Any) -> Any:  # noqa: ANN401 - any JSON value
    if type(data) is not kind:
        raise TypeError(f"{kind.__name__} is expected")
    return data


def _read_none(data: object) -> None:
    if data not in ({}, None):
        raise ValueError("its data is {}")


def _read_real(data: object) -> float:
    if isinstance(data, str) and data in _NOT_FINITE:
        return float(data)
    if isinstance(data, int | float) and type(data) is not bool:  # JavaScript writes 1 for 1.0.
        return float(data)
    raise TypeError("a number is expected")


def _write_real(value: float) -> str:
    """Write a number; what JSON has no number for is text, which Broker does not know."""
    return repr(value) if math.isfinite(value) else f'"{value!r}"'


def _read_subnet(data: str) -> Value:
    """Read a subnet; as in Broker, the bits of a host are cleared."""
    if "/" not in _text(data):
        raise ValueError("write 10.0.0.0/8")
    return ip_network(data, strict=False)


def _read_table(data: list[Any]) -> Value:
    pairs: list[tuple[Value, Value]]
    pairs = [(read(each["key"]), read(each["value"])) for each in _list(data)]
    return Table(pairs)


def _object(value: Value) -> str:
    return f"{{{members(value)}}}"


def _array(values: Iterable[Value]) -> str:
    return f"[{', '.join(map(_object, values))}]"


def _write_table(table: Table) -> str:
    pairs = (f'{{"key": {_object(key)}, "value": {_object(each)}}}' for key, each in table.items())
    return f"[{', '.join(pairs)}]"


def _write_instant(nanoseconds: int) -> str:
    return f'"{write_timestamp(nanoseconds, digits_min=3, zone="")}"'


def _quoted(value: object) -> str:
    return f'"{value}"'


_NOT_FINITE: Final = ("nan", "inf", "-inf")
_text: Final = partial(_exactly, str)
_list: Final = partial(_exactly, list)

_KINDS: Final = (
    _Kind("none", (type(None),), lambda _: "{}", _read_none),
    _Kind("boolean", (bool,), lambda value: "true" if value else "false", partial(_exactly, bool)),
    _Kind("count", (Count,), str, Count),
    _Kind("integer", (int,), str, partial(_exactly, int)),
    _Kind("real", (float,), _write_real, _read_real),
    _Kind("string", (str,), text, _text),
    _Kind("address", (IPv4Address, IPv6Address), _quoted, lambda data: ip_address(_text(data))),
    _Kind("subnet", (IPv4Network, IPv6Network), _quoted, _read_subnet),
    _Kind("port", (Port,), _quoted, lambda data: Port.parse(_text(data))),
    _Kind("timestamp", (Timestamp,), lambda at: _write_instant(at.nanoseconds), read_timestamp),
    _Kind("timespan", (Timespan,), lambda span: f'"{write_timespan(span.nanoseconds)}"',
          read_timespan),
    _Kind("enum-value", (Enum,), lambda value: text(value.name), Enum),
    _Kind("set", (Set,), _array, lambda data: Set(map(read, _list(data)))),
    _Kind("table", (Table,), _write_table, _read_table),
    _Kind("vector", (tuple,), _array, lambda data: tuple(map(read, _list(data)))),
)  # fmt: skip
"""In Broker's order."""

_READERS: Final = {kind.name: kind.read for kind in _KINDS}

_WRITERS: Final[dict[type, tuple[str, Callable[[Any], str]]]] = {
    **{each: (kind.name, kind.write) for kind in _KINDS for each in kind.types},
    # These are other forms of the same types, which are read as whatever form fits.
    datetime: ("timestamp", lambda at: _write_instant(nanoseconds_since_epoch(at))),
    timedelta: ("timespan", lambda span: f'"{write_timespan(nanoseconds_in(span))}"'),
    bytes: ("string", lambda data: text(data.decode("utf-8", "backslashreplace"))),
}
