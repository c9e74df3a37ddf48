"""Messages of threads that cannot go yet, way by way. Pure.

The pump hands over what threads published, and never waits. A message whose way is held, or has a
full next hop, is parked; so is what comes after it by the same way, which keeps the order. Each way
has room of its own (``is_full``): a thread waits for its own topic, and for no other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from itertools import compress
from typing import Final, Generic, TypeVar

PARKED_MAX: Final = 8_192
"""Messages that are parked at one way before threads that publish there wait: some milliseconds at
full speed."""

Way = TypeVar("Way", bound=Hashable)


class Parking(Generic[Way]):
    """What is parked at each way."""

    __slots__ = ("_parked", "room")

    def __init__(self, room: int = PARKED_MAX) -> None:
        """Have room for so many messages at each way."""
        self.room = room
        self._parked: dict[Way, deque[bytes]] = {}

    def is_full(self, way: Way) -> bool:
        """Tell whether a thread that publishes there has to wait."""
        parked = self._parked.get(way)
        return parked is not None and len(parked) >= self.room

    def pass_by(
        self, ways: Sequence[Way], payloads: Sequence[bytes], is_blocked: Callable[[Way], bool]
    ) -> tuple[Sequence[Way], Sequence[bytes]]:
        """Park what cannot go, and give the rest in its order. Asked once for each way."""
        stays = {way: way in self._parked or is_blocked(way) for way in dict.fromkeys(ways)}
        if not any(stays.values()):
            return ways, payloads
        for way, payload in zip(ways, payloads, strict=True):
            if stays[way]:
                self._parked.setdefault(way, deque()).append(payload)
        goes = [not stays[way] for way in ways]
        return list(compress(ways, goes)), list(compress(payloads, goes))

    def ways(self) -> list[Way]:
        """List the ways at which something is parked; to be asked about with ``release``."""
        return list(self._parked)

    def release(self, way: Way, count: int | None = None) -> list[bytes]:
        """Take what is parked at a way that is free, the oldest first; ``count`` at most."""
        parked = self._parked.get(way, deque())
        some = [parked.popleft() for _ in range(len(parked) if count is None else count) if parked]
        if not parked:
            self._parked.pop(way, None)
        return some

    def __len__(self) -> int:
        """Count what is parked."""
        return sum(map(len, self._parked.values()))
