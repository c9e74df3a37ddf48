"""Puts a file of a store or log under another key: in small commits, each of which stays done.

A file that is encrypted is done in place. Whatever interrupts that leaves a file of which some
records are under the old key and some under the new one: it opens with both, and to do it again
goes on where it ended. A plain file is copied into an encrypted one, which takes its place in one
step when it is complete; interrupted before that, it is what it was. The ballot goes along.

Whichever it is, the file is locked from before it is read until all is done: what an owner wrote
meanwhile would be in no copy.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from handshake.private_files import sync_path
from stores.disk import marks
from stores.disk.ballot import BallotFile, ballot_beside
from stores.disk.founding import Founding
from stores.disk.log_replica import LoadedLogReplica, SQLiteLogReplica
from stores.disk.machine_meta import Meta
from stores.disk.medium import PrivateMedium
from stores.disk.replica import VERSION, LoadedReplica, SQLiteReplica
from stores.disk.seals import Vault
from stores.disk.sqlite import SQLiteFile, identity
from stores.group.positions import MemberId
from stores.sealing import StorageKeys
from stores.table.codec import TableCodec
from wire.errors import BackendFailure

COMMIT_COUNT: Final = 256
"""Records in a commit. Of runs, which are larger than entries, some MiB."""

SUFFIX: Final = ".rekeying"
"""Ends the name of the copy that a plain file is encrypted into."""

_MOVED: Final = "was moved or replaced while it was encrypted; do it again with the file there is"

_NOTHING: Final = Founding(b"", MemberId("", 0), 0)
"""What an upgrade would take: nothing is upgraded here."""


def rekey(path: str, keys: StorageKeys, count: int = COMMIT_COUNT) -> Iterator[int]:
    """Have everything in a file under the first of the keys; gives the size of each commit.

    No other process may have it open. Raises ``BackendFailure`` if one does, if it is damaged
    or is none of ours, and if it needs a key that is not there.
    """
    vault = Vault(path, keys)
    if not os.path.exists(path):
        raise BackendFailure(f"{path} is not there: give the path of a store or a log")
    mark, version = SQLiteReplica(path, TableCodec()).file.look()
    is_known = mark in (marks.STORE, marks.SEALED_STORE, marks.LOG, marks.SEALED_LOG)
    if is_known and version < VERSION:
        raise BackendFailure(
            f"{path} is of an earlier release: have its owner open it once, and do this then"
        )
    match mark:
        case marks.SEALED_STORE:
            with closing(SQLiteReplica(path, TableCodec(), vault)) as store:
                _check_ballot(path, store.load(_NOTHING).meta)
                yield from _in_place(store, vault, keys, count)
        case marks.SEALED_LOG:
            with closing(SQLiteLogReplica(path, vault)) as log:
                _check_ballot(path, log.load(_NOTHING).meta)
                yield from _in_place(log, vault, keys, count)
        case marks.STORE:
            with closing(SQLiteReplica(path, TableCodec())) as store:
                found = store.load(_NOTHING)
                _check_ballot(path, found.meta)
                yield from _encrypt(store.file, keys, _copy_store(store, found, keys, count))
        case marks.LOG:
            with closing(SQLiteLogReplica(path)) as log:
                loaded = log.load(_NOTHING)
                _check_ballot(path, loaded.meta)
                copying = _copy_log(log, loaded, keys, count)
                yield from _encrypt(log.file, keys, copying)
        case other:
            raise BackendFailure(marks.explain_mark(path, other, marks.STORE))


def _check_ballot(path: str, meta: Meta) -> None:
    """Refuse a file whose ballot is elsewhere: it would stay under the old key, or under none."""
    if meta.group is not None and not os.path.exists(ballot_beside(path)):
        raise BackendFailure(
            f"{path} has no ballot beside it, as {ballot_beside(path)}: give the path by which its"
            " owner opens it, or put the ballot back"
        )


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


def _encrypt(plain: SQLiteFile, keys: StorageKeys, copying: Iterator[int]) -> Iterator[int]:
    """Put the copy that ``copying`` makes in the place of a plain file, which the caller closes.

    It is open, and stays locked until another one has its place: no owner acknowledges anything in
    a file that is about to go.
    """
    place = plain.place
    found = identity(place)
    for end in (SUFFIX, f"{SUFFIX}-wal", f"{SUFFIX}-shm"):  # of a copy that was interrupted
        Path(f"{place}{end}").unlink(missing_ok=True)
    yield from copying
    _check_place(place, found)
    _let_go_of_log(plain)
    # Ahead of the file: a ballot that is plain beside a sealed file is never believed.
    _seal_ballot(plain.path, keys, is_sealed=False)
    _check_place(place, found)
    os.replace(f"{place}{SUFFIX}", place)
    sync_path(os.path.dirname(place))


def _check_place(place: str, found: tuple[int, int] | None) -> None:
    """Refuse to replace a file that is another one than was copied; raises ``BackendFailure``."""
    if found is None or identity(place) != found:
        raise BackendFailure(f"{place} {_MOVED}")


def _let_go_of_log(plain: SQLiteFile) -> None:
    """Move the write-ahead log into the file, and remove it; the lock stays.

    The log has the name that the one of the next file will have: neither may what is in it be found
    beside that file, nor may closing this one remove that one's. An owner that has opened this file
    already, and waits for the lock, cannot begin a log once another file has its place: SQLite
    refuses.
    """
    with plain.failures_explained():
        try:
            # What is only emptied is not removed by its name, either, when the file is closed.
            (mode,) = plain.connection.execute("PRAGMA journal_mode = TRUNCATE").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname == "SQLITE_READONLY_DBMOVED":
                raise BackendFailure(f"{plain.path} {_MOVED}") from error
            raise
    if mode != "truncate":
        raise BackendFailure(f"{plain.path}: its write-ahead log cannot be closed: do it again")
    Path(f"{plain.place}-journal").unlink(missing_ok=True)
    sync_path(os.path.dirname(plain.place))


def _copy_store(
    plain: SQLiteReplica, found: LoadedReplica, keys: StorageKeys, count: int
) -> Iterator[int]:
    copy = plain.file.place + SUFFIX
    with closing(SQLiteReplica(copy, TableCodec(), Vault(copy, keys))) as sealed:
        sealed.load(_NOTHING)
        yield from sealed.copy_from(found, count)


def _copy_log(
    plain: SQLiteLogReplica, found: LoadedLogReplica, keys: StorageKeys, count: int
) -> Iterator[int]:
    copy = plain.file.place + SUFFIX
    with closing(SQLiteLogReplica(copy, Vault(copy, keys))) as sealed:
        sealed.load(_NOTHING)
        yield from sealed.copy_from(plain, found, count)


def _seal_ballot(path: str, keys: StorageKeys, *, is_sealed: bool) -> None:
    """Put the ballot beside a file under the first key, if there is one.

    Beside a plain file it is plain, or sealed since an attempt that was interrupted.
    """
    medium = PrivateMedium(ballot_beside(path))
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
