"""Tells what queries do, batch by batch, to a function of this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


class QueryReporter(StreamingQueryListener):
    """Reports the batches of a query with one source, which is a log with one partition."""

    def __init__(self, send: Callable[..., None], on_batch: Callable[[], None]) -> None:
        """Report by ``send``, and call ``on_batch`` after each."""
        self._send = send
        self._on_batch = on_batch

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing was done yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Report a batch: how far it goes, and what the watermark dropped of it."""
        found: dict[str, Any] = json.loads(event.progress.json)
        self._on_batch()
        self._send(
            "batch",
            batch=found["batchId"],
            rows=found["numInputRows"],
            lines=(found["sources"][0]["endOffset"] or {}).get("0", 0),
            seconds=found["batchDuration"] / 1_000,
            late=sum(each["numRowsDroppedByWatermark"] for each in found["stateOperators"]),
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Report that there was nothing to read."""
        self._send("idle")

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Whoever waits for the query hears of it."""
