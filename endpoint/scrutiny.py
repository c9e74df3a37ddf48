"""What is taken of frames that may be forged, repeated, or sent without the right to. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from endpoint.core import EndpointCore
from endpoint.routes import Route
from endpoint.status import StatusCode, StatusEvent
from wire.errors import ErrorCode
from wire.framing import NodeFrame
from wire.identifiers import EndpointId


class Scrutiny:
    """Looks at frames where the hot path ends, and keeps count of what it turns away."""

    def __init__(self, core: EndpointCore) -> None:
        """Look at what comes to the endpoint of this core."""
        self.duplicates = 0
        """Messages that were here before."""
        self._core = core

    def is_genuine(self, route: Route, frame: NodeFrame, peer: EndpointId | None) -> bool:
        """Tell whether a frame of somebody who signs is his, and new.

        To be asked before the frame counts as seen: who forges one must not keep the true one out.
        So every endpoint on the way asks, and what is forged goes no further than one link.
        """
        count = max(1, len(frame.lengths) - 1)
        if route.window.has(frame.sequence):
            self.turn_away(route, count)
            return False
        assert route.verify is not None, "asked for senders that sign"
        if route.verify(frame):
            return True
        reason = f"messages came from {peer} that it has not signed"
        self._core.forgeries.note(route.header.sender, reason, count)
        return False

    def turn_away(self, route: Route, count: int) -> None:
        """Take note of messages that go nowhere: they were here before, or have no right to be."""
        if route.refusal:
            refusals = self._core.authorisation.refusals
            refusals.note(route.header.sender, route.refusal, count)
        else:
            self.duplicates += count

    def events(self) -> Iterator[StatusEvent]:
        """Give what there is to tell since the last call, once for each sender and reason."""
        for status, found in (
            (StatusCode.NOT_ALLOWED, self._core.authorisation.refusals),
            (StatusCode.FORGERY_DROPPED, self._core.forgeries),
        ):
            for sender, reason, count in found.take():
                text = f"{reason} ({count} since the last look)"
                yield StatusEvent(status, sender, None, ErrorCode.NOT_AUTHORIZED, text)
