"""The rows of a log in a file: runs, which show where they are, and names of all other records."""

from __future__ import annotations

import struct
from typing import Any, Final

import cbor2

from stores.log.limits import OFFSET_END

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


def record_of(kind: str, key: Key, row: tuple[Any, ...]) -> tuple[bytes, bytes]:
    """Give name and body of a record in the books."""
    return cbor2.dumps([kind, *key]), cbor2.dumps(row)
