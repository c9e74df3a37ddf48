"""Watches one peering: is the peer alive, and does it take what we send? Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from handshake.keepalive import KeepAlive, PeerSilent, PingDue

STALL_SECONDS: Final = 5.0
"""How long a peer may take nothing while something waits for it, until its policy acts."""

STARVATION_SECONDS: Final = 30.0
"""How long a peer that is alive may say nothing about credit while something waits for it. One that
is held up by a slow subscriber repeats every second what it has granted."""

_GAP_SECONDS_MAX: Final = 2.0
"""A gap between two ticks counts as so much at most: a suspended process must not blame others."""


@dataclass(frozen=True, slots=True)
class PeerStalled:
    """Something waits for the peer, and it has taken nothing for so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """What a connection has done so far."""

    received: int
    sent: int
    grants: int
    is_sendable: bool
    has_backlog: bool


Observation = PingDue | PeerSilent | PeerStalled


class Vigil:
    """The watch over one peer."""

    __slots__ = ("_keep_alive", "_last", "_now", "_quiet", "_starved", "_stuck")

    def __init__(self, now: float) -> None:
        """Begin to watch at ``now`` seconds."""
        self._keep_alive = KeepAlive(now=now)
        self._last = Progress(0, 0, 0, is_sendable=False, has_backlog=False)
        self._now = now
        self._quiet = self._stuck = self._starved = 0.0

    def tick(self, now: float, progress: Progress) -> Observation | None:
        """Compare with the last tick, and say what is due."""
        passed = min(now - self._now, _GAP_SECONDS_MAX)
        last, self._last, self._now = self._last, progress, now
        if progress.received != last.received:
            self._keep_alive.heard(now)
            self._quiet = 0.0
        else:
            self._quiet += passed
        is_stuck = progress.is_sendable and last.is_sendable and progress.sent == last.sent
        self._stuck = self._stuck + passed if is_stuck else 0.0
        is_starved = progress.has_backlog and progress.grants == last.grants
        self._starved = self._starved + passed if is_starved else 0.0
        seen = self._keep_alive.tick(now)
        if isinstance(seen, PeerSilent):
            return seen  # A drop policy keeps a peer that is slow, not one that is dead.
        return self._stalled(progress) or seen

    def _stalled(self, progress: Progress) -> PeerStalled | None:
        if progress.has_backlog and self._quiet >= STALL_SECONDS:
            return PeerStalled(self._quiet)
        if self._stuck >= STALL_SECONDS:
            return PeerStalled(self._stuck)
        if self._starved >= STARVATION_SECONDS:
            return PeerStalled(self._starved)
        return None
