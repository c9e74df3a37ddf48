"""Notice that a peer fell silent: a ping at each interval, an end after the timeout.

TCP itself may take a quarter of an hour to notice that the other host is gone, and never notices as
long as nothing is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PING_INTERVAL_SECONDS: Final = 1.0
"""Often enough that a reset connection is noticed at once; 30 bytes a second cost nothing."""

SILENCE_TIMEOUT_SECONDS: Final = 15.0
"""Longer than a garbage collection, a live migration or a switch that learns its ports anew."""

_GAP_INTERVALS_MAX: Final = 2
"""A gap between two ticks counts as so many intervals at most: one, and as much for a late tick."""


@dataclass(frozen=True, slots=True)
class PingDue:
    """Send a ping."""


@dataclass(frozen=True, slots=True)
class PeerSilent:
    """End the peering: the peer has sent nothing, not even a pong, for so long."""

    seconds: float


class KeepAlive:
    """Watches one peering. Time comes from outside, in seconds of any monotonic clock.

    Silence is measured in time in which this endpoint could have listened. A process that was
    suspended for a minute ticks once when it wakes up; had that minute counted, it would end all
    its peerings before it reads what came in meanwhile.
    """

    __slots__ = ("_counted_until", "_gap_max", "_interval", "_ping_at", "_silent_for", "_timeout")

    def __init__(
        self,
        *,
        now: float,
        interval_seconds: float = PING_INTERVAL_SECONDS,
        timeout_seconds: float = SILENCE_TIMEOUT_SECONDS,
    ) -> None:
        """Start to watch; the peer counts as heard now. The timeout has to fit two pings."""
        if not 0 < 2 * interval_seconds <= timeout_seconds:
            raise ValueError(
                f"a keep-alive of {timeout_seconds} s with pings every {interval_seconds} s would "
                f"end peerings that are well: make the timeout at least two intervals"
            )
        self._interval = interval_seconds
        self._timeout = timeout_seconds
        self._gap_max = _GAP_INTERVALS_MAX * interval_seconds
        self._ping_at = now + interval_seconds
        self._counted_until = now
        self._silent_for = 0.0

    def heard(self, now: float) -> None:
        """Note that bytes came from the peer, whatever they mean."""
        self._counted_until = now
        self._silent_for = 0.0

    def tick(self, now: float) -> PingDue | PeerSilent | None:
        """Say what is due. To be called once per interval, or more often."""
        self._silent_for += min(now - self._counted_until, self._gap_max)
        self._counted_until = now
        if self._silent_for >= self._timeout:
            return PeerSilent(self._silent_for)
        if now < self._ping_at:
            return None
        self._ping_at = now + self._interval
        return PingDue()
