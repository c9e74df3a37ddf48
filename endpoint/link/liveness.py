"""Liveness of one peer: silent, stalled, slow, or moving. Pure.

``Link.tick`` feeds it and passes on what it sees. Three clocks run, all in time in
which this process ran: a gap between two ticks counts as ``GAP_SECONDS_MAX`` at most, so that a
process that was suspended blames no peer.

- *Silent*: no byte came for as long as ``handshake.keepalive`` allows.
- *Stalled*: something waits, and for ``stall_seconds`` the peer's system acknowledged no data, and
  the peer granted no credit. Acknowledged bytes move on a slow link while the count of bytes sent
  stands still. Pings that are acknowledged behind all data are no progress.
- *Withheld*: a peer that withholds credit says so every second. While that was heard within
  ``WITHHELD_SECONDS``, the stall clock stands, for ``stand_seconds_max`` in a row at most: longer
  than any link may be withheld. Only progress of data starts this time anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from handshake.keepalive import KeepAlive, PeerSilent, PingDue

WITHHELD_SECONDS: Final = 3.0
"""How long the word ``withheld`` counts: it comes every second, and two of them may be late."""

SLOW_SECONDS: Final = 5.0
"""What waits for a slow peer would take longer than this at the pace of the last so many seconds:
a person who watches has begun to wonder, and the policy for stalled peers has not acted yet."""

GAP_SECONDS_MAX: Final = 2.0
"""A gap between two ticks counts as so much at most: one interval, and as much for a late tick."""


@dataclass(frozen=True, slots=True)
class PeerStalled:
    """Something waits for the peer, and nothing has moved for so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class PeerSlow:
    """What waits for the peer has become more than it takes in ``SLOW_SECONDS``. Given once."""

    is_withheld: bool
    """Whether the peer said that it waits for a full place itself."""


@dataclass(frozen=True, slots=True)
class PeerMoving:
    """A peer that was slow is not slow any more. Given once."""


Observation = PingDue | PeerSilent | PeerStalled | PeerSlow | PeerMoving


class Progress(NamedTuple):
    """What a link and its connection have done so far, and what waits now."""

    heard: int
    """Bytes that came from the peer, whatever they mean."""
    written: int
    """Bytes that the system has taken from the connection."""
    acknowledged: int
    """Bytes that the peer's system has acknowledged, in the same unit."""
    taken: int
    """Bytes of data and commands that have left the link's queues."""
    credit: int
    waiting: int
    """Bytes in the link's queues."""
    waits: bool
    """Whether something waits: in a queue, or in the hands of the connection."""
    is_starved: bool
    """Whether nothing can be sent but with more credit."""
    is_writing: bool
    """Whether the connection holds bytes that the system has not taken."""


class PeerMonitor:
    """Compares the progress of one peer from tick to tick."""

    __slots__ = (
        "_data_end",
        "_keep_alive",
        "_last",
        "_moved",
        "_now",
        "_pace_from",
        "_pace_seconds",
        "_stall_seconds",
        "_stand_seconds_max",
        "_still",
        "_stood",
        "_withheld_age",
        "is_slow",
    )

    def __init__(
        self, now: float, progress: Progress, stall_seconds: float, stand_seconds_max: float
    ) -> None:
        """Watch from ``now`` on; the peer counts as heard then. For the rest see ``LinkLimits``.

        What counts is what comes after this ``progress``.
        """
        self._keep_alive = KeepAlive(now=now)
        self._stall_seconds = stall_seconds
        self._stand_seconds_max = stand_seconds_max
        self._now = now
        self._last = progress
        self._data_end = progress.written
        self._moved = self._pace_from = min(progress.acknowledged, progress.written)
        self._still = self._stood = self._pace_seconds = 0.0
        self._withheld_age = inf
        self.is_slow = False

    @property
    def is_still(self) -> bool:
        """Tell whether something waits, and nothing has moved since the last tick."""
        return self._still > 0

    def hear_withheld(self) -> None:
        """Note that the peer says that it withholds credit."""
        self._withheld_age = 0.0

    def tick(self, now: float, progress: Progress) -> tuple[float, list[Observation]]:
        """Give the seconds that count since the last tick, and what is seen now."""
        passed = min(now - self._now, GAP_SECONDS_MAX)
        self._now = now
        last, self._last = self._last, progress
        if progress.heard != last.heard:
            self._keep_alive.heard(now)
        if progress.is_writing or progress.taken != last.taken:
            self._data_end = progress.written
        before, self._moved = self._moved, min(progress.acknowledged, self._data_end)
        self._withheld_age += passed
        has_moved = self._moved != before or progress.credit != last.credit
        if has_moved or not progress.waits:
            self._still = self._stood = 0.0
        elif self._is_excused(progress):
            self._stood += passed
        else:
            self._still += passed
        kept = self._keep_alive.tick(now)
        if isinstance(kept, PeerSilent):
            return passed, [kept]  # Whatever else is true of it, it is dead.
        seen: list[Observation] = [] if kept is None else [kept]
        if self._still >= self._stall_seconds:
            seen.append(PeerStalled(self._still))
        seen += self._pace(passed, progress)
        return passed, seen

    def _is_excused(self, progress: Progress) -> bool:
        """Tell whether the peer has a reason to grant nothing, and has not had it for too long."""
        is_withheld = self._withheld_age <= WITHHELD_SECONDS
        return progress.is_starved and is_withheld and self._stood < self._stand_seconds_max

    def _pace(self, passed: float, progress: Progress) -> list[Observation]:
        """Compare what waits with what moved in the last ``SLOW_SECONDS`` of waiting."""
        was_slow = self.is_slow
        if not progress.waits:
            self._pace_from, self._pace_seconds = self._moved, 0.0
            self.is_slow = False
        else:
            self._pace_seconds += passed
            if self._pace_seconds >= SLOW_SECONDS:
                self.is_slow = self._moved - self._pace_from <= progress.waiting
                self._pace_from, self._pace_seconds = self._moved, 0.0
        if self.is_slow and not was_slow:
            return [PeerSlow(self._withheld_age <= WITHHELD_SECONDS)]
        return [PeerMoving()] if was_slow and not self.is_slow else []
