"""Records as columns by Arrow's JSON reader, and what it leaves to Spark's ``from_json``.

What comes of a record here is what ``from_json`` makes of it, or nothing: then its text is in the
column ``unparsed``, which ``peermesh.spark.parsed`` hands on. The reader is not made for whatever
anybody may write, and takes some texts for what Spark does not; so what it is given is looked at
before, and times are read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyarrow import compute as pc, json as arrow_json
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from wire.errors import InvalidData
from wire.limits import KIB

RECORD_SIZE_MAX: Final = 32 * KIB
"""Bytes of a record that Arrow gets: Spark refuses names of more than 50,000 characters, and with
long texts nothing is gained."""

SHORT_SIZE: Final = 1_000
"""Bytes up to which nothing in a record passes Spark's limits, as these are no smaller."""

DEPTH_MAX: Final = 1_000
"""Objects and arrays in a record that Arrow gets: Spark refuses what is nested deeper."""

WORK_MAX: Final = 6
"""How often each record is read on average, until those are found that Arrow does not take."""

_HEAD, _TAIL = '{"r":', "}\n"
"""Each record is a member of an object, so that only a whole record is one: Arrow takes two objects
in a line for two rows, and ends the process for a lone null."""

_ODD: Final = r"-0[,\}\]\s]|Inf|NaN|\n"
"""What Arrow reads in another way than Spark, or might take for the end of a record."""

NEGATIVE_ZERO: Final = -(2**63)
"""A zero below zero, read as an integer of as many bits: the least of all reals, read so."""

_find_long: Final = re.compile(rb"[\d.eE+-]{1000}").search
"""Finds a number of more characters than Spark takes."""

_TIME: Final = r"^[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$"
"""Times of which both read the same: others depend on the session, or have more digits."""

_ROW: Final = re.compile(r" in row (\d+)$")
"""Where Arrow says which line is wrong, which it does not always."""

_PLAIN: Final = (LongType, DoubleType, StringType, BooleanType, TimestampType)


class RecordReader:
    """Reads records of one schema."""

    def __init__(self, schema: DataType) -> None:
        """Raises ``InvalidData`` for types that are better left to ``from_json``."""
        _check(schema, "value")
        self._kind = to_arrow_type(schema, timezone="UTC")
        self._read_as = pa.schema([("r", _read_as(self._kind))])
        self._is_hopeless = False
        """Whether most records are left to Spark: then all of them are, for the rest of a task."""

    def batches(self, found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Have ``value`` of each batch parsed, with ``unparsed`` behind all columns."""
        for batch in found:
            at = batch.schema.get_field_index("value")
            value, unparsed = self.parse(batch.column(at))
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            yield pa.record_batch({**columns, "value": value, "unparsed": unparsed})

    def parse(self, texts: pa.StringArray) -> tuple[pa.StructArray, pa.StringArray]:
        """Give the records that could be read, and the texts of the others; each is null else."""
        if self._is_hopeless:
            return pa.nulls(len(texts), self._kind), texts
        is_odd = _may_be_odd(texts)
        value = self._fitting(texts, _fit(texts, may_be_odd=is_odd))
        if not is_odd and _has_negative_zero(value):
            value = self._fitting(texts, _fit(texts, may_be_odd=True))
        is_read = value.is_valid()
        self._is_hopeless = 2 * is_read.true_count < len(texts) - texts.null_count
        return value, pc.if_else(is_read, None, texts)

    def _fitting(self, texts: pa.StringArray, is_fit: pa.BooleanArray) -> pa.StructArray:
        """Read those that are fit; the others are null."""
        if is_fit.true_count == len(texts):
            return self._values(texts)
        places = pc.if_else(is_fit, pc.cumulative_sum(pc.cast(is_fit, pa.int64())), None)
        return self._values(texts.filter(is_fit)).take(pc.subtract(places, 1))

    def _values(self, lines: pa.StringArray) -> pa.StructArray:
        return pa.concat_arrays([pa.nulls(0, self._kind), *self._parts(lines)])

    def _parts(self, lines: pa.StringArray) -> Iterator[pa.StructArray]:
        """Read lines, and halves of them where one is not taken, as long as it is worth it."""
        work = WORK_MAX * len(lines)
        left = [lines] if len(lines) else []
        while left:
            part = left.pop()
            found = self._read(part) if work > 0 else 0
            work -= len(part) if not isinstance(found, int) else min(found + 1, len(part))
            if not isinstance(found, int):
                yield found
            elif len(part) == 1 or work <= 0:
                yield pa.nulls(len(part), self._kind)
            elif found < len(part):  # The line of this number is not taken.
                left += (part[found + 1 :], part[found : found + 1], part[:found])
            else:
                middle = len(part) // 2
                left += (part[middle:], part[:middle])
            left = [each for each in left if len(each)]

    def _read(self, lines: pa.StringArray) -> pa.StructArray | int:
        """Read lines, all of them; else say which one is not taken, or their number."""
        text = pc.binary_join_element_wise(_HEAD, lines, _TAIL, "").buffers()[2]
        try:
            table = arrow_json.read_json(
                pa.BufferReader(text),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=arrow_json.ParseOptions(
                    explicit_schema=self._read_as, unexpected_field_behavior="ignore"
                ),
            )
            if table.num_rows != len(lines):
                return len(lines)
            return _with_times(table.column("r").combine_chunks(), self._kind)
        except pa.ArrowInvalid as error:
            row = _ROW.search(str(error))
            return min(int(row[1]), len(lines)) if row else len(lines)


def _check(kind: DataType, name: str) -> None:
    if isinstance(kind, StructType):
        for field in kind.fields:
            _check(field.dataType, field.name)
    elif isinstance(kind, ArrayType):
        _check(kind.elementType, name)
    elif not isinstance(kind, _PLAIN):
        raise InvalidData(
            f"valueSchema has {name} {kind.simpleString().upper()}, and takes BIGINT, DOUBLE,"
            " STRING, BOOLEAN, TIMESTAMP, and structs and arrays of them: leave it away, and"
            " peermesh.spark.parsed(frame, schema) takes any type"
        )


def _read_as(kind: pa.DataType) -> pa.DataType:
    """Give the type that Arrow reads: times are text at first."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_read_as(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_read_as(kind.value_type)))
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _with_times(found: pa.Array, kind: pa.DataType) -> pa.Array:
    """Make times of texts that are some; raises ``ArrowInvalid`` if one is not."""
    if pa.types.is_struct(kind):
        columns = [_with_times(found.field(n), field.type) for n, field in enumerate(kind)]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=found.is_null())
    if pa.types.is_list(kind):
        items = _with_times(found.values, kind.value_type)
        return pa.ListArray.from_arrays(found.offsets, items, type=kind, mask=found.is_null())
    if pa.types.is_timestamp(kind):
        if not pc.all(pc.match_substring_regex(found, _TIME), min_count=0).as_py():
            raise pa.ArrowInvalid("a time in another form")
        return found.cast(kind)
    return found


def _may_be_odd(texts: pa.StringArray) -> bool:
    """Tell whether a text has what is ``_ODD``, other than a zero below zero.

    Most batches have none of it, which is found at a tenth of the cost of a look at each text.
    """
    content = texts.buffers()[2]
    raw = b"" if content is None else content.to_pybytes()
    return b"\n" in raw or any(
        word[:1] in raw and word in raw  # A letter is found at a tenth of the cost of a word.
        for word in (b"Inf", b"NaN")
    )


def _has_negative_zero(found: pa.Array) -> bool:
    """Tell whether a number is below zero and zero: whether its text was ``-0`` is not known.

    Arrow takes that for a real, and Spark for an integer, which has no such zero.
    """
    kind = found.type
    if pa.types.is_struct(kind):
        return any(map(_has_negative_zero, found.flatten()))
    if pa.types.is_list(kind):
        return _has_negative_zero(found.flatten())
    if not pa.types.is_floating(kind):
        return False
    least: int | None = pc.min(found.view(pa.int64())).as_py()
    return least == NEGATIVE_ZERO


def _fit(texts: pa.StringArray, *, may_be_odd: bool) -> pa.BooleanArray:
    """Tell which texts may be given to Arrow: objects in one line, of a moderate size."""
    conditions = [
        pc.starts_with(texts, "{"),
        pc.ends_with(texts, "}"),
        pc.less_equal(pc.binary_length(texts), RECORD_SIZE_MAX),
    ]
    if may_be_odd:
        conditions.append(pc.invert(pc.match_substring_regex(texts, _ODD)))
    found = conditions[0]
    for each in conditions[1:]:
        found = pc.and_(found, each)
    found = found.fill_null(False)  # noqa: FBT003 - Arrow's own signature
    is_long = pc.and_(found, pc.greater(pc.binary_length(texts), SHORT_SIZE)).fill_null(False)  # noqa: FBT003 - as above
    if is_long.true_count:
        long = texts.filter(is_long).cast(pa.binary()).to_pylist()
        found = pc.replace_with_mask(found, is_long, pa.array(map(_is_moderate, long), pa.bool_()))
    return found


def _is_moderate(line: bytes) -> bool:
    return line.count(b"{") + line.count(b"[") <= DEPTH_MAX and not _find_long(line)
