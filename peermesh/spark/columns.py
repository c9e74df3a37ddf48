"""Rows of the source: entries of a log or a store as tuples, in the types that were asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types

from peermesh.cli.values import format_value
from peermesh.spark.options import Options, ValueFormat
from wire.scalars import Count, Timestamp
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.replicas.logs.log_entries import LogEntry
    from endpoint.replicas.stores.reading import Entry

Convert = Callable[[Any], Any]

VALUE_TYPES: Final = {ValueFormat.BINARY: "BINARY", ValueFormat.STRING: "STRING"}

_NANOSECONDS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def ddl(options: Options) -> str:
    """Give the columns of the source."""
    value = VALUE_TYPES.get(options.value_format) or f"STRUCT<{options.value_schema}>"
    if options.log is not None:
        return f"topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, value {value}"
    return f"key STRING, value {value}, revision BIGINT"


def log_row(entry: LogEntry, convert: Convert) -> tuple[object, ...]:
    """Give the row of an entry of a log."""
    when = instant(entry.timestamp_ns)
    return text_of_key(entry.key), entry.partition, entry.offset, when, convert(entry.value)


def store_row(entry: Entry, convert: Convert) -> tuple[object, ...]:
    """Give the row of an entry of a store."""
    return text_of_key(entry.key), convert(entry.value), entry.revision


def instant(nanoseconds: int) -> datetime:
    """Give a time as Spark keeps it, to the microsecond."""
    seconds, rest = divmod(nanoseconds, _NANOSECONDS)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1_000)


def text_of_key(key: Value) -> str | None:
    """Give text as it is, no key as null, and other keys as JSON."""
    return key if key is None or isinstance(key, str) else format_value(key)


def converter(options: Options, schema: types.StructType) -> Convert:
    """Give what makes the column ``value`` from a value."""
    if options.value_format is ValueFormat.BINARY:
        return to_binary
    if options.value_format is ValueFormat.STRING:
        return to_text
    convert = _converter(schema["value"].dataType)
    return lambda value: convert(_parsed(value))


def to_text(value: Value) -> str | None:
    """Give text as it is, bytes that are UTF-8 as text, and all else as JSON."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return format_value(value)
    return text_of_key(value)


def to_binary(value: Value) -> bytes | None:
    """Give bytes as they are, and of all else the text in UTF-8."""
    if isinstance(value, bytes):
        return value
    text = to_text(value)
    return None if text is None else text.encode()


# JSON to a schema: what does not fit is null, as in Spark's own from_json.


def _parsed(value: Value) -> Any:  # noqa: ANN401 - any JSON
    if not isinstance(value, str | bytes):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _converter(kind: types.DataType) -> Convert:
    if isinstance(kind, types.StructType):
        return _struct(kind)
    if isinstance(kind, types.ArrayType):
        return _array(_converter(kind.elementType))
    if isinstance(kind, types.MapType):
        return _map(_converter(kind.keyType), _converter(kind.valueType))
    if isinstance(kind, types.DecimalType):
        return _to_decimal
    return _CONVERTERS.get(type(kind), _to_nothing)


def _struct(kind: types.StructType) -> Convert:
    fields = [(field.name, _converter(field.dataType)) for field in kind.fields]

    def convert(value: object) -> tuple[object, ...] | None:
        if not isinstance(value, Mapping):
            return None
        return tuple(convert_field(value.get(name)) for name, convert_field in fields)

    return convert


def _array(element: Convert) -> Convert:
    def convert(value: object) -> list[object] | None:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | AbstractSet):
            return None
        return [element(each) for each in value]

    return convert


def _map(key: Convert, item: Convert) -> Convert:
    def convert(value: object) -> dict[object, object] | None:
        if not isinstance(value, Mapping):
            return None
        return {key(each): item(value[each]) for each in value}

    return convert


def _integer(bits: int) -> Convert:
    end = 1 << bits - 1

    def convert(value: object) -> int | None:
        number = value.value if isinstance(value, Count) else value
        if isinstance(number, bool) or not isinstance(number, int):
            return None
        return number if -end <= number < end else None

    return convert


def _to_real(value: object) -> float | None:
    number = value.value if isinstance(value, Count) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return float(number)


def _to_decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _to_timestamp(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, Timestamp):
        return instant(value.nanoseconds)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return instant(round(value * _NANOSECONDS))
    try:
        when = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return when if when is None or when.tzinfo is not None else when.replace(tzinfo=UTC)


def _to_date(value: object) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _to_string(value: Any) -> str | None:  # noqa: ANN401 - any value
    return None if value is None else to_text(value)


def _to_boolean(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _to_bytes(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None


def _to_nothing(_value: object) -> None:
    return None


_CONVERTERS: Final[dict[type, Convert]] = {
    types.StringType: _to_string,
    types.BooleanType: _to_boolean,
    types.ByteType: _integer(8),
    types.ShortType: _integer(16),
    types.IntegerType: _integer(32),
    types.LongType: _integer(64),
    types.FloatType: _to_real,
    types.DoubleType: _to_real,
    types.TimestampType: _to_timestamp,
    types.DateType: _to_date,
    types.BinaryType: _to_bytes,
}
