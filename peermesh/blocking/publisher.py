"""Publishers for threads: a fixed topic."""

from __future__ import annotations

from collections.abc import Iterable

from peermesh.blocking.outbound import Outbound
from wire.identifiers import EndpointId
from wire.topics import check_topic
from wire.values import Value


class Publisher:
    """Publishes on one topic; safe to use from many threads."""

    def __init__(self, outbound: Outbound, topic: str) -> None:
        """Use ``Endpoint.publisher``."""
        self.topic = check_topic(topic)
        self._outbound = outbound

    def publish(self, data: Value, *, to: EndpointId | None = None) -> None:
        """Publish, waiting for room when too much waits to be sent."""
        self._outbound.publish(self.topic, data, to=to)

    def publish_nowait(self, data: Value, *, to: EndpointId | None = None) -> None:
        """Publish, or raise ``OutboxFull``; then nobody got it."""
        self._outbound.publish_nowait(self.topic, data, to=to)

    def publish_batch(self, batch: Iterable[Value]) -> None:
        """Publish many, in order."""
        self._outbound.publish_batch((self.topic, data) for data in batch)
