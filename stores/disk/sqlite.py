"""The only opening of an SQLite file: locked, marked, checked for damage, upgraded, explained."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import struct
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from typing import BinaryIO, Final, Literal, TypedDict, get_args

import cbor2

from handshake.private_files import (
    DATABASE_SUFFIXES,
    loose_files,
    make_private_database,
    sync_path,
    tighten_database,
)
from stores.disk.marks import explain_mark
from stores.disk.wal import LogWitness, is_gone, kept, opened_log, put_back, read_witness
from wire.errors import BackendFailure, DecodeError, StoreError
from wire.limits import MIB

Synchronous = Literal["OFF", "NORMAL", "FULL", "EXTRA"]
LEVELS: Final[tuple[Synchronous, ...]] = get_args(Synchronous)

CHECKPOINT_PAGES: Final = 4_000
"""Pages in the log before SQLite moves them to the database: 16 MiB. Four times the default, as a
busy store rewrites the same pages often, and each move costs two more waits for the disk."""

CACHE_SIZE: Final = 8 * MIB
"""Bytes of pages that SQLite keeps at hand. A commit has entries and a slice of rows, some MiB if
they are large: where they do not fit, SQLite writes them early and reads them again."""

INCREMENTAL: Final = 2
"""SQLite's number for a file that gives free pages back when it is asked to."""

FREE_PAGES_MAX: Final = 8_192
"""Free pages that a file keeps for what comes next, 32 MiB: more than the journal of a busy store
frees and takes again, so that only what was erased in earnest is given back."""

GIVEN_BACK_PAGES: Final = 65_536
"""Pages that one commit gives back to the disk, 256 MiB: a third of a second's work, and more than
one commit frees."""

_open_here: Final = set[str]()
"""The files that this process has open: who meets a lock should not look for another one."""

DAMAGE: Final = (
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    struct.error,
    cbor2.CBORError,
    DecodeError,
)
"""What reading a row may raise that is not what was written."""

UPGRADE_COPIES: Final = 3
"""Times the size of a file that its upgrade takes on the disk: the copy, the write-ahead log, and
the rows that are written before those of the earlier format are gone."""


@dataclass(frozen=True, slots=True)
class Format:
    """What a kind of file has in it, and how it is spoken of."""

    what: str
    """Of what it is: a store, a log."""
    owner: str
    """Who has it open, one at a time."""
    mark: int
    version: int
    schema: str
    remedy: str
    """What to do about a file that is damaged or gone."""
    upgraded: frozenset[int] = frozenset()
    """Earlier versions that the owner upgrades when it loads them."""


class FileOptions(TypedDict, total=False):
    """What ``Backend.SQLITE`` takes for stores and for logs, besides ``path``."""

    synchronous: Synchronous
    """SQLite's pragma: with ``NORMAL`` a power cut may take back what was acknowledged last, with
    ``OFF`` it may destroy the file; a crash of the process does neither."""
    is_integrity_checked: bool
    """Whether all of the file is read and checked first, however large it is."""
    upgrade: bool
    """Whether a file of an earlier format is upgraded without keeping a copy of it."""


OPTIONS: Final = ("path", *FileOptions.__annotations__)


class SQLiteFile:
    """One database. Use it from one thread at a time; it need not always be the same."""

    def __init__(
        self,
        path: str | PathLike[str],
        layout: Format,
        *,
        synchronous: Synchronous = "FULL",
        is_integrity_checked: bool = False,
        upgrade: bool = False,
    ) -> None:
        """Remember the options (``FileOptions``); nothing is opened before ``loading``."""
        if not path:
            raise BackendFailure("an SQLite backend needs the option path=FILE")
        self.path = fspath(path)
        """As it was given, for sentences."""
        if self.path == ":memory:" or "\0" in self.path:
            raise BackendFailure(
                f"path={self.path!r} is no file: attach it with Backend.Memory, which keeps nothing"
            )
        self.place = os.path.realpath(self.path)
        """Where the file is, whatever links lead to it, and wherever the process goes: beside it
        SQLite puts its log. Such a path is never taken for a URI."""
        self.is_integrity_checked = is_integrity_checked
        self.exposed: tuple[str, ...] = ()
        """Files that others could read until this one was opened, a sentence for each."""
        self.version = layout.version
        """That of the file, as it was found."""
        self.is_new = False
        """Whether it was made by being opened."""
        self.layout = layout
        """What the file has in it once it is open."""
        self._identity: tuple[int, int] | None = None
        """Of the file that is open; another one may get its name."""
        self._keeps_log = False
        """Whether the log is to stay as it is, since SQLite would lose what is behind damage."""
        self._synchronous = synchronous
        self._is_upgraded_unkept = upgrade
        self._gives_back = False
        self._connection: sqlite3.Connection | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The open connection; raises ``BackendFailure`` if there is none."""
        if self._connection is None:
            raise BackendFailure(f"{self.path} is closed: start the {self.layout.owner} anew")
        return self._connection

    @contextlib.contextmanager
    def loading(self) -> Iterator[sqlite3.Connection]:
        """Open or create the file, for a block that reads it, in one transaction.

        If ``version`` is an earlier one, the block has to upgrade it. Raises ``BackendFailure`` if
        the file is another's, in use, or damaged; it is then closed, and as it was.
        """
        try:
            with self.failures_explained():
                connection = self._open()
                if self.version != self.layout.version:
                    self._keep_copy(connection)
                with self.transaction():
                    self._prepare(connection)
                    with self.damage_explained():
                        yield connection
                # A log that was read may be in the system's memory only, if its sync failed once:
                # what is added to it would be lost with it. Written into the file, it is durable.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except BaseException as error:
            self._abandon(error)
            raise

    def look(self) -> tuple[int, int]:
        """Give the mark and the version of what is there, whatever it is, and close it again.

        Raises ``BackendFailure`` if it is in use, or its log is damaged, which then stays.
        """
        try:
            with self.failures_explained():
                connection, _ = self._open_any()
                (mark,) = connection.execute("PRAGMA application_id").fetchone()
                (version,) = connection.execute("PRAGMA user_version").fetchone()
        except BaseException as error:
            self._abandon(error)
            raise
        self.close()
        return mark, version

    def set_aside(self) -> str | None:
        """Give a file of an earlier format another name, and say which; it stays as it is.

        ``None`` if there is no such file. Raises ``BackendFailure`` if it is another's, or in use.
        """
        if not os.path.exists(self.place):
            return None
        try:
            with self.failures_explained():
                connection = self._open()
                if self.version != self.layout.version:
                    # Nothing of it may stay in a log that has the old name.
                    connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        except BaseException as error:
            self._abandon(error)
            raise
        self.close()
        if self.version == self.layout.version:
            return None
        aside = free_name(f"{self.place}.schema{self.version}")
        with self._system_explained():
            os.rename(self.place, aside)
            sync_path(os.path.dirname(self.place))
        return aside

    @contextlib.contextmanager
    def _system_explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BackendFailure(f"{self.path} cannot be renamed: {error}") from error

    @contextlib.contextmanager
    def committing(self) -> Iterator[sqlite3.Connection]:
        """Do all of the block or nothing, in a file that is known to be there still."""
        with self.failures_explained():
            with self.transaction() as connection:
                yield connection
            self._give_back(connection)
            if (found := identity(self.place)) != self._identity:
                what = "removed" if found is None else "replaced"
                raise BackendFailure(
                    f"{self.place} was {what} while it was in use: nothing of it is kept."
                    f" {self.layout.remedy}"
                )

    def _give_back(self, connection: sqlite3.Connection) -> None:
        """Make the file smaller, by a step, if much of it is free."""
        if not self._gives_back:
            return
        (free_count,) = connection.execute("PRAGMA freelist_count").fetchone()
        if free_count > FREE_PAGES_MAX:
            count = min(free_count - FREE_PAGES_MAX, GIVEN_BACK_PAGES)
            # As a script, since it is done page by page, and gives no rows that would drive it.
            connection.executescript(f"PRAGMA incremental_vacuum({count})")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def close(self) -> None:
        """Close the file, which moves the log into it and takes the lock off."""
        if self._connection is not None:
            with self.failures_explained():
                self._connection.close()
            self._connection = None
            _open_here.discard(self.place)

    def remove(self) -> None:
        """Remove the file, which stays open and locked; not another one that has its name by now.

        The log goes first, since one without its database is refused: what is left if the process
        ends in between is as it was when the log was last moved into it. Raises ``OSError``.
        """
        if self._identity is None or identity(self.place) != self._identity:
            return
        for suffix in reversed(DATABASE_SUFFIXES):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.place}{suffix}")
        sync_path(os.path.dirname(self.place))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Do all of the block or nothing."""
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    @contextlib.contextmanager
    def failures_explained(self) -> Iterator[None]:
        """Translate SQLite's errors, here and nowhere else."""
        try:
            yield
        except sqlite3.Error as error:
            raise BackendFailure(f"{self.path}: {self._explain(error)}") from error

    @contextlib.contextmanager
    def damage_explained(self) -> Iterator[None]:
        """Translate what reading damaged rows raises, here and nowhere else."""
        try:
            yield
        except BackendFailure:
            raise
        except DAMAGE as error:
            if isinstance(error, StoreError):
                raise  # about what was asked for, and not about the file
            raise self.damage(str(error)) from error

    def damage(self, what: str) -> BackendFailure:
        """Give the error of a file that is not what was written."""
        remedy = self.layout.remedy
        return BackendFailure(f"{self.path} is damaged ({what:.120}): do not use it. {remedy}")

    def connect(self) -> sqlite3.Connection:
        """Have SQLite open the file."""
        return sqlite3.connect(self.place, timeout=0, isolation_level=None, check_same_thread=False)

    # -- steps -----------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        """Open or create a file of ours, which is its owner's alone then."""
        connection, loose = self._open_any()
        self._check_mark(connection)
        # Only a new file can: an earlier one keeps its size for ever, as it always did.
        if self.is_new:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise BackendFailure(f"{self.path}: its file system allows no write-ahead log")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA cache_size = {-CACHE_SIZE // 1024}")
        (vacuum,) = connection.execute("PRAGMA auto_vacuum").fetchone()
        self._gives_back = vacuum == INCREMENTAL
        # Some builds fill pages that become free with zeros: each entry of a journal would be
        # written once more when it is forgotten.
        connection.execute("PRAGMA secure_delete = FAST")
        self.exposed = tighten_database(self.place, loose)
        return connection

    def _open_any(self) -> tuple[sqlite3.Connection, tuple[str, ...]]:
        """Open or create a file, and read it; gives those of its files that are not private.

        Nothing is written: it may be another program's.
        """
        put_back(self.place)
        with opened_log(self.place) as log:
            self._check_begun(log)
            loose = loose_files(self.place)
            make_private_database(self.place)
            self._connection = connection = self.connect()
            # The lock is kept until the file is closed: two owners of one file would each believe
            # that they alone decide. It also spares the log its shared memory.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            (page_size,) = connection.execute("PRAGMA page_size").fetchone()
            witness = LogWitness()
            if log is not None and not is_gone(log, self.place):
                witness = read_witness(log, page_size)
        self._identity = identity(self.place)
        _open_here.add(self.place)
        self._check_log(connection, witness)
        return connection, loose

    def _abandon(self, error: BaseException) -> None:
        """Let go of a file that could not be loaded, and leave it as it is."""
        # SQLite keeps the lock for a query that was not read to its end, and a traceback keeps it.
        failure: BaseException | None = error
        while failure is not None:
            traceback.clear_frames(failure.__traceback__)
            failure = failure.__cause__
        connection, self._connection = self._connection, None
        if connection is not None:
            keeping = kept(self.place) if self._keeps_log else contextlib.nullcontext()
            with contextlib.suppress(sqlite3.Error), keeping:
                connection.close()
            if self._identity is not None:
                _open_here.discard(self.place)

    def _check_begun(self, log: BinaryIO | None) -> None:
        """Refuse a database that is missing, or empty, beside a log: SQLite would remove that."""
        found = identity(self.place)
        if (found is None or not os.path.getsize(self.place)) and read_witness(log, None).commits:
            raise BackendFailure(
                f"{self.path} is {'missing' if found is None else 'empty'}, and its log"
                f" {self.place}-wal is there, with what was written last: put the file back that"
                f" the log is of. {self.layout.remedy}"
            )

    def _check_log(self, connection: sqlite3.Connection, witness: LogWitness) -> None:
        """Refuse a log in which commits lie behind damage: SQLite itself would not mind."""
        if not witness.commits:
            return
        _, frame_count, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if witness.lost_commits(frame_count) > 1:
            self._keeps_log = True
            log = f"{os.path.basename(self.place)}-wal"
            raise self.damage(f"its log {log}, after frame {frame_count}")

    def _check_mark(self, connection: sqlite3.Connection) -> None:
        """Learn the version of a file that is ours, and refuse all others."""
        ours, self.version = self.layout, self.layout.version
        self.is_new = _is_new(connection)
        if self.is_new:
            return
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if mark != ours.mark:
            raise BackendFailure(explain_mark(self.path, mark, ours.mark))
        if version != ours.version and version not in ours.upgraded:
            known = " and ".join(map(str, [*sorted(ours.upgraded), ours.version]))
            raise BackendFailure(
                f"{self.path} has the format {version}, and this version reads {known}:"
                " open it with the version that wrote it"
            )
        self.version = version

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if self.is_new:
            connection.execute(f"PRAGMA application_id = {self.layout.mark}")
            for statement in self.layout.schema.split(";"):
                connection.execute(statement)
        elif self.is_integrity_checked:
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise self.damage(found)
        connection.execute(f"PRAGMA user_version = {self.layout.version}")

    def _keep_copy(self, connection: sqlite3.Connection) -> None:
        """Keep a file of an earlier format beside the one that it becomes."""
        if self._is_upgraded_unkept:
            return
        (page_count,) = connection.execute("PRAGMA page_count").fetchone()
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        folder, copy = os.path.dirname(self.place), f"{self.place}.schema{self.version}"
        needed = UPGRADE_COPIES * page_count * page_size
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise BackendFailure(
                f"{self.path} has the format {self.version}: to upgrade it and to keep a copy takes"
                f" {needed:,} bytes, and {folder} has room for {free:,}. Make room, or give the"
                " option upgrade=True, which keeps no copy"
            )
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{copy}.new")  # of an upgrade that was interrupted
        make_private_database(f"{copy}.new")
        connection.execute("VACUUM INTO ?", (f"{copy}.new",))
        sync_path(f"{copy}.new")
        os.replace(f"{copy}.new", copy)
        sync_path(folder)

    def _explain(self, error: sqlite3.Error) -> str:
        what, owner, remedy = self.layout.what, self.layout.owner, self.layout.remedy
        match getattr(error, "sqlite_errorname", ""):
            case "SQLITE_BUSY" | "SQLITE_LOCKED":
                who = "this process" if self.place in _open_here else f"another {owner}"
                advice = f"{who} has it; a {what}'s file belongs to one {owner} at a time"
                if self.place in _open_here:
                    advice += "; one whose attach was cancelled has it until all of it is read"
            case "SQLITE_NOTADB":
                advice = f"this is no SQLite file, or a damaged one: do not use it. {remedy}"
            case "SQLITE_CORRUPT":
                advice = f"the file is damaged: do not use it. {remedy}"
            case "SQLITE_FULL":
                advice = f"the disk is full; make room and start the {owner} anew"
            case "SQLITE_CANTOPEN":
                advice = f"it cannot be opened: {_obstacle(os.path.dirname(self.place))}"
            case "SQLITE_READONLY":
                advice = "it may not be written"
            case _ if _is_read_only(os.path.dirname(self.place)):
                advice = "its file system is mounted read-only"
            case _:
                advice = f"start the {owner} anew when the cause is removed"
        return f"{error} ({advice})"


def _obstacle(folder: str) -> str:
    """Say what keeps a file from being opened; it is its directory that is looked at."""
    try:
        os.close(os.open(folder, os.O_RDONLY))
    except OSError as error:
        return f"{error.strerror}: {folder}"
    return f"see whether {folder} may be written, and what is there under this name is a file"


def _is_read_only(folder: str) -> bool:
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _is_new(connection: sqlite3.Connection) -> bool:
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    (table_count,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return bool((mark, table_count) == (0, 0))


def identity(path: str) -> tuple[int, int] | None:
    """Say which file has a name now; ``None`` if none has. It is not opened."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def free_name(wanted: str) -> str:
    """Give a name that no file has: the wanted one, or one with a number behind it."""
    name, taken = wanted, 1
    while os.path.exists(name):
        taken += 1
        name = f"{wanted}.{taken}"
    return name
