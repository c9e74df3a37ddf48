"""What Spark writes comes back: a row of each type, and records that could not be parsed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from peermesh.spark import deadletters, parsed
from peermesh.testing.time_limits import limit
from wire.errors import InvalidData

pytestmark = pytest.mark.spark

TYPES = {
    "BOOLEAN": "true",
    "TINYINT": "-128Y",
    "SMALLINT": "-32768S",
    "INT": "-2147483648",
    "BIGINT": "9223372036854775807L",
    "FLOAT": "CAST(0.1 AS FLOAT)",
    "DOUBLE": "0.1D",
    "DECIMAL(38,18)": "12345678901234567890.000000000000000001BD",
    "DECIMAL(10,2)": "1.10BD",
    "STRING": "'ünï \\n \"x\"'",
    "BINARY": "X'00FF10'",
    "DATE": "DATE'0001-01-01'",
    "TIME": "TIME'23:59:59.999999'",
    "TIMESTAMP": "TIMESTAMP'2026-11-01 06:30:00.123456Z'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ'2026-11-01 01:30:00.123456'",
    "INTERVAL DAY TO SECOND": "INTERVAL '-3 04:05:06.000007' DAY TO SECOND",
    "ARRAY<DECIMAL(3,1)>": "array(0.5BD, NULL)",
    "ARRAY<TIMESTAMP>": "array(TIMESTAMP'2026-11-01 06:30:00Z')",
    "MAP<STRING,DATE>": "map('a', DATE'2026-01-31', 'b', NULL)",
    "STRUCT<a: TIMESTAMP_NTZ, b: STRUCT<c: BINARY>>": (
        "named_struct('a', TIMESTAMP_NTZ'2026-01-31 00:00:00', 'b', named_struct('c', X'FF'))"
    ),
}
"""Each type, with a literal of it."""

VARIANT = '{"a": [1, 2.5, null, "x"], "b": {"c": true}}'

TIME_TYPE = "spark.sql.timeType.enabled"


@pytest.fixture(scope="module")
def columns():
    """Give a name for the column of each type."""
    return {kind: f"c{number}" for number, kind in enumerate([*TYPES, "VARIANT"])}


@pytest.fixture(scope="module")
def mesh_of_types():
    from peermesh.blocking import Endpoint

    with Endpoint() as endpoint:
        endpoint.attach_master("types")
        endpoint.attach_log("types")
        yield f"127.0.0.1:{endpoint.listen()}"


@pytest.fixture(scope="module")
def found(spark, columns, mesh_of_types):
    """Write a row of each type, and one of nulls, and read them back: by where they were."""
    values = {**TYPES, "VARIANT": f"parse_json('{VARIANT}')"}
    literals = ", ".join(f"{values[kind]} AS {name}" for kind, name in columns.items())
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for kind, name in columns.items())
    spark.conf.set(TIME_TYPE, "true")
    frame = spark.sql(f"SELECT 'row' AS k, {literals} UNION ALL SELECT 'nulls', {nulls}")
    schema = ", ".join(f"{name} {kind}" for kind, name in columns.items())
    read = {"written": frame.drop("k").collect()}
    for place, options in {
        "log": {"topicColumn": "k", "log": "types"},
        "store": {"keyColumns": "k", "store": "types"},
    }.items():
        reach = {"peers": mesh_of_types, "patience": str(limit(60)), place: "types"}
        writer = frame.coalesce(1).write.format("peermesh").mode("append")
        writer.options(**reach | options).save()
        text = spark.read.format("peermesh").options(**reach).load()
        rows = text.selectExpr(f"from_json(value, '{schema}') AS v").select("v.*").collect()
        read[place] = sorted(rows, key=lambda row: row.c0 is None)
    spark.conf.unset(TIME_TYPE)
    return read


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("place", ["log", "store"])
def test_a_value_of_each_type_comes_back_as_it_was(found, columns, place, kind):
    read, written = ([row[columns[kind]] for row in found[each]] for each in (place, "written"))
    assert read == written
    assert written[0] is not None
    assert written[1] is None


@pytest.mark.parametrize("place", ["log", "store"])
def test_a_null_variant_comes_back_as_the_null_of_json(found, columns, place):
    assert [row[columns["VARIANT"]].toJson() for row in found[place]] == [
        found["written"][0][columns["VARIANT"]].toJson(), "null",
    ]  # fmt: skip


def test_records_that_cannot_be_parsed_go_to_a_log_and_back(spark, mesh, tmp_path, finish):
    endpoint, peers = mesh
    orders = endpoint.attach_log("orders", partitions=2)
    dead = endpoint.attach_log("dead")
    totals = endpoint.attach_master("totals")
    for number, text in enumerate(['{"n": 1}', "{bad", '{"n": "x"}', '{"n": 2}', "null", "[]x"]):
        orders.append(text, f"k{number}", partition=number % 2).result(limit())
    reach = {"peers": peers, "patience": str(limit(60))}
    lines = spark.readStream.format("peermesh").options(**reach, log="orders").load()
    good, bad = deadletters(parsed(lines, "n INT"), log="orders")
    assert "_corrupt_record" not in good.columns
    writer = bad.writeStream.format("peermesh")
    writer = writer.options(**reach, log="dead", topicColumn="key")
    finish(writer, tmp_path / "bad")
    letters = {entry.key: dict(entry.value) for entry in dead.read(0, 0)}
    when = {entry.key: entry.timestamp_ns for at in (0, 1) for entry in orders.read(at, 0)}
    places = {
        "k1": (1, 0, "{bad"),
        "k2": (0, 1, '{"n": "x"}'),
        "k4": (0, 2, "null"),
        "k5": (1, 2, "[]x"),
    }
    assert {key: (each["partition"], each["offset"], each["value"])
            for key, each in letters.items()} == places  # fmt: skip
    for key, each in letters.items():
        assert each["log"] == "orders"
        assert abs(each["timestamp"].timestamp() - when[key] / 1e9) < 1e-3
    sink = {**reach, "store": "totals", "keyColumns": "key", "valueColumn": "n"}
    finish(
        good.select("key", "n").writeStream.format("peermesh").options(**sink), tmp_path / "good"
    )
    assert {key: value for key, value in totals.items() if isinstance(key, str)} == {
        "k0": 1, "k3": 2,
    }  # fmt: skip
    command = [sys.executable, "-m", "peermesh.cli", "log", "replay", "dead", "--peer", peers]
    for _ in range(2):
        assert subprocess.run(command, check=True, capture_output=True).returncode == 0
    again = [(entry.key, entry.value) for at in (0, 1) for entry in orders.read(at, 3)]
    assert sorted(again) == sorted((key, text) for key, (_, _, text) in places.items())


def test_a_frame_that_was_not_parsed_is_refused(spark):
    frame = spark.sql("SELECT 1 AS partition, 2 AS offset, 'x' AS value")
    with pytest.raises(InvalidData, match="there is no column key, timestamp, _corrupt_record"):
        deadletters(frame)
