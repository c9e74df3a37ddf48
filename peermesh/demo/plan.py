"""What is counted, how, and who is killed meanwhile: what all roles know. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from peermesh.demo.times import MICROSECONDS, TIME_END, Lateness

WINDOW_SECONDS: Final = 60
PACE_SECONDS: Final = 20.0
"""How long the sensor takes for the input: Spark is there then, and behind."""

BATCHES: Final = 20
"""Into so many batches the input is cut: enough for the kills to come in the middle of some."""

BATCH_ROWS_MAX: Final = 20_000
"""Rows of a batch at most: what a window and key of each would take to publish is some seconds."""

VOTERS: Final = ("store-a", "store-b", "store-c")
"""The processes with log and stores: two of the three have what is acknowledged, and elect."""


class Victim(StrEnum):
    """Who is killed."""

    LOG_LEADER = "log-leader"
    """The process that leads the log; the other two elect another leader."""
    DRIVER = "driver"
    """Of Spark, with its JVM and all workers; it is started again, and finds its checkpoint."""
    STORE_LEADER = "store-leader"
    """The process that leads the counts, with its gateway; the other two elect another leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where roles listen, over all their lives."""

    members: tuple[int, int, int]
    gateways: tuple[int, int, int]

    @classmethod
    def of(cls, found: dict[str, list[int]]) -> Ports:
        """Read what came as JSON."""
        (a, b, c), (d, e, f) = found["members"], found["gateways"]
        return cls(members=(a, b, c), gateways=(d, e, f))


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What is counted."""

    source: str
    """The input: JSON lines, plain or gzip."""
    key: str
    """The field to count by."""
    time: str
    """The field with the time of an event."""
    window_seconds: int = WINDOW_SECONDS
    copies: int = 1
    """So many times the input is replayed."""
    pace_seconds: float = PACE_SECONDS
    """How long the sensor takes for all of it, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What follows from the input, for all roles."""

    lines: int
    """Of the input, once."""
    shift_seconds: int
    """How much later each replay is than the one before."""
    watermark_ms: int
    """Drops nothing of this input."""
    rows_max: int
    """Rows of a batch."""

    def total(self, copies: int) -> int:
        """Give the lines of all replays."""
        return self.lines * copies


def make_plan(lines: int, lateness: Lateness, what: Input) -> Plan:
    """Plan from what a look at the whole input has shown."""
    return Plan(
        lines=lines,
        shift_seconds=lateness.span_seconds(what.window_seconds),
        watermark_ms=lateness.watermark_ms(),
        rows_max=min(max(-(-lines * what.copies // BATCHES), 1), BATCH_ROWS_MAX),
    )


def does_fit(plan: Plan, lateness: Lateness, copies: int) -> bool:
    """Tell whether the last replay is before the end of all times."""
    return lateness.last + (copies - 1) * plan.shift_seconds * MICROSECONDS < TIME_END
