"""One subscription of a topic, and the parcels that it has to get yet. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from handshake.principals import Principal
from wire.limits import MIB

WINDOW: Final = 4096
"""Messages of one publisher in one topic that are not acknowledged, and messages on their way to
one subscriber: some milliseconds at full speed."""

WINDOW_BYTES: Final = 4 * MIB
"""Bytes of the same, for large messages; one is let through whatever its size."""

STALL_SECONDS: Final = 5.0
"""How long a subscriber that takes nothing of what was sent may hold up its topic, as in the
mesh."""

RESUME_SECONDS: Final = 5.0
"""How long a reign that begins, or a subscription, waits for its subscriber's next connection."""

Line = int
"""A connection, for the core: the driver knows which."""


@dataclass(slots=True, eq=False)
class Source:
    """What is known of one publisher in this topic."""

    name: bytes
    line: Line = 0
    """The connection that it spoke by last: acknowledgements go there."""
    seen: int | None = None
    """Its number of the last message that came."""
    acknowledged: int = 0
    waiting: int = 0
    waiting_bytes: int = 0


@dataclass(slots=True, eq=False)
class Parcel:
    """Consecutive messages of one publisher, framed for subscribers."""

    source: Source
    sequence: int
    """The publisher's number of the last message."""
    count: int
    size: int
    """Bytes of its payloads."""
    data: bytes
    principal: Principal
    is_void: bool = False
    """Whether it only says which numbers are no messages; that takes a position, too."""
    owed: int = 0
    """Subscriptions that have not taken it."""


@dataclass(slots=True, eq=False)
class Subscription:
    """What one subscriber has to get yet."""

    position: int
    """What lies before the first parcel that was sent."""
    is_lodger: bool = False
    """Whether it comes with the broker, as a bridge, and keeps no channel open."""
    line: Line | None = None
    sent: deque[Parcel] = field(default_factory=deque)
    sent_count: int = 0
    sent_bytes: int = 0
    unsent: deque[Parcel] = field(default_factory=deque)
    taken: int = 0
    """The last position that the subscriber has."""
    mark: int = 0
    """What ``taken`` was when it was last asked whether the subscriber is silent."""
    silent_since: float | None = None

    @property
    def is_full(self) -> bool:
        """Tell whether as much is on its way as the subscriber takes at once."""
        return self.sent_count >= WINDOW or self.sent_bytes >= WINDOW_BYTES

    @property
    def pending(self) -> list[Parcel]:
        """The parcels that were not taken."""
        return [*self.sent, *self.unsent]

    def next(self) -> Parcel | None:
        """Give the next parcel to be sent, if there is one, and room for it."""
        if not self.unsent or self.line is None or self.is_full:
            return None
        parcel = self.unsent.popleft()
        self.sent_count += parcel.count
        self.sent_bytes += len(parcel.data)
        self.sent.append(parcel)
        self.take(self.taken)  # It may have come by an older connection.
        return parcel

    def take(self, position: int) -> None:
        """Forget the parcels that were taken whole."""
        self.taken = max(self.taken, position)
        while self.sent and self.position + self.sent[0].count <= self.taken:
            parcel = self.sent.popleft()
            parcel.owed -= 1
            self.position += parcel.count
            self.sent_count -= parcel.count
            self.sent_bytes -= len(parcel.data)

    def rewind(self) -> None:
        """Send everything that was not taken once more."""
        self.unsent.extendleft(reversed(self.sent))
        self.sent.clear()
        self.sent_count = self.sent_bytes = 0

    def is_silent(self, now: float) -> bool:
        """Tell whether it was waited for long enough, in vain; to be asked from time to time."""
        has_line = self.line is not None
        has_moved, self.mark = self.taken != self.mark, self.taken
        if has_line and (has_moved or not self.sent):
            self.silent_since = None
            return False
        if self.silent_since is None:
            self.silent_since = now
        return now - self.silent_since >= (STALL_SECONDS if has_line else RESUME_SECONDS)
