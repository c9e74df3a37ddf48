"""The backend in an encrypted SQLite file: the same promises, and nothing in the file to read.

Keys are sealed with their values: a master has all of them in memory, so that no read looks for one
in the file.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from os import PathLike
from typing import Final

import cbor2

from stores import fields
from stores.actions import WriterId
from stores.backends import marks
from stores.backends.sealed import SCHEMA, SealedHead, SealedTable, Vault
from stores.backends.sqlite import SQLiteBackend, Synchronous, transaction
from stores.epochs import next_epoch
from stores.outcomes import WriterRow
from stores.persistence import Changes, Loaded, Rows
from stores.sealing import StorageKeys
from stores.table import Columns

_ENTRY: Final = struct.Struct(">Q?Q")
"""Before a value: its revision, whether it expires, and when."""


class SealedSQLiteBackend(SQLiteBackend):
    """An encrypted store in one file."""

    _application_id = marks.SEALED_STORE
    _version = 1

    def __init__(
        self,
        path: str | PathLike[str],
        keys: StorageKeys,
        *,
        name: str | None = None,
        synchronous: Synchronous = "FULL",
        is_integrity_checked: bool = False,
    ) -> None:
        """Remember the options; nothing is opened before ``load``.

        ``name`` is that of the store: a file is refused that belongs to another one.
        """
        super().__init__(path, synchronous=synchronous, is_integrity_checked=is_integrity_checked)
        self._name = name
        self._vault = Vault(self._path, keys)
        self._entries = SealedTable(self._vault, "entries")
        self._writers = SealedTable(self._vault, "writers")
        tables = {"entries": self._entries, "writers": self._writers}
        self._head = SealedHead(self._vault, tables)
        self._schema = ";".join([SCHEMA, *(table.schema for table in tables.values())])

    def _prepare_schema(self, connection: sqlite3.Connection) -> None:
        super()._prepare_schema(connection)
        (count,) = connection.execute("SELECT count(*) FROM head").fetchone()
        if not count:
            self._vault.create(connection)
            self._vault.begin(connection)
            self._head.save(connection)

    def _next_epoch(self, connection: sqlite3.Connection, epoch_min: int) -> int:
        self._vault.enter(connection)
        self._head.load(connection)
        self._head.check_name(self._path, self._name)
        epoch = next_epoch(self._head.facts.get("epoch", 0), epoch_min)
        self._head.facts["epoch"] = epoch
        return epoch

    def _read(self, connection: sqlite3.Connection, epoch: int) -> Loaded:
        columns = Columns()
        for key, body in self._entries.load(connection):
            revision, is_expiring, expires_at_ns = _ENTRY.unpack_from(body)
            columns.values[key] = body[_ENTRY.size :]
            columns.revisions[key] = revision
            if is_expiring:
                columns.expiries[key] = expires_at_ns
        columns.measure()
        self._head.check("entries")
        writers = self._read_writers(connection)
        self._head.check("writers")
        self._vault.begin(connection)
        self._head.save(connection)
        return Loaded(epoch, self._head.facts.get("revision", 0), columns, writers)

    def _read_writers(self, connection: sqlite3.Connection) -> tuple[WriterRow, ...]:
        rows = [(name, *cbor2.loads(body)) for name, body in self._writers.load(connection)]
        rows.sort(key=lambda row: row[2])
        self._seen = rows[-1][2] if rows else 0
        return tuple(
            WriterRow(WriterId(name), request, tuple(fields.outcome(item) for item in outcomes))
            for name, request, _, outcomes in rows
        )

    def _write(self, connection: sqlite3.Connection, changes: Changes) -> None:
        self._vault.begin(connection)
        if changes.is_cleared:
            self._entries.clear(connection)
        self._entries.put(connection, _records(changes.rows), len(changes.rows.keys))
        self._entries.remove(connection, changes.erased)
        self._writers.remove(connection, map(bytes, changes.forgotten))
        self._writers.put(connection, map(self._writer, changes.writers), len(changes.writers))
        self._head.facts["revision"] = changes.revision
        self._head.save(connection)

    def rekey(self, count: int) -> Iterator[int]:
        """Seal all that is under an old key anew, ``count`` records a commit; gives each count.

        After ``load``. What was done stays done, wherever it is interrupted.
        """
        with self._failures_explained():
            connection = self._connection
            assert connection is not None
            for table in (self._entries, self._writers):
                last: int | None = 0
                while last is not None:
                    with transaction(connection):
                        self._vault.begin(connection)
                        last = table.reseal(connection, last, count)
                    yield count
            with transaction(connection):
                self._vault.forget_old_keys(connection)

    def _writer(self, row: WriterRow) -> tuple[bytes, bytes]:
        self._seen += 1
        content = (row.last_request, self._seen, fields.pack(row.outcomes))
        return bytes(row.writer), cbor2.dumps(content)


def _records(rows: Rows) -> Iterator[tuple[bytes, bytes]]:
    pack = _ENTRY.pack
    for key, value, revision, expires_at_ns in rows:
        is_expiring = expires_at_ns is not None
        yield key, pack(revision, is_expiring, expires_at_ns or 0) + value
