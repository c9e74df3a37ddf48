"""The role of Spark's driver: counts the events of the log by window and key, in a stateful query.

All that lasts is elsewhere. The events are in the log, where the query is and what it has counted
in the checkpoint, behind the gateways, and the results in the store, once for each batch. So it may
be killed at any time, and its successor goes on. A query that ends because what it needs has moved
is started again here, without a new Spark.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from peermesh.blocking import Endpoint
from peermesh.demo.errors import StuckError
from peermesh.demo.events import COLUMNS, LOG_NAME
from peermesh.demo.link import Assignment, Orders, Reports
from peermesh.demo.mesh import COUNTS, LOCAL, REDIAL_SECONDS_MAX
from peermesh.demo.plan import Ports
from peermesh.spark.configuration import spark_conf
from peermesh.spark.ledger import upsert_batch
from peermesh.spark.watching import QueryReporter
from peermesh.spark.windowed import WindowedCounts, failure_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT: Final = "webhdfs://mesh/demo/counts"
"""Hadoop's client asks any of the gateways, and another one if that is gone."""

SETTINGS: Final = {
    "spark.master": "local[2,4]",  # a task is tried again, as in a cluster, before the query fails
    "spark.sql.shuffle.partitions": "1",  # two hundred by default: 15 seconds a batch
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataProgressEventInterval": "200",
    # Fifteen seconds otherwise, which a process of Python may take to start on a busy machine.
    "spark.python.authenticate.socketTimeout": "60s",
    # Four requests for a file instead of ten; renames at our gateway are atomic either way.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}

POLL_SECONDS: Final = 0.2
"""How long the driver waits for its query, and Spark for the log, before looking elsewhere."""

FAILURES_MAX: Final = 10
"""How often in a row the query may fail: then it is none of the deaths that it gets over."""


def counts_of(assignment: Assignment) -> WindowedCounts:
    """Say what is counted."""
    return WindowedCounts(
        peers=",".join(f"{LOCAL}:{port}" for port in assignment.ports.members),
        log=LOG_NAME,
        schema=COLUMNS,
        rows_max=assignment.plan.rows_max,
        poll_seconds=POLL_SECONDS,
        window_seconds=assignment.what.window_seconds,
        watermark_ms=assignment.plan.watermark_ms,
        checkpoint=CHECKPOINT,
    )


class Driver:
    """Keeps the query running."""

    def __init__(
        self, begin: Callable[[], StreamingQuery], reports: Reports, orders: Orders
    ) -> None:
        """Start queries by ``begin``, until the orders end."""
        self._begin = begin
        self._reports = reports
        self._orders = orders
        self._failures = 0

    def on_batch(self) -> None:
        """A batch is done: whatever failed before is over."""
        self._failures = 0

    def run(self) -> None:
        """Run queries; raises ``StuckError``."""
        while not self._orders.is_ended:
            query, reason = self._begin(), None
            while reason is None and not self._orders.is_ended:
                reason = failure_of(query, POLL_SECONDS)
            if reason is None:
                query.stop()
            else:
                self._on_failure(reason)

    def _on_failure(self, reason: str) -> None:
        self._failures += 1
        self._reports.send("failing", reason=reason)
        if self._failures >= FAILURES_MAX:
            raise StuckError(f"the query failed {self._failures} times in a row: {reason}")


def gateways(ports: Ports) -> dict[str, str]:
    """Give the settings by which Spark finds a gateway that lives."""
    return spark_conf(*(f"{LOCAL}:{port}" for port in ports.gateways))


def run(assignment: Assignment) -> None:
    """Be the driver until the supervisor ends it."""
    from peermesh.spark import MeshListener, register
    from peermesh.spark.local import LocalSpark

    reports = Reports(assignment.reports)
    started = threading.Event()
    # Spark takes seconds to start, and hears nothing meanwhile. Nothing is lost by leaving then.
    orders = Orders(lambda _: None, lambda: None if started.is_set() else os._exit(0)).start()
    settings = SETTINGS | gateways(assignment.ports)
    with (
        Endpoint(forwarding=False) as endpoint,
        LocalSpark("peermesh demo", assignment.path("spark"), settings) as local,
    ):
        started.set()
        for port in assignment.ports.members:
            endpoint.peer(LOCAL, port, REDIAL_SECONDS_MAX, timeout=POLL_SECONDS)
        spark = local.session()
        register(spark)
        upserts = upsert_batch(endpoint.attach_proxy(COUNTS), "window", "key", value_column="count")

        def publish(frame: DataFrame, batch: int) -> None:
            reports.send("counting", batch=batch)
            upserts(frame, batch)

        counts = counts_of(assignment)
        driver = Driver(lambda: counts.start(spark, publish), reports, orders)
        spark.streams.addListener(QueryReporter(reports.send, driver.on_batch))
        spark.streams.addListener(MeshListener(endpoint, "demo"))
        reports.send("ready")
        try:
            driver.run()
        except StuckError as error:
            reports.send("failed", reason=str(error))


if __name__ == "__main__":
    run(Assignment.parse(sys.argv[1]))
