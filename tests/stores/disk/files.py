"""Files of stores and logs as tests open them: a store is committed to one state after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from stores.disk.founding import Founding
from stores.disk.lazy_rows import Checkpoint, Slice
from stores.disk.log_replica import SQLiteLogReplica
from stores.disk.replica import LoadedReplica, SQLiteReplica
from stores.disk.rows import PLAIN
from stores.disk.seals import Vault
from stores.group.clock import NO_TIMES
from stores.group.effects import Persist
from stores.group.entries import TimeEntry
from stores.group.positions import MemberId, Position
from stores.persistence import Census, Changes
from stores.sealing import StorageKeys
from stores.table import Columns, Entry
from stores.table.codec import TableCodec

GROUP = b"0123456789abcdef"
MEMBER = MemberId("a", 1)
FOUNDING = Founding(GROUP, MEMBER, 1_000)


class StoreFile(SQLiteReplica):
    """A replica's file in which each commit has an entry of the journal, and all rows of it."""

    def __init__(self, path: str | Path, keys: StorageKeys | None = None, **options: Any) -> None:
        codec = PLAIN if keys is None else Vault(path, keys)
        super().__init__(path, TableCodec(), codec, **options)
        self._columns = Columns()

    def open(self) -> LoadedReplica:
        """Load it; a new one is of a group then."""
        loaded = self.load(FOUNDING)
        if loaded.meta.group is None:
            self.join(GROUP)
        self._columns = loaded.columns.copy()
        return loaded

    def commit(self, changes: Changes) -> None:
        columns = Columns() if changes.is_cleared else self._columns.copy()
        for key, value, revision, expires_at_ns in changes.rows:
            columns.set(key, Entry(value, revision, expires_at_ns))
        for key in changes.erased:
            columns.discard(key)
        keep = self._journal.end.index
        at = Position(1, keep + 1)
        point = Checkpoint(at, NO_TIMES, at, (MEMBER,))
        counted = replace(changes, census=Census.of(columns))
        entry = TimeEntry(1, NO_TIMES)
        self.persist(Persist(1, None, keep, (entry,)), Slice(point, counted, is_last=True))
        self._columns = columns


def sealed_store(path: str | Path, keys: StorageKeys, **options: Any) -> StoreFile:
    """Make the file of an encrypted store."""
    return StoreFile(path, keys, **options)


def sealed_log(path: str | Path, keys: StorageKeys, **options: Any) -> SQLiteLogReplica:
    """Make the file of an encrypted log."""
    return SQLiteLogReplica(path, Vault(path, keys), **options)


MakeStore = Callable[..., StoreFile]
