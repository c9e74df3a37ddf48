"""The backend of a store in an SQLite file: an acknowledged write survives crashes and power cuts.

Write-ahead log, ``synchronous=FULL``, one transaction for as many mutations as came while the one
before was on its way to the disk. The file is locked while a master has it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from os import PathLike
from typing import Unpack

from stores.disk.rows import PLAIN, Codec
from stores.disk.sqlite import FileOptions, SQLiteFile
from stores.disk.table_rows import TableRows, table_rows
from stores.disk.table_state import TableState
from stores.epochs import next_epoch
from stores.persistence import Changes, Loaded


class SQLiteBackend:
    """A store in one file. Use it from one thread at a time; it need not always be the same."""

    def __init__(
        self,
        path: str | PathLike[str],
        codec: Codec = PLAIN,
        name: str | None = None,
        **options: Unpack[FileOptions],
    ) -> None:
        """Remember the options; nothing is opened before ``load``.

        ``name`` is that of the store, which an encrypted file knows.
        """
        self.rows: TableRows = table_rows(codec, name)
        self.file = SQLiteFile(path, self.rows.layout, **options)
        self._state = TableState(self.rows)

    @property
    def is_durable(self) -> bool:
        """Masters persist before they acknowledge."""
        return True

    def load(self, epoch_min: int) -> Loaded:
        """Open or create the file; raises ``BackendFailure`` if it is no store, or in use."""
        file, rows = self.file, self.rows
        with file.loading() as connection:
            rows.enter(connection, file.path, is_new=file.is_new)
            epoch = next_epoch(rows.facts.get("epoch", 0), epoch_min)
            columns, writers = self._state.load(connection)
            rows.begin(connection)
            rows.save(connection, {"epoch": epoch}, None)
        return Loaded(epoch, rows.facts.get("revision", 0), columns, writers, file.exposed)

    def commit(self, changes: Changes) -> None:
        """Make changes durable in one transaction."""
        with self.file.committing() as connection:
            self.rows.begin(connection)
            self._state.write(connection, changes, {"revision": changes.revision})

    def close(self) -> None:
        """Close the file, which moves the log into it and takes the lock off."""
        self.file.close()

    def resealing(self) -> list[Callable[[sqlite3.Connection, int, int], int | None]]:
        """Give what closes the rows of a table anew, some behind a number: see ``RecordTable``."""
        return [table.reseal for table in self.rows.tables]
