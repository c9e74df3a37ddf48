"""Whether a mailbox is read: slowly, or not at all. Pure; a mailbox decides what follows."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

SLOW_SECONDS: Final = 5.0
"""How long a full queue takes to become half empty before its reader is called slow: a person who
watches has begun to wonder."""

GAP_SECONDS_MAX: Final = 2.0
"""A gap between two checks counts as so much at most: the reader was suspended with the process."""


class Trouble(StrEnum):
    """What ``check`` has seen of a reader, once each time."""

    SLOW = "slow"
    """Publishers have been waiting for ``SLOW_SECONDS``."""
    LOSSY = "lossy"
    """The queue drops its oldest from now on."""


class Look(NamedTuple):
    """What was seen at one moment; see ``ReaderMonitor.look``."""

    now: float
    mark: int
    hold: int


class ReaderMonitor:
    """Compares a mailbox from second to second."""

    __slots__ = ("_hold_seconds", "_is_slow", "_last", "silent_seconds")

    def __init__(self) -> None:
        """Start with the first look."""
        self._last: Look | None = None
        self.silent_seconds = 0.0
        """For how long there was something to read, and nothing was read."""
        self._hold_seconds = 0.0
        self._is_slow = False

    def look(self, now: float, mark: int, hold: int, *, waits: bool) -> Trouble | None:
        """Compare with the last look.

        ``mark`` counts what was read. ``hold`` is the number of the present hold, zero without one.
        ``waits`` tells whether anything waits for the reader.
        """
        last, self._last = self._last, Look(now, mark, hold)
        if last is None:
            return None
        passed = min(now - last.now, GAP_SECONDS_MAX)
        if mark != last.mark or not waits:
            self.silent_seconds = 0.0
        else:
            self.silent_seconds += passed
        if not hold or hold != last.hold:
            self._hold_seconds, self._is_slow = 0.0, False
            return None
        self._hold_seconds += passed
        if self._is_slow or self._hold_seconds < SLOW_SECONDS:
            return None
        self._is_slow = True
        return Trouble.SLOW
