"""What a write-ahead log tells besides what SQLite reads from it: whether commits were lost.

SQLite ends a log at the first frame whose checksum is wrong, and takes what follows for the remains
of a power cut. A power cut leaves one unfinished commit at most, since each waits for the disk. Two
or more behind a bad frame mean that the file was damaged, and that acknowledged mutations would
silently be missing.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from wire.errors import BackendFailure

ASIDE: Final = "-wal.kept"
"""Ends the name that a log has for as long as its database is being closed."""

_HEADER_SIZE: Final = 32
_CHECKED_SIZE: Final = 24
"""Bytes of it that its checksum is of, which follows them."""
_MAGIC: Final = b"\x37\x7f\x06"
"""Begins each log. The byte behind it is odd if the words of its checksums are big-endian."""
_MODULUS: Final = 1 << 32
_FRAME_HEAD_SIZE: Final = 24
_PAGE_SIZE_AT: Final = 8
_FRAME: Final = struct.Struct(">II8s8s")
"""Page number, size of the database after a commit or zero, salts, checksums."""


@dataclass(frozen=True, slots=True)
class LogWitness:
    """Which frames of a log end a commit, whether their checksums are right or wrong."""

    commits: tuple[int, ...] = ()
    """The numbers of those frames, from 1; of frames of the log's last life."""

    def lost_commits(self, frame_count: int) -> int:
        """Say how many commits lie behind what SQLite has read."""
        return sum(number > frame_count for number in self.commits)


@contextlib.contextmanager
def opened_log(path: str) -> Iterator[BinaryIO | None]:
    """Open the log of a database before SQLite does, which may remove it; there need not be one.

    The database itself is never opened here: closing any descriptor of a file takes the locks of
    this process off it, and another master of this process may have its lock there.
    """
    with contextlib.ExitStack() as stack:
        log: BinaryIO | None = None
        try:
            log = stack.enter_context(open(f"{path}-wal", "rb"))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise BackendFailure(f"{path}-wal cannot be read: {error.strerror}") from error
        yield log


def is_gone(log: BinaryIO, path: str) -> bool:
    """Tell whether the log of a database, which is locked by now, is not the one that was opened.

    Its owner of before then closed it meanwhile, so that all of it is in the database.
    """
    try:
        there = os.stat(f"{path}-wal")
    except OSError:
        return True
    return not os.path.samestat(os.fstat(log.fileno()), there)


@contextlib.contextmanager
def kept(path: str) -> Iterator[None]:
    """Have the log of a database stay, which SQLite removes by its name as it closes that."""
    log, aside = f"{path}-wal", f"{path}{ASIDE}"
    try:
        os.replace(log, aside)
    except OSError:  # Where no name can be changed, none is removed.
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):  # It was put back already.
            os.replace(aside, log)


def put_back(path: str) -> None:
    """Give a log its name again that a process was about to keep as it was killed."""
    with contextlib.suppress(OSError):
        if os.path.exists(f"{path}{ASIDE}") and not os.path.exists(f"{path}-wal"):
            os.replace(f"{path}{ASIDE}", f"{path}-wal")


def read_witness(log: BinaryIO | None, page_size: int | None) -> LogWitness:
    """Look at a log. Without the size of the database's pages, the log's own header gives it."""
    if log is None:
        return LogWitness()
    commits: dict[bytes, list[int]] = {}
    number, first_salts = 0, b""
    header = log.read(_HEADER_SIZE)
    page_size = page_size or int.from_bytes(header[_PAGE_SIZE_AT : _PAGE_SIZE_AT + 4], "big")
    while len(head := log.read(_FRAME_HEAD_SIZE)) == _FRAME_HEAD_SIZE:
        number += 1
        _, size_after_commit, salts, _ = _FRAME.unpack(head)
        first_salts = first_salts or salts
        if size_after_commit:
            commits.setdefault(salts, []).append(number)
        log.seek(page_size, os.SEEK_CUR)
    # A header that is whole says which life this is: SQLite writes it, and waits for the disk,
    # before the first frame of a new one, and until then all frames are of the life before.
    salts = header[16:24] if _is_whole(header) else first_salts
    return LogWitness(tuple(commits.get(salts, ())))


def _is_whole(header: bytes) -> bool:
    """Tell whether the checksum of a log's header is right."""
    if len(header) < _HEADER_SIZE or header[:3] != _MAGIC:
        return False
    first = second = 0
    words = struct.unpack(">6I" if header[3] & 1 else "<6I", header[:_CHECKED_SIZE])
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) % _MODULUS
        second = (second + odd + first) % _MODULUS
    return struct.pack(">2I", first, second) == header[_CHECKED_SIZE:]
