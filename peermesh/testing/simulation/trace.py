"""What happened in one run: a digest of all of it, and the last records to read. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from wire.escaping import escape

RECORDS_MAX: Final = 10_000
"""Records kept to be read; older ones count in the digest only."""

BATCH_SIZE: Final = 500
"""Records that are digested at once, which is faster than one by one."""

Record = tuple[float, str, *tuple[object, ...]]
"""When, what, and details whose ``repr`` is the same in every process."""


class Trace:
    """Records in the order of time."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.count = 0
        self._records: deque[Record] = deque(maxlen=RECORDS_MAX)
        self._fresh: list[Record] = []
        self._hash = blake2b(digest_size=8)

    def tell(self, now: float, kind: str, *details: object) -> None:
        """Take in one record."""
        self.count += 1
        self._fresh.append((now, kind, *details))
        if len(self._fresh) >= BATCH_SIZE:
            self._settle()

    def _settle(self) -> None:
        fresh, self._fresh = self._fresh, []
        if fresh:
            self._hash.update(repr(fresh).encode())
            self._records.extend(fresh)

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits: the same for the same records, and hardly for others."""
        self._settle()
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Record]:
        """Go over the records that are kept, the oldest first."""
        self._settle()
        return iter(tuple(self._records))

    def lines(self, count: int = RECORDS_MAX) -> list[str]:
        """Write the last records for people, one a line."""
        records = list(self)[-count:]
        return [
            escape(f"{now:12.6f}  {kind:<14} {' '.join(map(str, details))}".rstrip())
            for now, kind, *details in records
        ]
