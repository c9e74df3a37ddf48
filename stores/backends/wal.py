"""What a write-ahead log tells besides what SQLite reads from it: whether commits were lost.

SQLite ends a log at the first frame whose checksum is wrong, and takes what follows for the remains
of a power cut. A power cut leaves one unfinished commit at most, since each waits for the disk. Two
or more behind a bad frame mean that the file was damaged, and that acknowledged mutations would
silently be missing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEADER_SIZE: Final = 32
_FRAME_HEAD_SIZE: Final = 24
_PAGE_SIZE_AT: Final = 16
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


def read_witness(path: str) -> LogWitness:
    """Look at the log of a database, before SQLite opens it; there need not be one."""
    log_path = Path(f"{path}-wal")
    if not log_path.exists() or not Path(path).exists():
        return LogWitness()
    commits: dict[bytes, list[int]] = {}
    number, first_salts = 0, b""
    with log_path.open("rb") as log:
        header = log.read(_HEADER_SIZE)
        page_size = _page_size(path) or int.from_bytes(header[8:12], "big")
        while len(head := log.read(_FRAME_HEAD_SIZE)) == _FRAME_HEAD_SIZE:
            number += 1
            _, size_after_commit, salts, _ = _FRAME.unpack(head)
            first_salts = first_salts or salts
            if size_after_commit:
                commits.setdefault(salts, []).append(number)
            log.seek(page_size, 1)
    # The header, or the first frame, may be what is damaged: either names this life of the log.
    ours = commits.get(header[16:24], []) or commits.get(first_salts, [])
    return LogWitness(tuple(ours))


def _page_size(path: str) -> int:
    """Read the size of the database's pages; zero if it is empty."""
    with Path(path).open("rb") as file:
        head = file.read(_PAGE_SIZE_AT + 2)
    size = int.from_bytes(head[_PAGE_SIZE_AT:], "big")
    return 65_536 if size == 1 else size
