"""What counting gives: events by window and key, in the store's table and in a recount. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from peermesh.demo.keys import BAD
from peermesh.demo.times import Lateness

BAD_LINES_MAX: Final = 20
"""Bad lines that are remembered one by one: a screenful. All of them are counted."""

Cell = tuple[int, str]
"""A window, by its start in seconds since 1970, and a key."""


@dataclass(slots=True)
class Tally:
    """Lines by window and key. It grows while it is made."""

    cells: Counter[Cell] = field(default_factory=Counter)
    bad_lines: list[tuple[int, str]] = field(default_factory=list)
    """The first of the bad lines: number and reason."""
    lateness: Lateness = field(default_factory=Lateness)

    def totals(self) -> Counter[str]:
        """Sum up the windows of each key."""
        return totals_of(self.cells)

    @property
    def lines(self) -> int:
        """All lines, bad ones included."""
        return self.cells.total()

    def remember_bad(self, number: int, reason: str) -> None:
        """Keep one of the first bad lines."""
        if len(self.bad_lines) < BAD_LINES_MAX:
            self.bad_lines.append((number, reason))

    def repeated(self, copies: int, shift_seconds: int) -> Counter[Cell]:
        """Give what comes of so many replays, each so much later than the one before."""
        return Counter(
            {
                (window + copy * shift_seconds, key): count
                for copy in range(copies)
                for (window, key), count in self.cells.items()
            }
        )


def totals_of(cells: Mapping[Cell, int]) -> Counter[str]:
    """Sum up the windows of each key."""
    totals: Counter[str] = Counter()
    for (_, key), count in cells.items():
        totals[key] += count
    return totals


@dataclass(frozen=True, slots=True)
class Summary:
    """A table in a few figures."""

    lines: int
    events: int
    """Lines that are events."""
    bad: int
    keys: int
    """Without the one of bad lines."""
    windows: int

    @classmethod
    def of(cls, cells: Mapping[Cell, int]) -> Summary:
        """Sum up a table."""
        lines = sum(cells.values())
        bad = sum(count for (_, key), count in cells.items() if key == BAD)
        keys = {key for _, key in cells if key != BAD}
        return cls(lines, lines - bad, bad, len(keys), len({window for window, _ in cells}))


@dataclass(frozen=True, slots=True)
class Difference:
    """How a table differs from the recount."""

    lost: int
    """Events that the recount has and the table has not, or not in that window."""
    double: int
    """Events that the table has beyond the recount, in that window."""
    cells: tuple[Cell, ...]
    """Where they differ, the most first."""

    def __bool__(self) -> bool:
        """Tell whether there is one."""
        return bool(self.cells)


def compare(recount: Mapping[Cell, int], table: Mapping[Cell, int]) -> Difference:
    """Find what is lost from a table, and what is double in it, window by window."""
    excess = {
        cell: table.get(cell, 0) - recount.get(cell, 0)
        for cell in {**recount, **table}
        if table.get(cell, 0) != recount.get(cell, 0)
    }
    return Difference(
        lost=-sum(count for count in excess.values() if count < 0),
        double=sum(count for count in excess.values() if count > 0),
        cells=tuple(sorted(excess, key=lambda cell: (-abs(excess[cell]), cell))),
    )
