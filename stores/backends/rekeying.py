"""Puts a file of a store or log under another key: in small commits, each of which stays done.

A file that is encrypted is done in place. Whatever interrupts that leaves a file of which some
records are under the old key and some under the new one: it opens with both, and to do it again
goes on where it ended. A plain file is copied into an encrypted one, which takes its place in one
step when it is complete; interrupted before that, it is what it was.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from stores.backends import marks
from stores.backends.log_sealed import SealedLogBackend
from stores.backends.sqlite import SQLiteBackend
from stores.backends.sqlite_file import SQLiteFile
from stores.backends.sqlite_sealed import SealedSQLiteBackend
from stores.persistence import Census, Changes, Rows
from stores.sealing import StorageKeys
from wire.errors import BackendFailure

COMMIT_COUNT: Final = 256
"""Records in a commit. Of runs, which are larger than entries, some MiB."""

SUFFIX: Final = ".rekeying"
"""Ends the name of the copy that a plain file is encrypted into."""


def rekey(path: str, keys: StorageKeys, count: int = COMMIT_COUNT) -> Iterator[int]:
    """Have everything in a file under the first of the keys; gives the size of each commit.

    No other process may have it open. Raises ``BackendFailure`` if one does, if it is damaged
    or is none of ours, and if it needs a key that is not there.
    """
    match _mark(path):
        case marks.SEALED_STORE:
            with closing(SealedSQLiteBackend(path, keys)) as store:
                store.load(0)
                yield from store.rekey(count)
        case marks.SEALED_LOG:
            with closing(SealedLogBackend(path, keys)) as log:
                log.load_follower()
                yield from log.rekey(count)
        case marks.STORE:
            yield from _encrypt(path, _copy_store(path, keys, count))
        case marks.LOG:
            yield from _encrypt(path, _copy_log(path, keys, count))
        case other:
            raise BackendFailure(marks.explain_mark(path, other, marks.STORE))


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
    directory = os.open(Path(path).absolute().parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _copy_store(path: str, keys: StorageKeys, count: int) -> Iterator[int]:
    with (
        closing(SQLiteBackend(path)) as plain,
        closing(SealedSQLiteBackend(path + SUFFIX, keys)) as sealed,
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
        closing(SQLiteFile(path, application_id=marks.LOG, schema="")) as plain,
        closing(SealedLogBackend(path + SUFFIX, keys)) as sealed,
    ):
        plain.open()
        sealed.load_follower()
        yield from sealed.adopt(plain.connection, count)
