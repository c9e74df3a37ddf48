"""Spark's rows as keys and values of the mesh, or the reason why one is none. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from peermesh.spark.converting import Convert, converter
from peermesh.spark.options import NullKeys
from peermesh.spark.records import Taken
from stores.limits import KEY_SIZE_MAX, VALUE_SIZE_MAX
from wire.encoding import encode
from wire.errors import EncodeError, InvalidData, LimitExceeded
from wire.limits import KIB
from wire.scalars import shorten
from wire.values import Value

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

ROW_SIZE_MAX: Final = VALUE_SIZE_MAX - 128 * KIB
"""Bytes of a key with its value: a mutation of a store, or an append to a log, has room for it and
for the note that its batch is done."""

SparkRow: TypeAlias = tuple[Any, ...]
"""What Arrow gives for the columns of a row, in the order of the schema."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Which columns are the key, and which the value."""

    key_columns: tuple[str, ...] = ()
    value_column: str | None = None

    def check(self, columns: Sequence[str]) -> None:
        """Raise ``InvalidData`` for a column that is not there, or is there twice."""
        wanted = [*self.key_columns, *filter(None, [self.value_column])]
        for name in wanted:
            if name not in columns:
                raise InvalidData(f"there is no column {name!r}; there are {', '.join(columns)}")
        for name in columns:
            if columns.count(name) > 1:
                raise InvalidData(f"there are two columns {name!r}: rename one")


class RowReader:
    """Makes keys and values of rows of one schema."""

    def __init__(self, shape: Shape, schema: StructType, null_keys: NullKeys | None) -> None:
        """Choose the converters; raises ``InvalidData`` for a column that cannot be written.

        ``null_keys`` is ``None`` for a log, where a null key is no key.
        """
        self._names = names = schema.fieldNames()
        shape.check(names)
        self._null_keys = null_keys
        self._key = [_Column(schema, names.index(name)) for name in shape.key_columns]
        self._is_table = shape.value_column is None
        values = (
            [name for name in names if name not in shape.key_columns]
            if shape.value_column is None
            else [shape.value_column]
        )
        self._value = [_Column(schema, names.index(name)) for name in values]

    def take(self, batches: Iterable[RecordBatch], task: str) -> Taken:
        """Take rows in; raises ``InvalidData`` or ``LimitExceeded``, which name row and column.

        ``task`` tells in errors whose rows are counted: the first one is row 1.
        """
        taken = Taken()
        rows = (row for batch in batches for row in self._rows_of(batch, task))
        for number, row in enumerate(rows, 1):
            place = f"row {number:,} of {task}"
            null = self._null_of_key(row)
            if null is None:
                key = self._key_of(row, place)
                value = self._value_of(row, key, place)
                _check_size(key, value, place)
                taken.rows.append((key, value))
            elif self._null_keys is NullKeys.DROP:
                taken.dropped += 1
            else:
                raise InvalidData(
                    f"column {null!r} is null in {place}, and belongs to the key: filter such rows"
                    " out, or leave them out and count them with the option nullKeys=drop"
                )
        return taken

    def _rows_of(self, batch: RecordBatch, task: str) -> Iterable[SparkRow]:
        columns = []
        for name, column in zip(self._names, batch.columns, strict=True):
            try:
                columns.append(column.to_pylist())
            except (ValueError, OverflowError) as error:
                raise InvalidData(
                    f"column {name!r} of {task} cannot be written: {error}: cast it to a string"
                ) from error
        return zip(*columns, strict=True)

    def _null_of_key(self, row: SparkRow) -> str | None:
        if self._null_keys is None:
            return None
        return next((each.name for each in self._key if row[each.index] is None), None)

    def _key_of(self, row: SparkRow, place: str) -> Value:
        """Give the value of the one column, or a vector of several."""
        parts = tuple(each.of(row, place) for each in self._key)
        return None if not parts else parts[0] if len(parts) == 1 else parts

    def _value_of(self, row: SparkRow, key: Value, place: str) -> Value:
        """Give the value of the one column, or a table of all that are no key."""
        where = place if key is None else f"{place}, key {shorten(key)}"
        if not self._is_table:
            return self._value[0].of(row, where)
        return {each.name: each.of(row, where) for each in self._value}


class _Column:
    """One column: where it is, and what converts it."""

    def __init__(self, schema: StructType, index: int) -> None:
        self.name = schema[index].name
        self.index = index
        self._convert: Convert = converter(schema[index].dataType, self.name)

    def of(self, row: SparkRow, place: str) -> Value:
        found = row[self.index]
        if found is None:
            return None
        try:
            return self._convert(found)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidData(
                f"column {self.name!r} of {place} cannot be written: {error}: cast it to a string"
            ) from error


def _check_size(key: Value, value: Value, place: str) -> None:
    try:
        key_size = 0 if key is None else len(encode(key))
        size = key_size + len(encode(value))
    except EncodeError as error:
        if _size(key) + _size(value) > ROW_SIZE_MAX:
            _refuse_size(key, value, place)
        raise InvalidData(f"{place}, key {shorten(key)}, cannot be written: {error}") from None
    if key_size > KEY_SIZE_MAX:
        raise LimitExceeded(
            f"the key {shorten(key)} of {place} takes {key_size:,} bytes, {KEY_SIZE_MAX:,} are"
            " allowed: use a digest of it"
        )
    if size > ROW_SIZE_MAX:
        _refuse_size(key, value, place)


def _refuse_size(key: Value, value: Value, place: str) -> NoReturn:
    columns = value if isinstance(value, dict) else {}
    largest = max(columns, key=lambda name: _size(columns[name]), default=None)
    most = "" if largest is None else f", most of them in column {str(largest)!r}"
    raise LimitExceeded(
        f"the key {shorten(key)} of {place} takes {_size(key) + _size(value):,} bytes with its"
        f" value{most}; {ROW_SIZE_MAX:,} are allowed: keep large content in files, and write"
        " their names"
    )


def _size(value: Value) -> int:
    """Give about what a value takes, without its heads: it may be too large to be encoded."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(_size(key) + _size(each) for key, each in value.items())
    return sum(map(_size, value)) if isinstance(value, tuple) else 1
