"""Sink, ledger and tables of stores in real Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from peermesh.spark import Ledger, parsed, upsert_batch
from peermesh.spark.records import is_reserved
from peermesh.testing.time_limits import limit
from wire.errors import InvalidData

pytestmark = pytest.mark.spark


@pytest.fixture
def table(mesh):
    """Give the master of a store, and what to tell Spark about it."""
    endpoint, peers = mesh
    return endpoint.attach_master("table"), {
        "peers": peers,
        "store": "table",
        "patience": str(limit(60)),
    }


@pytest.fixture
def orders(mesh):
    """Give a log of two partitions, and what to tell Spark about it."""
    endpoint, peers = mesh
    log = endpoint.attach_log("orders", partitions=2)
    for partition in (0, 1):
        values = [{"customer": f"c{number % 3}", "n": number} for number in range(30)]
        log.append_batch(values, partition=partition).result(timeout=limit())
    return log, {"peers": peers, "log": "orders", "maxOffsetsPerTrigger": "30"}


def dying_source(folder):
    """Make a source of which the first four commits kill their process, each one step later.

    The first has staged the batch, the second has decided on it, the third has published a piece of
    it, and the fourth has published all of it. It is made here to be sent to workers by value.
    """
    import signal

    from peermesh.spark import publication
    from peermesh.spark.options import read_sink_options
    from peermesh.spark.sink import MeshStreamWriter, Sink
    from peermesh.spark.source import MeshSource

    class DyingWriter(MeshStreamWriter):
        def commit(self, messages, batchId):  # noqa: N803 - Spark's name
            attempt = len(list(folder.iterdir()))
            (folder / str(attempt)).touch()
            move = publication._Publisher.move

            def die(publisher, *arguments, **options):
                if attempt:
                    move(publisher, *arguments, **options)
                os.kill(os.getpid(), signal.SIGKILL)

            if attempt < 4:
                publication._Publisher.move = die
            super().commit(messages, batchId)

    class DyingSource(MeshSource):
        @classmethod
        def name(cls):
            return "dying"

        def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
            return DyingWriter(Sink(read_sink_options(self._given), schema))

    return DyingSource


def content(store):
    return {key: value for key, value in store.items() if not is_reserved(key)}


def stream(spark, orders):
    frame = spark.readStream.format("peermesh").options(**orders[1]).load()
    return parsed(frame, "customer STRING, n INT, missing DOUBLE")


def forget_last_commit(folder):
    """Make Spark repeat its last batch, as if it had been killed before it noted the end of it."""
    commits = folder / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    commits.joinpath(str(last)).unlink()
    commits.joinpath(f".{last}.crc").unlink()
    return last


def test_a_stream_is_written_to_a_store_once_though_batches_are_repeated(
    spark, orders, table, tmp_path, finish
):
    store, options = table
    events = []
    with store.events() as found:
        for _ in range(2):
            frame = stream(spark, orders).select("partition", "offset", "customer", "n", "missing")
            sink = frame.writeStream.format("peermesh").options(
                **options, keyColumns="partition,offset"
            )
            finish(sink, tmp_path)
            forget_last_commit(tmp_path)
        store.put("end", 1).result(limit())
        while not events or events[-1].key != "end":
            events.append(found.get(timeout=limit()))
    assert content(store) == {"end": 1} | {
        (partition, offset): {"customer": f"c{offset % 3}", "n": offset, "missing": None}
        for partition in (0, 1)
        for offset in range(30)
    }
    assert len([event for event in events if not is_reserved(event.key)]) == 61  # none came twice


@pytest.mark.long
def test_a_sink_that_is_killed_at_each_step_of_its_commit_publishes_once(
    spark, mesh, table, tmp_path, finish
):
    from pyspark.errors import StreamingQueryException

    endpoint, peers = mesh
    store, options = table
    endpoint.attach_log("numbers").append_batch(list(range(1_500))).result(timeout=limit())
    commits = tmp_path / "commits"
    commits.mkdir()
    spark.dataSource.register(dying_source(commits))
    frame = spark.readStream.format("peermesh").options(peers=peers, log="numbers").load()
    sink = frame.select("offset", "value").writeStream.format("dying")
    sink = sink.options(**options, keyColumns="offset", valueColumn="value")
    for rows in (0, 0, 1_000, 1_500):
        with pytest.raises(StreamingQueryException):
            finish(sink, tmp_path / "checkpoint")
        assert len(content(store)) == rows
    finish(sink, tmp_path / "checkpoint")
    assert len(list(commits.iterdir())) == 5
    assert content(store) == {number: str(number) for number in range(1_500)}


def test_a_stream_is_written_to_a_log_once_though_batches_are_repeated(
    spark, orders, mesh, tmp_path, finish
):
    endpoint, peers = mesh
    out = endpoint.attach_log("out")
    for _ in range(2):
        frame = stream(spark, orders).select("n")
        sink = frame.writeStream.format("peermesh").options(peers=peers, log="out", valueColumn="n")
        finish(sink, tmp_path)
        forget_last_commit(tmp_path)
    values = [entry.value for entry in out.read(0, 0)]
    assert sorted(values) == sorted(2 * list(range(30)))


def test_a_query_in_update_mode_upserts_and_a_store_is_a_table(
    spark, orders, table, tmp_path, finish
):
    store, options = table
    frame = stream(spark, orders).groupBy("customer").count()
    writer = frame.writeStream.outputMode("update").foreachBatch(
        upsert_batch(store, "customer", value_column="count")
    )
    finish(writer, tmp_path)
    assert content(store) == {"c0": 20, "c1": 20, "c2": 20}
    store.put(7, "seven").result(limit())
    entries = spark.read.format("peermesh").options(**options).load()
    assert sorted(tuple(row) for row in entries.select("key", "value").collect()) == [
        ("7", "seven"), ("c0", "20"), ("c1", "20"), ("c2", "20"),
    ]  # fmt: skip
    one = entries.where("key = 'c1' AND value = '20'")
    assert [row.key for row in one.collect()] == ["c1"]
    plan = one._jdf.queryExecution().toString()
    assert "Filter" in plan
    assert [row.key for row in entries.where("key LIKE 'c%' AND key IN ('c2', '7')").collect()] == [
        "c2"
    ]
    assert [row.value for row in entries.where("key = '7'").collect()] == ["seven"]


def test_two_upserts_of_one_query_into_one_store_need_a_name(
    spark, orders, table, tmp_path, finish
):
    from pyspark.errors import StreamingQueryException

    store, _ = table

    def run(*functions):
        def on_batch(frame, batch):
            functions[0](frame.where("partition = 0"), batch)
            functions[1](frame.where("partition = 1"), batch)

        frame = stream(spark, orders).select("partition", "offset", "n")
        finish(frame.writeStream.foreachBatch(on_batch), tmp_path)

    def upsert(**options):
        return upsert_batch(store, "partition", "offset", value_column="n", **options)

    with pytest.raises(StreamingQueryException, match="done by another function of the same"):
        run(upsert(), upsert())
    first, second = upsert(), upsert(name="second")
    for _ in range(2):
        run(first, second)
        forget_last_commit(tmp_path)
        first = upsert()  # of the same process, and of another run of the query
    assert content(store) == {
        (partition, offset): offset for partition in (0, 1) for offset in range(30)
    }


def test_an_upsert_with_a_null_key_is_refused_by_column_and_row(spark, table):
    store, _ = table
    frame = spark.sql("SELECT * FROM VALUES ('a', 1), (NULL, 2) AS (k, v)")
    with pytest.raises(InvalidData, match="column 'k' is null in row 2 of batch 7"):
        upsert_batch(store, "k")(frame, 7)
    assert content(store) == {}


def test_a_table_is_written_once_under_its_write_id(spark, table):
    store, options = table
    frame = spark.range(5).selectExpr("id", "cast(id AS string) AS name", "now() AS at")
    for _ in range(2):
        writer = frame.write.format("peermesh").mode("append")
        writer.options(**options, keyColumns="id", writeMode="append", writeId="load-1").save()
    assert {key: value["name"] for key, value in content(store).items()} == {
        number: str(number) for number in range(5)
    }


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("SELECT 'a' AS k, 1 AS v UNION ALL SELECT NULL, 2", "column 'k' is null in row 1 of task"),
        ("SELECT 'big' AS k, repeat('x', 20000000) AS v", "the key 'big' of row 1 of task 0 takes"),
        ("SELECT 'far' AS k, TIMESTAMP'2300-01-01' AS v", "row 1 of task 0, key 'far', cannot be"),
    ],
    ids=["null key", "large row", "far time"],
)
def test_a_row_that_cannot_be_written_fails_its_task_by_name_and_nothing_is_written(
    spark, table, rows, said
):
    store, options = table
    writer = spark.sql(rows).write.format("peermesh").mode("append")
    with pytest.raises(Exception, match=f"(InvalidData|LimitExceeded): {said}"):
        writer.options(**options, keyColumns="k").save()
    assert content(store) == {}


def test_rows_without_a_key_can_be_dropped_and_what_became_of_rows_is_counted(spark, table):
    store, options = table
    rows = spark.sql("SELECT * FROM VALUES ('a', 1), (NULL, 2), ('b', 3), ('a', 4) AS (k, v)")
    writer = rows.coalesce(1).write.format("peermesh").mode("append")
    writer.options(**options, keyColumns="k", valueColumn="v", nullKeys="drop").save()
    assert content(store) == {"a": 4, "b": 3}
    counts = {key[-1]: value for key, value in store.items() if is_reserved(key) and len(key) == 4}
    assert counts == {"rows": 3, "replaced": 1, "dropped": 1}


JOB = """
import os, signal, sys
from peermesh import Batch
from peermesh.spark import Ledger

def writer(frame, store, may_die):
    ledger = Ledger(store, "count")

    def count(frame, batch):
        return Batch().increment("rows", frame.count())

    once = ledger.once(count)

    def on_batch(frame, batch):
        once(frame, batch)
        if may_die and batch == 1:
            os.killpg(0, signal.SIGKILL)  # the ledger has it, and Spark has not heard of it

    return frame.writeStream.foreachBatch(on_batch)
"""

DRIVER = (
    JOB
    + """
from pathlib import Path
from peermesh.blocking import Endpoint
from peermesh.spark import register
from peermesh.spark.local import LocalSpark

folder, peers = sys.argv[1:]
settings = {"spark.sql.shuffle.partitions": "1"}
host, _, port = peers.partition(":")
with LocalSpark("ledger", Path(folder), settings) as local, Endpoint() as endpoint:
    endpoint.peer(host, int(port))
    spark = local.session()
    register(spark)
    frame = spark.readStream.format("peermesh").options(
        peers=peers, log="orders", maxOffsetsPerTrigger="30"
    ).load()
    job = writer(frame, endpoint.attach_proxy("table"), may_die=True)
    while True:
        query = job.trigger(availableNow=True).option(
            "checkpointLocation", folder + "/checkpoint"
        ).start()
        try:
            query.awaitTermination()
        except Exception as error:
            if "Python worker failed to connect back" not in str(error):
                raise
"""
)


def test_a_ledger_counts_each_row_once_though_the_driver_is_killed_before_spark_notes_it(
    spark, orders, table, tmp_path, finish
):
    store, options = table
    driver = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path), options["peers"]],
        start_new_session=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert driver.returncode == -signal.SIGKILL, driver.stderr[-3_000:]
    assert store.get("rows") == 60
    assert not (tmp_path / "checkpoint" / "commits" / "1").exists()
    log, options = orders
    log.append_batch([{"n": number} for number in range(5)], partition=0).result(timeout=limit())
    namespace = {}
    exec(JOB, namespace)
    frame = spark.readStream.format("peermesh").options(**options).load()
    finish(namespace["writer"](frame, store, may_die=False), tmp_path / "checkpoint")
    assert store.get("rows") == 65


def test_executors_note_what_they_have_done(spark, table):
    store, options = table
    work = Ledger(store, "score").work("fingerprint", peers=options["peers"])
    work.done(3, 9)

    def score(units):
        return [work.done(unit, unit * unit) for unit in units]

    todo = work.remaining(range(6))
    done = spark.sparkContext.parallelize(todo, 2).mapPartitions(score).collect()
    assert done == [True] * 5
    assert work.results() == {number: number * number for number in range(6)}
