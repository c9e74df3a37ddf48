"""How a snapshot travels: cut into chunks at the master, asked for and put together by a clone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stores.limits import CHUNK_COUNT_MAX, CHUNK_SIZE_MAX, SNAPSHOT_WINDOW_CHUNKS, WRITERS_MAX
from stores.outcomes import WriterRow
from stores.table import Columns, Entry
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
    writers: Sequence[WriterRow] = ()
    """Records of writers, least recently active first; in chunks of their own."""

    @property
    def size(self) -> int:
        """Bytes of keys and values."""
        return sum(map(len, self.pairs))


class SnapshotSource:
    """A table at one point of the stream, frozen, and cut into chunks as they are asked for.

    Frozen are lists of references: a copy of the dicts would take four times the memory. Cuts are
    made once and kept, so that a chunk that was lost is the same when it is sent again. After the
    entries come the records of the writers, which make a clone fit to be promoted.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        revision: int,
        sequence: int,
        past: Mapping[bytes, Entry | None] | None = None,
        writers: Sequence[WriterRow] = (),
    ) -> None:
        """Freeze the table; ``sequence`` is the last event in it.

        ``past`` holds what is to stand for some of the keys instead: ``None`` for a missing one.
        """
        self.revision = revision
        self.sequence = sequence
        self._keys = list(columns.values)
        self._values = list(columns.values.values())
        self._revisions = list(columns.revisions.values())  # they enter and leave together
        expiries = columns.expiries
        self._expiries = list(map(expiries.get, self._keys)) if expiries else []
        self._past = dict(past or {})
        for key in [key for key in self._past if key not in columns.values]:
            if (entry := self._past.pop(key)) is not None:
                self._append(key, entry)
        self._starts = [0]
        self._ledger = list(_in_parts(writers))

    def cut(self, index: int) -> bool:
        """Find where one more chunk ends; false if all up to this one are known, or there are."""
        if len(self._starts) > index + 1 or self._starts[-1] >= len(self._keys):
            return False
        self._starts.append(self._cut(self._starts[-1]))
        return True

    def chunk(self, index: int) -> Chunk | None:
        """Build a chunk; ``None`` if there are not so many."""
        while self.cut(index):
            pass
        if index < len(self._starts) - 1:
            return self._build(index)
        position = index - (len(self._starts) - 1)
        if position < len(self._ledger):
            is_last = position == len(self._ledger) - 1
            return Chunk(index, is_last, (), (), (), self._ledger[position])
        if index == 0:
            return Chunk(0, is_last=True, pairs=(), revisions=(), expiries=())
        return None

    def _append(self, key: bytes, entry: Entry) -> None:
        """Add what is in the table no more."""
        if entry.expires_at_ns is not None or self._expiries:
            self._expiries += [None] * (len(self._keys) - len(self._expiries))
            self._expiries.append(entry.expires_at_ns)
        self._keys.append(key)
        self._values.append(entry.value)
        self._revisions.append(entry.revision)

    def _cut(self, start: int) -> int:
        """Find the end of the chunk that begins here; only the last one may hold nothing."""
        end = self._end_of(start)
        while self._past and end < len(self._keys) and self._is_gone(start, end):
            start, end = end, self._end_of(end)
        return end

    def _is_gone(self, start: int, end: int) -> bool:
        """Tell whether nothing between these positions was there at the snapshot's moment."""
        return all(self._past.get(key, key) is None for key in self._keys[start:end])

    def _end_of(self, start: int) -> int:
        size, end, past = 0, start, self._past
        stop = min(start + CHUNK_COUNT_MAX, len(self._keys))
        for position in range(start, stop):
            key = self._keys[position]
            entry = past.get(key) if past else None
            size += len(key) + len(self._values[position] if entry is None else entry.value)
            if size > CHUNK_SIZE_MAX and end > start:
                break
            end += 1
        return end

    def _build(self, index: int) -> Chunk:
        start, end = self._starts[index : index + 2]
        is_last = end == len(self._keys) and not self._ledger
        if self._past and not self._past.keys().isdisjoint(self._keys[start:end]):
            return self._build_past(index, range(start, end), is_last=is_last)
        pairs: list[bytes] = [b""] * (2 * (end - start))
        pairs[::2] = self._keys[start:end]
        pairs[1::2] = self._values[start:end]
        expiries: list[int] = []
        for position, expires_at_ns in enumerate(self._expiries[start:end]):
            if expires_at_ns is not None:
                expiries += (position, expires_at_ns)
        return Chunk(index, is_last, pairs, self._revisions[start:end], expiries)

    def _build_past(self, index: int, positions: range, *, is_last: bool) -> Chunk:
        """Build a chunk in which some entries are to be as they were."""
        pairs: list[bytes] = []
        revisions: list[int] = []
        expiries: list[int] = []
        for position in positions:
            key = self._keys[position]
            entry = self._entry(position) if key not in self._past else self._past[key]
            if entry is None:
                continue
            if entry.expires_at_ns is not None:
                expiries += (len(revisions), entry.expires_at_ns)
            pairs += (key, entry.value)
            revisions.append(entry.revision)
        return Chunk(index, is_last, pairs, revisions, expiries)

    def _entry(self, position: int) -> Entry:
        expires_at_ns = self._expiries[position] if self._expiries else None
        return Entry(self._values[position], self._revisions[position], expires_at_ns)


def _in_parts(writers: Sequence[WriterRow]) -> Iterator[tuple[WriterRow, ...]]:
    """Cut records into what one chunk holds."""
    part: list[WriterRow] = []
    size = 0
    for row in writers:
        size += 1 + len(row.outcomes)
        if size > CHUNK_COUNT_MAX and part:
            yield tuple(part)
            part, size = [], 1 + len(row.outcomes)
        part.append(row)
    if part:
        yield tuple(part)


class SnapshotSink:
    """Asks for the chunks of one snapshot, a few at a time, and puts them together in order."""

    def __init__(self) -> None:
        """Lack everything."""
        self.writers: list[WriterRow] = []
        """The records of the writers that came so far."""
        self._columns = Columns()
        self._waiting: dict[int, Chunk] = {}
        self._next_index = 0
        self._requested_end = 0
        self._count: int | None = None
        self._idle_ticks = 0
        self._was_empty = False

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
        """Give the indexes within the window that were not asked for."""
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
        is_empty = not (keys or chunk.writers or chunk.is_last)
        if is_empty and self._was_empty:
            raise DecodeError("chunks of a snapshot hold nothing: it would never end")
        self._was_empty = is_empty
        if len(self.writers) + len(chunk.writers) > WRITERS_MAX:
            raise DecodeError(f"a snapshot has more than {WRITERS_MAX} writers")
        self.writers += chunk.writers
        size = len(columns.values) + len(keys)
        columns.values.update(zip(keys, values, strict=True))
        if len(columns.values) != size:
            raise DecodeError("a snapshot has a key twice: it would never end")
        columns.size += chunk.size
        columns.revisions.update(zip(keys, chunk.revisions, strict=True))
        for position, expires_at_ns in zip(chunk.expiries[::2], chunk.expiries[1::2], strict=True):
            if position >= len(keys):
                raise DecodeError("a snapshot has an expiry for an entry that is not in it")
            columns.expiries[keys[position]] = expires_at_ns
