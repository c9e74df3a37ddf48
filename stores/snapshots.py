"""How a snapshot travels: cut into chunks at the master, asked for and put together by a clone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from stores.limits import CHUNK_COUNT_MAX, CHUNK_SIZE_MAX, SNAPSHOT_WINDOW_CHUNKS
from stores.table import Columns
from wire.errors import DecodeError

REQUEST_TIMEOUT_TICKS: Final = 3
"""Ticks after which a chunk that did not come is asked for again: 300 ms at the usual pace."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a snapshot, as columns: they are encoded and decoded at a third of the cost."""

    index: int
    is_last: bool
    pairs: Sequence[bytes]
    """Key, value, key, value, and so on."""
    revisions: Sequence[int]
    """One for each pair."""
    expiries: Sequence[int]
    """Position of a pair, its expiry in ns, and so on; only for those that have one."""

    @property
    def size(self) -> int:
        """Bytes of keys and values."""
        return sum(map(len, self.pairs))


class SnapshotSource:
    """A frozen copy of a table at one point of the stream, cut into chunks as they are asked for.

    Cuts are made once and kept, so that a chunk that was lost is the same when it is sent again.
    """

    def __init__(self, columns: Columns, *, revision: int, sequence: int) -> None:
        """Take ownership of the copy; ``sequence`` is the last event that it contains."""
        self.revision = revision
        self.sequence = sequence
        self._columns = columns
        self._keys = list(columns)
        self._starts = [0]

    def chunk(self, index: int) -> Chunk | None:
        """Build a chunk; ``None`` if there are not so many."""
        while len(self._starts) <= index + 1 and self._starts[-1] < len(self._keys):
            self._starts.append(self._cut(self._starts[-1]))
        if index == 0 and not self._keys:
            return Chunk(0, is_last=True, pairs=(), revisions=(), expiries=())
        if len(self._starts) <= index + 1:
            return None
        start, end = self._starts[index : index + 2]
        return self._build(index, self._keys[start:end], is_last=end == len(self._keys))

    def _cut(self, start: int) -> int:
        """Find the end of the chunk that begins here."""
        values, size, end = self._columns.values, 0, start
        for key in islice(self._keys, start, start + CHUNK_COUNT_MAX):
            size += len(key) + len(values[key])
            if size > CHUNK_SIZE_MAX and end > start:
                break
            end += 1
        return end

    def _build(self, index: int, keys: list[bytes], *, is_last: bool) -> Chunk:
        columns = self._columns
        pairs: list[bytes] = [b""] * (2 * len(keys))
        pairs[::2] = keys
        pairs[1::2] = map(columns.values.__getitem__, keys)
        expiries: list[int] = []
        if columns.expiries:
            for position, key in enumerate(keys):
                if (expires_at_ns := columns.expiries.get(key)) is not None:
                    expiries += (position, expires_at_ns)
        revisions = list(map(columns.revisions.__getitem__, keys))
        return Chunk(index, is_last, pairs, revisions, expiries)


class SnapshotSink:
    """Asks for the chunks of one snapshot, a few at a time, and puts them together in order."""

    def __init__(self) -> None:
        """Lack everything."""
        self._columns = Columns()
        self._waiting: dict[int, Chunk] = {}
        self._next_index = 0
        self._requested_end = 0
        self._count: int | None = None
        self._idle_ticks = 0

    @property
    def is_complete(self) -> bool:
        """True when every chunk is there."""
        return self._next_index == self._count

    @property
    def progress(self) -> str:
        """Say how far it is, for people."""
        of = "" if self._count is None else f" of {self._count}"
        return f"{self._next_index}{of} chunks, {len(self._columns)} entries"

    def take(self) -> Columns:
        """Give the whole table, once it is complete."""
        assert self.is_complete, self.progress
        return self._columns

    def receive(self, chunk: Chunk) -> tuple[int, ...]:
        """Take a chunk in; gives the indexes to ask for now."""
        if not self._next_index <= chunk.index < self._next_index + SNAPSHOT_WINDOW_CHUNKS:
            return ()
        self._idle_ticks = 0
        self._waiting[chunk.index] = chunk
        if chunk.is_last:
            self._count = chunk.index + 1
        while (ready := self._waiting.pop(self._next_index, None)) is not None:
            self._install(ready)
            self._next_index += 1
        return self.ask()

    def ask(self) -> tuple[int, ...]:
        """Give the indexes within the window that nobody has asked for."""
        end = self._next_index + SNAPSHOT_WINDOW_CHUNKS
        if self._count is not None:
            end = min(end, self._count)
        start = max(self._requested_end, self._next_index)
        self._requested_end = max(start, end)
        return tuple(index for index in range(start, end) if index not in self._waiting)

    def tick(self) -> tuple[int, ...]:
        """Let time pass; gives the indexes to ask for again."""
        self._idle_ticks += 1
        if self._idle_ticks < REQUEST_TIMEOUT_TICKS:
            return ()
        self._idle_ticks = 0
        self._requested_end = self._next_index
        return self.ask()

    def _install(self, chunk: Chunk) -> None:
        keys, values, columns = chunk.pairs[::2], chunk.pairs[1::2], self._columns
        columns.values.update(zip(keys, values, strict=True))
        columns.revisions.update(zip(keys, chunk.revisions, strict=True))
        for position, expires_at_ns in zip(chunk.expiries[::2], chunk.expiries[1::2], strict=True):
            if position >= len(keys):
                raise DecodeError("a snapshot has an expiry for an entry that is not in it")
            columns.expiries[keys[position]] = expires_at_ns
