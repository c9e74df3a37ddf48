"""How much a store or log may hold: what is refused at the limit, and when to tell of it. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NoReturn, TypedDict

from stores.limits import COUNT_END
from wire.errors import InvalidData, QuotaExceeded
from wire.limits import MIB

ENTRIES_DEFAULT: Final = 10_000_000
"""Entries of a store that has no other quota: small ones take 300 bytes each in Python, so that
these fill 3 GB, as much as a program on a machine of today can spare."""

BYTES_DEFAULT: Final = 2 * 1024 * MIB
"""Bytes of keys and values of a store, or of a log in memory, that has no other quota: etcd's own
default. A new clone has all of it within a minute."""

DISK_BYTES_DEFAULT: Final = 64 * 1024 * MIB
"""Bytes of a log in a file that has no other quota: memory does not hold them, and a disk that is
full stops more than this log."""

NEAR_SHARE: Final = 0.8
"""Share of a quota at which an event warns: a day is left for what grew for four."""

RELIEVED_SHARE: Final = 0.75
"""Share of a quota below which an event says that it is over: a store that moves around
``NEAR_SHARE`` does not tell of it again and again."""

_SHRUNK_SHARE: Final = 0.9
"""Of what a store held when it refused something large, though it was far from full."""

_NAME_SIZE_MAX: Final = 40
"""Characters of a name in an error, which has 200: what to do stands at its end."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What a store or log may hold; ``None`` sets no limit."""

    max_entries: int | None = None
    max_bytes: int | None = None
    """Of keys and values, encoded. Memory and files hold more: see ``ENTRIES_DEFAULT``."""

    def __post_init__(self) -> None:
        """Raise ``InvalidData`` for a limit that nothing fits in, or that no journal can hold."""
        for name, limit in (("max_entries", self.max_entries), ("max_bytes", self.max_bytes)):
            is_number = isinstance(limit, int) and not isinstance(limit, bool)
            if limit is not None and not (is_number and 0 < limit < COUNT_END):
                text = f"{name}={limit!r:.40}: give a positive number of less than 64 bits"
                raise InvalidData(f"{text}, or None for no limit")


class QuotaLimits(TypedDict, total=False):
    """The fields of a quota that are to change."""

    max_entries: int | None
    max_bytes: int | None


UNLIMITED: Final = Quota()

STORE_QUOTA: Final = Quota(ENTRIES_DEFAULT, BYTES_DEFAULT)
"""That of a store for which none is given."""


class QuotaLevel(IntEnum):
    """How close to its quota a store or log is."""

    RELIEVED = 0
    NEAR = 1
    EXCEEDED = 2
    """Something was refused, or all of it is used."""


class Meter:
    """One quota in force: gives the room that is left, and notices when a level is crossed."""

    def __init__(self, what: str, quota: Quota) -> None:
        """Name the store or log in errors by ``what``. The first ``look`` tells what is used."""
        self.what = what if len(what) <= _NAME_SIZE_MAX else f"{what[: _NAME_SIZE_MAX - 1]}…"
        self.level = QuotaLevel.RELIEVED
        self._has_refused = False
        self._is_replaced = False
        self._relieved_share = RELIEVED_SHARE
        self._use(quota)

    def _use(self, quota: Quota) -> None:
        self.quota = quota
        self._entries_max = math.inf if quota.max_entries is None else quota.max_entries
        self._size_max = math.inf if quota.max_bytes is None else quota.max_bytes

    def replace(self, quota: Quota) -> None:
        """Go by another quota from now on: the next ``look`` tells what that changes."""
        self._use(quota)
        self._is_replaced = True

    def holds(self, entries: int, size: int) -> bool:
        """Tell whether a store of this size is within the quota."""
        return entries <= self._entries_max and size <= self._size_max

    def room(self, entries: int, size: int) -> Room:
        """Give what is left, beside what is used."""
        return Room(self, entries, size)

    def count(self, entries: int, size: int) -> None:
        """Learn what is used, with what is on its way: it matters where several share a quota."""

    def refuse(self, unit: str, limit: int, used: int) -> NoReturn:
        """Raise ``QuotaExceeded``, and have the next ``look`` tell of it."""
        self._has_refused = True
        raise QuotaExceeded(
            f"{self.what} is full: {used} of {limit} {unit} are used: remove some, or raise it"
            " with set_quota() at its master, await set_quota() in a group"
        )

    def look(self, entries: int, size: int) -> QuotaLevel | None:
        """Give the level if it has changed since the last look."""
        before, is_settled = self.level, not (self._has_refused or self._is_replaced)
        share = max(entries / self._entries_max, size / self._size_max)
        if is_settled and before is QuotaLevel.RELIEVED and share < NEAR_SHARE:
            return None
        if self._has_refused or share >= 1:
            if before is not QuotaLevel.EXCEEDED:
                self._relieved_share = min(RELIEVED_SHARE, share * _SHRUNK_SHARE)
            self.level = QuotaLevel.EXCEEDED
        elif self._is_replaced or before is QuotaLevel.RELIEVED:
            self._relieved_share = RELIEVED_SHARE
            self.level = QuotaLevel.NEAR if share >= NEAR_SHARE else QuotaLevel.RELIEVED
        elif share < self._relieved_share:
            self.level = QuotaLevel.RELIEVED
        self._has_refused = self._is_replaced = False
        return None if self.level is before else self.level

    def describe(self, entries: int, size: int) -> str:
        """Say in one line how much of the quota is used."""
        quota, parts = self.quota, list[str]()
        if quota.max_entries is not None:
            parts.append(f"{entries} of {quota.max_entries} entries")
        if quota.max_bytes is not None:
            parts.append(f"{size} of {quota.max_bytes} bytes")
        return " and ".join(parts) or f"{entries} entries and {size} bytes, without a limit"


class Room:
    """What one request may still add, while it is judged step by step."""

    def __init__(self, meter: Meter, entries: int, size: int) -> None:
        """Take what is used now."""
        self._meter = meter
        self._entries = entries
        self._size = size

    def take(self, entries: int, size: int) -> None:
        """Add so many entries and bytes, which may be negative; raises ``QuotaExceeded``.

        What adds neither is never refused: deletes go on beyond the limit.
        """
        entries += self._entries
        size += self._size
        if not self._meter.holds(entries, size):
            quota = self._meter.quota
            if quota.max_entries is not None and entries > max(quota.max_entries, self._entries):
                self._meter.refuse("entries", quota.max_entries, self._entries)
            if quota.max_bytes is not None and size > max(quota.max_bytes, self._size):
                self._meter.refuse("bytes", quota.max_bytes, self._size)
        self._entries, self._size = entries, size

    def replace(self, key: bytes, before: bytes | None, after: bytes | None) -> None:
        """Put a value in the place of another; ``None`` is none. Raises ``QuotaExceeded``."""
        entries = (after is not None) - (before is not None)
        self.take(entries, entries * len(key) + len(after or b"") - len(before or b""))


class QuotaPool:
    """One quota for all logs of a broker: each has a meter of its own, which counts for all."""

    def __init__(self, what: str, quota: Quota) -> None:
        """Start without members; ``what`` names them all in errors."""
        self.meter = Meter(what, quota)
        self.entries = 0
        """Of all members, with what is on its way to the disk."""
        self.size = 0
        """Bytes of these entries."""
        self._members: dict[str, PooledMeter] = {}

    def join(self, name: str) -> PooledMeter:
        """Give the meter of one more log, in the place of an earlier one of this name."""
        self.leave(name)
        self._members[name] = member = PooledMeter(self)
        return member

    def leave(self, name: str) -> None:
        """Count a log no more that has gone; nothing for one that never joined."""
        member = self._members.pop(name, None)
        if member is not None:
            member.leave()

    def replace(self, quota: Quota) -> None:
        """Go by another quota from now on: the next ``look`` tells what that changes."""
        for meter in (self.meter, *self._members.values()):
            Meter.replace(meter, quota)


class PooledMeter(Meter):
    """The meter of one member of a pool: it has room if all of them together have."""

    def __init__(self, pool: QuotaPool) -> None:
        """Use ``QuotaPool.join``."""
        super().__init__(pool.meter.what, pool.meter.quota)
        self._pool = pool
        self._entries = self._size = 0

    def leave(self) -> None:
        """Give back what this one used."""
        self._total(0, 0)

    def replace(self, quota: Quota) -> None:
        """Do nothing: what is in force is the quota of all, which ``QuotaPool.replace`` changes."""

    def room(self, entries: int, size: int) -> Room:
        """Give what is left for all, if this one has so much."""
        return self._pool.meter.room(*self._total(entries, size))

    def count(self, entries: int, size: int) -> None:
        """Leave so much less to all others."""
        self._total(entries, size)

    def look(self, entries: int, size: int) -> QuotaLevel | None:
        """Give the level of all if it has changed; one of them tells."""
        return self._pool.meter.look(*self._total(entries, size))

    def describe(self, entries: int, size: int) -> str:
        """Say how much all of them use."""
        return f"{self.what}: {self._pool.meter.describe(*self._total(entries, size))}"

    def _total(self, entries: int, size: int) -> tuple[int, int]:
        pool = self._pool
        pool.entries += entries - self._entries
        pool.size += size - self._size
        self._entries, self._size = entries, size
        return pool.entries, pool.size
