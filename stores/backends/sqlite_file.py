"""An SQLite file that belongs to one process: how it is opened, locked, marked and explained."""

from __future__ import annotations

import contextlib
import os.path
import sqlite3
from collections.abc import Iterator
from os import PathLike, fspath
from typing import Final, Literal, get_args

from handshake.private_files import make_private_database
from stores.backends.marks import explain_mark
from wire.errors import BackendFailure

Synchronous = Literal["OFF", "NORMAL", "FULL", "EXTRA"]

CHECKPOINT_PAGES: Final = 4_000
"""Pages in the log before SQLite moves them to the database: 16 MiB. Four times the default, as a
busy store rewrites the same pages often, and each move costs two more waits for the disk."""


class SQLiteFile:
    """One database. Use it from one thread at a time; it need not always be the same."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        application_id: int,
        schema: str,
        version: int = 1,
        synchronous: Synchronous = "FULL",
    ) -> None:
        """Remember the options; nothing is opened before ``open``.

        ``synchronous`` is SQLite's pragma: with ``NORMAL`` a power cut may take back what was
        acknowledged last, with ``OFF`` it may destroy the file; a crash of the process does
        neither.
        """
        if not path:
            raise BackendFailure("an SQLite backend needs the option path=FILE")
        if synchronous not in get_args(Synchronous):
            allowed = ", ".join(get_args(Synchronous))
            raise BackendFailure(f"synchronous={synchronous!r}: it is one of {allowed}")
        self.path = fspath(path)
        self.place = ""
        self.exposed: tuple[str, ...] = ()
        """Files that others could read until this one was opened, a sentence for each."""
        self._application_id = application_id
        self._schema = schema
        self._version = version
        self._synchronous = synchronous
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open or create the file; raises ``BackendFailure`` if it is another's, or in use."""
        self.place = place_of(self.path)
        self.exposed = make_private_database(self.path)
        with self.failures_explained():
            self._connection = connection = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
            # The lock is kept until the file is closed: two owners of one file would each believe
            # that they alone decide. It also spares the log its shared memory.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode not in ("wal", "memory"):
                raise BackendFailure(
                    f"{self.path}: its file system does not allow a write-ahead log"
                )
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            with self.transaction():
                self._prepare_schema(connection)

    @property
    def connection(self) -> sqlite3.Connection:
        """The open connection; raises ``BackendFailure`` if there is none."""
        if self._connection is None:
            raise BackendFailure(f"{self.path} is closed: attach it anew")
        return self._connection

    def close(self) -> None:
        """Close the file, which moves the log into it and takes the lock off."""
        if self._connection is not None:
            with self.failures_explained():
                self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Do all of the block or nothing."""
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    @contextlib.contextmanager
    def failures_explained(self) -> Iterator[None]:
        """Translate SQLite's errors, here and nowhere else."""
        try:
            yield
        except sqlite3.Error as error:
            raise BackendFailure(f"{self.path}: {_explain(error)}") from error

    def _prepare_schema(self, connection: sqlite3.Connection) -> None:
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (table_count,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if (application_id, table_count) == (0, 0):
            connection.execute(f"PRAGMA application_id = {self._application_id}")
            connection.execute(f"PRAGMA user_version = {self._version}")
            for statement in self._schema.split(";"):
                connection.execute(statement)
        elif application_id != self._application_id:
            raise BackendFailure(explain_mark(self.path, application_id, self._application_id))
        elif version != self._version:
            raise BackendFailure(
                f"{self.path} has the format {version}, and this version reads {self._version}:"
                " open it with the version that wrote it"
            )


def place_of(path: str) -> str:
    """Say where a file is, wherever the process goes; empty if it is in memory."""
    return "" if path == ":memory:" else os.path.abspath(path)


def check_there(path: str) -> None:
    """Raise ``BackendFailure`` if a file is gone: what was written to it since is nowhere."""
    if path and not os.path.exists(path):
        raise BackendFailure(
            f"{path} was removed while it was in use: nothing of it is kept. Promote a clone that"
            " has the store (peermesh store promote), or restore a copy of the file"
        )


def _explain(error: sqlite3.Error) -> str:
    match getattr(error, "sqlite_errorname", ""):
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            advice = "another owner has it; such a file belongs to one owner at a time"
        case "SQLITE_NOTADB":
            advice = "this is no SQLite file, or a damaged one; restore a copy, or use another path"
        case "SQLITE_CORRUPT":
            advice = "the file is damaged; restore a copy of it"
        case "SQLITE_FULL":
            advice = "the disk is full; make room and start anew"
        case "SQLITE_CANTOPEN":
            advice = "it cannot be opened; see whether its directory exists and may be written"
        case "SQLITE_READONLY":
            advice = "it may not be written"
        case _:
            advice = "start anew when the cause is removed"
    return f"{error} ({advice})"
