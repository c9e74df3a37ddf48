"""What the handle of a log reads, and where: from a copy that is here, or the endpoint it asks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from stores.log.bookmarks import LogBookmark
from stores.log.kept_runs import KeptRun
from stores.log.messages import Cursors, Positions
from stores.log.partitions import Span
from wire.decoding import decode
from wire.errors import OffsetOutOfRange
from wire.public import public
from wire.values import Value


@dataclass(frozen=True, slots=True)
class Batch:
    """What one read gave."""

    runs: Sequence[KeptRun]
    offsets: Sequence[int]
    """Where the partitions asked for go on, in their order: where that was asked, unless entries
    are gone."""
    group: bytes | None
    """The group whose log was read. If it is not that of what the reader has seen, nothing was."""


class Extent(NamedTuple):
    """What there is to read."""

    spans: Sequence[Span]
    cursors: Cursors
    """Where named consumers are."""
    bookmark: LogBookmark
    """Of which log this is, and what had been appended to it last."""


class Source(Protocol):
    """Where to read."""

    @property
    def name(self) -> str:
        """The name of the log."""

    @property
    def known_count(self) -> int:
        """The number of partitions; zero until it is known."""

    @property
    def group(self) -> bytes | None:
        """The group whose log is read, as far as is known; another one begins another log."""

    async def partition_count(self) -> int:
        """Give the number of partitions, waiting until it is known."""

    async def fetch(
        self,
        positions: Positions,
        size_max: int,
        seconds: float,
        seen: Sequence[LogBookmark] = (),
    ) -> Batch:
        """Read from these positions on, waiting so long until there is something.

        ``seen`` has for each of them what the reader had last. If that is of another group,
        nothing is read.
        """

    async def state(self) -> Extent:
        """Give what there is to read, and where consumers are."""

    async def offsets_at(self, timestamp_ns: int) -> tuple[int, ...]:
        """Give the first offset of this time or later in each partition."""


READ_LIMIT: Final = 1_000
"""Entries that a read gives at most, if nothing else is said."""


@public
class Start(Enum):
    """Where a consumer begins that has committed nothing."""

    EARLIEST = "earliest"
    LATEST = "latest"


@public
@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a log."""

    partition: int
    offset: int
    key: Value
    """What it was appended with; the topic, where the log collected it. ``None`` without a key."""
    value: Value
    timestamp_ns: int
    """When the keeper took it, by its clock, in ns since 1970; a partition's never goes back."""


def is_of_another(seen: Iterable[LogBookmark], group: bytes | None) -> bool:
    """Tell whether any of this is of a log that another group has kept."""
    return any(each.group not in (None, group) for each in seen)


def check_positions(batch: Batch, positions: Mapping[int, int], log: str) -> None:
    """Raise ``OffsetOutOfRange`` if entries are gone that were wanted next, or read before."""
    for (partition, offset), at in zip(positions.items(), batch.offsets, strict=True):
        if at != offset:
            raise OffsetOutOfRange(partition, offset, at, log=log)


def entries_of(
    batch: Batch, positions: Mapping[int, int], log: str, limit: float = math.inf
) -> list[LogEntry]:
    """Decode what a read of a log gave, from these offsets on; raises ``OffsetOutOfRange``."""
    check_positions(batch, positions, log)
    found: list[LogEntry] = []
    for run in batch.runs:
        flat = run.entries()
        skipped = max(0, positions[run.partition] - run.first_offset)
        for at in range(skipped, run.count):
            if len(found) >= limit:
                return found
            key, value = flat[2 * at], flat[2 * at + 1]
            assert value is not None, run
            decoded_key = None if key is None else decode(key)
            place = run.first_offset + at
            found.append(
                LogEntry(run.partition, place, decoded_key, decode(value), run.timestamp_ns)
            )
    return found
