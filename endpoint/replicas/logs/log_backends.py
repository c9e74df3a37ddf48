"""What a log is attached with: its backend, its quota, and what it keeps."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Final, cast

from endpoint.replicas.attaching import Backend
from stores.log.partitions import Retention
from stores.quota import BYTES_DEFAULT, DISK_BYTES_DEFAULT, ENTRIES_DEFAULT, Quota
from wire.errors import InvalidData

_NANOSECONDS: Final = 1_000_000_000


def take_retention(options: dict[str, object]) -> Retention:
    """Take the options about what is kept; raises ``InvalidData``."""
    seconds = options.pop("keep_seconds", None)
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    limits = (seconds, options.pop("keep_count", None), options.pop("keep_bytes", None))
    for limit in limits:
        if limit is not None and not (isinstance(limit, int | float) and 0 < limit < math.inf):
            raise InvalidData(f"{limit!r} is no limit: give a positive number, or None for none")
    age, count, size = cast("tuple[float | None, ...]", limits)
    return Retention(
        age_ns=None if age is None else round(age * _NANOSECONDS),
        count=None if count is None else round(count),
        size=None if size is None else round(size),
    )


def log_quota(backend: Backend) -> Quota:
    """Give the quota of a log that has no other: of the memory, or of the disk that it fills."""
    if backend is Backend.Memory:
        return Quota(ENTRIES_DEFAULT, BYTES_DEFAULT)
    return Quota(max_bytes=DISK_BYTES_DEFAULT)
