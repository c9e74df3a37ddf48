"""Status events for threads, as far as they are by hand: a descriptor to wait for."""

from __future__ import annotations

from contextlib import suppress

from endpoint.closing import Closing
from endpoint.pubsub.stream import StatusSubscriber as Stream
from peermesh.blocking.descriptor import Descriptor
from peermesh.blocking.living import Passage
from wire.errors import EndpointClosed


class StatusReading(Closing):
    """Follows what happens in the mesh, from any thread."""

    def __init__(self, passage: Passage, stream: Stream) -> None:
        """Use ``Endpoint.subscribe_status``."""
        self._passage = passage
        self._stream = stream
        self._descriptor: Descriptor | None = None
        self._is_over = False
        """Whether the endpoint is."""
        passage.hold(self)

    def close(self) -> None:
        """Follow no longer; what is there can still be read."""
        with suppress(EndpointClosed):  # Then it is closed.
            self._passage.call_sync(self._stream.close)
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            descriptor.close()

    def fileno(self) -> int:
        """Give a descriptor that is readable while events wait; see ``Subscriber.fileno``."""
        self._passage.check_process()
        if self._descriptor is None:
            self._passage.call_sync(self._open_descriptor)
        assert self._descriptor is not None
        return self._descriptor.number

    def _open_descriptor(self) -> None:
        if self._descriptor is None:
            self._descriptor = Descriptor(self)
            self._stream.on_news = self._settle
            self._settle()

    def _settle(self) -> None:
        descriptor = self._descriptor
        if descriptor is not None:
            descriptor.settle(lambda: self._is_over or self._stream.is_readable())

    # For the endpoint's life.

    def ended(self) -> None:
        """Take in that the endpoint is over, in whatever way."""
        self._is_over = True
        self._settle()

    def forked(self) -> None:
        """Close the descriptor in a child process: it is the parent's."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            descriptor.forked()
