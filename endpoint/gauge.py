"""How much a peer sends a second, and what is done about too much. Pure.

Data come under credit: a peer that sends too much of them gets none until its average is right
again, and waits as it would for a slow subscriber. For commands and control messages there is no
credit: they are read later. Nothing is ever dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PAUSE_SECONDS_MAX: Final = 1.0
"""How long a connection is not read at a time: its keep-alives are heard in between."""

BURST_SECONDS: Final = 1.0
"""So much of a limit may come at once."""


class Bucket:
    """One limit: what was spent beyond it, and when that will be made up for."""

    __slots__ = ("_burst", "_full_at", "_rate")

    def __init__(self, per_second: float, burst: float = 0.0) -> None:
        """Allow so much a second, and so much at once: a second's worth at least."""
        self._rate = per_second
        self._burst = max(burst, per_second * BURST_SECONDS) / per_second
        self._full_at = 0.0

    def spend(self, now: float, amount: float) -> None:
        """Count something, at ``now`` seconds."""
        self._full_at = max(self._full_at, now) + amount / self._rate

    def late_seconds(self, now: float) -> float:
        """Give the seconds until no more was spent than is allowed; zero or less if that is so."""
        return self._full_at - now - self._burst


@dataclass(frozen=True, slots=True)
class Rates:
    """What one peer may send a second; zero sets no limit."""

    bytes_per_second: int = 0
    messages_per_second: int = 0
    announcements_per_second: int = 0
    announcements_burst: int = 0

    @property
    def are_limited(self) -> bool:
        """Tell whether there is any limit."""
        limits = (self.bytes_per_second, self.messages_per_second, self.announcements_per_second)
        return any(limits)


@dataclass(slots=True)
class Spent:
    """What a connection has brought since its beginning."""

    size: int = 0
    """Bytes of everything."""
    commands_size: int = 0
    """Bytes of store commands, which come without credit."""
    messages: int = 0


class Gauge:
    """The rates of one peer."""

    __slots__ = ("_last", "_limits", "_news", "is_due")

    def __init__(self, rates: Rates) -> None:
        """Begin with nothing spent."""
        per_second = (rates.bytes_per_second, rates.messages_per_second)
        self._limits = tuple(Bucket(rate) if rate else None for rate in per_second)
        news = rates.announcements_per_second
        self._news = Bucket(news, rates.announcements_burst) if news else None
        self._last = Spent()
        self.is_due = any(per_second)
        """False where ``read`` would find nothing: so a peer without news costs nothing."""

    def hear_news(self, now: float, count: int) -> None:
        """Count announcements, those that a question asks for included, and pings as one."""
        if self._news is not None:
            self._news.spend(now, count)
            self.is_due = True

    def read(self, now: float, spent: Spent) -> float:
        """Count what has come; give the seconds for which nothing should be read."""
        last, self._last = self._last, spent
        amounts = (spent.size - last.size, spent.messages - last.messages)
        for bucket, amount in zip(self._limits, amounts, strict=True):
            if bucket is not None:
                bucket.spend(now, amount)
        late = self._news.late_seconds(now) if self._news is not None else 0.0
        if spent.commands_size != last.commands_size:
            late = max(late, self.late_seconds(now))
        self.is_due = late > 0 or any(self._limits)
        return min(PAUSE_SECONDS_MAX, max(0.0, late))

    def late_seconds(self, now: float) -> float:
        """Give the seconds until credit may be granted again."""
        late = (bucket.late_seconds(now) for bucket in self._limits if bucket is not None)
        return max(late, default=0.0)
