"""The file of a ballot on a simulated disk."""

from __future__ import annotations

import errno

from peermesh.testing.simulation.disk import Disk, File


class DiskMedium:
    """A small file that is written in place: see ``stores.disk.medium``."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Take its path on the disk; nothing is opened yet."""
        self.path = path
        self._disk = disk
        self._file: File | None = None

    def read(self) -> bytes | None:
        """Open it, and give all of it; ``None`` if it is not there."""
        self._file = self._disk.files.get(self.path)
        return None if self._file is None else self._file.read()

    def replace(self, content: bytes) -> None:
        """Put another file in its place, in one step."""
        self._file = self._disk.replace(self.path, content)

    def write(self, offset: int, data: bytes) -> None:
        """Write over a part of it."""
        self._disk.write(self._opened(), offset, data)

    def sync(self) -> None:
        """Make what was written durable."""
        self._disk.sync(self._opened())

    def close(self) -> None:
        """Close it."""
        self._file = None

    def _opened(self) -> File:
        if self._file is None:
            raise OSError(errno.EBADF, "it is closed")
        return self._file
