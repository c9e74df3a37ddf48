"""An endpoint's life for threads, and what of it no description gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Self, Unpack

import trio

from endpoint import arguments
from endpoint.arguments import NodeId
from endpoint.barriers import Seconds
from endpoint.bound import Bound
from endpoint.endpoint import GRACE_SECONDS, Endpoint as Core
from endpoint.pubsub.options import QueueOptions
from endpoint.settings import Settings
from peermesh.blocking.living import Life, Passage
from peermesh.blocking.outbound import Outbound
from peermesh.blocking.publisher import Publisher
from peermesh.blocking.pump import Pump
from peermesh.blocking.subscriber import Subscriber
from wire.values import Value


class EndpointLife(Bound):
    """An endpoint from its making to ``shutdown``; a base of ``Endpoint``.

    It works from the moment that it is made, as the seed's does; ``shutdown``, or the end of the
    block, ends it. All methods may be called from any thread at any time.
    """

    def __init__(self, core: Core) -> None:
        """Start ``core``, and wait until it is open."""
        self._endpoint = core
        self._life = life = Life(core)
        self._passage = Passage(life, is_strict=True)
        allow = core.loop.core.authorisation.check_publish
        self._outbound = Outbound(self._passage.inner, allow)
        self._pump = Pump(self._outbound, core.loop.publication)
        self.publish: Final = self._outbound.publish
        life.open(self._leave, self._pump.run)

    async def _leave(self) -> None:
        """Have what was published leave, and then the endpoint."""
        grace = self._life.grace
        with trio.move_on_after(grace):
            await self._pump.flush()
        # What is left has had its time: a core that shuts down takes nothing any more.
        self._pump.close()
        await self._endpoint.shutdown(grace)

    def __repr__(self) -> str:
        """Show name and id, where it listens, and how many peers it has."""
        who = self._endpoint.names.full(self._endpoint.node_id())
        return self._passage.show(f"Endpoint {who}", self._endpoint)

    @property
    def settings(self) -> Settings:
        """Give the settings that are in force."""
        return self._endpoint.settings

    def shutdown(self, grace: Seconds = GRACE_SECONDS) -> None:
        """End: no new peers, then the stores, then all that was published leaves.

        Waits for ``grace`` seconds at most for stores and peers that do not answer, and for some
        seconds more for a disk in the middle of a write. May be called twice, and does nothing in a
        child process. In threads what was published goes ahead, for as long at most. There each
        call waits for the end, and Ctrl-C ends the waiting: the endpoint ends on its own.
        """
        self._life.close(arguments.seconds("grace", grace, default=GRACE_SECONDS))

    # Messages.

    def publish_nowait(self, topic: str, data: Value, *, to: NodeId | None = None) -> None:
        """Publish without waiting, or raise ``OutboxFull``; then nothing was sent."""
        self._outbound.publish_nowait(topic, data, to=to)

    def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in order, waiting for room between them.

        Up to a thousand are taken at a time. Of those among which one is refused, or after which
        the batch raises, some or all are not published; in threads, those before it are.
        """
        self._outbound.publish_batch(batch)

    def publisher(self, topic: str) -> Publisher:
        """Give a publisher for one topic."""
        self._passage.check()
        return Publisher(self._outbound, topic)

    def _open_reader(
        self, topics: Sequence[str], *, local: bool, **options: Unpack[QueueOptions]
    ) -> Subscriber:
        self._passage.check()
        passage, core = self._passage.inner, self._endpoint
        make = partial(Subscriber, passage, core.loop, topics=topics)
        return passage.call_sync(partial(core.read_with, make, topics, local=local, **options))

    def __enter__(self) -> Self:
        """Use it within the block."""
        self._passage.check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Shut down."""
        self.shutdown()
