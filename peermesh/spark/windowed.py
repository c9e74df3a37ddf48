"""A stateful query: counts the entries of a log by window and key, and publishes what changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions

from peermesh.spark.ledger import ForeachBatch
from peermesh.spark.parsing import parsed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedCounts:
    """What is counted: entries of a log that are tables with ``at`` and ``key``."""

    peers: str
    """As in the option of that name."""
    log: str
    schema: str
    """The columns of the entries that are read."""
    rows_max: int
    """Rows of a batch."""
    poll_seconds: float
    """How long Spark waits at the keeper when there is nothing."""
    window_seconds: int
    watermark_ms: int
    checkpoint: str

    def start(self, spark: SparkSession, publish: ForeachBatch) -> StreamingQuery:
        """Start the query, or go on with it: batches of ``window``, ``key`` and ``count``."""
        source = spark.readStream.format("peermesh").options(
            peers=self.peers,
            log=self.log,
            maxOffsetsPerTrigger=str(self.rows_max),
            pollTimeout=str(self.poll_seconds),
        )
        events = parsed(source.load().select("value"), self.schema)
        counts = (
            events.withWatermark("at", f"{self.watermark_ms} milliseconds")
            .groupBy(functions.window("at", f"{self.window_seconds} seconds"), "key")
            .count()
            .select(functions.col("window.start").alias("window"), "key", "count")
        )
        writer = counts.writeStream.outputMode("update")
        writer = writer.option("checkpointLocation", self.checkpoint)
        return writer.foreachBatch(publish).start()


def failure_of(query: StreamingQuery, seconds: float) -> str | None:
    """Wait for the end of a query; say in a line why it failed, if it did."""
    try:
        query.awaitTermination(seconds)  # type: ignore[arg-type]  # fractions work, as documented
    except StreamingQueryException as error:
        return str(error).partition("\n")[0]
    return None
