"""What a column of Spark is in the mesh, by its type: one function for each, chosen once. Pure.

Columns come as Arrow gives them: Spark's own rows hold a TIMESTAMP by the clock on the wall of the
machine, where an hour of autumn comes twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias

from pyspark.sql import types

from wire.errors import InvalidData
from wire.scalars import INTEGER_MAX, INTEGER_MIN
from wire.values import Value

Convert: TypeAlias = Callable[[Any], Value]
"""Makes a value of the mesh from what Arrow gives for a column, unless that is null."""


def converter(kind: types.DataType, column: str) -> Convert:
    """Give what converts a column; raises ``InvalidData``, which names it, for a type without one.

    What JSON has no type for is text as Spark's own ``to_json`` writes it, so that ``from_json``
    reads it: nothing depends on the time zone of the machine, or of the session.
    """
    if isinstance(kind, types.StructType):
        return _struct(kind, column)
    if isinstance(kind, types.ArrayType):
        element = converter(kind.elementType, f"{column}[]")
        return lambda found: tuple(None if each is None else element(each) for each in found)
    if isinstance(kind, types.MapType):
        return _map(kind, column)
    for known, convert in _CONVERTERS:
        if isinstance(kind, known):
            return convert
    raise InvalidData(
        f"column {column!r} is of type {kind.simpleString()}, which has no place in the mesh: cast"
        " it to a string"
    )


def _struct(kind: types.StructType, column: str) -> Convert:
    names = kind.fieldNames()
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidData(f"column {column!r} has two fields {twice!r}: rename one")
    fields = [(each.name, converter(each.dataType, f"{column}.{each.name}")) for each in kind]

    def convert(found: dict[str, Any]) -> Value:
        return {name: None if found[name] is None else of(found[name]) for name, of in fields}

    return convert


def _map(kind: types.MapType, column: str) -> Convert:
    of_key = converter(kind.keyType, f"{column} (its keys)")
    of_item = converter(kind.valueType, f"{column} (its values)")

    def convert(found: list[tuple[Any, Any]]) -> Value:
        return {of_key(key): None if each is None else of_item(each) for key, each in found}

    return convert


def _same(found: Any) -> Value:  # noqa: ANN401 - of a type that is the mesh's too
    value: Value = found
    return value


def _instant(found: datetime) -> Value:
    return found.astimezone(UTC)


def _in_full_scale(found: Decimal) -> Value:
    return f"{found:f}"


def _interval(found: timedelta) -> Value:
    """Write it as a literal of SQL, which ``from_json`` reads."""
    sign, length = ("-", -found) if found < timedelta() else ("", found)
    minutes, seconds = divmod(length.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{length.microseconds:06}" if length.microseconds else ""
    text = f"{sign}{length.days} {hours:02}:{minutes:02}:{seconds:02}{fraction}"
    return f"INTERVAL '{text}' DAY TO SECOND"


def _variant(found: dict[str, bytes]) -> Value:
    """Give what its JSON says: numbers are floats where these say the same, and text elsewhere."""
    variant = types.VariantVal(found["value"], found["metadata"])
    return _plain(json.loads(variant.toJson(), parse_float=Decimal))


def _plain(found: Any) -> Value:  # noqa: ANN401 - any JSON
    if isinstance(found, dict):
        return {name: _plain(each) for name, each in found.items()}
    if isinstance(found, list):
        return tuple(map(_plain, found))
    if isinstance(found, Decimal):
        return float(found) if Decimal(repr(float(found))) == found else str(found)
    if isinstance(found, int) and not INTEGER_MIN <= found <= INTEGER_MAX:
        return str(found)
    return _same(found)


_CONVERTERS: Final[tuple[tuple[type[types.DataType], Convert], ...]] = (
    (types.StringType, _same),  # in a frame, CHAR and VARCHAR too
    (types.IntegralType, _same),
    (types.DecimalType, _in_full_scale),
    (types.FractionalType, _same),
    (types.BooleanType, _same),
    (types.NullType, _same),
    (types.BinaryType, _same),
    (types.TimestampType, _instant),
    (types.TimestampNTZType, datetime.isoformat),
    (types.DateType, str),
    (types.TimeType, str),
    (types.DayTimeIntervalType, _interval),
    (types.VariantType, _variant),
)
