"""The rows of a store in a file: columns with a checksum where they are plain, records if sealed.

Keys are sealed with their values: a master has all of them in memory, so that no read looks for one
in the file.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any, Final

import cbor2

from stores.digests import checksum, checksums
from stores.disk import marks
from stores.disk.rows import Codec, Head, RecordTable, RowDamaged
from stores.disk.sqlite import Format
from stores.persistence import Census
from stores.table import Columns
from stores.table.rows import Row, Rows
from wire.limits import KIB

ROWS_PER_STATEMENT: Final = 128
"""Rows that one statement writes: SQLite does them without asking for the interpreter in between,
so that the master goes on meanwhile. Five values each stay below the 999 that an old SQLite takes.
"""

SMALL_SIZE: Final = 4 * KIB
"""Bytes up to which values are written so: a statement keeps what it wrote last, up to 0.5 MiB."""

REMEDY: Final = (
    "Promote a clone that has the store (peermesh store promote), or restore a copy of the file"
)

Writer = tuple[bytes, int, int, Any]
"""The id of a writer, its last request, when it wrote last, and its outcomes for CBOR."""

_INTEGER_MAX: Final = (1 << 63) - 1

_SCHEMA: Final = """
    CREATE TABLE meta (
        name TEXT PRIMARY KEY, value INTEGER NOT NULL, checksum INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE store (
        key BLOB PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL, expiry INTEGER,
        checksum INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE writers (
        writer BLOB PRIMARY KEY, request INTEGER NOT NULL, seen INTEGER NOT NULL,
        outcomes BLOB NOT NULL, checksum INTEGER NOT NULL
    ) WITHOUT ROWID
"""

_NAMES: Final = ("key", "value", "revision", "checksum")

_ENTRY: Final = struct.Struct(">Q?Q")
"""Before a sealed value: its revision, whether it expires, and when."""


class ColumnRows:
    """Plain rows, at the speed of SQLite: each field is a column, and one more is a checksum."""

    layout = Format("store", "master", marks.STORE, 2, _SCHEMA, REMEDY)
    tables: tuple[RecordTable, ...] = ()
    """Those of records."""

    def __init__(self) -> None:
        """Start without facts."""
        self.facts: dict[str, Any] = {}

    def enter(self, connection: sqlite3.Connection, path: str, *, is_new: bool) -> None:
        """Read the facts."""
        self.facts = {}
        for name, value, check in connection.execute("SELECT name, value, checksum FROM meta"):
            if check != _number_checksum(name, value):
                raise RowDamaged(f"table meta: the number {name} is not what was written")
            self.facts[name] = value

    def entries(self, connection: sqlite3.Connection) -> Iterator[Row]:
        """Give all entries."""
        query = "SELECT key, value, revision, expiry, checksum FROM store"
        for key, value, revision, expiry, check in connection.execute(query):
            if check != checksum(key, value, revision, expiry):
                raise RowDamaged(f"table store: the entry {key.hex():.40} is not what was written")
            yield key, value, revision, expiry

    def writers(self, connection: sqlite3.Connection) -> Iterator[Writer]:
        """Give all writers."""
        query = "SELECT writer, request, seen, outcomes, checksum FROM writers"
        for writer, request, seen, outcomes, check in connection.execute(query):
            if check != checksum(writer, outcomes, request, seen):
                raise RowDamaged("table writers: a record is not what was written")
            yield writer, request, seen, cbor2.loads(outcomes)

    def check(self, columns: Columns) -> None:
        """Compare the entries with the count of the last commit; writers are not counted."""
        wanted = self.facts.get("entries"), self.facts.get("revisions")
        census = Census.of(columns)
        found = census.entry_count, census.revision_total & _INTEGER_MAX
        if wanted not in ((None, None), found):
            raise RowDamaged(
                f"table store: of {wanted[0]} entries, {found[0]} are there, or earlier ones"
            )

    def begin(self, connection: sqlite3.Connection) -> None:
        """Do nothing."""

    def clear(self, connection: sqlite3.Connection) -> None:
        """Remove all entries."""
        connection.execute("DELETE FROM store")

    def forget_all(self, connection: sqlite3.Connection) -> None:
        """Remove all writers."""
        connection.execute("DELETE FROM writers")

    def put(self, connection: sqlite3.Connection, rows: Rows) -> None:
        """Write entries, many with one statement."""
        if not rows.keys:
            return
        checks = checksums(rows.keys, rows.values, rows.revisions, rows.expiries)
        # To sqlite3 a bytearray is what it is. For bytes it looks for an adapter, and raises and
        # catches an error when there is none: that took a quarter of a commit.
        keys, values = map(bytearray, rows.keys), map(bytearray, rows.values)
        # It is the same with NULL, which most rows have for an expiry: so it is left out.
        columns: list[Iterable[object]] = [keys, values, rows.revisions, checks]
        names: tuple[str, ...] = _NAMES
        if rows.expiries:
            columns, names = [*columns, rows.expiries], (*names, "expiry")
        records = zip(*columns, strict=True)
        if max(map(len, rows.values)) <= SMALL_SIZE:
            for _ in range(len(rows.keys) // ROWS_PER_STATEMENT):
                some = chain.from_iterable(islice(records, ROWS_PER_STATEMENT))
                connection.execute(_replacement(names, ROWS_PER_STATEMENT), list(some))
        connection.executemany(_replacement(names, 1), records)

    def erase(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> None:
        """Remove entries, present or not."""
        if keys:
            connection.executemany("DELETE FROM store WHERE key = ?", [(key,) for key in keys])

    def remember(self, connection: sqlite3.Connection, writers: Iterable[Writer]) -> None:
        """Write writers."""
        rows = []
        for writer, request, seen, outcomes in writers:
            packed = cbor2.dumps(outcomes)
            rows.append((writer, request, seen, packed, checksum(writer, packed, request, seen)))
        connection.executemany("REPLACE INTO writers VALUES (?, ?, ?, ?, ?)", rows)

    def forget(self, connection: sqlite3.Connection, writers: Iterable[bytes]) -> None:
        """Remove writers, present or not."""
        connection.executemany(
            "DELETE FROM writers WHERE writer = ?", [(writer,) for writer in writers]
        )

    def save(
        self, connection: sqlite3.Connection, numbers: dict[str, int], census: Census | None
    ) -> None:
        """Write facts that changed."""
        self.facts.update(numbers)
        if census is not None:
            revisions = census.revision_total & _INTEGER_MAX
            numbers = {**numbers, "entries": census.entry_count, "revisions": revisions}
        rows = [(name, value, _number_checksum(name, value)) for name, value in numbers.items()]
        places = ", ".join(["(?, ?, ?)"] * len(rows))  # one statement costs half of three
        connection.execute(f"REPLACE INTO meta VALUES {places}", [*chain.from_iterable(rows)])


class SealedRows:
    """Sealed rows: each is a record, in a table whose names and bodies the file does not show."""

    def __init__(self, codec: Codec, name: str | None) -> None:
        """``name`` is that of the store: a file is refused that belongs to another one."""
        self._codec = codec
        self._name = name
        self._entries = RecordTable(codec, "entries")
        self._writers = RecordTable(codec, "writers")
        self.tables = (self._entries, self._writers)
        self._head = Head(codec, {"entries": self._entries, "writers": self._writers})
        schema = ";".join([codec.schema, *(table.schema for table in self.tables)])
        self.layout = Format("store", "master", marks.SEALED_STORE, 1, schema, REMEDY)

    @property
    def facts(self) -> dict[str, Any]:
        """Give what the head knows."""
        return self._head.facts

    def enter(self, connection: sqlite3.Connection, path: str, *, is_new: bool) -> None:
        """Read the head."""
        if is_new:
            self._head.create(connection)
        self._head.load(connection)
        self._head.check_name(path, self._name)

    def entries(self, connection: sqlite3.Connection) -> Iterator[Row]:
        """Give all entries."""
        for key, body in self._entries.load(connection):
            revision, is_expiring, expires_at_ns = _ENTRY.unpack_from(body)
            yield key, body[_ENTRY.size :], revision, expires_at_ns if is_expiring else None

    def writers(self, connection: sqlite3.Connection) -> Iterator[Writer]:
        """Give all writers."""
        for writer, body in self._writers.load(connection):
            yield writer, *cbor2.loads(body)

    def check(self, columns: Columns) -> None:
        """Compare with the head."""
        self._head.check()

    def begin(self, connection: sqlite3.Connection) -> None:
        """Start a commit, with other nonces."""
        self._codec.begin(connection)

    def clear(self, connection: sqlite3.Connection) -> None:
        """Remove all entries."""
        self._entries.clear(connection)

    def forget_all(self, connection: sqlite3.Connection) -> None:
        """Remove all writers."""
        self._writers.clear(connection)

    def put(self, connection: sqlite3.Connection, rows: Rows) -> None:
        """Write entries."""
        pack = _ENTRY.pack
        self._entries.put(
            connection,
            [
                (key, pack(revision, expiry is not None, expiry or 0) + value)
                for key, value, revision, expiry in rows
            ],
        )

    def erase(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> None:
        """Remove entries, present or not."""
        self._entries.remove(connection, keys)

    def remember(self, connection: sqlite3.Connection, writers: Iterable[Writer]) -> None:
        """Write writers."""
        records = [(writer, cbor2.dumps(content)) for writer, *content in writers]
        self._writers.put(connection, records)

    def forget(self, connection: sqlite3.Connection, writers: Iterable[bytes]) -> None:
        """Remove writers, present or not."""
        self._writers.remove(connection, list(writers))

    def save(
        self, connection: sqlite3.Connection, numbers: dict[str, int], census: Census | None
    ) -> None:
        """Write the head, which has a census of its own."""
        self._head.facts.update(numbers)
        self._head.save(connection)


TableRows = ColumnRows | SealedRows
"""What the backend of a store reads and writes; each method in a transaction of the caller's."""


def table_rows(codec: Codec, name: str | None) -> TableRows:
    """Give the rows of a store; ``name`` is what an encrypted file has to belong to."""
    return SealedRows(codec, name) if codec.is_sealed else ColumnRows()


@cache
def _replacement(names: tuple[str, ...], row_count: int) -> str:
    """Write the statement that puts so many rows into the store."""
    row = f"({', '.join('?' * len(names))})"
    rows = ", ".join([row] * row_count)
    return f"REPLACE INTO store ({', '.join(names)}) VALUES {rows}"


def _number_checksum(name: str, value: int) -> int:
    return checksum(str(name).encode(), b"%d" % value, 0, None)  # damage may change its type
