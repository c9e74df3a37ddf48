"""The backend in an SQLite file: an acknowledged write survives a crash and a power cut.

Write-ahead log, ``synchronous=FULL``, one transaction for as many mutations as came while the one
before was on its way to the disk. The file is locked while a master has it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from os import PathLike, fspath
from typing import Final, Literal, get_args

import cbor2

from stores import fields
from stores.actions import WriterId
from stores.epochs import next_epoch
from stores.outcomes import WriterRow
from stores.persistence import Changes, Loaded
from stores.table import Columns
from wire.errors import BackendFailure

Synchronous = Literal["OFF", "NORMAL", "FULL", "EXTRA"]

APPLICATION_ID: Final = 0x70656D73
"""Marks the file as ours for everybody who looks (``file``, ``PRAGMA application_id``): "pems"."""

SCHEMA_VERSION: Final = 1

CHECKPOINT_PAGES: Final = 4_000
"""Pages in the log before SQLite moves them to the database: 16 MiB. Four times the default, as a
busy store rewrites the same pages often, and each move costs two more waits for the disk."""

_SCHEMA: Final = """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE store (
        key BLOB PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL, expiry INTEGER
    ) WITHOUT ROWID;
    CREATE TABLE writers (
        writer BLOB PRIMARY KEY, request INTEGER NOT NULL, seen INTEGER NOT NULL,
        outcomes BLOB NOT NULL
    ) WITHOUT ROWID;
"""


class SQLiteBackend:
    """A store in one file. Use it from one thread at a time; it need not always be the same."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        synchronous: Synchronous = "FULL",
        is_integrity_checked: bool = False,
    ) -> None:
        """Remember the options; nothing is opened before ``load``.

        ``synchronous`` is SQLite's pragma: with ``NORMAL`` a power cut may take back what was
        acknowledged last, with ``OFF`` it may destroy the file; a crash of the process does
        neither. ``is_integrity_checked`` has SQLite read the whole file first.
        """
        if not path:
            raise BackendFailure("an SQLite store needs the option path=FILE")
        if synchronous not in get_args(Synchronous):
            allowed = ", ".join(get_args(Synchronous))
            raise BackendFailure(f"synchronous={synchronous!r}: it is one of {allowed}")
        self._path = fspath(path)
        self._synchronous = synchronous
        self._is_integrity_checked = is_integrity_checked
        self._connection: sqlite3.Connection | None = None
        self._seen = 0

    @property
    def is_durable(self) -> bool:
        """Masters persist before they acknowledge."""
        return True

    def load(self, epoch_min: int) -> Loaded:
        """Open or create the file; raises ``BackendFailure`` if it is no store, or in use."""
        with self._failures_explained():
            self._connection = connection = sqlite3.connect(
                self._path, timeout=0, isolation_level=None, check_same_thread=False
            )
            self._configure(connection)
            with _transaction(connection):
                self._prepare_schema(connection)
                epoch = self._next_epoch(connection, epoch_min)
                return self._read(connection, epoch)

    def commit(self, changes: Changes) -> None:
        """Make changes durable in one transaction."""
        with self._failures_explained():
            connection = self._connection
            if connection is None:
                raise BackendFailure(f"{self._path} is closed: start the master anew")
            with _transaction(connection):
                self._write(connection, changes)

    def close(self) -> None:
        """Close the file, which moves the log into it and takes the lock off."""
        if self._connection is not None:
            with self._failures_explained():
                self._connection.close()
            self._connection = None

    # -- steps -----------------------------------------------------------------------------------

    def _configure(self, connection: sqlite3.Connection) -> None:
        # The lock is kept until the file is closed: two masters of one file would each believe
        # that they alone decide. It also spares the log its shared memory.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode not in ("wal", "memory"):
            raise BackendFailure(f"{self._path}: its file system does not allow a write-ahead log")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")

    def _prepare_schema(self, connection: sqlite3.Connection) -> None:
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (table_count,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if (application_id, table_count) == (0, 0):
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            return
        if application_id != APPLICATION_ID:
            raise BackendFailure(
                f"{self._path} is a database of another program: give the store a path of its own"
            )
        if version != SCHEMA_VERSION:
            raise BackendFailure(
                f"{self._path} has the format {version}, and this version reads {SCHEMA_VERSION}:"
                " open it with the version that wrote it"
            )
        if self._is_integrity_checked:
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise BackendFailure(f"{self._path} is damaged ({found}): restore a copy of it")

    def _next_epoch(self, connection: sqlite3.Connection, epoch_min: int) -> int:
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        epoch: int = next_epoch(meta.get("epoch", 0), epoch_min)
        connection.execute("REPLACE INTO meta VALUES ('epoch', ?)", (epoch,))
        return epoch

    def _read(self, connection: sqlite3.Connection, epoch: int) -> Loaded:
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        columns = Columns()
        for key, value, revision, expiry in connection.execute("SELECT * FROM store"):
            columns.values[key] = value
            columns.revisions[key] = revision
            if expiry is not None:
                columns.expiries[key] = expiry
        writers: list[WriterRow] = []
        query = "SELECT writer, request, seen, outcomes FROM writers ORDER BY seen"
        for writer, request, self._seen, outcomes in connection.execute(query):
            found = tuple(fields.outcome(item) for item in cbor2.loads(outcomes))
            writers.append(WriterRow(WriterId(writer), request, found))
        return Loaded(epoch, meta.get("revision", 0), columns, tuple(writers))

    def _write(self, connection: sqlite3.Connection, changes: Changes) -> None:
        if changes.is_cleared:
            connection.execute("DELETE FROM store")
        connection.executemany("REPLACE INTO store VALUES (?, ?, ?, ?)", changes.rows)
        if changes.erased:
            erased = [(key,) for key in changes.erased]
            connection.executemany("DELETE FROM store WHERE key = ?", erased)
        if changes.forgotten:
            forgotten = [(writer,) for writer in changes.forgotten]
            connection.executemany("DELETE FROM writers WHERE writer = ?", forgotten)
        if changes.writers:
            rows = [self._writer_row(row) for row in changes.writers]
            connection.executemany("REPLACE INTO writers VALUES (?, ?, ?, ?)", rows)
        connection.execute("REPLACE INTO meta VALUES ('revision', ?)", (changes.revision,))

    def _writer_row(self, row: WriterRow) -> tuple[bytes, int, int, bytes]:
        self._seen += 1
        outcomes = cbor2.dumps(fields.pack(row.outcomes))
        return bytes(row.writer), row.last_request, self._seen, outcomes

    @contextlib.contextmanager
    def _failures_explained(self) -> Iterator[None]:
        """Translate SQLite's errors, here and nowhere else."""
        try:
            yield
        except sqlite3.Error as error:
            raise BackendFailure(f"{self._path}: {_explain(error)}") from error


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _explain(error: sqlite3.Error) -> str:
    match getattr(error, "sqlite_errorname", ""):
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            advice = "another process has it; a store's file belongs to one master at a time"
        case "SQLITE_NOTADB":
            advice = "this is no SQLite file, or a damaged one; restore a copy, or use another path"
        case "SQLITE_CORRUPT":
            advice = "the file is damaged; restore a copy of it"
        case "SQLITE_FULL":
            advice = "the disk is full; make room and start the master anew"
        case "SQLITE_CANTOPEN":
            advice = "it cannot be opened; see whether its directory exists and may be written"
        case "SQLITE_READONLY":
            advice = "it may not be written"
        case _:
            advice = "start the master anew when the cause is removed"
    return f"{error} ({advice})"
