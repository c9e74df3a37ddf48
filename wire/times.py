"""Times as text, and back: instants in ISO 8601, and durations such as ``1500ms``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from wire.scalars import EPOCH, Timespan, Timestamp

SECOND_NS: Final = 1_000_000_000

UNITS_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": SECOND_NS,
    "min": 60 * SECOND_NS,
    "h": 3_600 * SECOND_NS,
    "d": 86_400 * SECOND_NS,
}
"""What a timespan may be given in. The first four are written, as in Broker."""

WRITTEN_UNITS: Final = ("s", "ms", "us", "ns")

_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_TIMESPAN: Final = re.compile(r"(-?\d{1,30}(?:\.\d{1,30})?)(ns|us|ms|s|min|h|d)", re.ASCII)


def write_timestamp(nanoseconds: int, *, digits_min: int = 0, zone: str = "Z") -> str:
    """Write an instant, in nanoseconds since 1970, with all of its digits: none is lost."""
    seconds, rest = divmod(nanoseconds, SECOND_NS)
    whole = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    fraction = f"{rest:09}".rstrip("0").ljust(digits_min, "0")
    return f"{whole:%Y-%m-%dT%H:%M:%S}{'.' if fraction else ''}{fraction}{zone}"


def read_timestamp(text: str) -> datetime | Timestamp:
    """Read an instant; without a zone it is UTC, as in Broker. Raises ``ValueError``."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError("write 2026-01-31T23:59:59.5Z")
    whole = datetime.fromisoformat(found[1] + (found[3] or "Z"))
    fraction = int((found[2] or "").ljust(9, "0"))
    # The whole second may be before the first instant there is, which the fraction is behind.
    seconds = (whole - EPOCH) // timedelta(seconds=1)
    return Timestamp.of(seconds * SECOND_NS + fraction)


def write_timespan(nanoseconds: int) -> str:
    """Write a duration in the largest unit, up to seconds, that says it in whole numbers."""
    unit = next(unit for unit in WRITTEN_UNITS if nanoseconds % UNITS_NS[unit] == 0)
    return f"{nanoseconds // UNITS_NS[unit]}{unit}"


def read_timespan(text: str) -> timedelta | Timespan:
    """Read a duration, rounded to nanoseconds: ``1500ms``, ``0.5d``. Raises ``ValueError``."""
    found = _TIMESPAN.fullmatch(text)
    if found is None:
        raise ValueError(f"write 1500ms; units are {', '.join(UNITS_NS)}")
    return Timespan.of(round(Decimal(found[1]) * UNITS_NS[found[2]]))
