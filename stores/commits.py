"""Group commit: what a durable master has changed and may not show yet.

One commit is on its way to the disk while the mutations of the next one gather. A crash can take
both back, so that readers and new clones see neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stores.actions import WriterId
from stores.outcomes import WriterRow
from stores.persistence import Census, Changes, Rows
from stores.table import Columns, Entry, Table

_Past = dict[bytes, Entry | None]
"""What stood under a key before a commit's first change to it; ``None`` if nothing did."""


class GroupCommit:
    """Remembers what stood under every key that changed since the last finished commit."""

    def __init__(self, table: Table) -> None:
        """Start with a table of which everything is durable."""
        self._table = table
        table.before = self._remember
        self.revision = table.revision
        """The last revision that is durable."""
        self._gathering: _Past = {}
        self._in_flight: _Past = {}
        self._revision_in_flight = table.revision
        self._is_cleared = False
        self._revision_total = Census.of(table.columns).revision_total

    def mark_cleared(self) -> None:
        """Say that the next commit may begin by removing everything."""
        self._is_cleared = True

    def start(self, writers: Sequence[WriterRow], forgotten: Sequence[WriterId]) -> Changes:
        """Freeze what gathered; from now on it is in flight."""
        assert not self._in_flight, "a commit is in flight already"
        self._in_flight, self._gathering = self._gathering, {}
        self._revision_in_flight = self._table.revision
        is_cleared, self._is_cleared = self._is_cleared, False
        columns, changed = self._table.columns, self._in_flight
        keys = [key for key in changed if key in columns.values]
        is_erasing = not is_cleared and len(keys) < len(changed)
        erased = [key for key in changed if key not in columns.values] if is_erasing else []
        rows = Rows.of(columns, keys)
        self._revision_total += sum(rows.revisions)
        self._revision_total -= sum(past.revision for past in changed.values() if past is not None)
        census = Census(len(columns), self._revision_total)
        return Changes(self._table.revision, is_cleared, rows, erased, writers, forgotten, census)

    def finish(self) -> None:
        """Note that the commit in flight is durable."""
        self._in_flight = {}
        self.revision = self._revision_in_flight

    def get(self, key: bytes) -> bytes | None:
        """Give the durable value of a key."""
        if key in self._in_flight or key in self._gathering:
            entry = self.entry(key)
            return None if entry is None else entry.value
        return self._table.get(key)

    def entry(self, key: bytes) -> Entry | None:
        """Give the durable entry of a key."""
        for past in (self._in_flight, self._gathering):
            if key in past:
                return past[key]
        return self._table.columns.entry(key)

    def keys(self) -> Iterable[bytes]:
        """Give the durable keys."""
        return self.copy() if self._in_flight or self._gathering else self._table.columns

    def hidden_keys(self) -> list[bytes]:
        """Give the durable keys that the table has no more: their removal is not durable yet."""
        values = self._table.columns.values
        return [key for key in self.past() if key not in values]

    def past(self) -> dict[bytes, Entry | None]:
        """Give what readers see instead of what the table holds."""
        return {**self._gathering, **self._in_flight}

    def copy(self) -> Columns:
        """Copy the durable table."""
        columns = self._table.columns.copy()
        for past in (self._gathering, self._in_flight):
            for key, entry in past.items():
                columns.set(key, entry)
        return columns

    def _remember(self, keys: Iterable[bytes]) -> None:
        gathering, columns = self._gathering, self._table.columns
        values = columns.values
        for key in keys:
            if key not in gathering:
                gathering[key] = columns.entry(key) if key in values else None
