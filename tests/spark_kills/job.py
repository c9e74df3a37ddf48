"""The job: ``python -m tests.spark_kills.job SETTINGS``, in a process of its own that is killed.

Two queries read one log. The first drops what came twice, joins orders with their payments, and
puts sessions into a store; each of the three keeps state. The second copies every line to a log.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark_kills.keeper import CLEAN, EVENTS, RESULTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_STATE = "org.apache.spark.sql.execution.streaming.state"
STATES = {
    "hdfs": {"providerClass": f"{_STATE}.HDFSBackedStateStoreProvider"},
    "rocksdb": {"providerClass": f"{_STATE}.RocksDBStateStoreProvider"},
    "changelog": {
        "providerClass": f"{_STATE}.RocksDBStateStoreProvider",
        "rocksdb.changelogCheckpointing.enabled": "true",
    },
}
"""Where state is kept: in files, in snapshots of RocksDB, or in its changes."""


def settings_of(state: str) -> dict[str, str]:
    """Give the settings of a session in which the job runs."""
    found = {f"spark.sql.streaming.stateStore.{key}": text for key, text in STATES[state].items()}
    return {
        **found,
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.minBatchesToRetain": "10",
    }


@dataclass(frozen=True)
class Job:
    """Where it reads and writes, and how."""

    name: str
    peers: str
    checkpoint: str
    progress: str
    """A file, for a line of JSON after each batch."""
    starting: str
    """Offsets, as the option takes them."""
    rows_max: int
    """Lines of a batch, of each of the first query's two sources and of the second one's."""


def lines(spark: SparkSession, job: Job) -> DataFrame:
    source = spark.readStream.format("peermesh").options(
        peers=job.peers, log=EVENTS, startingOffsets=job.starting,
        maxOffsetsPerTrigger=str(job.rows_max), patience="120",
    )  # fmt: skip
    return source.load()


def sessions(spark: SparkSession, job: Job) -> DataFrame:
    """Give sessions of paid orders, each of which is told once, when it is over."""
    from pyspark.sql import functions as f

    def events(kind: str, schema: str) -> DataFrame:
        parsed = lines(spark, job).select(f.from_json("value", schema).alias("v")).select("v.*")
        of_kind = parsed.where(f"kind = '{kind}'").withWatermark("at", "20 minutes")
        return of_kind.dropDuplicatesWithinWatermark(["id"])

    columns = "kind STRING, id STRING, at TIMESTAMP"
    orders = events("order", f"{columns}, user STRING, amount DECIMAL(12,2)")
    payments = events("payment", f"{columns}, order STRING").selectExpr(
        "id AS payment", "`order` AS paid", "at AS paid_at"
    )
    in_time = "paid = id AND paid_at >= at AND paid_at <= at + INTERVAL 10 MINUTES"
    return (
        orders.join(payments, f.expr(in_time))
        .groupBy(f.session_window("at", "30 seconds").alias("session"), "user")
        .agg(
            f.count("*").alias("n"), f.sum("amount").alias("total"), f.max("payment").alias("last")
        )
        .select(f.lit(job.name).alias("job"), "user", "session.start", "n", "total", "last")
    )


def start(spark: SparkSession, job: Job) -> list[StreamingQuery]:
    """Start both queries, or go on with them; they end when all lines are read."""
    sink = {"peers": job.peers, "patience": "120"}
    # A session that came twice would be refused, as its key is there.
    to_store = (
        sessions(spark, job)
        .writeStream.format("peermesh")
        .options(**sink, store=RESULTS, keyColumns="job,user,start", writeMode="append")
    )
    copied = lines(spark, job).selectExpr("get_json_object(value, '$.id') AS id", "value")
    to_log = copied.writeStream.format("peermesh").options(
        **sink, log=CLEAN, topicColumn="id", valueColumn="value"
    )
    return [
        writer.option("checkpointLocation", f"{job.checkpoint}/{name}")
        .queryName(f"{job.name}-{name}")
        .trigger(availableNow=True)
        .start()
        for name, writer in (("sessions", to_store), ("copy", to_log))
    ]


def tell(queries: list[StreamingQuery], job: Job, told: dict[str, int]) -> None:
    """Write a line for each batch that is done and was not told."""
    with Path(job.progress).open("a") as file:
        for query in queries:
            for report in query.recentProgress:
                if report["batchId"] > told.get(query.name, -1):
                    told[query.name] = report["batchId"]
                    line = {"query": query.name, "batch": report["batchId"]}
                    file.write(json.dumps(line) + "\n")


def main(text: str) -> None:
    """Run it to its end, in a Spark of its own."""
    from peermesh.spark import register
    from peermesh.spark.local import LocalSpark

    given = json.loads(text)
    job, folder = Job(**given["job"]), Path(given["folder"])
    with LocalSpark(job.name, folder, given["settings"]) as local:
        spark = local.session()
        register(spark)
        queries, told = start(spark, job), {}
        while any(query.isActive for query in queries):
            for query in queries:
                query.awaitTermination(0.1)  # it raises what ended the query
            tell(queries, job, told)
        for query in queries:
            query.awaitTermination()
        tell(queries, job, told)


def command(job: Job, folder: Path, settings: dict[str, str]) -> list[str]:
    """Give what runs it."""
    text = json.dumps({"job": asdict(job), "folder": str(folder), "settings": settings})
    return [sys.executable, "-m", "tests.spark_kills.job", text]


if __name__ == "__main__":
    main(sys.argv[1])
