"""The rows of a journal: each holds a run of entries, closed for its group and its positions.

That a row is missing shows in the indexes, which have no hole from the floor on. That the last ones
are missing shows in the ballot's mark: so an append writes one row, and nothing else.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from stores.disk.journal_entries import EntryRun
from stores.disk.rows import Codec, RowDamaged
from stores.disk.sqlite import DAMAGE
from stores.group.effects import Persist
from stores.group.positions import START, Position

JOURNAL_SCHEMA: Final = """
    CREATE TABLE journal (
        first INTEGER PRIMARY KEY, count INTEGER NOT NULL, term INTEGER NOT NULL, body BLOB NOT NULL
    )
"""

GROUP_SIZE: Final = 16
"""Bytes of a group's id."""

FORGOTTEN_ROWS: Final = 32
"""Rows below the floor that go with one commit, of 1 MiB each at most. As a commit adds a few, they
go faster than others come, and none takes long."""

_PLACE: Final = struct.Struct(f">7s{GROUP_SIZE}sQQQ")
_QUERY: Final = "SELECT first, count, term, body FROM journal"


@dataclass(frozen=True, slots=True)
class _Row:
    first: int
    last: int
    term: int


class JournalRows:
    """The journal of one file; each method is called in a transaction of the caller's."""

    def __init__(self, codec: Codec) -> None:
        """Start empty, and of no group."""
        self.group: bytes | None = None
        self.floor = START
        self._codec = codec
        self._rows: deque[_Row] = deque()
        """All that are in the file, those below the floor too."""

    @property
    def end(self) -> Position:
        """The last entry."""
        if not self._rows or self._rows[-1].last <= self.floor.index:
            return self.floor
        return Position(self._rows[-1].term, self._rows[-1].last)

    def position(self, index: int) -> Position:
        """Give the full name of an entry between floor and end."""
        if index == self.floor.index:
            return self.floor
        return Position(next(row.term for row in self._rows if row.last >= index), index)

    def lost_after(self, write: Persist, forced_after: int) -> int | None:
        """Give after which entry a write takes back what may be nowhere else.

        ``None`` if it takes back nothing, or something of a term after ``forced_after``. What is
        behind a snapshot's last entry in common may be in its state, or not.
        """
        common = write.keep if write.snapshot is None else write.snapshot.after
        keep = max(common, self.floor.index)
        return keep if keep < self.end.index and self.end.term <= forced_after else None

    def load(self, connection: sqlite3.Connection) -> Iterator[EntryRun]:
        """Give what is above the floor; raises ``RowDamaged``. The group has to be set before."""
        self._rows.clear()
        end, floor = self.floor, self.floor.index
        for first, count, term, body in connection.execute(f"{_QUERY} ORDER BY first"):
            row = _Row(first, first + count - 1, term)
            if row.last > floor:
                if first != end.index + 1 and not (end.index == floor >= first):
                    raise RowDamaged(f"table journal: entries after {end.index} are missing")
                if term < end.term:
                    raise RowDamaged(f"table journal: entry {first} is of an earlier term")
                run = self._opened(connection, row, body)
                end = Position(term, row.last)
                yield _above(run, floor)
            self._rows.append(row)

    def append(self, connection: sqlite3.Connection, runs: Iterable[EntryRun]) -> None:
        """Write runs behind the others."""
        for run in runs:
            assert self.group is not None, "a journal with entries is of a group"
            assert run.first == self.end.index + 1, (run.first, self.end)
            assert run.term >= self.end.term, (run.term, self.end)
            self._insert(connection, run)

    def above(self, connection: sqlite3.Connection, keep: int) -> Iterator[EntryRun]:
        """Give the entries above an index, which is not below the floor."""
        for row in list(self._rows):
            if row.last > keep:
                yield _above(self._read(connection, row), keep)

    def truncate(self, connection: sqlite3.Connection, keep: int) -> None:
        """Drop the entries above an index, which is not below the floor."""
        assert keep >= self.floor.index, (keep, self.floor)
        while self._rows and self._rows[-1].last > keep:
            row = self._rows.pop()
            run = self._read(connection, row) if row.first <= keep else None
            connection.execute("DELETE FROM journal WHERE first = ?", (row.first,))
            if run is not None:
                run.cut(keep)
                self._insert(connection, run)

    def forget(self, connection: sqlite3.Connection) -> None:
        """Remove some of the rows that lie below the floor."""
        gone = 0
        while gone < FORGOTTEN_ROWS and self._rows and self._rows[0].last <= self.floor.index:
            last = self._rows.popleft().last
            gone += 1
        if gone:
            connection.execute("DELETE FROM journal WHERE first <= ?", (last,))

    def clear(self, connection: sqlite3.Connection) -> None:
        """Drop all; the caller sets another floor."""
        self._rows.clear()
        connection.execute("DELETE FROM journal")

    def reseal(self, connection: sqlite3.Connection, after: int, count: int) -> int | None:
        """Close some rows behind ``after`` anew; gives the last's number, ``None`` at the end."""
        query = f"{_QUERY} WHERE first > ? ORDER BY first LIMIT ?"
        # Rows may be large: as many as are forgotten at once.
        found = connection.execute(query, (after, min(count, FORGOTTEN_ROWS))).fetchall()
        for first, entry_count, term, body in found:
            if not self._codec.is_current(connection, body):
                place = self._place(_Row(first, first + entry_count - 1, term))
                sealed = self._codec.seal(place, self._codec.open(connection, place, body))
                connection.execute("UPDATE journal SET body = ? WHERE first = ?", (sealed, first))
        return found[-1][0] if found else None

    # -- steps -----------------------------------------------------------------------------------

    def _insert(self, connection: sqlite3.Connection, run: EntryRun) -> None:
        row = _Row(run.first, run.last, run.term)
        values = (run.first, len(run.bodies), run.term, self._closed(row, run))
        connection.execute("INSERT INTO journal VALUES (?, ?, ?, ?)", values)
        self._rows.append(row)

    def _read(self, connection: sqlite3.Connection, row: _Row) -> EntryRun:
        (found,) = connection.execute("SELECT body FROM journal WHERE first = ?", (row.first,))
        return self._opened(connection, row, found[0])

    def _opened(self, connection: sqlite3.Connection, row: _Row, body: bytes) -> EntryRun:
        try:
            content = self._codec.open(connection, self._place(row), body)
            return EntryRun.unpack(row.first, row.term, row.last - row.first + 1, content)
        except DAMAGE as error:
            text = f"table journal: the entries from {row.first} on: {error}"
            raise RowDamaged(text) from error

    def _closed(self, row: _Row, run: EntryRun) -> bytes:
        return self._codec.seal(self._place(row), run.pack())

    def _place(self, row: _Row) -> bytes:
        group = self.group or bytes(GROUP_SIZE)
        return _PLACE.pack(b"journal", group, row.term, row.first, row.last)


def _above(run: EntryRun, index: int) -> EntryRun:
    count = max(0, index + 1 - run.first)
    return EntryRun(run.first + count, run.term, run.kinds[count:], run.bodies[count:])
