"""Values as plain Python: dicts, lists, text and numbers, which ``json`` can write."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum as PythonEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Final

from wire.identifiers import EndpointId
from wire.limits import VALUE_DEPTH_MAX
from wire.public import public
from wire.scalars import (
    Count,
    Enum,
    Port,
    Timespan,
    Timestamp,
    nanoseconds_in,
    nanoseconds_since_epoch,
)
from wire.times import write_timespan, write_timestamp


@public
def plain(value: Any) -> Any:  # noqa: ANN401 - any value in, plain Python out
    """Give a value as dicts, lists, text and numbers, down to its last element.

    Tables become dicts; those with a key that is not text become lists of pairs, as JSON has no
    other place for such keys. Sets and vectors become lists. Addresses, subnets, ports and enum
    values become text, timestamps ISO 8601 text in UTC, timespans text such as ``1500ms``, bytes
    base64 text. What the API gives of frozen fields, such as ``Entry``, becomes a dict. So
    ``json.dumps(anything, default=plain)`` works. Raises ``TypeError`` for what is none of these,
    and ``ValueError`` for what holds itself, or is nested deeper than the interpreter can follow.
    """
    try:
        return _plain(value)
    except RecursionError:
        raise ValueError(
            "the value holds itself, or is nested too deep: a value of the mesh is nested"
            f" {VALUE_DEPTH_MAX} deep at most"
        ) from None


def _plain(value: Any) -> Any:  # noqa: ANN401 - as above
    match value:
        case Count():
            return int(value)
        case None | bool() | int() | float() | str():
            return value
        case tuple() | list():
            return [_plain(each) for each in value]
        case Mapping():
            return _table(value)
        case AbstractSet():
            return [_plain(each) for each in value]
        case PythonEnum():
            return _plain(value.value)
        case _ if is_dataclass(value) and type(value) not in _WRITERS:
            return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        case _:
            return write_scalar(value)


def write_scalar(value: Any) -> str | int:  # noqa: ANN401 - looked up by its type
    """Write a value that JSON has no type for; raises ``TypeError`` for what is no value."""
    writer = _WRITERS.get(type(value))
    if writer is None:
        raise TypeError(f"{type(value).__name__} is no value of the mesh")
    return writer(value)


def _table(table: Mapping[Any, Any]) -> dict[str, Any] | list[list[Any]]:
    if all(type(key) is str for key in table):
        return {key: _plain(each) for key, each in table.items()}
    return [[_plain(key), _plain(each)] for key, each in table.items()]


_WRITERS: Final[dict[type, Callable[[Any], str | int]]] = {
    bytes: lambda value: base64.b64encode(value).decode(),
    EndpointId: str,
    Count: int,
    Port: str,
    Enum: str,
    IPv4Address: str,
    IPv6Address: str,
    IPv4Network: str,
    IPv6Network: str,
    datetime: lambda value: write_timestamp(nanoseconds_since_epoch(value)),
    Timestamp: lambda value: write_timestamp(value.nanoseconds),
    timedelta: lambda value: write_timespan(nanoseconds_in(value)),
    Timespan: lambda value: write_timespan(value.nanoseconds),
}
