"""Readers elsewhere that a keeper has nothing for yet: it answers when there is something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stores.log.limits import FETCHES_MAX
from stores.log.messages import Fetch
from stores.log.partitions import Partitions
from wire.identifiers import EndpointId, EntityId


@dataclass(slots=True)
class _Waiter:
    fetch: Fetch
    ticks_left: int


class WaitingFetches:
    """A question that comes again, because its answer was late, is waited for once."""

    def __init__(self) -> None:
        """Start with no reader waiting."""
        self._waiters: dict[tuple[EntityId, int], _Waiter] = {}

    def __len__(self) -> int:
        """Count them."""
        return len(self._waiters)

    def add(self, reader: EntityId, fetch: Fetch) -> bool:
        """Have a reader wait; false if too many do."""
        key = (reader, fetch.query)
        if len(self._waiters) >= FETCHES_MAX and key not in self._waiters:
            return False
        self._waiters[key] = _Waiter(fetch, fetch.wait_ticks)
        return True

    def discard_endpoint(self, endpoint: EndpointId) -> None:
        """Forget all readers of an endpoint."""
        for reader in [known for known in self._waiters if known[0].endpoint == endpoint]:
            del self._waiters[reader]

    def take_ready(self, partitions: Partitions) -> Iterator[tuple[EntityId, Fetch]]:
        """Give those for whom there is something now."""
        for key, waiter in list(self._waiters.items()):
            if is_ready(waiter.fetch, partitions):
                del self._waiters[key]
                yield key[0], waiter.fetch

    def take_late(self) -> Iterator[tuple[EntityId, Fetch]]:
        """Let a tick pass, and give those whose time is over."""
        for key, waiter in list(self._waiters.items()):
            waiter.ticks_left -= 1
            if waiter.ticks_left <= 0:
                del self._waiters[key]
                yield key[0], waiter.fetch


def is_ready(fetch: Fetch, partitions: Partitions) -> bool:
    """Tell whether there is something to read, or something to say against it."""
    for partition, offset in fetch.positions:
        span = partitions[partition].span
        if offset < span.end or offset < span.start:
            return True
    return False
