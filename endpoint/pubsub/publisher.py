"""Publishers: a fixed topic, for callers that publish on it again and again."""

from __future__ import annotations

from collections.abc import Iterable

from endpoint.arguments import NodeId
from endpoint.closing import EitherClosing
from endpoint.pubsub.publishing import Publication
from wire.public import public
from wire.topics import check_topic
from wire.values import Value


@public
class Publisher(EitherClosing):
    """Publishes on one topic (seed 7.1); in threads, many may share it."""

    def __init__(self, publication: Publication, topic: str) -> None:
        """Use ``Endpoint.publisher``."""
        self.topic = check_topic(topic)
        self._publication = publication

    def __repr__(self) -> str:
        """Show the topic."""
        return f"<Publisher {self.topic!r}>"

    async def publish(self, data: Value, *, to: NodeId | None = None) -> None:
        """Publish, waiting for room; see ``Endpoint.publish``."""
        await self._publication.publish(self.topic, data, to=to)

    def publish_nowait(self, data: Value, *, to: NodeId | None = None) -> None:
        """Publish without waiting, or raise ``OutboxFull``; then nothing was sent."""
        self._publication.publish_nowait(self.topic, data, to)

    async def publish_batch(self, batch: Iterable[Value]) -> None:
        """Publish many messages, in order, waiting for room between them."""
        await self._publication.publish_values(self.topic, batch)

    def close(self) -> None:
        """Do nothing: a publisher holds nothing that could be given back."""
