"""What a store has in its file: how it is read, and how changes of it are written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stores import fields
from stores.actions import WriterId
from stores.disk.table_rows import TableRows, Writer
from stores.outcomes import WriterRow
from stores.persistence import Changes
from stores.table import Columns


class TableState:
    """Entries and writers; each method is called in a transaction of the caller's."""

    def __init__(self, rows: TableRows) -> None:
        """Write to these rows."""
        self._rows = rows
        self._seen = 0

    def load(self, connection: sqlite3.Connection) -> tuple[Columns, tuple[WriterRow, ...]]:
        """Give the entries, and the writers, the least recently active first.

        Raises ``RowDamaged``, or what decoding a damaged row raises.
        """
        columns, rows = Columns(), self._rows
        for key, value, revision, expiry in rows.entries(connection):
            columns.values[key] = value
            columns.revisions[key] = revision
            if expiry is not None:
                columns.expiries[key] = expiry
        columns.measure()
        writers = sorted(rows.writers(connection), key=_seen)
        self._seen = _seen(writers[-1]) if writers else 0
        rows.check(columns)
        return columns, tuple(_writer_row(*writer) for writer in writers)

    def write(
        self, connection: sqlite3.Connection, changes: Changes, numbers: dict[str, int]
    ) -> None:
        """Write changes, and numbers beside them."""
        rows = self._rows
        if changes.is_cleared:
            rows.clear(connection)
        rows.put(connection, changes.rows)
        rows.erase(connection, changes.erased)
        if changes.forgotten:
            rows.forget(connection, map(bytes, changes.forgotten))
        if changes.writers:
            rows.remember(connection, self._writers(changes.writers))
        rows.save(connection, numbers, changes.census)

    def _writers(self, rows: Iterable[WriterRow]) -> Iterator[Writer]:
        for row in rows:
            self._seen += 1
            packed = fields.pack(row.outcomes)
            content = [row.number, packed] if row.number else packed
            yield bytes(row.writer), row.last_request, self._seen, content


def _seen(writer: Writer) -> int:
    return writer[2]


def _writer_row(writer: bytes, request: int, _: int, content: Sequence[Any]) -> WriterRow:
    # Masters have no numbers for writers: there, all of it are outcomes.
    is_numbered = bool(content) and isinstance(content[0], int)
    number, outcomes = content if is_numbered else (0, content)
    found = tuple(fields.outcome(item) for item in outcomes)
    return WriterRow(WriterId(writer), request, found, number)
