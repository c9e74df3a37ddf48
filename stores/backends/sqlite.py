"""The backend in an SQLite file: an acknowledged write survives a crash and a power cut.

Write-ahead log, ``synchronous=FULL``, one transaction for as many mutations as came while the one
before was on its way to the disk. The file is locked while a master has it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from os import PathLike, fspath
from os.path import getsize
from typing import Final, Literal, get_args

import cbor2

from handshake.private_files import make_private_database
from stores import fields
from stores.actions import WriterId
from stores.backends import marks
from stores.backends.sqlite_file import check_there, place_of
from stores.backends.wal import LogWitness, opened_log, read_witness
from stores.digests import checksum, checksums
from stores.epochs import next_epoch
from stores.outcomes import WriterRow
from stores.persistence import Census, Changes, Loaded, Rows
from stores.table import Columns
from wire.errors import BackendFailure, DecodeError
from wire.limits import KIB

Synchronous = Literal["OFF", "NORMAL", "FULL", "EXTRA"]

SCHEMA_VERSION: Final = 2
"""Since 2 every row has a checksum."""

CHECKPOINT_PAGES: Final = 4_000
"""Pages in the log before SQLite moves them to the database: 16 MiB. Four times the default, as a
busy store rewrites the same pages often, and each move costs two more waits for the disk."""

ROWS_PER_STATEMENT: Final = 128
"""Rows that one statement writes: SQLite does them without asking for the interpreter in between,
so that the master goes on meanwhile. Five values each stay below the 999 that an old SQLite takes.
"""

SMALL_SIZE: Final = 4 * KIB
"""Bytes up to which values are written so: a statement keeps what it wrote last, up to 0.5 MiB."""

REMEDY: Final = (
    "do not use it. Promote a clone that has the store (peermesh store promote), or restore a copy"
    " of the file"
)

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
    ) WITHOUT ROWID;
"""


class SQLiteBackend:
    """A store in one file. Use it from one thread at a time; it need not always be the same."""

    _application_id: int = marks.STORE
    _version: int = SCHEMA_VERSION
    _schema: str = _SCHEMA

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
        self._place = ""
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
        try:
            with self._failures_explained():
                return self._open(epoch_min)
        except BaseException:
            self._abandon()
            raise

    def commit(self, changes: Changes) -> None:
        """Make changes durable in one transaction."""
        with self._failures_explained():
            connection = self._connection
            if connection is None:
                raise BackendFailure(f"{self._path} is closed: start the master anew")
            with transaction(connection):
                self._write(connection, changes)
            check_there(self._place)

    def close(self) -> None:
        """Close the file, which moves the log into it and takes the lock off."""
        if self._connection is not None:
            with self._failures_explained():
                self._connection.close()
            self._connection = None

    # -- steps -----------------------------------------------------------------------------------

    def _open(self, epoch_min: int) -> Loaded:
        exposed = make_private_database(self._path)
        self._place = place_of(self._path)
        with opened_log(self._path) as log:
            is_empty = log is not None and not getsize(self._path)
            self._connection = connection = self._connect()
            self._configure(connection)
            (page_size,) = connection.execute("PRAGMA page_size").fetchone()
            # Of an empty database SQLite says the size that it would give it.
            witness = read_witness(log, None if is_empty else page_size)
        self._check_log(connection, witness)
        with transaction(connection):
            self._prepare_schema(connection)
            try:
                epoch = self._next_epoch(connection, epoch_min)
                loaded = self._read(connection, epoch)
            except (ValueError, TypeError, OverflowError, DecodeError) as error:
                # A checksum would have told, if the damage had let it be computed.
                raise self._damage(f"a record ({error!s:.80})") from error
        # A log that was read may be in the system's memory only, if its sync failed once: what is
        # added to it would be lost with it. Written anew into the file, it is durable.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return replace(loaded, exposed=exposed)

    def _abandon(self) -> None:
        """Let go of a file that could not be loaded, and leave it as it is."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)

    def _check_log(self, connection: sqlite3.Connection, witness: LogWitness) -> None:
        """Refuse a log in which commits lie behind damage: SQLite itself would not mind."""
        if not witness.commits:
            return
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        _, frame_count, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if witness.lost_commits(frame_count) > 1:
            raise self._damage(f"its log {self._path}-wal, after frame {frame_count}")

    def _damage(self, what: str) -> BackendFailure:
        return BackendFailure(f"{self._path} is damaged ({what} is not what was written): {REMEDY}")

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
            connection.execute(f"PRAGMA application_id = {self._application_id}")
            connection.execute(f"PRAGMA user_version = {self._version}")
            for statement in self._schema.split(";"):
                connection.execute(statement)
            return
        if application_id != self._application_id:
            text = marks.explain_mark(self._path, application_id, self._application_id)
            raise BackendFailure(text)
        if version != self._version:
            raise BackendFailure(
                f"{self._path} has the format {version}, and this version reads {self._version}:"
                " open it with the version that wrote it"
            )
        if self._is_integrity_checked:
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise BackendFailure(f"{self._path} is damaged ({found}): {REMEDY}")

    def _next_epoch(self, connection: sqlite3.Connection, epoch_min: int) -> int:
        epoch = next_epoch(self._meta(connection).get("epoch", 0), epoch_min)
        self._set_meta(connection, {"epoch": epoch})
        return epoch

    def _meta(self, connection: sqlite3.Connection) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, value, check in connection.execute("SELECT name, value, checksum FROM meta"):
            if check != _number_checksum(name, value):
                raise self._damage(f"the number {name}")
            found[name] = value
        return found

    def _set_meta(self, connection: sqlite3.Connection, numbers: dict[str, int]) -> None:
        rows = [(name, value, _number_checksum(name, value)) for name, value in numbers.items()]
        places = ", ".join(["(?, ?, ?)"] * len(rows))  # one statement costs half of three
        connection.execute(f"REPLACE INTO meta VALUES {places}", [*chain.from_iterable(rows)])

    def _read(self, connection: sqlite3.Connection, epoch: int) -> Loaded:
        meta = self._meta(connection)
        columns = Columns()
        query = "SELECT key, value, revision, expiry, checksum FROM store"
        for key, value, revision, expiry, check in connection.execute(query):
            if check != checksum(key, value, revision, expiry):
                raise self._damage(f"the entry {key.hex():.40}")
            columns.values[key] = value
            columns.revisions[key] = revision
            if expiry is not None:
                columns.expiries[key] = expiry
        columns.measure()
        self._count(columns, meta)
        return Loaded(epoch, meta.get("revision", 0), columns, self._read_writers(connection))

    def _count(self, columns: Columns, meta: dict[str, int]) -> None:
        """See that no entry is missing, and none is an earlier one."""
        if "entries" not in meta and "revisions" not in meta:
            return
        census = Census.of(columns)
        if (census.entry_count, census.revision_total & _INTEGER_MAX) != (
            meta.get("entries"),
            meta.get("revisions"),
        ):
            raise self._damage(f"of {meta.get('entries')} entries, {census.entry_count} are there")

    def _read_writers(self, connection: sqlite3.Connection) -> tuple[WriterRow, ...]:
        writers: list[WriterRow] = []
        query = "SELECT writer, request, seen, outcomes, checksum FROM writers ORDER BY seen"
        for writer, request, self._seen, outcomes, check in connection.execute(query):
            if check != checksum(writer, outcomes, request, self._seen):
                raise self._damage("the record of a writer")
            found = tuple(fields.outcome(item) for item in cbor2.loads(outcomes))
            writers.append(WriterRow(WriterId(writer), request, found))
        return tuple(writers)

    def _write(self, connection: sqlite3.Connection, changes: Changes) -> None:
        if changes.is_cleared:
            connection.execute("DELETE FROM store")
        self._replace(connection, changes.rows)
        if changes.erased:
            erased = [(key,) for key in changes.erased]
            connection.executemany("DELETE FROM store WHERE key = ?", erased)
        if changes.forgotten:
            forgotten = [(writer,) for writer in changes.forgotten]
            connection.executemany("DELETE FROM writers WHERE writer = ?", forgotten)
        if changes.writers:
            records = [self._writer_row(row) for row in changes.writers]
            connection.executemany("REPLACE INTO writers VALUES (?, ?, ?, ?, ?)", records)
        numbers = {"revision": changes.revision}
        if (census := changes.census) is not None:
            numbers["entries"] = census.entry_count
            numbers["revisions"] = census.revision_total & _INTEGER_MAX
        self._set_meta(connection, numbers)

    def _replace(self, connection: sqlite3.Connection, rows: Rows) -> None:
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

    def _writer_row(self, row: WriterRow) -> tuple[bytes, int, int, bytes, int]:
        self._seen += 1
        outcomes = cbor2.dumps(fields.pack(row.outcomes))
        writer, request, seen = bytes(row.writer), row.last_request, self._seen
        return writer, request, seen, outcomes, checksum(writer, outcomes, request, seen)

    @contextlib.contextmanager
    def _failures_explained(self) -> Iterator[None]:
        """Translate SQLite's errors, here and nowhere else."""
        try:
            yield
        except sqlite3.Error as error:
            raise BackendFailure(f"{self._path}: {_explain(error)}") from error


_NAMES: Final = ("key", "value", "revision", "checksum")


@cache
def _replacement(names: tuple[str, ...], row_count: int) -> str:
    """Write the statement that puts so many rows into the store."""
    row = f"({', '.join('?' * len(names))})"
    rows = ", ".join([row] * row_count)
    return f"REPLACE INTO store ({', '.join(names)}) VALUES {rows}"


def _number_checksum(name: str, value: int) -> int:
    return checksum(str(name).encode(), b"%d" % value, 0, None)  # damage may change its type


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do all of the block or nothing."""
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
            advice = "another master has it; a store's file belongs to one master at a time"
        case "SQLITE_NOTADB":
            advice = f"this is no SQLite file, or a damaged one: {REMEDY}"
        case "SQLITE_CORRUPT":
            advice = f"the file is damaged: {REMEDY}"
        case "SQLITE_FULL":
            advice = "the disk is full; make room and start the master anew"
        case "SQLITE_CANTOPEN":
            advice = "it cannot be opened; see whether its directory exists and may be written"
        case "SQLITE_READONLY":
            advice = "it may not be written"
        case _:
            advice = "start the master anew when the cause is removed"
    return f"{error} ({advice})"
