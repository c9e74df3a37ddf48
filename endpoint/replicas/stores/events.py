"""Store events: what happened to each key, with the old and the new value, and who did it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

import trio

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.closing import EitherClosing
from endpoint.pubsub.messages import Missed
from endpoint.replicas.stores.part import TablePart
from stores.effects import Changed
from stores.lives import instant_of
from stores.scanning import Span
from stores.table import ChangeKind, Entry
from wire.decoding import decode
from wire.errors import RequestTimeout, StoreClosed
from wire.identifiers import EndpointId
from wire.public import public
from wire.values import Timestamp, Value

YIELD_COUNT: Final = 256
"""Events after which their reader lets other tasks run: to decode them takes milliseconds."""

QUEUE_SIZE: Final = 65_536
"""Events kept for a reader that is behind: what a fast writer does in a quarter of a second.
Beyond, the oldest go, and the reader finds ``Missed`` in their place."""


@public
@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One key changed (Broker's store events)."""

    kind: ChangeKind
    key: Value
    before: Value
    """The value that was there; ``None`` for an insertion."""
    after: Value
    """The value that is there now; ``None`` if the key is gone."""
    revision: int
    """The mutation that did it. If a clone found the change in a snapshot, that of the snapshot."""
    writer: EndpointId | None
    """The endpoint whose handle asked for it; ``None`` for an expiry, and for what a clone found in
    a snapshot."""
    expires_at: datetime | Timestamp | None
    """When the master will remove it."""


@public
class Events(EitherClosing):
    """What happens to the keys of a store from now on, in the order in which its master commits.

    ``async for event in store.events()`` gives ``StoreEvent``, and ``Missed`` where events were
    dropped as they were not read. To miss nothing, and to go on after an interruption, ``watch``.
    """

    def __init__(self, part: TablePart, span: Span, queue_size: int) -> None:
        """Use ``Store.events``."""
        queue_size = arguments.count("queue_size", queue_size)
        self._part = part
        self._runner = part.runner
        self._span = span
        self._queue: deque[Changed | StoreEvent] = deque(maxlen=queue_size)
        """Changes, and before them events that were given back."""
        self._missed_count = self._since_yield = 0
        self._waiting = trio.lowlevel.ParkingLot()
        self._is_closed = False
        part.observe(self)

    def push(self, change: Changed) -> None:
        """Take in one change; for the store's driver."""
        if not self._span.is_everything and change.key not in self._span:
            return
        if len(self._queue) == self._queue.maxlen:
            self._missed_count += 1
        self._queue.append(change)
        self._waiting.unpark_all()

    def __repr__(self) -> str:
        """Show the store, and how many events wait."""
        return f"<Events of {self._runner.name} waiting={len(self._queue)}>"

    async def get(self, timeout: Seconds = None) -> StoreEvent | Missed:
        """Wait for the next event, for ``timeout`` seconds at most.

        Raises ``RequestTimeout`` then, and ``StoreClosed`` when no more events can come.
        """
        limit = arguments.seconds("timeout", timeout)
        if await self.await_ready(limit):
            return self.take()
        raise self.late(limit)

    def late(self, limit: float) -> RequestTimeout:
        """Say that nothing came within so many seconds; for a front end."""
        return RequestTimeout(f"{self._runner.what}: no event within {limit:g} s")

    def is_ready(self) -> bool:
        """Tell whether there is something to take, and no turn of others; for a front end."""
        return bool(self._queue) and self._since_yield < YIELD_COUNT

    async def await_ready(self, limit: float) -> bool:
        """Wait until there is something to take; false after so many seconds; for a front end."""
        if self.is_ready():
            return True  # A limit costs several times as much.
        with trio.move_on_after(limit):
            while not self.is_ready():
                self._since_yield = 0
                if self._queue:
                    await trio.lowlevel.cancel_shielded_checkpoint()
                    continue
                self._runner.check_process()
                if self._is_closed or self._runner.error is not None:
                    raise self._runner.closed("reader of events")
                await self._waiting.park()
        return self.is_ready()

    def poll(self) -> list[StoreEvent | Missed]:
        """Take all events that are there."""
        found: list[StoreEvent | Missed] = []
        while self._queue:
            found.append(self.take())
        return found

    def take(self) -> StoreEvent | Missed:
        """Take the next event, which is there; for a front end."""
        self._since_yield += 1
        if self._missed_count:
            missed, self._missed_count = Missed(self._missed_count), 0
            return missed
        event = self._queue.popleft()
        return event if isinstance(event, StoreEvent) else _decode(event, self._part.core.epoch_ns)

    def give_back(self, events: Sequence[StoreEvent | Missed]) -> None:
        """Have what was taken, and reached no reader, come next; for a front end."""
        for event in reversed(events):
            if isinstance(event, Missed):
                self._missed_count += event.count
            elif len(self._queue) == self._queue.maxlen:
                self._missed_count += 1
            else:
                self._queue.appendleft(event)
        self._waiting.unpark_all()

    def end(self) -> None:
        """Nothing comes any more; for the store's driver."""
        self._waiting.unpark_all()

    def close(self) -> None:
        """Follow no longer."""
        self._is_closed = True
        self._part.unobserve(self)
        self._waiting.unpark_all()

    def __aiter__(self) -> Self:
        """Iterate until the store is closed."""
        return self

    async def __anext__(self) -> StoreEvent | Missed:
        """Wait for the next event."""
        try:
            return await self.get()
        except StoreClosed:
            raise StopAsyncIteration from None


def _decode(change: Changed, epoch_ns: int) -> StoreEvent:
    def value(entry: Entry | None) -> Value:
        return None if entry is None else decode(entry.value)

    after = change.after
    at_ns = None if after is None else instant_of(after.expires_at_ns, epoch_ns)
    return StoreEvent(
        kind=change.kind,
        key=decode(change.key),
        before=value(change.before),
        after=value(after),
        revision=change.revision,
        writer=None if change.writer is None else change.writer.entity.endpoint,
        expires_at=None if at_ns is None else Timestamp.of(at_ns),
    )
