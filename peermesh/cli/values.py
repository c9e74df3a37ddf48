"""Typed values as JSON, and back.

What JSON can say exactly is plain: null, booleans, numbers, text, arrays, and objects for tables
whose keys are text. ``1`` is an integer and ``1.0`` a real. Everything else is an object with two
members, with Broker's names: ``{"@data-type": "count", "data": 7}``.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Set as AbstractSet
from datetime import datetime, timedelta
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any, Final

from wire.escaping import escape, is_plain
from wire.plain import write_scalar
from wire.scalars import (
    INTEGER_MAX,
    INTEGER_MIN,
    Count,
    Enum,
    Port,
    Timespan,
    Timestamp,
    Value,
)
from wire.times import read_timespan, read_timestamp
from wire.values import Set, Table

TYPE: Final = "@data-type"
DATA: Final = "data"


class NoValue(ValueError):
    """Text or JSON that is no value; the text says what would be."""


class NoJSON(NoValue):
    """Text that is no JSON at all; it may be meant as text."""


def parse_value(text: str) -> Value:
    """Read a value from JSON text; raises ``NoJSON``, or ``NoValue`` for JSON that is none."""
    try:
        return from_json(json.loads(text, parse_constant=_refuse))
    except RecursionError:
        raise NoValue("it is nested too deep") from None
    except NoValue:
        raise
    except json.JSONDecodeError as error:
        quoted = json.dumps(text)
        raise NoJSON(f"{text!r} is no JSON ({error}): write {quoted!r} for text") from None
    except ValueError as error:
        raise NoValue(f"{text[:40]!r} is no value: {error}") from None


def format_value(value: Value) -> str:
    """Write a value as JSON text, in one line that disturbs no terminal."""
    return escape(json.dumps(to_json(value), ensure_ascii=False))


def on_a_line(name: str) -> str:
    """Write a name as it is, or as JSON if it would disturb the line, or the terminal."""
    return name if is_plain(name) else escape(json.dumps(name, ensure_ascii=False))


def to_json(value: Any) -> Any:  # noqa: ANN401 - JSON in, JSON out
    """Turn a value into what ``json`` can write."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _typed("real", repr(value))
        case tuple() | list():
            return [to_json(each) for each in value]
        case Mapping():
            return _table_to_json(value)
        case AbstractSet():
            return _typed("set", [to_json(each) for each in value])
        case _:
            return _scalar_to_json(value)


def from_json(found: Any) -> Value:  # noqa: ANN401 - JSON in, JSON out
    """Turn what ``json`` has read into a value; raises ``NoValue``."""
    if isinstance(found, list):
        return tuple(from_json(each) for each in found)
    if not isinstance(found, dict):
        if isinstance(found, int) and not INTEGER_MIN <= found <= INTEGER_MAX:
            raise NoValue(f"{found} does not fit into 64 bits: {INTEGER_MAX} is the most")
        value: Value = found
        return value
    if TYPE not in found:
        return Table({name: from_json(each) for name, each in found.items()})
    if found.keys() != {TYPE, DATA}:
        raise NoValue(f'a typed value is {{"{TYPE}": …, "{DATA}": …}}, with nothing else in it')
    kind, data = found[TYPE], found[DATA]
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise NoValue(f"there is no type {kind!r}; there are {', '.join(_READERS)}")
    try:
        return reader(data)
    except NoValue:
        raise
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise NoValue(f"{data!r} is no {kind}: {error}") from None


def _typed(kind: str, data: object) -> dict[str, object]:
    return {TYPE: kind, DATA: data}


def _table_to_json(table: Mapping[Any, Any]) -> dict[str, object]:
    keys = list(table)
    if all(type(key) is str for key in keys) and TYPE not in keys:
        return {key: to_json(each) for key, each in table.items()}
    entries = [{"key": to_json(key), "value": to_json(each)} for key, each in table.items()]
    return _typed("table", entries)


def _scalar_to_json(value: Any) -> dict[str, object]:  # noqa: ANN401 - looked up by its type
    kind = _KINDS.get(type(value))
    if kind is None:
        raise TypeError(f"{type(value).__name__} is no value of the mesh")
    return _typed(kind, write_scalar(value))


def _read_table(entries: Any) -> Value:  # noqa: ANN401 - any JSON value
    pairs: list[tuple[Value, Value]]
    pairs = [(from_json(entry["key"]), from_json(entry["value"])) for entry in entries]
    return Table(pairs)


def _is(kind: type) -> Callable[[Any], Any]:
    def read(data: Any) -> Any:  # noqa: ANN401 - any JSON value
        if type(data) is not kind:
            raise NoValue(f"{data!r} is no {kind.__name__}")
        return data

    return read


def _of_text(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Read from text alone: to ``ipaddress``, numbers and ``true`` are addresses, too."""
    is_text = _is(str)
    return lambda data: read(is_text(data))


def _refuse(constant: str) -> None:
    raise NoJSON(f"{constant} is no JSON: write {json.dumps(constant)!r} for text")


_KINDS: Final[dict[type, str]] = {
    bytes: "bytes",
    Count: "count",
    Port: "port",
    Enum: "enum-value",
    IPv4Address: "address",
    IPv6Address: "address",
    IPv4Network: "subnet",
    IPv6Network: "subnet",
    datetime: "timestamp",
    Timestamp: "timestamp",
    timedelta: "timespan",
    Timespan: "timespan",
}

_READERS: Final[dict[str, Callable[[Any], Value]]] = {
    "none": lambda data: None,
    "boolean": _is(bool),
    "integer": _is(int),
    "real": float,
    "string": _is(str),
    "bytes": lambda data: base64.b64decode(data, validate=True),
    "count": Count,
    "port": _of_text(Port.parse),
    "enum-value": Enum,
    "address": _of_text(ip_address),
    "subnet": _of_text(ip_network),
    "timestamp": read_timestamp,
    "timespan": read_timespan,
    "vector": lambda data: tuple(from_json(each) for each in data),
    "set": lambda data: Set(from_json(each) for each in data),
    "table": _read_table,
}
