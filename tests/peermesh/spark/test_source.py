"""The source in real Spark: a log as a stream and as a table, a store as a table."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def fill(log, first, count):
    for partition in range(log.partition_count()):
        values = [{"n": number} for number in range(first, first + count)]
        log.append_batch(values, partition=partition).result(timeout=30)


@pytest.fixture
def orders(mesh):
    """Give a log of two partitions, and what to tell the source about it."""
    endpoint, peers = mesh
    log = endpoint.attach_log("orders", partitions=2)
    return log, {"peers": peers, "log": "orders", "patience": "30"}


class Stream:
    """A query that writes JSON lines, and is run again and again with one checkpoint."""

    def __init__(self, spark, options, folder):
        self.spark, self.options, self.folder = spark, options, folder

    def run(self, **more):
        """Run what is available to its end; give the batches that this took."""
        source = self.spark.readStream.format("peermesh").options(**self.options, **more)
        query = (
            source.load()
            .writeStream.format("json")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self.folder / "out"))
        )
        query.awaitTermination()
        return [json.loads(progress.json) for progress in query.recentProgress]

    def offsets(self):
        found = self.spark.read.json(str(self.folder / "out"))
        return rows(found.select("partition", "offset"))


@pytest.fixture
def stream(spark, orders, tmp_path):
    return Stream(spark, orders[1], tmp_path)


def test_a_range_of_a_log_is_a_table_with_typed_columns(spark, orders):
    log, options = orders
    before = datetime.now(UTC)
    log.append("text", key="news/today", partition=0).result(timeout=30)
    log.append(b"bytes", partition=1).result(timeout=30)
    log.append({"n": 7, "tags": ["a"]}, partition=1).result(timeout=30)
    read = spark.read.format("peermesh").options(**options)
    frame = read.load()
    assert dict(frame.dtypes) == {
        "topic": "string", "partition": "int", "offset": "bigint",
        "timestamp": "timestamp", "value": "string",
    }  # fmt: skip
    found = rows(frame.select("partition", "offset", "topic", "value"))
    assert found == [
        (0, 0, "news/today", "text"),
        (1, 0, None, "bytes"),
        (1, 1, None, '{"n": 7, "tags": ["a"]}'),
    ]
    times = [row.timestamp.astimezone(UTC) for row in frame.collect()]
    assert all(before - timedelta(seconds=1) <= when <= datetime.now(UTC) for when in times)
    binary = read.option("valueFormat", "binary").load()
    assert {bytes(row.value) for row in binary.collect()} >= {b"text", b"bytes"}


def test_a_table_begins_and_ends_where_it_is_told(spark, orders):
    log, options = orders
    fill(log, 0, 10)
    read = spark.read.format("peermesh").options(**options)
    some = read.option("startingOffsets", '{"0": 8}').option("endingOffsets", '{"0": 9, "1": 2}')
    assert rows(some.load().select("partition", "offset")) == [(0, 8), (1, 0), (1, 1)]


def test_a_stream_reads_each_entry_once_over_restarts(stream, orders):
    log, _ = orders
    fill(log, 0, 25)
    batches = stream.run(maxOffsetsPerTrigger="20")
    assert [batch["numInputRows"] for batch in batches if batch["numInputRows"]] == [20, 20, 10]
    assert json.loads(json.dumps(batches[0]["sources"][0]["latestOffset"])) == {"0": 25, "1": 25}
    fill(log, 25, 5)
    stream.run(maxOffsetsPerTrigger="20")
    stream.run()
    assert stream.offsets() == [(partition, offset) for partition in (0, 1) for offset in range(30)]
