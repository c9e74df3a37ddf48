"""How much may wait for a reader, and what a full queue means.

=============== ======================================================================
``overflow``    a full queue means
=============== ======================================================================
``wait``        publishers of what comes wait; what is under way goes into a reserve
``drop_oldest`` the oldest are dropped, and no publisher waits
``drop_newest`` what comes is dropped, and no publisher waits
``error``       the next read raises ``SubscriberOverflow``; the subscription ends
=============== ======================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wire.limits import MIB
from wire.public import public


@public
class Overflow(StrEnum):
    """What a full queue means."""

    WAIT = "wait"
    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Queueing:
    """How much may wait for a reader, and what happens then."""

    overflow: Overflow = Overflow.WAIT
    queue_size: int = 4_096
    """Messages that wait before their publishers do: some milliseconds at full speed."""
    queue_bytes: int = 4 * MIB
    """Bytes that wait before their publishers do, for subscribers to large messages."""
    stall_seconds: float | None = 30.0
    """How long a full queue makes publishers wait without being read at all; ``None``: for ever.
    Long enough for a debugger or a slow disk, and only publishers of these topics wait."""
    reserve: int = 16 * MIB
    """Charge beyond both marks for what is under way when the publishers are told: four windows."""
    hold_seconds_max: float = 30.0
    """How long it may withhold the credit of a link, whose other topics wait, too."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a queue without room."""
        if self.queue_size < 1 or self.queue_bytes < 1:
            size = f"{self.queue_size} messages and {self.queue_bytes} bytes"
            raise ValueError(f"a queue of {size}; it needs room for at least one of each")


@dataclass(frozen=True, slots=True)
class MailboxStatistics:
    """A mailbox at one moment; counts are totals since its beginning."""

    put: int
    """Messages that came, with those that were dropped at once."""
    waiting: int
    waiting_bytes: int
    capacity: int
    dropped: int
    is_lossy: bool
    """Whether it drops its oldest messages, because it was full and not read for too long."""
