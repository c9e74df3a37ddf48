"""A file of records with checksums on a simulated disk: read up to the first that is torn."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import cbor2

from peermesh.testing.simulation.disk import Disk, File
from wire.errors import BackendFailure

HEAD_SIZE: Final = 8
"""Bytes before each record: its size and its checksum."""

SYNCING: Final = ("FULL", "EXTRA")
"""The settings of ``synchronous`` with which SQLite waits for the disk at each commit."""

_OPTIONS: Final = {"synchronous", "is_integrity_checked", "upgrade"}


class RecordFile:
    """Keeps what SQLite would keep, and loses what SQLite would lose. SQLite is not simulated."""

    def __init__(
        self, disk: Disk, owner: object, path: str, options: dict[str, Any], what: str
    ) -> None:
        """Take the options of ``Backend.SQLite``; raises ``BackendFailure`` for others."""
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise BackendFailure(f"{what} has no option {unknown[0]!r}")
        self._disk = disk
        self._owner = owner
        self._path = path
        self._is_syncing = options.get("synchronous", "FULL") in SYNCING
        self._file: File | None = None
        self._size = 0

    def load(self) -> Iterator[dict[str, Any]]:
        """Open the file, and give all records that are whole."""
        with self._failures_explained():
            self._file = file = self._disk.open(self._path, self._owner)
        content = file.read()
        for end, record in _records(content):
            self._size = end
            yield record
        file.truncate(self._size)
        with self._failures_explained():
            # Once more, as SQLite's checkpoint does: a sync that failed has kept none of it.
            self._disk.write(file, 0, content[: self._size])
            if self._is_syncing:
                self._disk.sync(file)

    def append(self, record: dict[str, Any], *, is_synced: bool = False) -> None:
        """Write a record behind the others, and sync if the options or the caller say so."""
        if self._file is None:
            raise BackendFailure(f"{self._path} is closed: start its owner anew")
        if self._file.owner is not self._owner:
            raise BackendFailure(f"{self._path}: the process that had it open was killed")
        body = cbor2.dumps(record)
        head = len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big")
        with self._failures_explained():
            self._disk.write(self._file, self._size, head + body)
            if is_synced or self._is_syncing:
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
            text = f"{self._path}: another process has it; a file belongs to one at a time"
            raise BackendFailure(text) from error
        except OSError as error:
            text = f"{self._path}: {error.strerror}; start its owner anew when that is mended"
            raise BackendFailure(text) from error


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
