"""The figures of a run as they come in: how far it was when, and what happened. Pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

Point = tuple[float, float]
"""Seconds since the start, and a figure."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a moment."""

    at: float
    text: str
    is_kill: bool


@dataclass(slots=True)
class Record:
    """What a picture of the run is drawn from."""

    lines: int
    """Of the input, all replays."""
    appended: list[Point] = field(default_factory=lambda: [(0.0, 0.0)])
    """Lines that are in the log."""
    processed: list[Point] = field(default_factory=lambda: [(0.0, 0.0)])
    """Lines that are counted."""
    leads: dict[str, list[Point]] = field(default_factory=dict)
    """For the log and the store, the number of the process that led it, from one."""
    marks: list[Mark] = field(default_factory=list)

    def append(self, at: float, lines: int) -> None:
        """So many lines are in the log now."""
        self.appended.append((at, max(lines, self.appended[-1][1])))

    def process(self, at: float, lines: int) -> None:
        """So many lines are counted now."""
        self.processed.append((at, max(lines, self.processed[-1][1])))

    def lead(self, at: float, what: str, number: int) -> None:
        """A process leads the log or the store from now on."""
        self.leads.setdefault(what, []).append((at, number))

    def leaders(self) -> dict[str, list[Point]]:
        """Give who led, to the end of the run."""
        return {
            what: [*points, (max(self.end, points[-1][0]), points[-1][1])]
            for what, points in self.leads.items()
        }

    def mark(self, at: float, text: str, *, is_kill: bool) -> None:
        """Something happened."""
        self.marks.append(Mark(at, text, is_kill))

    @property
    def end(self) -> float:
        """When the last figure came in."""
        return max(self.appended[-1][0], self.processed[-1][0])


def value_at(points: list[Point], at: float) -> float:
    """Give the figure that stood at a moment."""
    found = bisect_right(points, (at, inf))
    return points[found - 1][1] if found else 0.0


def lags(record: Record) -> list[Point]:
    """Give how many lines were in the log and not counted, at each moment that is known."""
    times = sorted({at for at, _ in (*record.appended, *record.processed)})
    return [
        (at, max(0.0, value_at(record.appended, at) - value_at(record.processed, at)))
        for at in times
    ]


def stairs(points: list[Point]) -> list[Point]:
    """Draw figures that stand until the next one comes."""
    steps: list[Point] = points[:1]
    for (_, before), (at, value) in pairwise(points):
        steps += (at, before), (at, value)
    return steps


def rates(points: list[Point], end: float, count: int) -> list[Point]:
    """Give figures a second, over so many equal stretches: where each begins and where it ends."""
    step = (end or 1.0) / count
    stood = [value_at(points, number * step) for number in range(count)]
    stood.append(points[-1][1])
    found: list[Point] = []
    for number, (before, after) in enumerate(pairwise(stood)):
        rate = (after - before) / step
        found += (number * step, rate), ((number + 1) * step, rate)
    return found
