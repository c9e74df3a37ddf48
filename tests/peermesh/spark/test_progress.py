"""What queries do, in figures, and what a store knows of jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from uuid import uuid4

import pytest

from peermesh import Batch, Entry
from peermesh.blocking import Endpoint
from peermesh.spark import Ledger
from peermesh.spark.options import Writing
from peermesh.spark.progress import (
    TOPIC,
    JobOverview,
    Progress,
    overview,
    reason_of,
    summarize,
)
from peermesh.spark.publication import publish_in_store
from peermesh.spark.records import RESERVED, Taken, progress_key
from peermesh.testing.time_limits import limit

REPORT = {
    "id": "1-2-3", "name": None, "batchId": 4, "numInputRows": 10, "batchDuration": 500,
    "inputRowsPerSecond": 20.0, "processedRowsPerSecond": 40.5,
    "sources": [{"endOffset": {"0": 5, "1": 7}, "latestOffset": {"0": 9, "1": 7}}],
}  # fmt: skip


def report(**more):
    return summarize("count", json.dumps({**REPORT, **more}))


def test_a_report_of_spark_in_a_line():
    assert report().line() == (
        "count 1-2-3 batch 4: 10 rows in 0.50 s, 20 rows/s in, 40 rows/s processed, lag 4"
    )
    assert report(name="orders").query == "orders"
    assert Progress("count", "q", "failed", reason="why").line() == "count q failed why"


@pytest.mark.parametrize("sources", [[], [{"endOffset": 3, "latestOffset": 9}], [{}]])
def test_a_lag_that_the_source_does_not_tell_is_none(sources):
    assert report(sources=sources).lag is None
    assert report(sources=sources).line().endswith("lag ?")


@pytest.mark.parametrize("rate", ["NaN", None, float("nan"), float("inf")])
def test_a_rate_that_nobody_measured_is_zero(rate):
    assert report(inputRowsPerSecond=rate).rows_per_second == 0


def test_progress_comes_back_from_what_is_published():
    assert Progress.of(report().to_value()) == report()
    assert Progress.of("something else") is None
    assert Progress.of({"other": 1}) is None
    assert Progress.of(asdict(report()) | {"rows": "many"}) is None


@pytest.fixture
def store(mesh):
    """Give the master of a store in which two jobs and a sink were at work."""
    with mesh[0].attach_master("jobs") as master:
        ledger = Ledger(master, "count")
        ledger.once(lambda frame, batch: Batch(), "q")(None, 7)
        for unit in range(3):
            Ledger(master, "score").work("f").done(unit)
        publish_in_store(master, "id", 2, Taken([("a", 1), ("a", 2)], 4), Writing.UPSERT, 30)
        master.put(progress_key("count", "q"), report().to_value()).result(limit())
        publish_in_store(master, "\x1b[2J", 1, Taken([("b", 1)]), Writing.UPSERT, 30)
        yield master


def command(*arguments, peers):
    found = subprocess.run(
        [sys.executable, "-m", "peermesh.cli", "spark", *arguments, "--peer", peers],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_jobs_are_listed_with_batches_units_and_lags(store, mesh):
    found = overview(store.entries())
    assert found.jobs["count"].batches == {"q": 7}
    assert found.jobs["score"].units == {"f": 3}
    assert found.sinks == {"id": 2, "\x1b[2J": 1}
    text = command("jobs", "jobs", peers=mesh[1])
    lines = [line.partition(",")[0].strip() for line in text.splitlines()]
    assert lines == [
        "job count",
        "query q: batch 7 is done",
        "progress of q: batch 4",
        "job score",
        "work f: 3 units are done",
        'sink "\\u001b[2J": batch 1 is published',
        "sink id: batch 2 is published",
    ]
    assert "sink id: batch 2 is published, 4 dropped, 1 replaced, 2 rows\n" in text
    assert "lag 4" in text
    parsed = json.loads(command("jobs", "jobs", "--json", peers=mesh[1]))
    assert parsed["jobs"]["count"]["progress"]["q"]["lag"] == 4
    assert parsed["counts"]["id"] == {"rows": 2, "replaced": 1, "dropped": 4}


@pytest.mark.parametrize("value", [None, 5, (), ("x",), {}, {"began": 1, "batch": "x"}])
def test_what_others_write_under_our_keys_is_passed_over(value):
    ours = [("job", "j"), ("query", "j", "q"), ("query", "j", 7), ("progress", "j", "q"),
            ("sink", "q"), ("count", "q", 7), ("unit", "j"), ("else", "j")]  # fmt: skip
    found = overview(Entry((RESERVED, *key), value, 1, None) for key in ours)
    assert found.sinks == {}
    assert found.jobs == {"j": JobOverview()}


def test_progress_is_watched_live(mesh):
    endpoint, peers = mesh
    arguments = [sys.executable, "-m", "peermesh.cli", "spark", "watch", "count", "--count", "2"]
    with subprocess.Popen(
        [*arguments, "--peer", peers], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline() == "watching count\n"
            endpoint.await_peer(endpoint.peers()[0].node_id, timeout=limit())
            endpoint.publish(TOPIC + "counting", replace(report(), job="counting").to_value())
            named = replace(report(), query="q\x1b[31m")
            endpoint.publish(TOPIC + "count", named.to_value())
            ended = replace(report(), state="\x1b[2J", reason="a\nb")
            endpoint.publish(TOPIC + "count", ended.to_value())
            output, _ = process.communicate(timeout=limit(60))
        finally:
            process.kill()
    first = replace(report(), query='"q\\u001b[31m"').line()
    assert output.splitlines() == [first, 'count 1-2-3 "\\u001b[2J" "a\\nb"']


def test_what_a_batch_skipped_is_told_and_what_earlier_ones_did_is_not():
    def source(start, end):
        return [{"startOffset": start, "endOffset": end, "latestOffset": {"0": 9}}]

    found = report(sources=source({"0": 1, "skipped": 3}, {"0": 9, "skipped": 3_903}))
    assert (found.skipped, found.lag) == (3_900, 0)
    assert found.line().endswith("lag 0, 3,900 skipped")
    assert report(sources=source(None, {"0": 9, "skipped": 2})).skipped == 2
    assert report(sources=source({"0": 1, "skipped": 2}, {"0": 9, "skipped": 2})).skipped == 0
    assert report().skipped == 0
    assert Progress.of(found.to_value()) == found
    older = dict(asdict(report()))
    del older["skipped"]
    assert Progress.of(older) == report()


# Texts of Spark 4.3.0, without most of their frames.

IN_A_TASK = """\
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the \
Python worker: Traceback (most recent call last):
  File "/opt/peermesh/spark/sink.py", line 112, in write
    return self._sink.take(iterator)
           ^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/opt/peermesh/spark/rows.py", line 87, in take
    raise InvalidData(
peermesh.errors.InvalidData: column 'key' is null in row 2 of task 0, and belongs to the key: \
filter such rows out, or leave them out and count them with the option nullKeys=drop
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException\
(PythonRunner.scala:1097)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""

IN_THE_SOURCE = """\
org.apache.spark.SparkException: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python \
streaming data source perform latestOffset: Traceback (most recent call last):
  File "/opt/pyspark/sql/streaming/python_streaming_source_runner.py", line 281, in main
    latest_offset_admission_control_func(reader, infile, outfile)
  File "/opt/peermesh/spark/reading.py", line 116, in _losses
    raise DataLoss(explain_losses(self._log.name(), lost))
peermesh.spark.reading.DataLoss: log orders, partition 1: the entries 10 to 12 are gone before \
they were read. To go on without, set the option failOnDataLoss to false
 SQLSTATE: 38000
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""

REFUSED = """\
[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source initialize source: Traceback (most \
recent call last):
  File "/opt/peermesh/spark/options.py", line 264, in _refuse
    raise InvalidData(f"option {name} is {reason}")
peermesh.errors.InvalidData: option endingOffsets is of spark.read: a stream has no end

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/pyspark/sql/streaming/python_streaming_source_runner.py", line 295, in main
    reader.stop()
    ^^^^^^
UnboundLocalError: cannot access local variable 'reader' where it is not associated with a value
 SQLSTATE: 38000 SQLSTATE: XXKST
"""

IN_FOREACH_BATCH = """\
py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most \
recent call last):
  File "/opt/pyspark/sql/utils.py", line 163, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
  File "/opt/job.py", line 33, in write
    raise ValueError("mine")
ValueError: mine

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""

IN_TURN = """\
py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most \
recent call last):
  File "/opt/mine.py", line 8, in write
    store.put("k", 1).result()
peermesh.errors.NoQuorum: store mine: no majority answers

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/mine.py", line 10, in write
    rescue(frame)
ZeroDivisionError: division by zero

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""

IN_THE_JVM = """\
org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] partition 0, offset 0, column \
value: the record is not of the schema: a SQLSTATE: P0001
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        (IN_A_TASK, "peermesh.errors.InvalidData: column 'key' is null", "nullKeys=drop"),
        (IN_THE_SOURCE, "peermesh.spark.reading.DataLoss: log orders, partition 1: ", "to false"),
        (REFUSED, "peermesh.errors.InvalidData: option endingOffsets", "a stream has no end"),
        (IN_FOREACH_BATCH, "ValueError: mine", "mine"),
        (IN_TURN, "ZeroDivisionError: ", "by zero"),
        (IN_THE_JVM, "org.apache.spark.SparkRuntimeException: [USER_RAISED_EX", "SQLSTATE: P0001"),
        ("", "", ""),
    ],
    ids=["task", "source", "refused", "foreachBatch", "turn", "JVM", "none"],
)
def test_the_reason_is_the_line_that_says_why(text, start, end):
    reason = reason_of(text)
    assert (reason.startswith(start), reason.endswith(end)) == (True, True), reason
    assert reason in text
    assert "\n" not in reason


def test_a_listener_publishes_the_reason_of_a_query_that_failed(mesh):
    pytest.importorskip("pyspark")
    from pyspark.sql.streaming.listener import QueryTerminatedEvent

    from peermesh.spark import MeshListener

    with Endpoint() as observer:
        heard = observer.subscribe(TOPIC)
        observer.peer("127.0.0.1", int(mesh[1].rpartition(":")[2]))
        mesh[0].await_peer(observer.node_id(), timeout=limit())
        listener = MeshListener(mesh[0], "job")
        for exception in (IN_A_TASK, None):
            listener.onQueryTerminated(QueryTerminatedEvent(uuid4(), uuid4(), exception, None))
        failed, stopped = (Progress.of(heard.get(timeout=limit())[1]) for _ in range(2))
    assert (failed.state, failed.reason) == ("failed", reason_of(IN_A_TASK))
    assert (stopped.state, stopped.reason) == ("stopped", "")
