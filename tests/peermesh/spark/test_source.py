"""The source in real Spark: a log as a stream and as a table, a store as a table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from peermesh.blocking import Backend, Endpoint
from peermesh.demo.events import COLUMNS, EventReader
from peermesh.demo.reading import read_lines
from peermesh.demo.recount import recount
from peermesh.demo.tally import compare
from peermesh.demo.viewer import read_table
from peermesh.spark.progress import Progress, overview, summarize
from peermesh.testing.time_limits import limit
from tests.ports import free_port
from tests.recorded import recorded

pytestmark = pytest.mark.spark


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def fill(log, first, count):
    for partition in range(log.partition_count()):
        values = [{"n": number} for number in range(first, first + count)]
        log.append_batch(values, partition=partition).result(timeout=limit())


class Seen:
    """What batches brought, for a test to wait for."""

    def __init__(self):
        self.values = []
        self._changed = threading.Condition()

    def take(self, frame, batch):
        values = [row.value for row in frame.orderBy("partition", "offset").collect()]
        with self._changed:
            self.values += values
            self._changed.notify_all()

    def wait(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.values) >= count, timeout=limit(100))


@pytest.fixture
def orders(mesh):
    """Give a log of two partitions, and what to tell the source about it."""
    endpoint, peers = mesh
    log = endpoint.attach_log("orders", partitions=2)
    return log, {"peers": peers, "log": "orders", "patience": str(limit(60))}


class Stream:
    """A query that writes JSON lines, and is run again and again with one checkpoint."""

    def __init__(self, spark, options, folder, finish):
        self.spark, self.options, self.folder = spark, options, folder
        self.finish = finish

    def run(self, **more):
        """Run what is available to its end; give the batches that this took."""
        source = self.spark.readStream.format("peermesh").options(**self.options, **more)
        writer = source.load().writeStream.format("json")
        query = self.finish(writer, self.folder / "checkpoint", str(self.folder / "out"))
        return [json.loads(progress.json) for progress in query.recentProgress]

    def written(self):
        """Give the files with the ends of batches, in order."""
        found = (self.folder / "checkpoint" / "offsets").glob("[0-9]*")
        return sorted(found, key=lambda path: int(path.name))

    def offsets(self):
        found = self.spark.read.json(str(self.folder / "out"))
        return rows(found.select("partition", "offset"))


@pytest.fixture
def stream(spark, orders, tmp_path, finish):
    return Stream(spark, orders[1], tmp_path, finish)


def test_a_range_of_a_log_is_a_table_with_typed_columns(spark, orders):
    log, options = orders
    before = datetime.now(UTC)
    log.append("text", key="news/today", partition=0).result(timeout=limit())
    log.append(b"bytes", partition=1).result(timeout=limit())
    log.append({"n": 7, "tags": ["a"]}, partition=1).result(timeout=limit())
    read = spark.read.format("peermesh").options(**options)
    frame = read.load()
    assert dict(frame.dtypes) == {
        "key": "string", "partition": "int", "offset": "bigint",
        "timestamp": "timestamp", "value": "string",
    }  # fmt: skip
    found = rows(frame.select("partition", "offset", "key", "value"))
    assert found == [
        (0, 0, "news/today", "text"),
        (1, 0, None, "bytes"),
        (1, 1, None, '{"n": 7, "tags": ["a"]}'),
    ]
    times = [row.timestamp.astimezone(UTC) for row in frame.collect()]
    assert all(before - timedelta(seconds=1) <= when <= datetime.now(UTC) for when in times)
    binary = read.option("valueFormat", "binary").load()
    assert {bytes(row.value) for row in binary.collect()} >= {b"text", b"bytes"}


def test_an_empty_log_is_an_empty_table_and_a_thousand_partitions_are_one_task(spark, mesh):
    endpoint, peers = mesh
    endpoint.attach_log("none")
    many = endpoint.attach_log("many", partitions=1_000)
    for number in range(1_000):
        receipt = many.append_batch(["x", "y"], partition=number)
    receipt.result(timeout=limit())
    read = spark.read.format("peermesh").options(peers=peers)
    assert read.option("log", "none").load().count() == 0
    few = read.option("log", "many")
    assert rows(few.load().groupBy("partition").count().agg({"count": "sum"})) == [(2_000,)]
    assert few.load().rdd.getNumPartitions() == 1
    cut = few.option("minPartitions", "3").load()
    assert cut.rdd.getNumPartitions() == 3
    assert cut.select("partition", "offset").distinct().count() == 2_000


def test_what_is_read_is_shared_by_the_cores_of_the_machine(spark, mesh):
    endpoint, peers = mesh
    log = endpoint.attach_log("long")
    receipts = [log.append_batch(["x"] * 4_000) for _ in range(30)]
    for receipt in receipts:
        receipt.result(timeout=limit())
    read = spark.read.format("peermesh").options(peers=peers, log="long")
    assert read.load().rdd.getNumPartitions() == 2, "120,000 rows, and two cores"
    assert read.option("rowsPerTask", "50000").load().rdd.getNumPartitions() == 3


def test_what_belongs_to_the_sink_is_refused_where_it_is_read(spark, orders):
    frame = spark.read.format("peermesh").options(**orders[1], keyColumns="a")
    with pytest.raises(Exception, match="option keyColumns is of the sink"):
        frame.load()


def test_a_table_begins_and_ends_where_it_is_told(spark, orders):
    log, options = orders
    fill(log, 0, 10)
    read = spark.read.format("peermesh").options(**options)
    some = read.option("startingOffsets", '{"0": 8}').option("endingOffsets", '{"0": 9, "1": 2}')
    assert rows(some.load().select("partition", "offset")) == [(0, 8), (1, 0), (1, 1)]


def test_a_listener_tells_the_mesh_what_a_stream_does(spark, stream, orders, mesh):
    from peermesh.spark import MeshListener

    fill(orders[0], 0, 5)
    with Endpoint() as observer, mesh[0].attach_master("jobs") as store:
        host, port = mesh[1].split(":")
        heard = observer.subscribe("spark/progress/")
        observer.peer(host, int(port))
        mesh[0].await_peer(observer.node_id(), timeout=limit())
        listener = MeshListener(mesh[0], "count", store)
        spark.streams.addListener(listener)
        try:
            stream.run(maxOffsetsPerTrigger="6")
            found = []
            while not found or found[-1].state == "running" or found[-1].state == "started":
                found.append(Progress.of(heard.get(timeout=limit(60))[1]))
        finally:
            spark.streams.removeListener(listener)
        batches = [progress for progress in found if progress.rows]
        assert [(each.rows, each.lag) for each in batches] == [(6, 4), (4, 0)]
        assert (found[0].state, found[-1].state) == ("started", "stopped")
        kept = overview(store.entries()).jobs["count"].progress
        assert list(kept) == [found[0].query]


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


def test_a_stopped_job_that_retention_overtook_is_told_or_skips(stream, orders):
    from pyspark.errors import StreamingQueryException

    log, _ = orders
    fill(log, 0, 5)
    stream.run()
    fill(log, 5, 5)
    log.trim(1, 8).result(timeout=limit())
    with pytest.raises(StreamingQueryException, match=r"partition 1: the entries 5 to 7 are gone"):
        stream.run()
    batches = stream.run(failOnDataLoss="false")
    skipped = [summarize("job", json.dumps(batch)).skipped for batch in batches]
    assert (sum(skipped), skipped.count(3)) == (3, 1)
    end = batches[0]["sources"][0]["endOffset"]
    assert end == {"0": 10, "1": 10, "skipped": 3, "log": end["log"]}
    assert [summarize("job", json.dumps(each)).lag for each in batches] == [0] * len(batches)
    fill(log, 10, 1)
    assert sum(summarize("job", json.dumps(batch)).skipped for batch in stream.run()) == 0
    assert stream.offsets() == [(0, offset) for offset in range(11)] + [
        (1, offset) for offset in (*range(5), 8, 9, 10)
    ]


def test_a_stream_whose_log_began_anew_is_told_or_reads_the_new_one_whole(stream, orders, mesh):
    from pyspark.errors import StreamingQueryException

    log, _ = orders
    fill(log, 0, 5)
    stream.run()
    log.close()
    log = mesh[0].attach_log("orders", partitions=2, fresh=True)
    fill(log, 0, 8)
    with pytest.raises(
        StreamingQueryException, match="it is another log than the one of which off"
    ):
        stream.run()
    assert len(stream.offsets()) == 10
    batches = stream.run(failOnDataLoss="false")
    assert sum(batch["numInputRows"] for batch in batches) == 16
    fill(log, 8, 1)
    stream.run()
    twice = Counter((partition, offset) for partition in (0, 1) for offset in range(5))
    once = Counter((partition, offset) for partition in (0, 1) for offset in range(9))
    assert Counter(stream.offsets()) == twice + once


def test_a_checkpoint_of_before_is_taken_as_it_is_and_knows_its_log_with_the_next_batch(
    stream, orders
):
    log, _ = orders
    fill(log, 0, 5)
    stream.run()
    first, *_ = written = stream.written()
    *head, line = first.read_text().splitlines()
    offsets = json.loads(line)
    group = offsets.pop("log").partition(":")[0]
    first.write_text("\n".join([*head, json.dumps(offsets)]))
    (first.parent / f".{first.name}.crc").unlink()
    assert not any(batch["numInputRows"] for batch in stream.run())
    assert stream.written() == written, "what has no log is no other batch for that"
    fill(log, 5, 1)
    stream.run()
    *_, last = stream.written()
    assert json.loads(last.read_text().splitlines()[-1])["log"].startswith(group)
    places = [(partition, offset) for partition in (0, 1) for offset in range(6)]
    assert stream.offsets() == places


class Keeper:
    """A keeper of the log in a process of its own."""

    def __init__(self, port, path):
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "peermesh.cli", "log", "keep", "orders", "--path", str(path),
                "--listen", f"127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def kill(self):
        self.process.kill()
        self.process.wait()


def test_a_running_stream_goes_on_when_its_keeper_is_killed_and_when_a_follower_is_promoted(
    spark, tmp_path
):
    ports = [free_port(), free_port()]
    seen = Seen()
    options = {
        "peers": ",".join(f"127.0.0.1:{port}" for port in ports),
        "log": "orders",
        "consumer": "job",
        "pollTimeout": "0.5",
    }
    keeper = Keeper(ports[0], tmp_path / "a.db")
    with Endpoint() as heir, Endpoint() as writer:
        for port in ports:
            writer.peer("127.0.0.1", port, 0.5, timeout=0.1)
        log = writer.attach_log_proxy("orders", patience=60)
        log.append_batch([0, 1]).result(timeout=limit(60))
        source = spark.readStream.format("peermesh").options(**options).load()
        query = (
            source.writeStream.foreachBatch(seen.take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            seen.wait(2)
            keeper.kill()
            keeper = Keeper(ports[0], tmp_path / "a.db")
            log.append_batch([2, 3]).result(timeout=limit(60))
            seen.wait(4)
            heir.listen("127.0.0.1", ports[1])
            heir.peer("127.0.0.1", ports[0])
            copy = heir.attach_log_clone("orders", Backend.SQLite, path=tmp_path / "b.db")
            assert copy.await_idle(timeout=limit(60))
            keeper.kill()
            copy.promote(force=True)
            log.append_batch([4, 5]).result(timeout=limit(60))
            seen.wait(6)
            assert query.exception() is None
            assert log.committed("job")  # as of the batch before the last one
        finally:
            query.stop()
            keeper.kill()
    assert seen.values == [str(number) for number in range(6)]


@pytest.mark.long
def test_a_recorded_day_twice_is_counted_by_windows_though_spark_is_stopped(spark, mesh, tmp_path):
    """The query of the demo, with Spark and the mesh in one process."""
    from peermesh.spark.ledger import upsert_batch
    from peermesh.spark.windowed import WindowedCounts

    path, windows = recorded("zeek-weird.json.gz"), 60
    tally = recount(path, "name", "ts", windows)
    endpoint, peers = mesh
    log, store = endpoint.attach_log("events"), endpoint.attach_master("counts")
    reader, shift = EventReader("name", "ts"), tally.lateness.span_seconds(windows)
    events = [reader.read(number, line) for number, line in read_lines(path)]
    counts = WindowedCounts(
        peers=peers, log="events", schema=COLUMNS, rows_max=10_000, poll_seconds=0.2,
        window_seconds=windows, watermark_ms=tally.lateness.watermark_ms(),
        checkpoint=str(tmp_path / "checkpoint"),
    )  # fmt: skip
    cells = Counter()
    for copy in range(2):
        values = [event.to_value(copy, shift) for event in events]
        for at in range(0, len(values), 1_000):
            log.append_batch(values[at : at + 1_000]).result(timeout=limit())
        query = counts.start(spark, upsert_batch(store, "window", "key", value_column="count"))
        query.processAllAvailable()
        query.stop()
        for (window, key), count in tally.cells.items():
            cells[window + copy * shift, key] += count
        assert not compare(cells, read_table(store.items()))
    assert cells.total() == 2 * 24_202


@pytest.mark.parametrize("is_from_pip", [True, False])
def test_a_spark_that_does_not_start_leaves_the_environment_as_it_was(
    spark, tmp_path, monkeypatch, is_from_pip
):
    from peermesh.spark import local

    before = dict(os.environ)
    if not is_from_pip:  # It is where a distribution was unpacked, and knows that by itself.
        monkeypatch.setattr(local, "_is_from_pip", lambda: False)
    with pytest.raises(ValueError, match="multiple SparkContexts"):
        local.LocalSpark("second", tmp_path)
    assert dict(os.environ) == before
    assert (tmp_path / "home" / "jars").is_dir() == is_from_pip
    assert not (tmp_path / "home" / "python").exists(), "it has its Python in a zip"
