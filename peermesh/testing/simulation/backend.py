"""The store backend of a simulated host: in place of ``Backend.SQLite``, on the simulated disk.

A log of records with checksums, which is read up to the first that is torn. It keeps what SQLite
would keep and loses what SQLite would lose; SQLite itself is not simulated.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import cbor2

from peermesh.testing.simulation.disk import Disk, File
from stores import fields
from stores.actions import WriterId
from stores.outcomes import WriterRow
from stores.persistence import Changes, Loaded
from stores.table import Columns
from wire.errors import BackendFailure

HEAD_SIZE: Final = 8
"""Bytes before each record: its size and its checksum."""

SYNCING: Final = ("FULL", "EXTRA")
"""The settings of ``synchronous`` with which SQLite waits for the disk at each commit."""

_OPTIONS: Final = {"synchronous", "is_integrity_checked"}


class DiskBackend:
    """A store in one file of a simulated disk."""

    def __init__(self, disk: Disk, owner: object, path: str, options: dict[str, Any]) -> None:
        """Take the options of ``Backend.SQLite``; raises ``BackendFailure`` for others."""
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise BackendFailure(f"an SQLite store has no option {unknown[0]!r}")
        self._disk = disk
        self._owner = owner
        self._path = path
        self._is_syncing = options.get("synchronous", "FULL") in SYNCING
        self._file: File | None = None
        self._size = 0

    @property
    def is_durable(self) -> bool:
        """Masters persist before they acknowledge."""
        return True

    def load(self, epoch_min: int) -> Loaded:
        """Open the file, and read all records that are whole."""
        with self._failures_explained():
            self._file = file = self._disk.open(self._path, self._owner)
        state = _State()
        content = file.read()
        for end, record in _records(content):
            self._size = end
            state.take_in(record)
        file.truncate(self._size)
        with self._failures_explained():
            # Once more, as SQLite's checkpoint does: a sync that failed has kept none of it.
            self._disk.write(file, 0, content[: self._size])
        state.columns.measure()
        epoch = max(state.epoch + 1, epoch_min)
        self._append({"epoch": epoch}, is_synced=True)
        return Loaded(epoch, state.revision, state.columns, tuple(state.writers.values()))

    def commit(self, changes: Changes) -> None:
        """Append one record, and sync."""
        if self._file is None:
            raise BackendFailure(f"{self._path} is closed: start the master anew")
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
        self._append(record, is_synced=self._is_syncing)

    def _append(self, record: dict[str, Any], *, is_synced: bool) -> None:
        assert self._file is not None
        if self._file.owner is not self._owner:
            raise BackendFailure(f"{self._path}: the process that had it open was killed")
        body = cbor2.dumps(record)
        head = len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big")
        with self._failures_explained():
            self._disk.write(self._file, self._size, head + body)
            if is_synced:
                self._disk.sync(self._file)
        self._size += HEAD_SIZE + len(body)

    def close(self) -> None:
        """Let go of the lock."""
        if self._file is not None and self._file.owner is self._owner:
            self._file.owner = None
        self._file = None

    @contextmanager
    def _failures_explained(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError as error:
            text = f"{self._path}: another master has it; a store's file belongs to one at a time"
            raise BackendFailure(text) from error
        except OSError as error:
            text = f"{self._path}: {error.strerror}; start the master anew when that is mended"
            raise BackendFailure(text) from error


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


def _records(content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give each whole record with the place where it ends."""
    at = 0
    while at + HEAD_SIZE <= len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        body = content[at + HEAD_SIZE : at + HEAD_SIZE + size]
        checksum = int.from_bytes(content[at + 4 : at + HEAD_SIZE], "big")
        if not size or len(body) < size or zlib.crc32(body) != checksum:
            return
        at += HEAD_SIZE + size
        yield at, cbor2.loads(body)
