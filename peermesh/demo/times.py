"""When an event happened, in which window that is, and how late it comes. Pure.

The time of an event is in one of its fields: text as in ISO 8601 (without a zone in UTC), or a
number of seconds since 1970. An event without one is taken to be of the same time as the last
event before it that has one. While none had one yet, and so for all of a file without times, line
*n* is of ``n / ASSIGNED_RATE`` seconds after 1970.

All times are whole microseconds since 1970: as exact as Spark's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from peermesh.demo.keys import find

MICROSECONDS: Final = 1_000_000

ASSIGNED_RATE: Final = 100
"""Lines a second, where the input has no times."""

TIME_END: Final = 253_402_300_800 * MICROSECONDS
"""The end of the year 9999: Python and Spark know no later times."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Clock:
    """Gives the events of an input their times, in the order of lines."""

    def __init__(self, field: str) -> None:
        """Find times in a field."""
        self._field = field
        self._last: int | None = None

    def read(self, number: int, event: dict[str, Any] | None) -> int:
        """Give the time of a line; one that is no event has none of its own."""
        found = None if event is None else to_time(find(event, self._field))
        if found is not None:
            self._last = found
        if self._last is not None:
            return self._last
        return number * MICROSECONDS // ASSIGNED_RATE


def to_time(found: object) -> int | None:
    """Read a time; ``None`` if it is none, or before 1970."""
    if isinstance(found, str):
        time = _from_text(found)
    elif isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < TIME_END:
        time = round(found * MICROSECONDS)
    else:
        return None
    return time if time is not None and 0 <= time < TIME_END else None


def _from_text(text: str) -> int | None:
    try:
        when = datetime.fromisoformat(text)
        since = (when if when.tzinfo is not None else when.replace(tzinfo=UTC)) - EPOCH
    except (ValueError, OverflowError):
        return None
    return since // timedelta(microseconds=1)


def to_datetime(time: int) -> datetime:
    """Give a time as the mesh carries it."""
    return EPOCH + timedelta(microseconds=time)


def window_of(time: int, window_seconds: int) -> int:
    """Give the start of the window of a time, in seconds since 1970, as Spark's ``window`` does."""
    return time // (window_seconds * MICROSECONDS) * window_seconds


@dataclass(slots=True)
class Lateness:
    """How far the times of an input go back."""

    first: int | None = None
    last: int = 0
    worst: int = 0
    """The most that a line is behind the latest one before it.

    A watermark that is so far behind drops nothing: whatever batch a line comes in, its window is
    still open.
    """

    def add(self, time: int) -> None:
        """Take in the next line."""
        self.first = time if self.first is None else min(self.first, time)
        self.last = max(self.last, time)
        self.worst = max(self.worst, self.last - time)

    def watermark_ms(self) -> int:
        """Give the least watermark that drops nothing, in whole milliseconds."""
        return -(-self.worst // 1_000)

    def span_seconds(self, window_seconds: int) -> int:
        """Give how much later a replay has to be to share no window with what was before."""
        if self.first is None:
            return window_seconds
        first = window_of(self.first, window_seconds)
        return window_of(self.last, window_seconds) - first + window_seconds
