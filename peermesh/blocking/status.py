"""Status events for threads."""

from __future__ import annotations

from contextlib import suppress
from typing import Self

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.closing import Closing
from endpoint.mesh.status import StatusEvent
from endpoint.pubsub.stream import StatusSubscriber as Stream
from peermesh.blocking.living import FAILURES, Passage
from wire.errors import EndpointClosed


class StatusSubscriber(Closing):
    """Follows what happens in the mesh, from any thread."""

    def __init__(self, passage: Passage, stream: Stream) -> None:
        """Use ``Endpoint.subscribe_status``."""
        self._passage = passage
        self._stream = stream

    def get(self, timeout: Seconds = None) -> StatusEvent:
        """Wait for the next event, for ``timeout`` seconds at most.

        Raises ``TimeoutError`` then, and ``EndpointClosed`` when the endpoint has shut down.
        """
        limit = arguments.seconds("timeout", timeout)
        self._passage.check_process()
        event = self._stream.take()
        if event is None:
            return self._passage.call(self._stream.get, limit)
        return event

    def poll(self) -> list[StatusEvent]:
        """Take all events that are there."""
        self._passage.check_process()
        return self._stream.poll()

    def available(self) -> int:
        """Count the events that wait."""
        self._passage.check_process()
        return self._stream.available()

    def close(self) -> None:
        """Follow no longer; what is there can still be read."""
        with suppress(EndpointClosed):  # Then it is closed.
            self._passage.call_sync(self._stream.close)

    def __repr__(self) -> str:
        """Show how many events wait."""
        return self._passage.show("StatusSubscriber", self._stream)

    def __iter__(self) -> Self:
        """Iterate until the endpoint shuts down."""
        return self

    def __next__(self) -> StatusEvent:
        """Wait for the next event."""
        try:
            return self.get()
        except FAILURES:
            raise
        except EndpointClosed:
            raise StopIteration from None
