"""A small file that is written in place, as a ballot is."""

from __future__ import annotations

import errno
import os
from typing import IO, Any, Protocol

from handshake.private_files import open_private, sync_path, write_private
from stores.disk.sqlite import identity


class Medium(Protocol):
    """A small file that is written in place; every method may raise ``OSError``."""

    path: str

    def read(self) -> bytes | None:
        """Open it, and give all of it; ``None`` if it is not there."""

    def replace(self, content: bytes) -> None:
        """Put another file in its place, in one step, and wait until the disk has it."""

    def write(self, offset: int, data: bytes) -> None:
        """Write over a part of it, without a wait for the disk. It may be called during a sync."""

    def sync(self) -> None:
        """Wait until the disk has all that was written."""

    def close(self) -> None:
        """Close it."""


class PrivateMedium:
    """Such a file in a file system, with mode 600."""

    def __init__(self, path: str) -> None:
        """Take its path; nothing is opened yet."""
        # Wherever the process goes, and whatever becomes of links that lead to its directory.
        folder, name = os.path.split(os.path.abspath(path))
        self.path = os.path.join(os.path.realpath(folder), name)
        self._file: IO[Any] | None = None

    def read(self) -> bytes | None:
        """Open it, and give all of it; ``None`` if it is not there."""
        try:
            self._open()
        except FileNotFoundError:
            return None
        assert self._file is not None
        return bytes(self._file.read())

    def replace(self, content: bytes) -> None:
        """Put another file in its place: file and name are synced."""
        self.close()
        write_private(self.path, content, replaces=True)
        sync_path(os.path.dirname(self.path))
        self._open()

    def write(self, offset: int, data: bytes) -> None:
        """Write over a part of it; raises ``ENOSPC`` where a file system writes elsewhere."""
        if os.pwrite(self._number(), data, offset) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        """Sync what is in it; its size never changes."""
        os.fdatasync(self._number())
        if not self._is_there():
            raise OSError(errno.ESTALE, "it was removed or replaced while it was in use")

    def remove(self) -> None:
        """Remove the file that is open, and no other that has its name by now."""
        if self._file is not None and self._is_there():
            os.unlink(self.path)
            sync_path(os.path.dirname(self.path))

    def _is_there(self) -> bool:
        found = os.fstat(self._number())
        return identity(self.path) == (found.st_dev, found.st_ino)

    def close(self) -> None:
        """Close it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        self._file = open_private(self.path, "r+b", buffering=0)

    def _number(self) -> int:
        if self._file is None:
            raise OSError(errno.EBADF, "it is closed")
        return self._file.fileno()
