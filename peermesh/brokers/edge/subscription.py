"""One subscription of a topic, and the parcels that it has to get yet. Pure."""

from __future__ import annotations

from collections import deque
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


class Source:
    """What is known of one publisher in this topic."""

    __slots__ = ("acknowledged", "line", "name", "seen", "waiting", "waiting_bytes")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.line: Line = 0
        """The connection that it spoke by last: acknowledgements go there."""
        self.seen: int | None = None
        self.acknowledged = 0
        self.waiting = self.waiting_bytes = 0


class Parcel:
    """Consecutive messages of one publisher, framed for subscribers."""

    __slots__ = ("count", "data", "is_void", "owed", "principal", "sequence", "size", "source")

    def __init__(  # noqa: PLR0913 - a record
        self,
        source: Source,
        sequence: int,
        count: int,
        size: int,
        data: bytes,
        principal: Principal,
        *,
        is_void: bool = False,
    ) -> None:
        self.source = source
        self.sequence = sequence
        """The publisher's number of the last message."""
        self.count = count
        self.size = size
        """Bytes of its payloads."""
        self.data = data
        self.principal = principal
        self.is_void = is_void
        """Whether it only says which numbers are no messages; that takes a position, too."""
        self.owed = 0
        """Subscriptions that have not taken it."""


class Subscription:
    """What one subscriber has to get yet."""

    __slots__ = (
        "end", "is_lodger", "line", "mark", "position", "sent", "sent_bytes", "silent_since",
        "taken", "unsent", "was_attached",
    )  # fmt: skip

    def __init__(self, position: int, *, is_lodger: bool = False) -> None:
        """Start behind ``position``; ``is_lodger`` if it comes with the broker: a bridge."""
        self.is_lodger = is_lodger
        """Whether it keeps no channel open."""
        self.line: Line | None = None
        self.was_attached = False
        self.position = self.end = position
        """What lies before the first parcel that was sent, and behind the last one."""
        self.sent: deque[Parcel] = deque()
        self.sent_bytes = 0
        self.unsent: deque[Parcel] = deque()
        self.taken = self.mark = position
        self.silent_since: float | None = None

    @property
    def is_full(self) -> bool:
        """Tell whether as much is on its way as the subscriber takes at once."""
        return self.end - self.position >= WINDOW or self.sent_bytes >= WINDOW_BYTES

    @property
    def pending(self) -> list[Parcel]:
        """The parcels that were not taken."""
        return [*self.sent, *self.unsent]

    def next(self) -> Parcel | None:
        """Give the next parcel to be sent, if there is one, and room for it."""
        if not self.unsent or self.line is None or self.is_full:
            return None
        parcel = self.unsent.popleft()
        self.end += parcel.count
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
            self.sent_bytes -= len(parcel.data)

    def rewind(self) -> None:
        """Send everything that was not taken once more."""
        self.unsent.extendleft(reversed(self.sent))
        self.sent.clear()
        self.sent_bytes = 0
        self.end = self.position

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
