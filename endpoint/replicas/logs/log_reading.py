"""What the handle of a log reads from: a copy that is here, or the endpoint that it asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stores.log.messages import Cursors, Positions
from stores.log.partitions import Partitions, Span
from stores.log.runs import Run


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

    @property
    def known_count(self) -> int:
        """The number of partitions; zero until it is known."""

    async def partition_count(self) -> int:
        """Give the number of partitions, waiting until it is known."""

    async def fetch(self, positions: Positions, size_max: int, seconds: float) -> Batch:
        """Read from these positions on, waiting so long until there is something."""

    async def state(self) -> tuple[Sequence[Span], Cursors]:
        """Give what there is to read, and where consumers are."""

    async def offsets_at(self, timestamp_ns: int) -> tuple[int, ...]:
        """Give the first offset of this time or later in each partition."""


def has_news(partitions: Partitions, positions: Positions) -> bool:
    """Tell whether a read from these positions on gives something: entries, or that some went."""
    for partition, offset in positions:
        span = partitions[partition].span
        if offset < max(span.start, span.end):
            return True
    return False
