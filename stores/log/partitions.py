"""Where each partition of a log begins and ends, and what retention lets go."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from stores.limits import COUNT_END
from stores.log.limits import (
    BLOCK_COUNT_MAX,
    BLOCK_SIZE_MAX,
    BLOCK_SPAN_NS,
    RETAINED_BLOCKS_MAX,
)
from wire.errors import InvalidData, NoSuchPartition


@dataclass(frozen=True, slots=True)
class Retention:
    """What a log keeps, at least; ``None`` sets no limit. Each limit holds for every partition.

    A partition beyond one of them has entries removed, the oldest first. Age and bytes are counted
    in blocks (``BLOCK_COUNT_MAX``), so that a block's worth more may stay.
    """

    age_ns: int | None = None
    """Entries older than this, by the keeper's clock, go."""
    count: int | None = None
    """Entries beyond this number go."""
    size: int | None = None
    """Entries go while those after them have so many bytes, as stored."""

    def __post_init__(self) -> None:
        """Refuse what would keep nothing, and what no journal can hold."""
        for limit in (self.age_ns, self.count, self.size):
            if limit is not None and not 0 < limit < COUNT_END:
                raise InvalidData(
                    "a limit of retention is positive, and of less than 64 bits (584 years in"
                    " nanoseconds), or None for no limit"
                )


KEEP_ALL: Final = Retention()
"""What a log keeps for which nothing is said."""


@dataclass(frozen=True, slots=True)
class Span:
    """The entries that a partition has: from ``start`` up to, not including, ``end``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as the index sees it."""

    first_offset: int
    count: int
    timestamp_ns: int
    size: int


@dataclass(slots=True)
class _Block:
    first_offset: int
    end: int
    size: int
    first_timestamp_ns: int
    last_timestamp_ns: int

    def takes(self, run: RunInfo) -> bool:
        count, size = self.end + run.count - self.first_offset, self.size + run.size
        span_ns = run.timestamp_ns - self.first_timestamp_ns
        return count <= BLOCK_COUNT_MAX and size <= BLOCK_SIZE_MAX and span_ns <= BLOCK_SPAN_NS


@dataclass(slots=True)
class Partition:
    """One partition: its span, and an index of blocks for retention."""

    start: int = 0
    end: int = 0
    size: int = 0
    """Bytes of the entries, as stored, in whole blocks."""
    _blocks: deque[_Block] = field(default_factory=deque)

    @property
    def span(self) -> Span:
        """What can be read."""
        return Span(self.start, self.end)

    def extend(self, run: RunInfo) -> None:
        """Take in the next run."""
        assert run.first_offset == self.end, (run, self.end)
        self.end += run.count
        self.size += run.size
        if self._blocks and self._blocks[-1].takes(run):
            block = self._blocks[-1]
            block.end, block.size = self.end, block.size + run.size
            block.last_timestamp_ns = run.timestamp_ns
        else:
            stamp = run.timestamp_ns
            self._blocks.append(_Block(run.first_offset, self.end, run.size, stamp, stamp))

    def trim(self, start: int) -> None:
        """Let entries before ``start`` go."""
        self.start = max(self.start, min(start, self.end))
        while self._blocks and self._blocks[0].end <= self.start:
            self.size -= self._blocks.popleft().size

    def clear(self, start: int) -> None:
        """Let everything go, and begin at ``start``."""
        self.start = self.end = start
        self.size = 0
        self._blocks.clear()

    def due(self, retention: Retention, now_ns: int, blocks_max: int) -> tuple[int, int]:
        """Give where the partition shall begin now, and how many blocks go: so many at most."""
        start, size = self.start, self.size
        counted = start if retention.count is None else max(start, self.end - retention.count)
        for number, block in enumerate(self._blocks):
            size -= block.size
            is_old = (
                retention.age_ns is not None and now_ns - block.last_timestamp_ns > retention.age_ns
            )
            is_beyond = retention.size is not None and size >= retention.size
            if not is_old and not is_beyond and block.end > counted:
                return max(start, counted), number
            if number == blocks_max:
                return start, number
            start = max(start, block.end)
        return max(start, counted), len(self._blocks)


class Partitions:
    """All partitions of a log."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        """Start with what a backend kept."""
        self._partitions = list(partitions)

    def begin(self, count: int) -> None:
        """Have so many, all of them empty; there were none."""
        assert not self._partitions, "a log begins once"
        self._partitions += [Partition() for _ in range(count)]

    def __len__(self) -> int:
        """Count them."""
        return len(self._partitions)

    def __getitem__(self, number: int) -> Partition:
        """Give one; raises ``NoSuchPartition``."""
        if not 0 <= number < len(self._partitions):
            raise NoSuchPartition(
                f"there is no partition {number}: this log has 0 to {len(self._partitions) - 1}"
            )
        return self._partitions[number]

    def starts(self) -> tuple[int, ...]:
        """Give the first offset of each."""
        return tuple(partition.start for partition in self._partitions)

    def spans(self) -> tuple[Span, ...]:
        """Give what can be read of each."""
        return tuple(partition.span for partition in self._partitions)

    def ends(self) -> tuple[int, ...]:
        """Give the offset after the last of each."""
        return tuple(partition.end for partition in self._partitions)

    def due(self, retention: Retention, now_ns: int) -> tuple[list[tuple[int, int]], bool]:
        """Give the partitions that shall begin later now, and whether there may be more to it."""
        starts, room = list[tuple[int, int]](), RETAINED_BLOCKS_MAX
        for number, partition in enumerate(self._partitions):
            start, block_count = partition.due(retention, now_ns, room)
            if start > partition.start:
                starts.append((number, start))
            room -= block_count
        return starts, room <= 0

    def used(self, numbers: Iterable[int] | None = None) -> tuple[int, int]:
        """Count the entries of some or all, and their bytes as stored, in whole blocks."""
        chosen = self._partitions
        if numbers is not None:
            chosen = [self._partitions[number] for number in numbers]
        entries = sum(partition.end - partition.start for partition in chosen)
        return entries, sum(partition.size for partition in chosen)


def lag(cursor: Sequence[tuple[int, int]], spans: Sequence[Span]) -> int:
    """Count the entries that a consumer has not committed and can still read."""
    committed = dict(cursor)
    return sum(
        span.end - min(max(committed.get(number, 0), span.start), span.end)
        for number, span in enumerate(spans)
    )
