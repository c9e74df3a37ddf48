"""A simulated disk: what is synced survives a power cut, and what is not may be lost or torn. Pure.

A file is what is on the platter, and the writes since the last sync in their order. A crash of a
process loses none of them, as the kernel has them; a power cut keeps some sectors of them.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from peermesh.testing.simulation.tcp import os_error

if TYPE_CHECKING:
    from random import Random

SECTOR_SIZE: Final = 512
"""Bytes that a disk writes as a whole or not at all."""


class File:
    """One file of a simulated disk."""

    def __init__(self) -> None:
        """Begin empty."""
        self.owner: object | None = None
        """Who has it locked."""
        self._durable = bytearray()
        self._seen = bytearray()
        self._pending: list[tuple[int, bytes]] = []

    def read(self) -> bytes:
        """Give what was written, synced or not."""
        return bytes(self._seen)

    def write(self, offset: int, data: bytes) -> None:
        """Write over what is there, or behind it."""
        self._pending.append((offset, bytes(data)))
        _put(self._seen, offset, data)

    def truncate(self, size: int) -> None:
        """Cut the file off, at once and for good."""
        del self._seen[size:]
        del self._durable[size:]
        self._pending = [
            (offset, data[: size - offset]) for offset, data in self._pending if offset < size
        ]

    def sync(self) -> None:
        """Make everything durable that was written so far."""
        for offset, data in self._pending:
            _put(self._durable, offset, data)
        self._pending.clear()

    def forget_pending(self) -> None:
        """A sync failed: the kernel takes the pages for clean, and never writes them."""
        self._pending.clear()

    def cut_power(self, chance: Random) -> None:
        """Keep what is durable, and of what was written since the sectors that chance keeps."""
        is_in_order = chance.random() < 0.5
        kept = chance.random()
        for offset, data in self._pending:
            for start in range(0, len(data), SECTOR_SIZE):
                if chance.random() < kept:
                    _put(self._durable, offset + start, data[start : start + SECTOR_SIZE])
                elif is_in_order:
                    kept = 0.0  # Everything behind the first loss is lost.
        self._pending.clear()
        self._seen = bytearray(self._durable)


class Disk:
    """The files of one host, which outlive its processes."""

    def __init__(self) -> None:
        """Begin with an empty disk that does what it says."""
        self.files: dict[str, File] = {}
        self.syncs = 0
        self._fails_sync = False
        self._lies = False
        self._free: int | None = None

    # What may be wrong with it.

    def fail_fsync(self) -> None:
        """Have syncs fail with EIO; what they should have kept is lost with the power."""
        self._fails_sync = True

    def lie_fsync(self) -> None:
        """Have syncs succeed and keep nothing, as disks with a volatile cache do."""
        self._lies = True

    def full(self, free: int = 0) -> None:
        """Have writes fail with ENOSPC beyond so many more bytes."""
        self._free = free

    def heal(self) -> None:
        """Do again what it says; the next sync keeps what lies have not kept."""
        self._fails_sync = self._lies = False
        self._free = None

    # What a program does with it.

    def open(self, path: str, owner: object) -> File:
        """Open or create a file, and lock it; raises EAGAIN if somebody else has it."""
        file = self.files.setdefault(path, File())
        if file.owner not in (None, owner):
            raise os_error(errno.EAGAIN)
        file.owner = owner
        return file

    def replace(self, path: str, content: bytes) -> File:
        """Put a new file in the place of another, synced, in one step; raises ENOSPC or EIO."""
        file = File()
        self.write(file, 0, content)
        self.sync(file)
        self.files[path] = file
        return file

    def write(self, file: File, offset: int, data: bytes) -> None:
        """Write; raises ENOSPC when the disk is full."""
        if self._free is not None:
            if len(data) > self._free:
                raise OSError(errno.ENOSPC, "No space left on device")
            self._free -= len(data)
        file.write(offset, data)

    def sync(self, file: File) -> None:
        """Make what was written durable; raises EIO."""
        self.syncs += 1
        if self._fails_sync:
            file.forget_pending()
            raise OSError(errno.EIO, "Input/output error")
        if not self._lies:
            file.sync()

    def release(self, owner: object) -> None:
        """A process is gone, and its locks with it."""
        for file in self.files.values():
            if file.owner is owner:
                file.owner = None

    def cut_power(self, chance: Random) -> None:
        """Lose what was not synced, or tear it."""
        for file in self.files.values():
            file.owner = None
            file.cut_power(chance)


def _put(content: bytearray, offset: int, data: bytes) -> None:
    missing = offset - len(content)
    if missing > 0:
        content.extend(bytes(missing))
    content[offset : offset + len(data)] = data
