"""What the handle of a log reads from: a copy that is here, or the endpoint that it asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stores.log.messages import Cursors, Positions
from stores.log.partitions import Partitions, Span
from stores.log.runs import Run, within

Place = tuple[int, int, int]
"""A partition, an offset in it, and where it ends."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one read gave."""

    runs: Sequence[Run]
    spans: Sequence[Span]
    """Of the partitions asked for, in their order, after the read."""


class Source(Protocol):
    """Where to read."""

    @property
    def name(self) -> str:
        """The name of the log."""

    async def partition_count(self) -> int:
        """Give the number of partitions, waiting until it is known."""

    async def fetch(self, positions: Positions, size_max: int, seconds: float) -> Batch:
        """Read from these positions on, waiting so long until there is something."""

    async def state(self) -> tuple[Sequence[Span], Cursors]:
        """Give what there is to read, and where consumers are."""

    async def offset_at(self, partition: int, timestamp_ns: int) -> int:
        """Give the first offset of this time or later."""


def has_news(partitions: Partitions, positions: Positions) -> bool:
    """Tell whether a read from these positions on gives something: entries, or that some went."""
    for partition, offset in positions:
        span = partitions[partition].span
        if offset < max(span.start, span.end):
            return True
    return False


def readable(partitions: Partitions, positions: Positions) -> list[Place]:
    """Give the positions that can be read now."""
    found: list[Place] = []
    for partition, offset in positions:
        span = partitions[partition].span
        if span.start <= offset < span.end:
            found.append((partition, offset, span.end))
    return found


def gather(
    read: Callable[[int, int, int], Sequence[Run] | None], wanted: Sequence[Place], size: int
) -> list[Run] | None:
    """Read up to ``size`` bytes; ``None`` if that takes the disk, and ``read`` does not."""
    runs: list[Run] = []
    for partition, offset, end in wanted:
        more = read(partition, offset, size)
        if more is None:
            return None
        more = within([run for run in more if run.end <= end], size, has_more=bool(runs))
        size -= sum(len(run.body) for run in more)
        runs += more
        if size <= 0:
            break
    return runs
