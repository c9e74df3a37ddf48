"""Rows of Spark as keys and values: the same on every machine, refused by name of the column."""

from __future__ import annotations

import math
import time
from datetime import UTC, date, datetime, time as time_of_day, timedelta
from decimal import Decimal

import pytest

pa = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")

from pyspark.sql.pandas.types import to_arrow_schema  # noqa: E402 - only where there is Spark, the line above says

from peermesh.spark.converting import converter  # noqa: E402 - only where there is Spark, the line above says
from peermesh.spark.options import NullKeys  # noqa: E402 - only where there is Spark, the line above says
from peermesh.spark.records import Taken  # noqa: E402 - only where there is Spark, the line above says
from peermesh.spark.rows import (  # noqa: E402 - only where there is Spark, the line above says
    ROW_SIZE_MAX,
    RowReader,
    Shape,
)
from stores.limits import KEY_SIZE_MAX  # noqa: E402 - only where there is Spark, the line above says
from wire.errors import InvalidData, LimitExceeded  # noqa: E402 - only where there is Spark, the line above says

NOON = datetime(2026, 1, 31, 12, 30, 15, 250_000)

CASES = [
    (types.StringType(), "ünï", "ünï"),
    (types.BinaryType(), b"\x00\xff", b"\x00\xff"),
    (types.BooleanType(), True, True),
    (types.ByteType(), -128, -128),
    (types.LongType(), 2**63 - 1, 2**63 - 1),
    (types.DoubleType(), 0.1, 0.1),
    (types.DoubleType(), math.inf, math.inf),
    (types.DecimalType(10, 2), Decimal("1.10"), "1.10"),
    (types.DecimalType(38, 18), Decimal("1E-18"), "0.000000000000000001"),
    (types.DecimalType(38, 0), Decimal("9" * 38), "9" * 38),
    (types.DateType(), date(2026, 1, 31), "2026-01-31"),
    (types.TimeType(6), time_of_day(1, 2, 3, 4), "01:02:03.000004"),
    (types.TimestampNTZType(), NOON, "2026-01-31T12:30:15.250000"),
    (
        types.DayTimeIntervalType(),
        timedelta(days=1, hours=2, seconds=3, microseconds=4),
        "INTERVAL '1 02:00:03.000004' DAY TO SECOND",
    ),
    (types.DayTimeIntervalType(), -timedelta(hours=1), "INTERVAL '-0 01:00:00' DAY TO SECOND"),
    (types.NullType(), None, None),
    (types.ArrayType(types.DecimalType(3, 1)), [Decimal("0.5"), None], ("0.5", None)),
    (types.MapType(types.DateType(), types.ByteType()), [(date(2026, 1, 1), 1)], {"2026-01-01": 1}),
    (
        types.StructType().add("a", types.TimestampNTZType()).add("b", types.StringType()),
        {"a": NOON, "b": None},
        {"a": "2026-01-31T12:30:15.250000", "b": None},
    ),
]


def batches(schema, *rows, zone="UTC"):
    """Give rows as Spark hands them to a writer: a batch each; a column alone, or tuples."""
    names = schema.fieldNames()
    for row in rows:
        columns = dict(zip(names, row if len(names) > 1 else (row,), strict=True))
        yield pa.RecordBatch.from_pylist([columns], to_arrow_schema(schema, timezone=zone))


@pytest.mark.parametrize(
    ("kind", "found", "value"), CASES, ids=[each[0].simpleString()[:40] for each in CASES]
)
def test_each_type_has_one_value(kind, found, value):
    schema = types.StructType().add("c", kind)
    reader = RowReader(Shape((), "c"), schema, None)
    assert reader.take(batches(schema, found), "task 0").rows == [(None, value)]


def test_a_variant_is_what_its_json_says():
    text = '{"a": [1, 2.5, null], "b": "x", "c": 12345678901234567.25}'
    variant = types.VariantVal.parseJson(text)
    of = converter(types.VariantType(), "v")
    found = of({"value": variant.value, "metadata": variant.metadata})
    assert found == {"a": (1, 2.5, None), "b": "x", "c": "12345678901234567.25"}


@pytest.fixture(params=["America/New_York", "Asia/Kolkata", "UTC"])
def machine_zone(request, monkeypatch):
    """Have this process in a time zone, as an executor's machine is."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.parametrize("hour", [0, 5, 6, 7])  # 01:30 comes twice in New York
def test_times_are_the_same_on_every_machine_and_in_every_session(machine_zone, hour):
    schema = types.StructType().add("at", "timestamp").add("plain", "timestamp_ntz")
    instant, plain = datetime(2026, 11, 1, hour, 30, tzinfo=UTC), datetime(2026, 11, 1, hour, 30)
    rows = batches(schema, (instant, plain), zone=machine_zone)
    taken = RowReader(Shape(("at",), "plain"), schema, NullKeys.FAIL).take(rows, "task 0")
    assert taken.rows == [(instant, plain.isoformat())]


KEYED = types.StructType().add("k", "string").add("n", "integer").add("v", "string")


def reader(null_keys, *keys):
    return RowReader(Shape(keys), KEYED, null_keys)


def rows(*columns):
    return batches(KEYED, *((k, n, "v") for k, n in columns))


def test_a_null_key_fails_and_names_column_and_row():
    with pytest.raises(InvalidData, match=r"^column 'k' is null in row 2 of task 7, .*nullKeys"):
        reader(NullKeys.FAIL, "k").take(rows(("a", 1), (None, 2)), "task 7")
    with pytest.raises(InvalidData, match=r"^column 'n' is null in row 1 of task 0,"):
        reader(NullKeys.FAIL, "k", "n").take(rows(("a", None)), "task 0")


def test_null_keys_can_be_dropped_and_are_counted():
    found = reader(NullKeys.DROP, "k", "n").take(rows(("a", 1), (None, 2), ("b", None)), "task 0")
    assert found == Taken([(("a", 1), {"v": "v"})], 2)


def test_a_null_key_of_a_log_is_no_key():
    found = reader(None, "k").take(rows((None, 1)), "task 0")
    assert found == Taken([(None, {"n": 1, "v": "v"})])


def test_a_row_that_is_too_large_is_refused_with_key_size_and_limit():
    large = batches(KEYED, ("a", 1, "x"), ("big", 1, "x" * ROW_SIZE_MAX))
    with pytest.raises(
        LimitExceeded, match=r"^the key 'big' of row 2 of task 0 takes 16,3"
    ) as found:
        reader(NullKeys.FAIL, "k").take(large, "task 0")
    assert "most of them in column 'v'; 16,384,000 are allowed" in str(found.value)
    long = rows(("k" * KEY_SIZE_MAX, 1))
    with pytest.raises(LimitExceeded, match=r"^the key 'kkk.* takes 65,5.. bytes, 65,536 are"):
        reader(NullKeys.FAIL, "k").take(long, "task 0")


def test_a_row_beyond_what_a_message_holds_is_refused_alike():
    large = batches(KEYED, ("big", 1, "x" * 20_000_000))
    with pytest.raises(LimitExceeded, match=r"'big' of row 1 of task 0 takes 20,000,0.. bytes"):
        reader(NullKeys.FAIL, "k").take(large, "task 0")


def test_what_cannot_be_encoded_is_refused_by_key_and_column():
    schema = types.StructType().add("k", "string").add("at", "timestamp")
    reader = RowReader(Shape(("k",)), schema, NullKeys.FAIL)
    far = batches(schema, ("a", datetime(2300, 1, 1, tzinfo=UTC)))
    with pytest.raises(InvalidData, match=r"^row 1 of task 0, key 'a', cannot be written: .*'at'"):
        reader.take(far, "task 0")
    farther = pa.RecordBatch.from_pylist(
        [{"k": "a", "at": 2**62}], to_arrow_schema(schema, timezone="UTC")
    )
    with pytest.raises(InvalidData, match=r"^column 'at' of task 0 cannot be written"):
        reader.take([farther], "task 0")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (types.YearMonthIntervalType(), "column 'c' is of type interval year to month"),
        (types.CalendarIntervalType(), "column 'c' is of type interval"),
        (types.ArrayType(types.GeometryType(0)), r"column 'c\[\]' is of type geometry"),
        (
            types.StructType().add("a", "integer").add("a", "integer"),
            "column 'c' has two fields 'a'",
        ),
    ],
)
def test_a_type_without_a_place_is_refused_before_anything_runs(kind, message):
    with pytest.raises(InvalidData, match=message):
        RowReader(Shape((), "c"), types.StructType().add("c", kind), None)


def test_columns_that_are_missing_or_twice_are_refused():
    with pytest.raises(InvalidData, match="there is no column 'x'; there are k, n, v"):
        reader(NullKeys.FAIL, "x")
    with pytest.raises(InvalidData, match="there are two columns 'a': rename one"):
        RowReader(Shape(("a",)), types.StructType().add("a", "integer").add("a", "integer"), None)
