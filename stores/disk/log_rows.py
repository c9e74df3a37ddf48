"""The rows of a log in a file: runs, which show where they are, and names of all other records."""

from __future__ import annotations

import struct
from typing import Any, Final
from zlib import crc32

import cbor2

from stores.disk.rows import Codec
from stores.log.limits import OFFSET_END
from stores.log.runs import Run

RUNS_SCHEMA: Final = """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY, count INTEGER NOT NULL, timestamp INTEGER NOT NULL,
        head INTEGER NOT NULL, body BLOB NOT NULL
    )
"""

INSERT_RUN: Final = "INSERT INTO runs VALUES (?, ?, ?, ?, ?)"

LIFE_SIZE: Final = 8
"""Bytes that name a life of a partition: when it is cleared, and filled again, the runs of before
fit no more."""

Key = tuple[Any, ...]
"""What names a record among those of its kind: numbers of partitions and epochs, names."""

Books = dict[str, dict[Key, tuple[Any, ...]]]
"""Records by kind: ``partition``, ``epoch``, ``cursor``, ``writer`` and ``producer``."""

_PLACE: Final = struct.Struct(">4sQQQ8s")


def run_id(partition: int, offset: int) -> int:
    """Number a run: in order of partitions, then offsets; 62 bits of SQLite's 63."""
    return partition * OFFSET_END + offset


def run_place(number: int, count: int, timestamp_ns: int, life: bytes) -> bytes:
    """Give what a run is closed for: its number, count and time, and the life of its partition."""
    return _PLACE.pack(b"runs", number, count, timestamp_ns, life)


def closed_run(codec: Codec, run: Run, life: bytes) -> tuple[int, int, int, int, bytes]:
    """Give the row of a run."""
    number = run_id(run.partition, run.first_offset)
    place = run_place(number, run.count, run.timestamp_ns, life)
    return number, run.count, run.timestamp_ns, crc32(place), codec.seal(place, run.body)


def record_of(kind: str, key: Key, row: tuple[Any, ...]) -> tuple[bytes, bytes]:
    """Give name and body of a record in the books."""
    return cbor2.dumps([kind, *key]), cbor2.dumps(row)


def beginning(size: int, kind: str, *key: str) -> bytes:
    """Give the beginning of the names of a kind whose keys have ``size`` parts."""
    return bytes([0x81 + size]) + b"".join(map(cbor2.dumps, (kind, *key)))
