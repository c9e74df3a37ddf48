"""Puts a file of a store or log under another key: in small commits, each of which stays done.

A file that is encrypted is done in place. Whatever interrupts that leaves a file of which some
records are under the old key and some under the new one: it opens with both, and to do it again
goes on where it ended. A plain file is copied into an encrypted one, which takes its place in one
step when it is complete; interrupted before that, it is what it was.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from stores.disk import marks
from stores.disk.log import SQLiteLogBackend
from stores.disk.seals import Vault
from stores.disk.sqlite import SQLiteFile, sync_path
from stores.disk.table import SQLiteBackend
from stores.persistence import Census, Changes, Rows
from stores.sealing import StorageKeys
from wire.errors import BackendFailure

COMMIT_COUNT: Final = 256
"""Records in a commit. Of runs, which are larger than entries, some MiB."""

Resealing = Callable[[sqlite3.Connection, int, int], int | None]
"""Closes some rows of a table behind a number anew; gives the last, or ``None`` at the end."""

SUFFIX: Final = ".rekeying"
"""Ends the name of the copy that a plain file is encrypted into."""


def rekey(path: str, keys: StorageKeys, count: int = COMMIT_COUNT) -> Iterator[int]:
    """Have everything in a file under the first of the keys; gives the size of each commit.

    No other process may have it open. Raises ``BackendFailure`` if one does, if it is damaged
    or is none of ours, and if it needs a key that is not there.
    """
    vault = Vault(path, keys)
    match _mark(path):
        case marks.SEALED_STORE:
            with closing(SQLiteBackend(path, vault)) as store:
                store.load(0)
                yield from _in_place(store.file, vault, store.resealing(), count)
        case marks.SEALED_LOG:
            with closing(SQLiteLogBackend(path, vault)) as log:
                log.load_follower()
                yield from _in_place(log.file, vault, log.resealing(), count)
        case marks.STORE:
            yield from _encrypt(path, _copy_store(path, keys, count))
        case marks.LOG:
            yield from _encrypt(path, _copy_log(path, keys, count))
        case other:
            raise BackendFailure(marks.explain_mark(path, other, marks.STORE))


def _in_place(
    file: SQLiteFile, vault: Vault, tables: Iterable[Resealing], count: int
) -> Iterator[int]:
    for reseal in tables:
        last: int | None = -1
        while last is not None:
            with file.committing() as connection:
                vault.begin(connection)
                last = reseal(connection, last, count)
            yield count
    with file.committing() as connection:
        vault.forget_old_keys(connection)


def _mark(path: str) -> int:
    if not os.path.exists(path):
        raise BackendFailure(f"{path} is not there: give the path of a store or a log")
    try:
        with closing(
            sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=rw", uri=True)
        ) as file:
            return int(file.execute("PRAGMA application_id").fetchone()[0])
    except sqlite3.Error as error:
        raise BackendFailure(f"{path} cannot be read: {error}; is a master running?") from error


def _encrypt(path: str, copying: Iterator[int]) -> Iterator[int]:
    for end in (SUFFIX, f"{SUFFIX}-wal", f"{SUFFIX}-shm"):  # of a copy that was interrupted
        Path(f"{path}{end}").unlink(missing_ok=True)
    yield from copying
    os.replace(f"{path}{SUFFIX}", path)
    sync_path(str(Path(path).absolute().parent))


def _copy_store(path: str, keys: StorageKeys, count: int) -> Iterator[int]:
    with (
        closing(SQLiteBackend(path)) as plain,
        closing(SQLiteBackend(path + SUFFIX, Vault(path + SUFFIX, keys))) as sealed,
    ):
        loaded = plain.load(0)
        columns = loaded.columns
        sealed.load(loaded.epoch)
        names = list(columns)
        for start in range(0, len(names), count):
            rows = Rows.of(columns, names[start : start + count])
            sealed.commit(Changes(loaded.revision, rows=rows))
            yield len(rows.keys)
        census = Census.of(columns)
        sealed.commit(Changes(loaded.revision, writers=loaded.writers, census=census))


def _copy_log(path: str, keys: StorageKeys, count: int) -> Iterator[int]:
    with (
        closing(SQLiteLogBackend(path, upgrade=True)) as plain,  # no plain copy stays behind
        closing(SQLiteLogBackend(path + SUFFIX, Vault(path + SUFFIX, keys))) as sealed,
    ):
        plain.load_follower()
        sealed.load_follower()
        yield from sealed.copy_from(plain, count)
