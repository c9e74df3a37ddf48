"""Publishers: a fixed topic, for those who publish on it again and again."""

from __future__ import annotations

from collections.abc import Iterable

from endpoint.publishing import Publication
from wire.identifiers import EndpointId
from wire.topics import check_topic
from wire.values import Value


class Publisher:
    """Publishes on one topic (seed 7.1)."""

    def __init__(self, publication: Publication, topic: str) -> None:
        """Use ``Endpoint.publisher``."""
        self.topic = check_topic(topic)
        self._publication = publication

    async def publish(self, data: Value, *, to: EndpointId | None = None) -> None:
        """Publish, waiting for room when a peer's outbox is full."""
        if self._publication.put(self.topic, data, to):
            await self._publication.breathe()

    def publish_nowait(self, data: Value, *, to: EndpointId | None = None) -> None:
        """Publish, or raise ``OutboxFull`` when somebody has to wait."""
        self._publication.publish_nowait(self.topic, data, to)

    async def publish_batch(self, batch: Iterable[Value]) -> None:
        """Publish many, in order, waiting for room between them."""
        await self._publication.publish_values(self.topic, batch)
