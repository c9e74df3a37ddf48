"""How much a peer may send a second, and what is done about more: a token bucket for each limit.

Data come under credit. A peer that sends too much is granted none until its average is right again,
and waits as it would for a slow subscriber; it is granted little at a time, so that its debt stays
short. Commands and control messages have no credit: they are read later. Nothing is dropped.

The driver's part, for a link whose rates ``are_limited``::

    limits = replace(limits, window=rates.window)
    pause = peer_rates.settle(now, link, spent)     after each read: seconds not to read for
    peer_rates.relax(now, link)                     ten times a second
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from endpoint.link.limits import WINDOW_SIZE
from endpoint.link.link import Link

PAUSE_SECONDS_MAX: Final = 1.0
"""How long a connection is not read at a time: its keep-alives are heard in between."""

BURST_SECONDS: Final = 1.0
"""So much of a limit may come at once."""

DEBT_SECONDS_MAX: Final = 30.0
"""How long a peer waits at most for what it has sent: as long as for a full subscriber. The other
side removes a peer that withholds credit for longer. One frame of 16 MiB may come at any time, so
that limits below half a mebibyte a second are not exact for the largest messages."""

MESSAGE_SIZE_MIN: Final = 16
"""Bytes that a message is taken to have at least, to say how many bytes a limit of messages is."""


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
        full_at = max(self._full_at, now) + amount / self._rate
        self._full_at = min(full_at, now + self._burst + DEBT_SECONDS_MAX)

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

    @property
    def window(self) -> int:
        """Give how many bytes are granted at a time: what the limits allow in a second."""
        sizes = (self.bytes_per_second, self.messages_per_second * MESSAGE_SIZE_MIN)
        return min([WINDOW_SIZE, *filter(None, sizes)])


@dataclass(frozen=True, slots=True)
class Spent:
    """What a connection has brought since its beginning."""

    size: int = 0
    """Bytes of everything."""
    commands_size: int = 0
    """Bytes of store commands, which come without credit."""
    messages: int = 0


class PeerRates:
    """The rates of one peer; a reason to withhold credit, as a full place is."""

    __slots__ = ("_last", "_limits", "_news", "is_due")

    hold_seconds_max: Final = float("inf")
    """It ends by itself within ``DEBT_SECONDS_MAX``, and has nothing that it could drop."""

    def __init__(self, rates: Rates) -> None:
        """Hold a peer to these rates, from now on."""
        per_second = (rates.bytes_per_second, rates.messages_per_second)
        self._limits = tuple(Bucket(rate) if rate else None for rate in per_second)
        news = rates.announcements_per_second
        self._news = Bucket(news, rates.announcements_burst) if news else None
        self._last = Spent()
        self.is_due = any(per_second)
        """False where ``settle`` would find nothing: so a peer without news costs nothing."""

    def hear_news(self, now: float, count: int) -> None:
        """Count announcements, those that a question asks for included, and pings as one."""
        if self._news is not None:
            self._news.spend(now, count)
            self.is_due = True

    def settle(self, now: float, link: Link, spent: Spent) -> float:
        """Count what has come, and withhold credit; give the seconds for which not to read."""
        last, self._last = self._last, spent
        amounts = (spent.size - last.size, spent.messages - last.messages)
        for bucket, amount in zip(self._limits, amounts, strict=True):
            if bucket is not None:
                bucket.spend(now, amount)
        pause = self._news.late_seconds(now) if self._news is not None else 0.0
        late = self._late_seconds(now)
        if late > 0:
            link.withhold(self)
        if spent.commands_size != last.commands_size:
            pause = max(pause, late)
        self.is_due = pause > 0 or any(self._limits)
        return min(PAUSE_SECONDS_MAX, max(0.0, pause))

    def relax(self, now: float, link: Link) -> None:
        """Restore the credit of a peer whose average is right again."""
        if self._late_seconds(now) <= 0:
            link.restore(self)

    def become_lossy(self) -> None:
        """Drop nothing: it holds no messages."""

    def _late_seconds(self, now: float) -> float:
        late = (bucket.late_seconds(now) for bucket in self._limits if bucket is not None)
        return max(late, default=0.0)
