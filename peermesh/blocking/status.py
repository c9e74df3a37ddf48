"""Status events for threads."""

from __future__ import annotations

from typing import Self

import trio

from endpoint.closing import Closing
from endpoint.status import StatusEvent
from endpoint.stream import StatusSubscriber as Stream
from peermesh.blocking.portal import Portal
from wire.errors import EndpointClosed


class StatusSubscriber(Closing):
    """Follows what happens in the mesh, from any thread."""

    def __init__(self, portal: Portal, stream: Stream) -> None:
        """Use ``Endpoint.subscribe_status``."""
        self._portal = portal
        self._stream = stream

    def get(self, timeout: float | None = None) -> StatusEvent:
        """Wait for the next event, for ``timeout`` seconds at most.

        Raises ``TimeoutError`` then, and ``EndpointClosed`` when the endpoint has shut down.
        """
        event = self._stream.take()
        if event is not None:
            return event
        try:
            return self._portal.call(self._stream.get, timeout)
        except (trio.EndOfChannel, trio.RunFinishedError):
            raise EndpointClosed("the endpoint was shut down; all its events were read") from None

    def poll(self) -> list[StatusEvent]:
        """Take all events that are there."""
        return self._stream.poll()

    def available(self) -> int:
        """Count the events that wait."""
        return self._stream.available()

    def close(self) -> None:
        """Follow no longer; what is there can still be read."""
        try:
            self._portal.call_sync(self._stream.close)
        except trio.RunFinishedError:
            self._stream.close()

    def __iter__(self) -> Self:
        """Iterate until the endpoint shuts down."""
        return self

    def __next__(self) -> StatusEvent:
        """Wait for the next event."""
        try:
            return self.get()
        except EndpointClosed:
            raise StopIteration from None
