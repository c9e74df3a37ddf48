"""The entries of a log as users see them, and where a consumer begins to read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from endpoint.replicas.logs.log_reading import Batch
from wire.decoding import decode
from wire.errors import OffsetOutOfRange
from wire.public import public
from wire.values import Value

READ_LIMIT: Final = 1_000
"""Entries that a read gives at most, if nothing else is said."""


@public
class Start(Enum):
    """Where a consumer begins that has committed nothing."""

    EARLIEST = "earliest"
    LATEST = "latest"


@public
@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a log."""

    partition: int
    offset: int
    key: Value
    """What it was appended with; the topic, where the log collected it. ``None`` without a key."""
    value: Value
    timestamp_ns: int
    """When the keeper took it, by its clock, in ns since 1970; a partition's never goes back."""


def check_positions(batch: Batch, positions: Mapping[int, int]) -> None:
    """Raise ``OffsetOutOfRange`` if entries are gone that were wanted next."""
    for (partition, offset), span in zip(positions.items(), batch.spans, strict=True):
        if offset < span.start:
            raise OffsetOutOfRange(partition, offset, span.start)


def entries_of(
    batch: Batch, positions: Mapping[int, int], limit: float = math.inf
) -> list[LogEntry]:
    """Decode what a read gave, from these offsets on; raises ``OffsetOutOfRange``."""
    check_positions(batch, positions)
    found: list[LogEntry] = []
    for run in batch.runs:
        flat = run.entries()
        skipped = max(0, positions[run.partition] - run.first_offset)
        for at in range(skipped, run.count):
            if len(found) >= limit:
                return found
            key, value = flat[2 * at], flat[2 * at + 1]
            assert value is not None, run
            decoded_key = None if key is None else decode(key)
            place = run.first_offset + at
            found.append(
                LogEntry(run.partition, place, decoded_key, decode(value), run.timestamp_ns)
            )
    return found
