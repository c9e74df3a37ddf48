"""Tells the mesh what queries do: ``spark.streams.addListener(MeshListener(endpoint, "job"))``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from peermesh.blocking import Endpoint
from peermesh.spark.joining import AnyStore
from peermesh.spark.progress import TOPIC, Progress, reason_of, summarize
from peermesh.spark.records import progress_key
from wire.errors import MeshError, OutboxFull

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


class MeshListener(StreamingQueryListener):
    """Publishes progress, best effort: it never holds up a query, and drops what has no room."""

    def __init__(self, endpoint: Endpoint, job: str, store: AnyStore | None = None) -> None:
        """Publish under ``spark/progress/JOB``; with a ``store``, keep the last of each there."""
        self._endpoint = endpoint
        self._job = job
        self._store = store
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Remember the name, and publish the start."""
        query = str(event.id)
        self._names[query] = event.name or query
        self._tell(Progress(self._job, self._names[query], "started"))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Publish what a batch did."""
        self._tell(summarize(self._job, event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Publish that there was nothing to do."""
        self._tell(Progress(self._job, self._name(str(event.id)), "idle"))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Publish the end, with the line that says why."""
        reason = reason_of(event.exception or "")
        state = "failed" if event.exception else "stopped"
        self._tell(Progress(self._job, self._name(str(event.id)), state, reason=reason))

    def _name(self, query: str) -> str:
        return self._names.get(query, query)

    def _tell(self, progress: Progress) -> None:
        with suppress(OutboxFull):  # somebody reads slowly, and the next report comes soon
            self._endpoint.publish_nowait(TOPIC + self._job, progress.to_value())
        if self._store is not None and progress.state == "running":
            try:
                self._store.put(progress_key(self._job, progress.query), progress.to_value())
            except MeshError:
                self._store = None  # it is closed: what is published goes on
