"""JSON in the column ``value`` as columns of their own: Spark's own ``from_json``, laid out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from wire.errors import InvalidData

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VALUE: Final = "value"
UNPARSED: Final = "unparsed"
PERMISSIVE: Final = "PERMISSIVE"
FAILFAST: Final = "FAILFAST"

SHOWN_MAX: Final = 200
"""Characters of a record that an error shows."""

_RECORD: Final = "__peermesh_record"


def parsed(
    frame: DataFrame,
    schema: str | StructType,
    mode: str = PERMISSIVE,
    corrupt: str = "_corrupt_record",
) -> DataFrame:
    """Parse the column ``value`` as JSON: the columns of ``schema`` come after those of ``frame``.

    What a record becomes is Spark's affair: it is what ``from_json`` makes of it. In the mode
    ``PERMISSIVE`` a record that is not of the schema has its text in the column ``corrupt``, and
    null in the columns that could not be read; in ``FAILFAST`` the query ends with an error that
    names partition and offset. ``value`` stays, unless the schema has a column of that name.

    A frame that was read with the option ``valueSchema`` has most records parsed already: what is
    in ``unparsed`` is parsed here, and ``value`` has the text of these alone.

    Raises ``InvalidData`` for another mode, for a schema that is no list of columns, or not that of
    ``valueSchema``, and for one with a column that the frame has too: ``drop`` that, or rename it.
    """
    kind = _struct(schema)
    if mode not in (PERMISSIVE, FAILFAST):
        raise InvalidData(f"mode is {PERMISSIVE} or {FAILFAST}, not {mode!r}: from_json has these")
    _check(frame, kind, corrupt)
    whole = kind
    if corrupt not in kind.fieldNames():
        whole = StructType([*kind.fields]).add(corrupt, StringType())
    is_begun = isinstance(frame.schema[VALUE].dataType, StructType)
    text = f.col(UNPARSED if is_begun else VALUE).cast("string")
    options = {"mode": PERMISSIVE, "columnNameOfCorruptRecord": corrupt}
    found = frame.withColumn(_RECORD, f.from_json(text, whole, options))
    if mode == FAILFAST:
        record = f.col(_RECORD)
        found = found.withColumn(_RECORD, _refusing(found, record, record.getField(corrupt)))
    # As text, in one call: each column that Python makes costs several of the JVM.
    kept = [
        f"CAST({UNPARSED if is_begun else VALUE} AS STRING) AS {VALUE}"
        if name == VALUE
        else _quoted(name)
        for name in frame.columns
        if name != UNPARSED or not is_begun
        if name != VALUE or VALUE not in _lower(kind.fieldNames())
    ]
    laid_out = [_field(name, is_begun=is_begun and name != corrupt) for name in whole.fieldNames()]
    return found.selectExpr(*kept, *laid_out)


def _field(name: str, *, is_begun: bool) -> str:
    """Write a column of the record, which is parsed already where that has begun."""
    place = _quoted(name)
    record = f"{_RECORD}.{place}"
    # One of the two is null as a whole.
    return f"coalesce({VALUE}.{place}, {record}) AS {place}" if is_begun else f"{record} AS {place}"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _struct(schema: str | StructType) -> StructType:
    kind = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(kind, StructType) or not kind.fields:
        raise InvalidData("the schema is a list of columns, as in 'a INT, b STRING'")
    return kind


def _check(frame: DataFrame, kind: StructType, corrupt: str) -> None:
    if VALUE not in frame.columns:
        raise InvalidData(
            f"there is no column value to parse; there are {', '.join(frame.columns)}"
        )
    begun = frame.schema[VALUE].dataType
    if isinstance(begun, StructType) and begun.simpleString() != kind.simpleString():
        raise InvalidData(
            f"the frame was read with valueSchema {begun.simpleString()}, which is not the schema"
            f" {kind.simpleString()}: give the same, or leave the option away"
        )
    taken = _lower(frame.columns) - {VALUE}
    for name in [*kind.fieldNames(), corrupt]:
        if name.lower() in taken:
            raise InvalidData(
                f"column {name!r} of the schema is a column of the frame, too: leave that out, with"
                f" frame.drop({name!r}), or rename it"
            )


def _lower(names: list[str]) -> set[str]:
    return {name.lower() for name in names}


def _refusing(frame: DataFrame, record: Column, bad: Column) -> Column:
    """Have the query fail where a record is not of the schema, and say which one it is."""
    place: list[Column] = []
    for name in ("partition", "offset"):
        if name in frame.columns:
            place += [f.lit(f"{name} "), f.col(name).cast("string"), f.lit(", ")]
    shown = f.substring(bad, 1, SHOWN_MAX)
    text = f.concat(*place, f.lit("column value: the record is not of the schema: "), shown)
    return f.when(bad.isNull(), record).otherwise(f.raise_error(text))
