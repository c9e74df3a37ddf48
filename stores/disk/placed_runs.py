"""The runs of a replica's log in its file: each once, with the journal's entry that brought it.

A run is there as soon as its entry is in the journal, which refers to it. It goes when the entry is
cut off; or when it lies before its partition's start, and no row of the journal refers to it.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final
from zlib import crc32

from stores.disk.log_rows import run_id
from stores.disk.rows import Codec, RowDamaged
from stores.group.positions import Position
from stores.log.bodies import Performed
from stores.log.codec import LogCodec
from stores.log.kept_runs import KeptRun, RunPlace
from stores.log.limits import OFFSET_END
from stores.log.runs import Run

_SCHEMA: Final = """
    CREATE TABLE {} (
        id INTEGER PRIMARY KEY, count INTEGER NOT NULL, timestamp INTEGER NOT NULL,
        term INTEGER NOT NULL, entry INTEGER NOT NULL, elapsed INTEGER NOT NULL,
        head INTEGER NOT NULL, body BLOB NOT NULL
    )
"""
PLACED_RUNS_SCHEMA: Final = _SCHEMA.format("runs")
_ARRIVING_SCHEMA: Final = _SCHEMA.format("arriving")

_INSERT: Final = "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
# A snapshot that has a run twice is refused, once it is here.
_ARRIVE: Final = "REPLACE INTO arriving VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_HEADS: Final = "SELECT id, count, timestamp, term, entry, elapsed, head, length(body) FROM runs"
_QUERY: Final = "SELECT id, count, timestamp, term, entry, elapsed, head, body FROM runs"
_END: Final = (1 << 63) - 1
_LAST: Final = "SELECT max(id) FROM runs WHERE id < ?"
_LAST_KEPT: Final = (
    "SELECT id FROM runs WHERE id >= ? AND id < ? AND entry <= ? ORDER BY id DESC LIMIT 1"
)
_PLACE: Final = struct.Struct(">4s16sQQQQQQ")


class ReferringBodies:
    """What a log's entries hold in the journal: all but the runs' entries, which rows have."""

    def __init__(self) -> None:
        """Know no body."""
        self._codec = LogCodec()

    def encode(self, body: object) -> bytes:
        """Write a body without what its runs hold."""
        if isinstance(body, Performed):
            body = replace(body, runs=tuple(replace(run, body=b"") for run in body.runs))
        return self._codec.encode(body)

    def decode(self, data: bytes) -> object:
        """Read a body, whose runs hold nothing yet; raises ``DecodeError``."""
        return self._codec.decode(data)


class PlacedRuns:
    """The runs of one file; each method is called in a transaction of the caller's."""

    def __init__(self, codec: Codec) -> None:
        """Close rows by ``codec``."""
        self.group = bytes(16)
        """The group's id: a run of another history does not fit."""
        self._codec = codec
        self._has_arrivals = False

    def write(self, connection: sqlite3.Connection, position: Position, body: Performed) -> None:
        """Write what an entry brings."""
        self.add(connection, (KeptRun.of(run, position, body.elapsed_ns) for run in body.runs))

    def add(self, connection: sqlite3.Connection, runs: Iterable[KeptRun]) -> None:
        """Write runs that are not there."""
        connection.executemany(_INSERT, map(self._closed, runs))

    def filled(
        self, connection: sqlite3.Connection, position: Position, body: Performed
    ) -> Performed:
        """Give a body of the journal with what its runs hold; raises ``RowDamaged``."""
        return replace(body, runs=tuple(self._find(connection, position, run) for run in body.runs))

    def places(self, connection: sqlite3.Connection) -> Iterator[RunPlace]:
        """Give all runs in order, without what is in them; raises ``RowDamaged``."""
        overhead_size = self._codec.overhead_size
        for *numbers, head, size in connection.execute(f"{_HEADS} ORDER BY id"):
            self._check(numbers, head)
            number, count, timestamp_ns, term, entry, elapsed_ns = numbers
            partition, offset = divmod(number, OFFSET_END)
            run = partition, offset, count, timestamp_ns
            yield RunPlace(*run, size - overhead_size, Position(term, entry), elapsed_ns)

    def check_all(self, connection: sqlite3.Connection) -> None:
        """Look at what is in all runs, one by one; raises ``RowDamaged``."""
        for row in connection.execute(_QUERY):
            self._opened(connection, row)

    def read(self, connection: sqlite3.Connection, places: Iterable[RunPlace]) -> list[KeptRun]:
        """Give those of some runs that are still there, up to a damaged one.

        Raises ``RowDamaged`` for that if there is none before it.
        """
        found: list[KeptRun] = []
        for place in places:
            row = self._row(connection, run_id(place.partition, place.first_offset))
            if row is None:
                continue
            try:
                run = self._opened(connection, row)
                if run.place != place:
                    raise _damage(place.partition, place.first_offset, "it is another one")
            except RowDamaged:
                if not found:
                    raise
                break  # What is before it can be read.
            found.append(run)
        return found

    def cut(self, connection: sqlite3.Connection, keep: int) -> None:
        """Drop the runs of entries above an index.

        Those of one partition are in the order of their entries, so that each one's end is looked
        at alone, and not all that a log has ever kept.
        """
        end = _END
        while (last := connection.execute(_LAST, (end,)).fetchone()[0]) is not None:
            first = run_id(last // OFFSET_END, 0)
            kept = connection.execute(_LAST_KEPT, (first, end, keep)).fetchone()
            after = first - 1 if kept is None else kept[0]
            connection.execute("DELETE FROM runs WHERE id > ? AND id < ?", (after, end))
            end = first

    def forget(self, connection: sqlite3.Connection, starts: Sequence[int], floor: int) -> None:
        """Drop the runs before the partitions' starts that no entry above the floor refers to."""
        query = "DELETE FROM runs WHERE id >= ?1 AND id < ?2 AND id + count <= ?2 AND entry <= ?3"
        for partition, start in enumerate(starts):
            connection.execute(query, (run_id(partition, 0), run_id(partition, start), floor))

    def _row(self, connection: sqlite3.Connection, number: int) -> tuple[Any, ...] | None:
        query = f"{_QUERY} WHERE id = ?"
        found = connection.execute(query, (number,)).fetchall()
        if not found and self._has_arrivals:
            # Of a snapshot that counts already, and whose last write is still to come.
            query = query.replace("FROM runs", "FROM arriving")
            found = connection.execute(query, (number,)).fetchall()
        return found[0] if found else None

    def reseal(self, connection: sqlite3.Connection, after: int, count: int) -> int | None:
        """Close some runs behind ``after`` anew; gives the last's number, ``None`` at the end."""
        rows = []
        found = self._some(connection, after, count)
        for row in found:
            if not self._codec.is_current(connection, row[-1]):
                number, *_, body = self._closed(self._opened(connection, row))
                rows.append((body, number))
        connection.executemany("UPDATE runs SET body = ? WHERE id = ?", rows)
        return found[-1][0] if found else None

    def some(self, connection: sqlite3.Connection, after: int, count: int) -> list[KeptRun]:
        """Give some runs behind a number (``run_id``), in order; raises ``RowDamaged``."""
        return [self._opened(connection, row) for row in self._some(connection, after, count)]

    def _some(
        self, connection: sqlite3.Connection, after: int, count: int
    ) -> list[tuple[Any, ...]]:
        query = f"{_QUERY} WHERE id > ? ORDER BY id LIMIT ?"
        return connection.execute(query, (after, count)).fetchall()

    # -- runs that are of no account yet ---------------------------------------------------------

    def await_arrivals(self, connection: sqlite3.Connection) -> None:
        """Have room for runs of a snapshot beside the others; none have arrived."""
        self.forget_arrivals(connection)
        connection.execute(_ARRIVING_SCHEMA)
        self._has_arrivals = True

    def forget_arrivals(self, connection: sqlite3.Connection) -> None:
        """Drop what arrived of a snapshot that does not count."""
        connection.execute("DROP TABLE IF EXISTS arriving")
        self._has_arrivals = False

    def arrive(self, connection: sqlite3.Connection, runs: Iterable[KeptRun]) -> None:
        """Write runs of a snapshot beside the others."""
        connection.executemany(_ARRIVE, map(self._closed, runs))

    def admit(self, connection: sqlite3.Connection, count: int) -> None:
        """Put so many runs that have arrived to the others; raises ``RowDamaged``."""
        kept, arrived = (
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("runs", "arriving")
        )
        if arrived != count:
            raise RowDamaged(f"table arriving: {arrived} of {count} runs")
        # The fewer ones move: a new member has no others, so that nothing is written twice.
        if kept < arrived:
            connection.execute("INSERT INTO arriving SELECT * FROM runs")
            connection.execute("DROP TABLE runs")
            connection.execute("ALTER TABLE arriving RENAME TO runs")
        else:
            connection.execute("INSERT INTO runs SELECT * FROM arriving")
            connection.execute("DROP TABLE arriving")
        self._has_arrivals = False

    # -- steps -----------------------------------------------------------------------------------

    def _find(self, connection: sqlite3.Connection, position: Position, run: Run) -> Run:
        number = run_id(run.partition, run.first_offset)
        row = connection.execute(f"{_QUERY} WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise RowDamaged(f"table runs: one of entry {position.index} is missing")
        found = self._opened(connection, row)
        plain = Run(*_fields(found), found.body)
        if found.position != position or replace(plain, body=b"") != run:
            raise RowDamaged(f"table runs: one of entry {position.index} is of another entry")
        return plain

    def _opened(self, connection: sqlite3.Connection, row: tuple[Any, ...]) -> KeptRun:
        *numbers, head, body = row
        place = self._check(numbers, head)
        number, count, timestamp_ns, term, entry, elapsed_ns = numbers
        partition, offset = divmod(number, OFFSET_END)
        try:
            content = self._codec.open(connection, place, body)
        except (ValueError, TypeError) as error:
            raise _damage(partition, offset, error) from error
        at = Position(term, entry)
        return KeptRun(partition, offset, count, timestamp_ns, content, at, elapsed_ns)

    def _check(self, numbers: Sequence[int], head: int) -> bytes:
        """Give what a run is closed for; raises ``RowDamaged`` if its head is another one's."""
        place = self._place(*numbers)
        if crc32(place) != head:
            raise _damage(*divmod(numbers[0], OFFSET_END), "its head is another one")
        return place

    def _closed(self, run: KeptRun) -> tuple[Any, ...]:
        number, at = run_id(run.partition, run.first_offset), run.position
        numbers = (number, run.count, run.timestamp_ns, at.term, at.index, run.elapsed_ns)
        place = self._place(*numbers)
        return *numbers, crc32(place), self._codec.seal(place, run.body)

    def _place(self, *numbers: int) -> bytes:
        try:
            return _PLACE.pack(b"runs", self.group, *numbers)
        except struct.error as error:
            raise RowDamaged(f"table runs: {error}") from error


def _damage(partition: int, offset: int, what: object) -> RowDamaged:
    return RowDamaged(f"table runs: partition {partition}, offset {offset}: {what}")


def _fields(run: Run) -> tuple[int, int, int, int]:
    return run.partition, run.first_offset, run.count, run.timestamp_ns
