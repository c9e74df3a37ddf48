"""What counting gives: the same for a partition in Spark, a batch, and a whole file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from peermesh.demo.keys import BadLine, key_of

BAD_LINES_MAX: Final = 20
"""Bad lines that are remembered one by one: a screenful. All of them are counted."""

Event = tuple[int, bytes]
"""A line with its number, which begins at one."""


@dataclass(slots=True)
class Tally:
    """Events by encoded key, and the lines that were none. It grows while it is made."""

    counts: dict[bytes, int] = field(default_factory=dict)
    bad: int = 0
    bad_lines: list[tuple[int, str]] = field(default_factory=list)
    """The first of the bad lines: number and reason."""

    @property
    def events(self) -> int:
        """Events counted, without the bad lines."""
        return sum(self.counts.values())

    @property
    def lines(self) -> int:
        """All lines that were looked at."""
        return self.events + self.bad

    def add(self, number: int, line: bytes, by: str) -> None:
        """Count a line by a field."""
        try:
            key = key_of(line, by)
        except BadLine as error:
            self.bad += 1
            if len(self.bad_lines) < BAD_LINES_MAX:
                self.bad_lines.append((number, str(error)))
        else:
            self.counts[key] = self.counts.get(key, 0) + 1


def tally_events(by: str, events: Iterable[Event]) -> Iterator[Tally]:
    """Count events by a field; gives one tally, in the shape that a Spark partition needs."""
    tally = Tally()
    for number, line in events:
        tally.add(number, line, by)
    yield tally


def merge(first: Tally, second: Tally) -> Tally:
    """Add two tallies, in whichever order."""
    merged = Tally(dict(first.counts), first.bad + second.bad)
    for key, count in second.counts.items():
        merged.counts[key] = merged.counts.get(key, 0) + count
    merged.bad_lines = sorted(first.bad_lines + second.bad_lines)[:BAD_LINES_MAX]
    return merged


@dataclass(frozen=True, slots=True)
class Difference:
    """How a table differs from the recount."""

    lost: int
    """Events that the recount has and the table has not."""
    double: int
    """Events that the table has beyond the recount."""
    keys: tuple[bytes, ...]
    """The keys whose counts differ, those that differ most first."""

    def __bool__(self) -> bool:
        """Tell whether there is one."""
        return bool(self.keys)


def compare(recount: Mapping[bytes, int], table: Mapping[bytes, int]) -> Difference:
    """Find what is lost from a table, and what is double in it."""
    excess = {
        key: table.get(key, 0) - recount.get(key, 0)
        for key in {**recount, **table}
        if table.get(key, 0) != recount.get(key, 0)
    }
    return Difference(
        lost=-sum(count for count in excess.values() if count < 0),
        double=sum(count for count in excess.values() if count > 0),
        keys=tuple(sorted(excess, key=lambda key: (-abs(excess[key]), key))),
    )
