"""The file of a ballot: what a member has promised, and marks of how far its journal was durable.

It lies beside the database, whose lock is its own, too: the database is opened first. It has five
slots, two for promises and three for marks, each on blocks of its own. A slot has its record twice,
each time with a checksum, or with a MAC if there is a key. So what was synced outlives a torn
write, which only ever meets a slot that does not count, and a block that is damaged later.
"""

from __future__ import annotations

import hmac
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import cbor2

from stores.disk.medium import Medium
from stores.disk.sqlite import DAMAGE
from stores.group.ballot import NEW_SLOTS, SLOT_COUNT, Slot, Slots, new_promises
from stores.group.effects import Promises
from stores.group.positions import MemberId, Position
from stores.sealing import StorageKeys
from wire.errors import BackendFailure
from wire.limits import KIB

SUFFIX: Final = ".ballot"
"""What a ballot's name has behind that of its database."""

VERSION: Final = 1

BLOCK_SIZE: Final = 4 * KIB
"""Bytes that today's disks write or lose together, and a page of the system's memory."""

COPIES: Final = 2
"""How often a record stands in its slot: a block that cannot be read takes nothing along."""

SLOT_SIZE: Final = COPIES * BLOCK_SIZE

PROMISE_SLOTS: Final = 2
"""They are written in turn, each with a sync."""

SLOTS: Final = PROMISE_SLOTS + SLOT_COUNT
_UNUSED: Final = NEW_SLOTS[0]

FILE_SIZE: Final = SLOTS * SLOT_SIZE
"""It never grows, so that no write of a promise finds the disk full."""

_MAGIC: Final = b"pemB"
_HEAD: Final = struct.Struct(">4sBBH")
"""Magic, version, number of the slot, and size of the record."""
_CHECKSUM_SIZE: Final = 4
_MAC_SIZE: Final = 32


def ballot_beside(path: str) -> str:
    """Give the path of the ballot of a file: beside it, or beside the link that leads to it.

    One that is there counts, whichever way the file was opened with it.
    """
    beside, linked = f"{os.path.realpath(path)}{SUFFIX}", f"{os.path.abspath(path)}{SUFFIX}"
    return linked if os.path.exists(linked) and not os.path.exists(beside) else beside


@dataclass(frozen=True, slots=True)
class LoadedBallot:
    """What a ballot's file says."""

    group: bytes | None
    """The group of the member; ``None`` if it has none yet."""
    promises: Promises
    slots: Slots
    damaged: tuple[str, ...] = ()
    """A sentence for each copy of a record that could not be read."""


class BallotFile:
    """A ballot on a disk. After a failure it is of no more use: close it, and load another one.

    ``save`` and ``sync_marks`` wait for the disk, and may do so in two threads; ``write_mark`` does
    not. All raise ``BackendFailure``.
    """

    def __init__(self, medium: Medium, keys: StorageKeys | None = None) -> None:
        """Take the keys of a sealed store; nothing is opened yet."""
        self._medium = medium
        self._keys = [] if keys is None else [key.authentication_key() for key in keys.keys]
        self._disk = threading.Lock()
        """Held by the thread that syncs: the system tells of a sync that failed only once."""
        self._failure: BackendFailure | None = None
        self._number = 0
        self._group: bytes | None = None
        self._promises: Promises | None = None

    def load(self) -> LoadedBallot | None:
        """Read the file, and write it anew; ``None`` if there is none.

        What was read may be in the system's memory alone, if a sync failed before: so it counts
        only once it is written and synced again.
        """
        with self._failures_explained("read"):
            content = self._medium.read()
        if content is None:
            return None
        damaged: list[str] = []
        records = [self._record_of(content, slot, damaged) for slot in range(SLOTS)]
        promised = [record for record in records[:PROMISE_SLOTS] if record is not None]
        if not promised:
            raise self._unreadable(is_sealed=not self._keys and _looks_sealed(content))
        try:
            latest = max(promised, key=lambda record: int(record[0]))
            self._number, self._group, self._promises = _promises_of(latest)
            slots = tuple(None if row is None else _slot_of(row) for row in records[PROMISE_SLOTS:])
        except DAMAGE as error:
            raise self._unreadable() from error
        if self._group is None and any(slot not in (None, _UNUSED) for slot in slots):
            raise self._unreadable()  # A mark is of a group: the record that names it is lost.
        self._replace(slots)
        return LoadedBallot(self._group, self._promises, slots, tuple(damaged))

    def create(self, member: MemberId, group: bytes | None) -> LoadedBallot:
        """Make the file of a member that has promised nothing; the disk has it at the end."""
        self._group, self._promises = group, new_promises(member)
        self._replace(NEW_SLOTS)
        return LoadedBallot(group, self._promises, NEW_SLOTS)

    def join(self, group: bytes) -> None:
        """Note of which group the member is, once for ever."""
        assert self._group in (None, group), "a member is of one group"
        assert self._promises is not None, "it was loaded or created"
        self._save(group, self._promises)

    def save(self, promises: Promises) -> None:
        """Write promises, and wait for the disk: until then the ones before are there."""
        self._save(self._group, promises)

    def seal(self, loaded: LoadedBallot, keys: StorageKeys) -> None:
        """Write what was loaded anew under these keys; from now on they are the file's."""
        self._keys = [key.authentication_key() for key in keys.keys]
        self._replace(loaded.slots)

    def write_mark(self, slot: int, number: int, mark: Position) -> None:
        """Write a mark into a slot, as ``WriteMark`` has it."""
        self._check()
        record = [number, mark.term, mark.index]
        with self._failures_explained("write"):
            self._write(PROMISE_SLOTS + slot, record)

    def sync_marks(self) -> None:
        """Wait until the disk has all marks that were written."""
        with self._disk:
            self._check()
            with self._failures_explained("write"):
                self._medium.sync()
            self._check()

    def close(self) -> None:
        """Close the file."""
        self._medium.close()

    # -- steps -----------------------------------------------------------------------------------

    def _save(self, group: bytes | None, promises: Promises) -> None:
        with self._disk:
            self._check()
            number = self._number + 1
            with self._failures_explained("write"):
                self._write(number % PROMISE_SLOTS, _promise_record(number, group, promises))
                self._medium.sync()
            self._check()
            self._number, self._group, self._promises = number, group, promises

    def _replace(self, slots: Slots) -> None:
        assert self._promises is not None
        record = _promise_record(self._number, self._group, self._promises)
        blocks = [self._block(slot, record) * COPIES for slot in range(PROMISE_SLOTS)]
        for at, slot in enumerate(slots, PROMISE_SLOTS):
            if slot is None:  # it stays so: it may have been the latest one
                blocks.append(bytes(SLOT_SIZE))
            else:
                mark = [slot.number, slot.mark.term, slot.mark.index]
                blocks.append(self._block(at, mark) * COPIES)
        with self._failures_explained("write"):
            self._medium.replace(b"".join(blocks))

    def _write(self, slot: int, record: list[Any]) -> None:
        self._medium.write(slot * SLOT_SIZE, self._block(slot, record) * COPIES)

    def _block(self, slot: int, record: list[Any]) -> bytes:
        content = cbor2.dumps(record)
        head = _HEAD.pack(_MAGIC, VERSION, slot, len(content))
        size = BLOCK_SIZE - (_MAC_SIZE if self._keys else _CHECKSUM_SIZE)
        body = (head + content).ljust(size, b"\0")
        assert len(body) == size, "names have limits, so that a record fits into a block"
        return body + (_mac(self._keys[0], body) if self._keys else _checksum(body))

    def _record_of(self, content: bytes, slot: int, damaged: list[str]) -> list[Any] | None:
        """Give the later one of a slot's records, of which a torn write may have left two."""
        found: list[list[Any]] = []
        for copy in range(COPIES):
            start = slot * SLOT_SIZE + copy * BLOCK_SIZE
            record = self._opened(content[start : start + BLOCK_SIZE], slot)
            if record is None:
                what = f"copy {copy + 1} of slot {slot} cannot be read"
                damaged.append(f"{self._medium.path}: {what}")
            else:
                found.append(record)
        return max(found, key=lambda record: int(record[0]), default=None)

    def _opened(self, block: bytes, slot: int) -> list[Any] | None:
        if len(block) != BLOCK_SIZE or not self._is_ours(block):
            return None
        magic, version, where, size = _HEAD.unpack_from(block)
        if magic == _MAGIC and version != VERSION:
            raise BackendFailure(
                f"{self._medium.path} has the format {version}, and this version reads {VERSION}:"
                " open it with the version that wrote it"
            )
        if (magic, where) != (_MAGIC, slot):
            return None
        record: list[Any] = cbor2.loads(block[_HEAD.size : _HEAD.size + size])
        return record

    def _is_ours(self, block: bytes) -> bool:
        if not self._keys:
            return _checksum(block[:-_CHECKSUM_SIZE]) == block[-_CHECKSUM_SIZE:]
        body, mac = block[:-_MAC_SIZE], block[-_MAC_SIZE:]
        return any(hmac.compare_digest(_mac(key, body), mac) for key in self._keys)

    def _unreadable(self, *, is_sealed: bool = False) -> BackendFailure:
        if is_sealed:  # Its database was opened before, without a key.
            file = self._medium.path.removesuffix(SUFFIX)
            return BackendFailure(
                f"{self._medium.path} is encrypted, and {file} is not: peermesh store rekey {file}"
                " was interrupted. Do it again, with the same key; until then nothing is lost"
            )
        hint = ", or was written with another key" if self._keys else ", or needs a key"
        return BackendFailure(
            f"{self._medium.path} is damaged{hint}: what this replica has promised cannot be read."
            " Move it away. Where others vote, move the replica's file away as well, and start it"
            " anew: it joins its group as another member. What leads alone goes on with fresh=True"
        )

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def _failures_explained(self, what: str) -> Iterator[None]:
        """Translate the system's errors; whatever comes after one fails, too."""
        try:
            yield
        except OSError as error:
            self._failure = BackendFailure(
                f"{self._medium.path}: cannot {what} it ({error.strerror}): start the replica anew"
                " when the cause is removed"
            )
            raise self._failure from error


def _promise_record(number: int, group: bytes | None, promises: Promises) -> list[Any]:
    vote = None if promises.vote is None else list(promises.vote)
    start = [promises.starts, promises.term, vote, promises.is_whole]
    return [number, group, list(promises.member), *start]


def _promises_of(record: list[Any]) -> tuple[int, bytes | None, Promises]:
    number, group, member, starts, term, vote, is_whole = record
    voted = None if vote is None else MemberId(*vote)
    return number, group, Promises(MemberId(*member), starts, term, voted, is_whole)


def _looks_sealed(content: bytes) -> bool:
    """Tell whether the blocks of all promises begin as ours do, though no checksum is right."""
    starts = range(0, PROMISE_SLOTS * SLOT_SIZE, BLOCK_SIZE)
    wanted = [_MAGIC + bytes([VERSION, number // COPIES]) for number in range(len(starts))]
    return [content[start : start + len(_MAGIC) + 2] for start in starts] == wanted


def _slot_of(record: list[Any]) -> Slot:
    number, term, index = record
    return Slot(number, Position(term, index))


def _checksum(body: bytes) -> bytes:
    return crc32(body).to_bytes(_CHECKSUM_SIZE, "big")


def _mac(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")
