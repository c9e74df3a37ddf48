"""Runs: consecutive entries of one partition, encoded once, then stored and sent as they are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Generic, TypeVar

from stores.log.limits import RUN_COUNT_MAX, RUN_SIZE_MAX
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError
from wire.public import public

ENTRY_SIZE = 16
"""Bytes that an entry takes besides its key and value, roughly."""

Flat = tuple[bytes | None, ...]
"""Keys and values in turn, each encoded. Entries without a key have ``None`` there."""


def partition_of(key: bytes, count: int) -> int:
    """Give the partition of an encoded key: the same on every machine, in every version."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big") % count


@public
@dataclass(frozen=True, slots=True)
class Position:
    """The place of one entry in a log."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Run:
    """Entries that were committed together; they are not changed or split afterwards."""

    partition: int
    first_offset: int
    count: int
    timestamp_ns: int
    """When the keeper took them, by its clock; never earlier than the run before."""
    body: bytes

    @property
    def end(self) -> int:
        """The offset after the last entry."""
        return self.first_offset + self.count

    def entries(self) -> Flat:
        """Give keys and values in turn; raises ``DecodeError``."""
        flat = decode(self.body)
        if type(flat) is not tuple or len(flat) != 2 * self.count:
            raise DecodeError(f"a run of {self.count} entries holds something else")
        return flat


@dataclass(slots=True)
class OpenRun:
    """A run that takes appends until it is committed, or full."""

    partition: int
    first_offset: int
    timestamp_ns: int
    flat: list[bytes | None] = field(default_factory=list)
    size: int = 0

    def takes(self, count: int, size: int) -> bool:
        """Tell whether an append of so many items and bytes belongs in this run, or another."""
        is_small = self.size + size <= RUN_SIZE_MAX
        return is_small and len(self.flat) + count <= 2 * RUN_COUNT_MAX

    def seal(self) -> Run:
        """Encode it."""
        body = encode(tuple(self.flat))
        return Run(self.partition, self.first_offset, len(self.flat) // 2, self.timestamp_ns, body)


def within(runs: Sequence[Run], size_max: int, *, has_more: bool) -> list[Run]:
    """Give the first runs that fit; one always does, unless there are others before."""
    found: list[Run] = []
    for run in runs:
        size_max -= len(run.body)
        if size_max < 0 and (found or has_more):
            break
        found.append(run)
    return found


def size_of(flat: Sequence[bytes | None]) -> int:
    """Give the bytes that entries take, roughly."""
    return sum(len(item) for item in flat if item is not None) + len(flat) * ENTRY_SIZE // 2


RunT = TypeVar("RunT", bound=Run)


class RunList(Generic[RunT]):
    """The runs of one partition that are at hand, in order and without gaps."""

    __slots__ = ("_begin", "_firsts", "_runs", "size")

    def __init__(self) -> None:
        """Start empty."""
        self._runs: list[RunT | None] = []
        self._firsts: list[int] = []
        self._begin = 0
        """Where the first run is. What is before it is gone, and makes room when it is half."""
        self.size = 0

    def __len__(self) -> int:
        """Count the runs."""
        return len(self._runs) - self._begin

    @property
    def first_offset(self) -> int | None:
        """Where it begins; ``None`` if it is empty."""
        return self._firsts[self._begin] if len(self) else None

    def append(self, run: RunT) -> None:
        """Take in the next run."""
        last = self._runs[-1] if len(self) else None
        assert last is None or last.end == run.first_offset, (last, run)
        self._runs.append(run)
        self._firsts.append(run.first_offset)
        self.size += len(run.body)

    def drop_first(self) -> int:
        """Let the oldest run go; gives its size."""
        size = len(self._at(self._begin).body)
        self.size -= size
        self._runs[self._begin] = None
        self._begin += 1
        if 2 * self._begin > len(self._runs):
            del self._runs[: self._begin], self._firsts[: self._begin]
            self._begin = 0
        return size

    def trim(self, start: int) -> None:
        """Let all runs go that end before ``start``, or with it."""
        while len(self) and self._at(self._begin).end <= start:
            self.drop_first()

    def cut(self, end: int) -> None:
        """Let the runs from ``end`` on go."""
        while len(self) and self._at(-1).end > end:
            self.size -= len(self._at(-1).body)
            del self._runs[-1], self._firsts[-1]

    def read(self, offset: int, size_max: int) -> list[RunT]:
        """Give runs from the one with ``offset`` on, at least one if it is there."""
        found: list[RunT] = []
        at = bisect_right(self._firsts, offset, self._begin) - 1
        if at < self._begin or self._at(at).end <= offset:
            return found
        for index in range(at, len(self._runs)):
            run = self._at(index)
            size_max -= len(run.body)
            if found and size_max < 0:
                break
            found.append(run)
        return found

    def find(self, timestamp_ns: int) -> int | None:
        """Give the first offset that was appended at this time or later, if there is one."""
        for index in range(self._begin, len(self._runs)):
            run = self._at(index)
            if run.timestamp_ns >= timestamp_ns:
                return run.first_offset
        return None

    def after(self, has_passed: Callable[[RunT], bool]) -> list[RunT]:
        """Give the runs after those of which something is true; it is true of the first ones."""
        low, high = self._begin, len(self._runs)
        while low < high:
            middle = (low + high) // 2
            if has_passed(self._at(middle)):
                low = middle + 1
            else:
                high = middle
        return [self._at(index) for index in range(low, len(self._runs))]

    def _at(self, index: int) -> RunT:
        run = self._runs[index]
        assert run is not None, "it is gone"
        return run
