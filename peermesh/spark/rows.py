"""Spark's rows as keys and values of the mesh. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Protocol

from wire.errors import InvalidData
from wire.values import Value


class SparkRow(Protocol):
    """A row of Spark, of which we want no more than this."""

    def asDict(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Give the columns with their values."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Which columns are the key, and which the value."""

    key_columns: tuple[str, ...] = ()
    value_column: str | None = None

    def check(self, columns: Sequence[str]) -> None:
        """Raise ``InvalidData`` for a column that is not there."""
        wanted = [*self.key_columns, *filter(None, [self.value_column])]
        for name in wanted:
            if name not in columns:
                raise InvalidData(f"there is no column {name!r}; there are {', '.join(columns)}")

    def key(self, row: SparkRow) -> Value:
        """Give the key: the value of the one column, or a vector of several."""
        table = row.asDict()
        parts = tuple(to_value(table[name]) for name in self.key_columns)
        return parts[0] if len(parts) == 1 else parts

    def value(self, row: SparkRow) -> Value:
        """Give the value: that of the one column, or a table of all that are no key."""
        table = row.asDict()
        if self.value_column is not None:
            return to_value(table[self.value_column])
        return {
            name: to_value(each) for name, each in table.items() if name not in self.key_columns
        }


def to_value(found: Any) -> Value:  # noqa: ANN401 - whatever a column of Spark holds
    """Give the value of the mesh for what a column holds; raises ``InvalidData``."""
    if found is None or isinstance(found, bool | int | float | str | bytes):
        return found
    if isinstance(found, bytearray):
        return bytes(found)
    if isinstance(found, datetime):
        return found.astimezone(UTC)  # without a zone it is in the worker's own
    if isinstance(found, date | Decimal):
        return str(found)
    if hasattr(found, "asDict"):
        return {name: to_value(each) for name, each in found.asDict().items()}
    if isinstance(found, Mapping):
        return {to_value(key): to_value(each) for key, each in found.items()}
    if isinstance(found, list | tuple):
        return tuple(map(to_value, found))
    raise InvalidData(f"a {type(found).__name__} has no place in the mesh: cast it to a string")
