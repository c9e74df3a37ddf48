"""What a store's file takes: rows, and changes of them that become durable together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stores.actions import WriterId
from stores.outcomes import WriterRow
from stores.table import Columns
from stores.table.rows import Rows


@dataclass(frozen=True, slots=True)
class Census:
    """What a backend counts when it starts, to see that no entry is missing or old."""

    entry_count: int
    revision_total: int
    """The sum of the entries' revisions."""

    @classmethod
    def of(cls, columns: Columns) -> Census:
        """Count."""
        return cls(len(columns), sum(columns.revisions.values()))


@dataclass(frozen=True, slots=True)
class Changes:
    """What one commit makes durable, all of it or nothing: the net effect of many mutations."""

    revision: int
    """The store's revision with them."""
    is_cleared: bool = False
    """Everything goes first."""
    rows: Rows = field(default_factory=Rows)
    """Entries to insert or to replace."""
    erased: Sequence[bytes] = ()
    """Keys to remove, present or not."""
    writers: Sequence[WriterRow] = ()
    """Records to insert or to replace, the least recently active first."""
    forgotten: Sequence[WriterId] = ()
    """Writers to remove."""
    census: Census | None = None
    """Of the store with them; ``None`` if not counted."""
