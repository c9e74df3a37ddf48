"""The status events of an endpoint, in one ordered stream for each who follows them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self

import trio

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.closing import EitherClosing
from endpoint.mesh.status import StatusCode, StatusEvent
from net import forking
from wire.errors import FAILURES, EndpointClosed
from wire.public import public

EVENTS_MAX: Final = 10_000
"""Events kept for a reader: the joining of the largest mesh. The oldest go first beyond."""


@public
class StatusSubscriber(EitherClosing):
    """Follows what happens in the mesh: ``async for event in endpoint.subscribe_status()``."""

    def __init__(self, hub: StatusHub, codes: frozenset[StatusCode]) -> None:
        """Use ``Endpoint.subscribe_status``."""
        self._hub = hub
        self._codes = codes
        self._events: deque[StatusEvent] = deque(maxlen=EVENTS_MAX)
        self._waiting = trio.lowlevel.ParkingLot()
        self._is_closed = False
        self.on_news: Callable[[], object] = lambda: None
        """Called after each event, when the last one is taken, and at the end. Safe in any thread
        that takes events."""

    def __repr__(self) -> str:
        """Show how many events wait."""
        state = "closed" if self._is_closed else "open"
        return f"<StatusSubscriber {state} waiting={self.available()}>"

    async def get(self, timeout: Seconds = None) -> StatusEvent:
        """Wait for the next event, for ``timeout`` seconds at most.

        Raises ``TimeoutError`` then, and ``EndpointClosed`` when the endpoint has shut down.
        """
        limit = arguments.seconds("timeout", timeout)
        while await self.await_ready(limit):
            if (event := self.take()) is not None:  # In threads another one may have been faster.
                return event
        raise TimeoutError(f"no status event within {limit:g} s")

    def is_ready(self) -> bool:
        """Tell whether there is something to take; for a front end."""
        return bool(self._events)

    async def await_ready(self, limit: float) -> bool:
        """Wait until there is something to take; false after so many seconds; for a front end."""
        if self._events:
            return True
        with trio.move_on_after(limit):
            while not self._events:
                if self._hub.is_forked:
                    raise forking.error()
                if self._is_closed:
                    raise EndpointClosed("the endpoint was shut down; all its events were read")
                await self._waiting.park()
        return bool(self._events)

    def take(self) -> StatusEvent | None:
        """Take the next event if there is one; for a front end."""
        try:
            event = self._events.popleft()
        except IndexError:
            return None
        if not self._events:
            self.on_news()
        return event

    def give_back(self, events: Sequence[StatusEvent]) -> None:
        """Have what was taken, and reached no reader, come next; for a front end."""
        room = EVENTS_MAX - len(self._events)
        self._events.extendleft(list(reversed(events))[:room])
        self._waiting.unpark_all()
        self.on_news()

    def poll(self) -> list[StatusEvent]:
        """Take all events that are there."""
        return list(iter(self.take, None))

    def available(self) -> int:
        """Count the events that wait."""
        return len(self._events)

    def close(self) -> None:
        """Follow no longer; what is there can still be read."""
        self._hub.remove(self)
        self.end()

    def push(self, event: StatusEvent) -> None:
        """Take in one event, if its kind is wanted; for the hub."""
        if self._codes and event.status not in self._codes:
            return
        self._events.append(event)
        self._waiting.unpark_all()
        self.on_news()

    def end(self) -> None:
        """There will be no more; for the hub."""
        self._is_closed = True
        self._waiting.unpark_all()
        self.on_news()

    def is_readable(self) -> bool:
        """Tell whether ``get`` would not wait, also to say that no more come; for a front end."""
        return bool(self._events) or self._is_closed

    def __aiter__(self) -> Self:
        """Iterate until the endpoint shuts down."""
        return self

    async def __anext__(self) -> StatusEvent:
        """Wait for the next event."""
        try:
            return await self.get()
        except FAILURES:
            raise
        except EndpointClosed:
            raise StopAsyncIteration from None


class StatusHub:
    """Passes each event on to everyone who follows."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._subscribers: dict[StatusSubscriber, None] = {}
        self.is_forked = False
        """Whether this is a child process, where nothing happens."""

    def subscribe(self, codes: Iterable[StatusCode] = ()) -> StatusSubscriber:
        """Follow events of these kinds from now on, or of all kinds."""
        subscriber = StatusSubscriber(self, frozenset(codes))
        self._subscribers[subscriber] = None
        return subscriber

    def remove(self, subscriber: StatusSubscriber) -> None:
        """Forget a subscriber."""
        self._subscribers.pop(subscriber, None)

    def push(self, event: StatusEvent) -> None:
        """Tell everyone."""
        for subscriber in self._subscribers:
            subscriber.push(event)

    def end(self) -> None:
        """Tell everyone that nothing comes any more."""
        for subscriber in self._subscribers:
            subscriber.end()
        self._subscribers.clear()
