"""The backend of a store in an SQLite file: an acknowledged write survives crashes and power cuts.

Write-ahead log, ``synchronous=FULL``, one transaction for as many mutations as came while the one
before was on its way to the disk. The file is locked while a master has it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Unpack

from stores import fields
from stores.actions import WriterId
from stores.disk.rows import PLAIN, Codec
from stores.disk.sqlite import FileOptions, SQLiteFile
from stores.disk.table_rows import ColumnRows, SealedRows, TableRows, Writer
from stores.epochs import next_epoch
from stores.outcomes import WriterRow
from stores.persistence import Changes, Loaded
from stores.table import Columns


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
        self.rows: TableRows = SealedRows(codec, name) if codec.is_sealed else ColumnRows()
        self.file = SQLiteFile(path, self.rows.layout, **options)
        self._seen = 0

    @property
    def is_durable(self) -> bool:
        """Masters persist before they acknowledge."""
        return True

    def load(self, epoch_min: int) -> Loaded:
        """Open or create the file; raises ``BackendFailure`` if it is no store, or in use."""
        file, rows, columns = self.file, self.rows, Columns()
        with file.loading() as connection:
            rows.enter(connection, file.path, is_new=file.is_new)
            epoch = next_epoch(rows.facts.get("epoch", 0), epoch_min)
            for key, value, revision, expiry in rows.entries(connection):
                columns.values[key] = value
                columns.revisions[key] = revision
                if expiry is not None:
                    columns.expiries[key] = expiry
            columns.measure()
            writers = sorted(rows.writers(connection), key=_seen)
            self._seen = _seen(writers[-1]) if writers else 0
            rows.check(columns)
            loaded = [_writer_row(*writer) for writer in writers]
            rows.begin(connection)
            rows.save(connection, {"epoch": epoch}, None)
        return Loaded(epoch, rows.facts.get("revision", 0), columns, tuple(loaded), file.exposed)

    def commit(self, changes: Changes) -> None:
        """Make changes durable in one transaction."""
        rows = self.rows
        with self.file.committing() as connection:
            rows.begin(connection)
            if changes.is_cleared:
                rows.clear(connection)
            rows.put(connection, changes.rows)
            rows.erase(connection, changes.erased)
            if changes.forgotten:
                rows.forget(connection, map(bytes, changes.forgotten))
            if changes.writers:
                rows.remember(connection, self._writers(changes.writers))
            rows.save(connection, {"revision": changes.revision}, changes.census)

    def close(self) -> None:
        """Close the file, which moves the log into it and takes the lock off."""
        self.file.close()

    def resealing(self) -> list[Callable[[sqlite3.Connection, int, int], int | None]]:
        """Give what closes the rows of a table anew, some behind a number: see ``RecordTable``."""
        return [table.reseal for table in self.rows.tables]

    def _writers(self, rows: Iterable[WriterRow]) -> Iterator[Writer]:
        for row in rows:
            self._seen += 1
            yield bytes(row.writer), row.last_request, self._seen, fields.pack(row.outcomes)


def _seen(writer: Writer) -> int:
    return writer[2]


def _writer_row(writer: bytes, request: int, _: int, outcomes: Sequence[object]) -> WriterRow:
    found = tuple(fields.outcome(item) for item in outcomes)
    return WriterRow(WriterId(writer), request, found)
