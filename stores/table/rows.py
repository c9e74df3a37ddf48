"""Entries as columns: what files, answers to proxies, and readers get many of at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress

from stores.limits import EXPIRY_END_NS
from stores.table.table import Columns, Entry

Row = tuple[bytes, bytes, int, int | None]
"""Key, value, revision, and when it expires."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Entries, one sequence for each field: so they are handled at the speed of C."""

    keys: Sequence[bytes] = ()
    values: Sequence[bytes] = ()
    """Empty if a proxy did not ask for them."""
    revisions: Sequence[int] = ()
    expiries: Sequence[int | None] = ()
    """Empty if none of them expires."""

    @classmethod
    def of(cls, columns: Columns, keys: Sequence[bytes]) -> Rows:
        """Give the entries of those keys that are there, in the order of the keys."""
        values = list(map(columns.values.get, keys))
        if None in values:
            keys = [key for key, value in zip(keys, values, strict=True) if value is not None]
        return cls(
            keys,
            [value for value in values if value is not None],
            list(map(columns.revisions.__getitem__, keys)),
            list(map(columns.expiries.get, keys)) if columns.expiries else (),
        )

    @classmethod
    def listed(cls, entries: Iterable[tuple[bytes, Entry]]) -> Rows:
        """Give entries that were looked up one by one."""
        found = list(entries)
        expiries = [entry.expires_at_ns for _, entry in found]
        return cls(
            [key for key, _ in found],
            [entry.value for _, entry in found],
            [entry.revision for _, entry in found],
            expiries if any(each is not None for each in expiries) else (),
        )

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Give the entries of several parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        expiries: list[int | None] = []
        if any(part.expiries for part in parts):
            expiries += (each for part in parts for each in part.expiries or [None] * len(part))
        whole = chain.from_iterable
        return cls(
            list(whole(part.keys for part in parts)),
            list(whole(part.values for part in parts)),
            list(whole(part.revisions for part in parts)),
            expiries,
        )

    def __len__(self) -> int:
        """Count the entries."""
        return len(self.keys)

    def __iter__(self) -> Iterator[Row]:
        """Go through the entries, for who is in no hurry."""
        values = self.values or [b""] * len(self.keys)
        expiries = self.expiries or [None] * len(self.keys)
        return zip(self.keys, values, self.revisions, expiries, strict=True)

    def first(self, count: int) -> Rows:
        """Give no more than so many of them."""
        if count >= len(self):
            return self
        return Rows(
            self.keys[:count], self.values[:count], self.revisions[:count], self.expiries[:count]
        )

    def chosen(self, flags: Sequence[bool]) -> Rows:
        """Give those of which the flag is true."""
        return Rows(
            list(compress(self.keys, flags)),
            list(compress(self.values, flags)),
            list(compress(self.revisions, flags)),
            list(compress(self.expiries, flags)),
        )

    def entries(self) -> list[tuple[bytes, Entry]]:
        """Give each key with what is stored there, for who is in no hurry."""
        return [
            (key, Entry(value, revision, expiry)) for key, value, revision, expiry in iter(self)
        ]

    def dated(self, epoch_ns: int) -> Rows:
        """Give them with times of Unix, where the group counts expiries from ``epoch_ns``.

        The numbers of sessions stay: see ``stores.lives``.
        """
        if not self.expiries or not epoch_ns:
            return self
        end = EXPIRY_END_NS
        expiries = [
            life if life is None or life >= end else min(life + epoch_ns, end - 1)
            for life in self.expiries
        ]
        return replace(self, expiries=expiries)


def rows_of(columns: Columns, keys: Iterable[bytes], *pasts: Mapping[bytes, Entry | None]) -> Rows:
    """Give the entries of those keys that are there, in the order of the keys.

    What a reader sees instead of the columns is in the ``pasts``, of which an earlier one counts
    before a later one.
    """
    names = list(keys)
    changed = [past for past in pasts if past and not past.keys().isdisjoint(names)]
    if not changed:
        return Rows.of(columns, names)
    entries = ((key, _seen(columns, key, changed)) for key in names)
    return Rows.listed((key, entry) for key, entry in entries if entry is not None)


def _seen(
    columns: Columns, key: bytes, pasts: Iterable[Mapping[bytes, Entry | None]]
) -> Entry | None:
    for past in pasts:
        if key in past:
            return past[key]
    return columns.entry(key)
