"""A stateful job of Spark on the mesh: counts by minute and key, exactly, whatever is killed.

Copy ``counts``: log and store are anywhere in the mesh, the checkpoint is behind a gateway. The
rest makes such a mesh in this process, as a test would, and shows what comes of it.
"""

import os
import sys
from datetime import UTC, datetime

from pyspark.sql import SparkSession, functions as f
from pyspark.sql.streaming import DataStreamWriter

from peermesh.blocking import Endpoint, Store, StoreProxy, serve_webhdfs
from peermesh.spark import parsed, register, upsert_batch
from peermesh.spark.configuration import spark_conf


def counts(
    spark: SparkSession, peers: str, totals: Store | StoreProxy, checkpoint: str
) -> DataStreamWriter:
    schema = "at TIMESTAMP, item STRING"
    source = spark.readStream.format("peermesh").options(
        peers=peers, log="sales", maxOffsetsPerTrigger="10000"
    )
    sales = parsed(source.load(), schema).withWatermark("at", "1 hour")
    table = sales.groupBy(f.window("at", "1 minute").start.alias("minute"), "item").count()
    return (
        table.writeStream.outputMode("update")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(upsert_batch(totals, "minute", "item", value_column="count"))
    )


def main() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    with (
        Endpoint() as mesh,
        mesh.attach_log("sales") as sales,  # backend=Backend.SQLite, path=… to be durable
        mesh.attach_master("totals") as totals,  # from elsewhere: attach_proxy("totals")
        mesh.attach_master("checkpoints") as checkpoints,  # or: peermesh serve webhdfs
        serve_webhdfs(checkpoints) as gateway,
    ):
        for item in ("tea", "cake", "tea"):
            sales.append({"at": noon, "item": item}).result(timeout=10)
        os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise workers are any python3
        settings = {"spark.sql.shuffle.partitions": "1"} | spark_conf(gateway.address)
        spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        register(spark)
        peers = f"127.0.0.1:{mesh.listen()}"
        job = counts(spark, peers, totals, f"webhdfs://{gateway.address}/jobs/counts")
        job.trigger(availableNow=True).start().awaitTermination()
        assert totals.get((noon, "tea")) == 2
        spark.stop()


if __name__ == "__main__":
    main()
