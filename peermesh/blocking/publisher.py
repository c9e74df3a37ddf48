"""Publishers for threads: a fixed topic."""

from __future__ import annotations

from collections.abc import Iterable

from endpoint import arguments
from endpoint.arguments import NodeId
from endpoint.closing import Closing
from peermesh.blocking.outbound import Outbound
from wire.topics import check_topic
from wire.values import Value


class Publisher(Closing):
    """Publishes on one topic (seed 7.1); in threads, many may share it."""

    def __init__(self, outbound: Outbound, topic: str) -> None:
        """Use ``Endpoint.publisher``."""
        self.topic = check_topic(topic)
        self._outbound = outbound

    def __repr__(self) -> str:
        """Show the topic."""
        return f"<Publisher {self.topic!r}>"

    def publish(self, data: Value, *, to: NodeId | None = None) -> None:
        """Publish, waiting for room; see ``Endpoint.publish``."""
        self._outbound.publish(self.topic, data, to=to)

    def publish_nowait(self, data: Value, *, to: NodeId | None = None) -> None:
        """Publish without waiting, or raise ``OutboxFull``; then nothing was sent."""
        self._outbound.publish_nowait(self.topic, data, to=to)

    def publish_batch(self, batch: Iterable[Value]) -> None:
        """Publish many messages, in order, waiting for room between them."""
        several = arguments.several("batch", batch)
        self._outbound.publish_batch((self.topic, data) for data in several)

    def close(self) -> None:
        """Do nothing: a publisher holds nothing that could be given back."""
