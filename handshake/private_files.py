"""Files that are their owner's alone: made with mode 600, tightened, and else refused as secrets.

Modes are given to the system as a file is created. The umask is never touched: it belongs to the
whole process, with all its threads.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import re
import shlex
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, Literal

from wire.errors import CredentialsError
from wire.logs import logger_of

logger = logger_of("peermesh.files")

PathLike = str | os.PathLike[str]

PRIVATE_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644

DIRECTORY_MODE: Final = 0o700
"""Of directories with data: names of files tell something, too."""

FILE_SIZE_MAX: Final = 1024 * 1024
"""Bytes of a file that we read: a bundle of certificates is smaller by far, a wrong path is not."""

OTHERS: Final = 0o077
"""What the group and all others may do."""

OTHERS_OF_ROOT: Final = 0o037
"""The same, but for reading by the group: mounted secrets are ``root:group`` with mode 0440."""

DATABASE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")
"""An SQLite database, and what SQLite puts beside it with the mode of the database."""


def read_file(path: PathLike, what: str) -> bytes:
    """Read a small file that may be public; ``what`` names its content in the error.

    Raises ``CredentialsError`` for a file that cannot be read, and for one of more than
    ``FILE_SIZE_MAX`` bytes.
    """
    return _read(path, what, lambda found: None)


def read_secret(path: PathLike, what: str) -> bytes:
    """Read a small file that no other user may know: a secret, key, token or password.

    Raises ``CredentialsError`` as ``read_file`` does, and for a file that others can read or
    write, with the command that mends it.
    """
    return _read(path, what, lambda found: check_private(path, what, found))


def check_private(path: PathLike, what: str, found: os.stat_result | None = None) -> None:
    """Refuse a file with a secret that others can read or write; raises ``CredentialsError``.

    It belongs to the user of this process and to no other, or to root, whose group may read it.
    Pipes have to be closed to others; a file without a name, as shells use it for text, is so.
    """
    found = os.stat(path) if found is None else found
    mode, owner = stat.S_IMODE(found.st_mode), found.st_uid
    is_file = stat.S_ISREG(found.st_mode)
    if not found.st_nlink or not (is_file or stat.S_ISFIFO(found.st_mode)):
        return
    where = _real_name(path)
    quoted = shlex.quote(where)
    if is_file and owner not in (0, os.geteuid()):
        raise CredentialsError(
            f"the {what} file {where} belongs to another user, {_user(owner)}: chown"
            f" {_user(os.geteuid())} {quoted} && chmod 600 {quoted}"
        )
    if mode & (OTHERS if owner else OTHERS_OF_ROOT):
        # Without its group, a program that is not root could not read root's file any more.
        least = "600" if owner == os.geteuid() else "640"
        remedy = f"chmod {least} {quoted}"
        if is_file and _is_read_only(path):
            remedy = "it is mounted read-only: mount it with mode 0400, or 0440 and a group"
        raise CredentialsError(
            f"the {what} file {where} can be read or written by others than its owner: {remedy},"
            " and replace what is in it if that may have happened"
        )


def _is_read_only(path: PathLike) -> bool:
    """Tell whether a file is in a file system that is mounted to be read alone."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False  # It was read through a descriptor, and its directory is closed to us.


def write_private(path: PathLike, data: bytes, *, replaces: bool = False) -> None:
    """Create a file that is its owner's alone from its first moment on."""
    _write(path, data, PRIVATE_MODE, replaces=replaces)


def write_public(path: PathLike, data: bytes, *, replaces: bool = False) -> None:
    """Create a file that all may read; one that is there is left alone, unless told."""
    _write(path, data, PUBLIC_MODE, replaces=replaces)


def open_private(
    path: PathLike, mode: Literal["w", "wb", "a", "ab", "r+b"], *, buffering: int = -1
) -> IO[Any]:
    """Open a file of data for writing: made with mode 600, or tightened if it is there.

    Text is UTF-8. A device or pipe keeps its mode. With ``r+b`` none is made.
    """

    def create(name: str, flags: int) -> int:
        return os.open(name, flags, PRIVATE_MODE)

    encoding = None if "b" in mode else "utf-8"
    file: IO[Any] = open(path, mode, buffering, encoding, opener=create)  # noqa: SIM115 - given to the caller
    tighten(path)
    return file


@contextlib.contextmanager
def replacing_private(path: PathLike) -> Iterator[IO[bytes]]:
    """Write a file of data with mode 600, which takes its name once all of it is on the disk.

    If the block raises, an earlier file of this name stays as it was. What a process left that was
    killed in its block is removed here. A device or pipe is written to as it is; a directory, be it
    there or not, raises what ``open`` does.
    """
    if not os.path.basename(path) or (os.path.exists(path) and not os.path.isfile(path)):
        with open_private(path, "wb") as device:
            yield device
        return
    place = os.path.realpath(path)
    folder, name = os.path.split(place)
    _remove_abandoned(folder, f"{name}{_NEW}")
    with contextlib.ExitStack() as made:
        number, new = _make_locked(folder, f"{name}{_NEW}")
        made.callback(os.unlink, new)
        with open(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(number)
            os.replace(new, place)  # While it is locked: until then another one may remove it.
        made.pop_all()
    with contextlib.suppress(OSError):  # Some may be written to, and not read; some sync no names.
        sync_path(folder)


_NEW: Final = ".peermesh-"
"""Between a file's name, and what tells those apart that are to take it."""

_NEW_END: Final = re.compile(r"[a-z0-9_]{8}\.new")
"""As ``mkstemp`` makes it."""


def _make_locked(folder: str, prefix: str) -> tuple[int, str]:
    """Make a file that this process has locked until it closes it, or is killed."""
    while True:
        try:
            number, new = tempfile.mkstemp(prefix=prefix, suffix=".new", dir=folder)
        except OSError as error:
            error.filename = folder  # The caller did not choose the name of the file.
            raise
        with contextlib.suppress(
            OSError
        ):  # Without locks in its file system, all that is left stays.
            fcntl.flock(number, fcntl.LOCK_EX)
        if _is_at(number, new):
            return number, new
        os.close(number)  # Another one took it for left before it was locked.


def _remove_abandoned(folder: str, prefix: str) -> None:
    """Remove the files that no living process writes: those that are not locked."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for each in found:
            if each.name.startswith(prefix) and _NEW_END.fullmatch(each.name, len(prefix)):
                with contextlib.suppress(OSError):  # It is locked, or another's.
                    _remove_unlocked(each.path)


def _remove_unlocked(path: str) -> None:
    number = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(number, path):
            os.unlink(path)
    finally:
        os.close(number)


def _is_at(number: int, path: str) -> bool:
    """Tell whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(number), os.stat(path))
    except FileNotFoundError:
        return False


def sync_path(path: str) -> None:
    """Have the disk keep a file, or the names in a directory. Never of a database that is open."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: PathLike) -> None:
    """Make a directory that is its owner's alone; one that is there keeps its mode."""
    Path(path).mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)


def make_private_database(path: str) -> None:
    """Make an SQLite database with mode 600 before SQLite opens it, if it is not there.

    SQLite gives ``-wal`` and ``-shm`` the mode of the database. What the system does not allow
    here, SQLite meets too, and explains.
    """
    # Closing any descriptor of a file takes this process' locks off it, and SQLite has its locks
    # there: so only a file that was not there before is opened.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        os.close(os.open(os.path.realpath(path), flags, PRIVATE_MODE))


def loose_files(path: str) -> tuple[str, ...]:
    """Say which files of an SQLite database others can read or write."""
    names = (f"{path}{suffix}" for suffix in DATABASE_SUFFIXES)
    return tuple(name for name in names if _loose_mode(name) is not None)


def tighten_database(path: str, loose: tuple[str, ...]) -> tuple[str, ...]:
    """Take from others what they may do with an SQLite database that is known to be ours.

    Gives a sentence for each of its files that was ``loose`` before it was opened.
    """
    told = tuple(text for name in loose if (text := tighten(name)) is not None)
    if loose:  # SQLite has given a new log the mode that the database had.
        with contextlib.suppress(OSError):
            os.chmod(f"{path}-wal", PRIVATE_MODE)
    return told


def tighten(path: PathLike) -> str | None:
    """Take from others what they may do with a file of data, if it is there.

    Gives the sentence that the log was told, if there was something to take. A directory, device
    or pipe, which a mistaken path names, keeps its mode.
    """
    mode = _loose_mode(path)
    if mode is None:
        return None
    where = os.fspath(path)
    try:
        os.chmod(path, mode & ~OTHERS)
    except OSError as error:
        text = (
            f"others can read or write {where}, and its mode cannot be changed ({error.strerror}):"
            f" chmod 600 {shlex.quote(where)}"
        )
    else:
        text = f"others could read or write {where} (mode {mode:o}): now it has {mode & ~OTHERS:o}"
    logger.warning("%s", text)
    return text


def _loose_mode(path: PathLike) -> int | None:
    """Give the mode of a file that others can read or write."""
    try:
        found = os.stat(path).st_mode
    except OSError:
        return None
    return stat.S_IMODE(found) if found & OTHERS and stat.S_ISREG(found) else None


def _read(path: PathLike, what: str, check: Callable[[os.stat_result], None]) -> bytes:
    try:
        with open(path, "rb") as file:
            check(os.fstat(file.fileno()))
            data = file.read(FILE_SIZE_MAX + 1)
    except OSError as error:
        raise CredentialsError(
            f"cannot read the {what} file {os.fspath(path)}: {error.strerror}"
        ) from error
    if len(data) > FILE_SIZE_MAX:
        raise CredentialsError(
            f"the {what} file {os.fspath(path)} is larger than {FILE_SIZE_MAX} bytes:"
            " is it the right one?"
        )
    return data


def _write(path: PathLike, data: bytes, mode: int, *, replaces: bool) -> None:
    target = f"{os.fspath(path)}.new" if replaces else path
    if replaces:
        Path(target).unlink(missing_ok=True)
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
        if replaces:
            file.flush()
            os.fsync(file.fileno())
    if replaces:
        os.replace(target, path)


def _real_name(path: PathLike) -> str:
    """Give the name that a command can use: ``/dev/stdin`` is another file there."""
    where = os.fspath(path)
    return os.path.realpath(where) if where.startswith(("/dev/", "/proc/")) else where


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
