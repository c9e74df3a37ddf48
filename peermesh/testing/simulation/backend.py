"""The store backend of a simulated host: in place of ``Backend.SQLite``, on the simulated disk."""

from __future__ import annotations

from typing import Any

from peermesh.testing.simulation.disk import Disk
from peermesh.testing.simulation.record_file import RecordFile
from stores import fields
from stores.actions import WriterId
from stores.outcomes import WriterRow
from stores.persistence import Changes, Loaded
from stores.table import Columns


class DiskBackend:
    """A store in one file of a simulated disk."""

    def __init__(self, disk: Disk, owner: object, path: str, options: dict[str, Any]) -> None:
        """Take the options of ``Backend.SQLite``; raises ``BackendFailure`` for others."""
        self._file = RecordFile(disk, owner, path, options, "an SQLite store")

    @property
    def is_durable(self) -> bool:
        """Masters persist before they acknowledge."""
        return True

    def load(self, epoch_min: int) -> Loaded:
        """Open the file, and read all records that are whole."""
        state = _State()
        for record in self._file.load():
            state.take_in(record)
        state.columns.measure()
        epoch = max(state.epoch + 1, epoch_min)
        self._file.append({"epoch": epoch}, is_synced=True)
        return Loaded(epoch, state.revision, state.columns, tuple(state.writers.values()))

    def commit(self, changes: Changes) -> None:
        """Append one record, and sync."""
        record = {
            "revision": changes.revision,
            "cleared": changes.is_cleared,
            "rows": [list(row) for row in changes.rows],
            "erased": list(changes.erased),
            "writers": [
                [bytes(row.writer), row.last_request, fields.pack(row.outcomes)]
                for row in changes.writers
            ],
            "forgotten": [bytes(writer) for writer in changes.forgotten],
        }
        self._file.append(record)

    def close(self) -> None:
        """Let go of the lock."""
        self._file.close()


class _State:
    """What the records so far add up to."""

    def __init__(self) -> None:
        self.epoch = 0
        self.revision = 0
        self.columns = Columns()
        self.writers: dict[bytes, WriterRow] = {}

    def take_in(self, record: dict[str, Any]) -> None:
        if "epoch" in record:
            self.epoch = record["epoch"]
            return
        columns = self.columns
        if record["cleared"]:
            self.columns = columns = Columns()
        for key, value, revision, expiry in record["rows"]:
            columns.values[key], columns.revisions[key] = value, revision
            columns.expiries.pop(key, None)
            if expiry is not None:
                columns.expiries[key] = expiry
        for key in record["erased"]:
            for column in (columns.values, columns.revisions, columns.expiries):
                column.pop(key, None)
        for writer in record["forgotten"]:
            self.writers.pop(writer, None)
        for writer, request, outcomes in record["writers"]:
            self.writers.pop(writer, None)
            found = tuple(fields.outcome(item) for item in outcomes)
            self.writers[writer] = WriterRow(WriterId(writer), request, found)
        self.revision = record["revision"]
