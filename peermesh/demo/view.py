"""What the viewer shows: the state of the table at a moment, and how fast it grows. Pure."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from peermesh.demo.keys import label
from peermesh.demo.protocol import Checkpoint

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
    """Lines of the input that are processed."""
    total: int
    """Lines of the input."""
    bad: int
    keys: int
    top: tuple[tuple[str, int], ...]
    """The keys with the largest counts, in words."""
    rate: float
    """Lines a second."""

    @property
    def share(self) -> float:
        """How much of the input is processed, of 1."""
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


def make_view(counts: Mapping[bytes, int], checkpoint: Checkpoint, total: int, rate: float) -> View:
    """Look at a table."""
    top = heapq.nsmallest(TOP_COUNT, counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return View(
        lines=checkpoint.lines,
        total=total,
        bad=checkpoint.bad,
        keys=len(counts),
        top=tuple((shorten(label(key)), count) for key, count in top),
        rate=rate,
    )


def describe(view: View) -> str:
    """Write a view as one line."""
    parts = [f"{view.lines:,} of {view.total:,} lines ({view.share:.0%})", f"{view.keys:,} keys"]
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
