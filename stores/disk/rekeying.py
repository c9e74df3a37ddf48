"""Puts a file of a store or log under another key: in small commits, each of which stays done.

A file that is encrypted is done in place. Whatever interrupts that leaves a file of which some
records are under the old key and some under the new one: it opens with both, and to do it again
goes on where it ended. A plain file is copied into an encrypted one, which takes its place in one
step when it is complete; interrupted before that, it is what it was. The ballot goes along.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from stores.disk import marks
from stores.disk.ballot import SUFFIX as BALLOT, BallotFile
from stores.disk.founding import Founding
from stores.disk.log_replica import SQLiteLogReplica
from stores.disk.medium import PrivateMedium
from stores.disk.replica import VERSION, SQLiteReplica
from stores.disk.seals import Vault
from stores.disk.sqlite import sync_path
from stores.group.positions import MemberId
from stores.sealing import StorageKeys
from stores.table.codec import TableCodec
from wire.errors import BackendFailure

COMMIT_COUNT: Final = 256
"""Records in a commit. Of runs, which are larger than entries, some MiB."""

SUFFIX: Final = ".rekeying"
"""Ends the name of the copy that a plain file is encrypted into."""

_NOTHING: Final = Founding(b"", MemberId("", 0), 0)
"""What an upgrade would take: nothing is upgraded here."""


def rekey(path: str, keys: StorageKeys, count: int = COMMIT_COUNT) -> Iterator[int]:
    """Have everything in a file under the first of the keys; gives the size of each commit.

    No other process may have it open. Raises ``BackendFailure`` if one does, if it is damaged
    or is none of ours, and if it needs a key that is not there.
    """
    vault = Vault(path, keys)
    mark, version = _mark(path)
    is_known = mark in (marks.STORE, marks.SEALED_STORE, marks.LOG, marks.SEALED_LOG)
    if is_known and version < VERSION:
        raise BackendFailure(
            f"{path} is of an earlier release: have its owner open it once, and do this then"
        )
    match mark:
        case marks.SEALED_STORE:
            with closing(SQLiteReplica(path, TableCodec(), vault)) as store:
                store.load(_NOTHING)
                yield from _in_place(store, vault, keys, count)
        case marks.SEALED_LOG:
            with closing(SQLiteLogReplica(path, vault)) as log:
                log.load(_NOTHING)
                yield from _in_place(log, vault, keys, count)
        case marks.STORE:
            yield from _encrypt(path, keys, _copy_store(path, keys, count))
        case marks.LOG:
            yield from _encrypt(path, keys, _copy_log(path, keys, count))
        case other:
            raise BackendFailure(marks.explain_mark(path, other, marks.STORE))


def _in_place(
    replica: SQLiteReplica | SQLiteLogReplica, vault: Vault, keys: StorageKeys, count: int
) -> Iterator[int]:
    file = replica.file
    _seal_ballot(file.path, keys, is_sealed=True)
    for reseal in replica.resealing():
        last: int | None = -1
        while last is not None:
            with file.committing() as connection:
                vault.begin(connection)
                last = reseal(connection, last, count)
            yield count
    with file.committing() as connection:
        vault.forget_old_keys(connection)


def _mark(path: str) -> tuple[int, int]:
    """Give the mark and the version of a file."""
    if not os.path.exists(path):
        raise BackendFailure(f"{path} is not there: give the path of a store or a log")
    try:
        with closing(
            sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=rw", uri=True)
        ) as file:
            (mark,) = file.execute("PRAGMA application_id").fetchone()
            (version,) = file.execute("PRAGMA user_version").fetchone()
            return mark, version
    except sqlite3.Error as error:
        raise BackendFailure(f"{path} cannot be read: {error}; is a master running?") from error


def _encrypt(path: str, keys: StorageKeys, copying: Iterator[int]) -> Iterator[int]:
    for end in (SUFFIX, f"{SUFFIX}-wal", f"{SUFFIX}-shm"):  # of a copy that was interrupted
        Path(f"{path}{end}").unlink(missing_ok=True)
    yield from copying
    # Ahead of the file: a ballot that is plain beside a sealed file is never believed.
    _seal_ballot(path, keys, is_sealed=False)
    os.replace(f"{path}{SUFFIX}", path)
    sync_path(str(Path(path).absolute().parent))


def _copy_store(path: str, keys: StorageKeys, count: int) -> Iterator[int]:
    codec, copy = TableCodec(), path + SUFFIX
    with (
        closing(SQLiteReplica(path, codec)) as plain,
        closing(SQLiteReplica(copy, codec, Vault(copy, keys))) as sealed,
    ):
        loaded = plain.load(_NOTHING)
        sealed.load(_NOTHING)
        yield from sealed.copy_from(loaded, count)


def _seal_ballot(path: str, keys: StorageKeys, *, is_sealed: bool) -> None:
    """Put the ballot beside a file under the first key, if there is one.

    Beside a plain file it is plain, or sealed since an attempt that was interrupted.
    """
    medium = PrivateMedium(path + BALLOT)
    for current in (keys,) if is_sealed else (keys, None):
        with closing(BallotFile(medium, current)) as ballot:
            try:
                loaded = ballot.load()
            except BackendFailure:
                if current is keys and not is_sealed:
                    continue
                raise
            if loaded is not None:
                ballot.seal(loaded, keys)
            return


def _copy_log(path: str, keys: StorageKeys, count: int) -> Iterator[int]:
    copy = path + SUFFIX
    with (
        closing(SQLiteLogReplica(path)) as plain,
        closing(SQLiteLogReplica(copy, Vault(copy, keys))) as sealed,
    ):
        loaded = plain.load(_NOTHING)
        sealed.load(_NOTHING)
        yield from sealed.copy_from(plain, loaded, count)
