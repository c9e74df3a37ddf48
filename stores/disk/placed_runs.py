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
from stores.log.kept_runs import KeptRun
from stores.log.limits import OFFSET_END
from stores.log.runs import Run

PLACED_RUNS_SCHEMA: Final = """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY, count INTEGER NOT NULL, timestamp INTEGER NOT NULL,
        term INTEGER NOT NULL, entry INTEGER NOT NULL, elapsed INTEGER NOT NULL,
        head INTEGER NOT NULL, body BLOB NOT NULL
    )
"""

_INSERT: Final = "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_QUERY: Final = "SELECT id, count, timestamp, term, entry, elapsed, head, body FROM runs"
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

    def up_to(self, connection: sqlite3.Connection, index: int) -> Iterator[KeptRun]:
        """Give the runs of entries up to an index, in order; raises ``RowDamaged``."""
        for row in connection.execute(f"{_QUERY} WHERE entry <= ? ORDER BY id", (index,)):
            yield self._opened(connection, row)

    def count_above(self, connection: sqlite3.Connection, index: int) -> int:
        """Count the runs of all other entries."""
        query = "SELECT count(*) FROM runs WHERE entry > ?"
        return int(connection.execute(query, (index,)).fetchone()[0])

    def cut(self, connection: sqlite3.Connection, keep: int) -> None:
        """Drop the runs of entries above an index."""
        connection.execute("DELETE FROM runs WHERE entry > ?", (keep,))

    def forget(self, connection: sqlite3.Connection, starts: Sequence[int], floor: int) -> None:
        """Drop the runs before the partitions' starts that no entry above the floor refers to."""
        query = "DELETE FROM runs WHERE id >= ?1 AND id < ?2 AND id + count <= ?2 AND entry <= ?3"
        for partition, start in enumerate(starts):
            connection.execute(query, (run_id(partition, 0), run_id(partition, start), floor))

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
        number, count, timestamp_ns, term, entry, elapsed_ns, head, body = row
        partition, offset = divmod(number, OFFSET_END)
        place = self._place(number, count, timestamp_ns, term, entry, elapsed_ns)
        try:
            if crc32(place) != head:
                raise RowDamaged("its head is another one")
            content = self._codec.open(connection, place, body)
        except (ValueError, TypeError) as error:
            text = f"table runs: partition {partition}, offset {offset}: {error}"
            raise RowDamaged(text) from error
        at = Position(term, entry)
        return KeptRun(partition, offset, count, timestamp_ns, content, at, elapsed_ns)

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


def _fields(run: Run) -> tuple[int, int, int, int]:
    return run.partition, run.first_offset, run.count, run.timestamp_ns
