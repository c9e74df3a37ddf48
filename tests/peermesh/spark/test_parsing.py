"""``parsed``: what ``from_json`` makes of records, laid out; none stops or deceives a query."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from peermesh.testing.time_limits import limit
from wire.errors import InvalidData
from wire.values import Count, Set, Timestamp

pytestmark = pytest.mark.spark

BAD = "_corrupt_record"


@pytest.fixture
def orders(mesh, spark):
    """Give a log of one partition, and what reads all of it as a frame."""
    endpoint, peers = mesh
    log = endpoint.attach_log("orders")

    def read(*values, **options):
        log.append_batch(values).result(timeout=limit())
        frame = spark.read.format("peermesh").options(peers=peers, log="orders", **options)
        return frame.load().orderBy("offset")

    return read


def lines(spark, *texts):
    """Make a frame of records without a log."""
    return spark.createDataFrame([(text,) for text in texts], "value STRING")


def parse(frame, schema, **options):
    from peermesh.spark import parsed

    return parsed(frame, schema, **options)


def test_a_record_that_is_not_of_the_schema_stops_nothing_and_is_told_from_a_null(orders):
    records = [
        '{"at": 1767225600000, "n": 1}',  # milliseconds, where seconds are meant
        '{"price": 123456.789, "n": 2}',
        '{"ratio": 1' + "0" * 400 + ', "n": 3}',
        '{"at": 1e18, "n": 4}',
        '{"at": NaN, "n": 5}',
        '{"n": "six"}',
        "no JSON",
        '{"n": null}',
        None,
        '{"n": 9}',
    ]
    schema = "n INT, at TIMESTAMP, price DECIMAL(4, 2), ratio DOUBLE"
    frame = parse(orders(*records), schema)
    assert frame.columns == [
        "key", "partition", "offset", "timestamp", "value", "n", "at", "price", "ratio", BAD,
    ]  # fmt: skip
    found = frame.selectExpr("n", "price", f"`{BAD}` AS bad", "value").collect()
    assert [row.n for row in found] == [1, 2, 3, 4, 5, None, None, None, None, 9]
    assert [row.value for row in found] == records
    bad = {number for number, row in enumerate(found) if row.bad is not None}
    assert bad >= {1, 5, 6}
    assert not bad & {7, 8, 9}
    assert all(found[number].bad == records[number] for number in bad)
    assert found[1].price is None


def test_the_types_of_spark_are_what_from_json_makes_of_them(spark):
    text = json.dumps(
        {
            "ntz": "2026-01-02T03:04:05.25", "at": "2026-01-02T03:04:05", "day": "2026-01-02",
            "price": 12.345, "big": "12345678901234567890.5", "any": {"a": [1, "x"]}, "name": "ab",
            "raw": "aGk=", "many": {"x": 1}, "few": [1, 2], "inner": {"n": 7},
        }
    )  # fmt: skip
    schema = (
        "ntz TIMESTAMP_NTZ, at TIMESTAMP, day DATE, price DECIMAL(5, 3), big DECIMAL(38, 1),"
        " any VARIANT, name STRING, raw BINARY, many MAP<STRING, INT>, few ARRAY<INT>,"
        " inner STRUCT<n: BIGINT>"
    )
    frame = parse(lines(spark, text), schema)
    (row,) = frame.select("*", frame["any"].cast("string").alias("text")).collect()
    assert row.ntz == datetime(2026, 1, 2, 3, 4, 5, 250_000)
    assert row["at"].astimezone(UTC) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (row.day, row.price) == (date(2026, 1, 2), Decimal("12.345"))
    assert row.big == Decimal("12345678901234567890.5")
    assert (row.name, bytes(row.raw), row.many, row.few, row.inner.n) == (
        "ab", b"hi", {"x": 1}, [1, 2], 7,
    )  # fmt: skip
    assert json.loads(row.text) == {"a": [1, "x"]}
    assert row[BAD] is None
    with pytest.raises(Exception, match="char/varchar type can't be used"):  # and no null instead
        parse(lines(spark, text), "name VARCHAR(4)")


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_name_may_have_what_names_of_sql_have_not(spark, is_begun):
    schema = "`a.b` BIGINT, `c``d` STRING, `select` STRING, `ü '\"` BOOLEAN"
    record = json.dumps({"a.b": 1, "c`d": "x", "select": "y", "ü '\"": True})
    frame = lines(spark, record)
    if is_begun:
        columns = f"value STRUCT<{schema}>, unparsed STRING"
        frame = spark.createDataFrame([((1, "x", "y", True), None), (None, record)], columns)
    found = parse(frame, schema)
    assert found.columns == ["value", "a.b", "c`d", "select", "ü '\"", BAD]
    assert [tuple(row)[1:] for row in found.collect()] == [(1, "x", "y", True, None)] * (
        1 + is_begun
    )


def test_times_without_a_zone_are_in_the_sessions(spark):
    record = '{"at": "2026-01-02T03:04:05"}'
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        frame = parse(lines(spark, record), "at TIMESTAMP")
        ((seconds,),) = frame.selectExpr("unix_timestamp(at)").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert datetime.fromtimestamp(seconds, UTC) == datetime(2026, 1, 2, 8, 4, 5, tzinfo=UTC)


def test_failfast_names_partition_and_offset_in_the_first_line(orders):
    frame = orders('{"n": 1}', '{"n": 2}', "no JSON")
    with pytest.raises(Exception, match="no JSON") as caught:
        parse(frame, "n INT", mode="FAILFAST").select("n").collect()
    first = str(caught.value).partition("\n")[0]
    assert "partition 0, offset 2, column value: the record is not of the schema: no JSON" in first
    fine = parse(frame.where("offset < 2"), "n INT", mode="FAILFAST")
    assert [row.n for row in fine.collect()] == [1, 2]


def test_failfast_without_a_log_names_the_column(spark):
    with pytest.raises(Exception, match="column value: the record is not of the schema"):
        parse(lines(spark, '{"n": "x"}'), "n INT", mode="FAILFAST").collect()


def test_what_the_mesh_wrote_from_json_reads(orders):
    at = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    table = {
        "n": Count(7), "at": at, "fine": Timestamp(1_767_225_600_123_456_789), "name": "ü",
        "raw": b"\xff\x00", "tags": Set(["a", "b"]), "ratio": float("nan"),
    }  # fmt: skip
    schema = (
        "n BIGINT, at TIMESTAMP, fine TIMESTAMP, raw BINARY, tags ARRAY<STRING>, ratio DOUBLE,"
        " name STRING"
    )
    frame = orders(table, (1, 2), at, b"\xff\x00", 2.5, True)
    values = [row.value for row in frame.collect()]
    assert values[1:] == [
        "[1, 2]", '"2026-01-02T03:04:05.000678Z"', '"/wA="', "2.5", "true",
    ]  # fmt: skip
    row = parse(frame, schema).first()
    assert (row.n, bytes(row.raw), row.tags, row.name) == (7, b"\xff\x00", ["a", "b"], "ü")
    assert row["at"].astimezone(UTC) == at
    assert row.fine.astimezone(UTC) == datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)
    assert row.ratio != row.ratio
    assert row[BAD] is None


def test_bytes_are_parsed_and_a_column_of_the_name_value_takes_the_place_of_the_record(orders):
    frame = orders(b'{"value": 7, "n": "x"}', valueFormat="binary")
    assert dict(frame.dtypes)["value"] == "binary"
    found = parse(frame, "value INT, n INT", corrupt="bad")
    assert found.columns == ["key", "partition", "offset", "timestamp", "value", "n", "bad"]
    assert found.select("value", "n", "bad").first() == (7, None, '{"value": 7, "n": "x"}')


def test_what_cannot_be_laid_out_is_refused(spark):
    from pyspark.sql.types import StructType

    frame = lines(spark, "{}").selectExpr("value", "1 AS Key")
    for schema, options, text in (
        ("key STRING", {}, r"leave that out, with frame.drop\('key'\)"),
        ("n INT", {"corrupt": "key"}, "is a column of the frame"),
        ("n INT", {"mode": "DROPMALFORMED"}, "PERMISSIVE or FAILFAST"),
        (StructType(), {}, "a list of columns"),
    ):
        with pytest.raises(InvalidData, match=text):
            parse(frame, schema, **options)
    with pytest.raises(InvalidData, match="no column value"):
        parse(frame.drop("value"), "n INT")
    assert parse(frame.drop("key"), "key STRING").columns == ["value", "key", BAD]
