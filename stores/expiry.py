"""Which keys are due: a queue with stale items allowed and none missing."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from stores.work import SLICE_COUNT
from wire.limits import MIB

SLACK_COUNT: Final = 1_024
"""Outdated appointments that are tolerated on top of as many as there are valid ones."""

DUE_SIZE_MAX: Final = MIB
"""Bytes of keys after which no more are given at once: they become one entry of a journal, which is
sent and written as a whole."""


class ExpiryQueue:
    """Appointments in the order of time. An outdated one is noticed when its time comes."""

    def __init__(self, expiries: dict[bytes, int]) -> None:
        """Start with the expiries of a table."""
        self._heap: list[tuple[int, bytes]] = []
        self._rebuild(expiries)

    def __len__(self) -> int:
        """Count the appointments, outdated ones included."""
        return len(self._heap)

    def add(self, key: bytes, expires_at_ns: int, expiries: dict[bytes, int]) -> None:
        """Make an appointment; ``expiries`` is what is valid now, that one included."""
        heappush(self._heap, (expires_at_ns, key))
        if len(self._heap) > 2 * len(expiries) + SLACK_COUNT:
            self._rebuild(expiries)

    def is_due(self, now_ns: int) -> bool:
        """Tell whether an appointment's time has come, outdated or not."""
        return bool(self._heap) and self._heap[0][0] <= now_ns

    def take_due(
        self, now_ns: int, expiries: dict[bytes, int], count: int = SLICE_COUNT
    ) -> list[bytes]:
        """Give the keys whose time has come, each once, earliest first; so many at most.

        Fewer if they are long: what comes after ``DUE_SIZE_MAX`` bytes is due the next time.
        """
        due: dict[bytes, None] = {}
        size = 0
        while self.is_due(now_ns) and len(due) < count and size < DUE_SIZE_MAX:
            expires_at_ns, key = heappop(self._heap)
            if expiries.get(key) == expires_at_ns and key not in due:
                due[key] = None
                size += len(key)
        return list(due)

    def _rebuild(self, expiries: dict[bytes, int]) -> None:
        self._heap = [(expires_at_ns, key) for key, expires_at_ns in expiries.items()]
        heapify(self._heap)
