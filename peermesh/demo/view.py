"""What the viewer shows: the state of the table at a moment, and how fast it grows. Pure."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from peermesh.demo.keys import BAD, label
from peermesh.demo.tally import Cell, totals_of

TOP_COUNT: Final = 10
"""Keys that are shown: they leave room for the rest on the smallest terminal."""

LABEL_SIZE_MAX: Final = 48
"""Characters of a key that are shown."""

RATE_SECONDS: Final = 5.0
"""Over which the rate is taken: longer than the pauses between batches, short enough to move."""


@dataclass(frozen=True, slots=True)
class View:
    """The table at a moment."""

    lines: int
    """Lines that are counted."""
    total: int
    """Lines of the input, all replays."""
    lag: int
    """Lines that are in the log and not counted."""
    bad: int
    keys: int
    windows: int
    top: tuple[tuple[str, int], ...]
    """The keys with the largest counts over all windows, in words."""
    rate: float
    """Lines a second."""

    @property
    def share(self) -> float:
        """How much of the input is counted, of 1."""
        return self.lines / self.total if self.total else 1.0


class Rate:
    """Lines a second, over the last ``RATE_SECONDS``."""

    def __init__(self) -> None:
        """Begin without measurements."""
        self._points: deque[tuple[float, int]] = deque()

    def update(self, lines: int, now: float) -> float:
        """Take in how far it is now, in seconds of any clock, and give the rate."""
        self._points.append((now, lines))
        while now - self._points[0][0] > RATE_SECONDS and len(self._points) > 2:
            self._points.popleft()
        began, first = self._points[0]
        return (lines - first) / (now - began) if now > began else 0.0


def make_view(table: Mapping[Cell, int], total: int, appended: int, rate: float) -> View:
    """Look at a table, of which so many lines are in the log."""
    totals = totals_of(table)
    lines, bad = totals.total(), totals.pop(BAD, 0)
    top = heapq.nsmallest(TOP_COUNT, totals.items(), key=lambda entry: (-entry[1], entry[0]))
    return View(
        lines=lines,
        total=total,
        lag=max(0, appended - lines),
        bad=bad,
        keys=len(totals),
        windows=len({window for window, _ in table}),
        top=tuple((shorten(label(key)), count) for key, count in top),
        rate=rate,
    )


def describe(view: View) -> str:
    """Write a view as one line."""
    parts = [
        f"{view.lines:,} of {view.total:,} lines ({view.share:.0%})",
        f"{view.keys:,} keys in {view.windows:,} windows",
        f"lag {view.lag:,}",
    ]
    if view.bad:
        parts.append(f"{view.bad:,} bad lines")
    if view.rate:
        parts.append(f"{view.rate:,.0f} lines/s")
    if view.top:
        name, count = view.top[0]
        parts.append(f"most: {name} {count:,}")
    return ", ".join(parts)


def shorten(text: str) -> str:
    """Cut a text to what is shown."""
    return text if len(text) <= LABEL_SIZE_MAX else text[: LABEL_SIZE_MAX - 1] + "…"
