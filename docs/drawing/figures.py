"""What README.md shows of benchmarks.md: peermesh beside others, as ratios of one run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from drawing.markdown import table

PAGE: Final = Path(__file__).resolve().parent.parent / "benchmarks.md"
COMPARISON: Final = re.compile(
    r"^\| (?P<name>.+ / .+?) \| (?P<median>[\d.]+) \| (?P<low>[\d.]+)\.\.(?P<high>[\d.]+) \|", re.M
)
MEASURED: Final = re.compile(r"^Measured on .*$", re.M)
OTHERS: Final = ("pyzmq", "Zenoh", "sqlite3 alone")


class Ratio(NamedTuple):
    """How much more peermesh does in the same time: the median of the rounds, and their range."""

    median: float
    low: float
    high: float

    def inverse(self) -> Ratio:
        """Turn a ratio of durations into one of rates."""
        return Ratio(1 / self.median, 1 / self.high, 1 / self.low)

    def __str__(self) -> str:
        if self.low < 1 < self.high:
            return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"
        return f"**{self.median:.2f}**" if self.median < 1 else f"{self.median:.2f}"


class Row(NamedTuple):
    """A kind of work, and the comparisons of benchmarks.md that speak of it."""

    work: str
    comparisons: dict[str, str]
    is_time: bool = False
    """Whether the page compares durations, of which the shorter is the better one."""


ROWS: Final = (
    Row(
        "publish 100 B, one call each",
        {
            "pyzmq": "publish 100 B / zmq PUSH/PULL 100 B",
            "Zenoh": "publish 100 B / zenoh 100 B",
        },
    ),
    Row(
        "publish 10 KB",
        {"pyzmq": "publish 10 KB / zmq PUSH/PULL 10 KB", "Zenoh": "publish 10 KB / zenoh 10 KB"},
    ),
    Row(
        "round trip, two cores",
        {
            "pyzmq": "peermesh, any core / zmq REQ/REP, any core",
            "Zenoh": "peermesh, any core / zenoh, any core",
        },
        is_time=True,
    ),
    Row(
        "round trip, both on one core",
        {
            "pyzmq": "peermesh, one core / zmq REQ/REP, one core",
            "Zenoh": "peermesh, one core / zenoh, one core",
        },
        is_time=True,
    ),
    Row("put with a receipt, on disk", {"sqlite3 alone": "put, SQLite / sqlite3 alone"}),
    Row(
        "append with a receipt, on disk, in batches",
        {"sqlite3 alone": "append batches, SQLite / sqlite3 alone"},
    ),
    Row(
        "compare and set, one at a time",
        {"sqlite3 alone": "compare and set / insert, sqlite3 alone"},
    ),
)
"""Chosen so that the rows in which others are better are there, too."""


def comparisons(text: str) -> Iterator[tuple[str, Ratio]]:
    """Give the ratios of the page, by name."""
    for found in COMPARISON.finditer(text):
        yield found["name"], Ratio(*(float(found[part]) for part in ("median", "low", "high")))


def ratios() -> str:
    """Draw the table, and say what it was measured on; raises ``KeyError`` for a missing row."""
    text = PAGE.read_text("utf-8")
    known, measured = dict(comparisons(text)), MEASURED.search(text)
    assert measured is not None, f"{PAGE.name} does not say what it was measured on"

    def cell(row: Row, other: str) -> str:
        if other not in row.comparisons:
            return ""
        ratio = known[row.comparisons[other]]
        return str(ratio.inverse() if row.is_time else ratio)

    rows = [(row.work, *(cell(row, other) for other in OTHERS)) for row in ROWS]
    return f"{table(('work', *OTHERS), rows)}\n\n{measured[0]}"
