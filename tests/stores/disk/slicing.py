"""Cuts changes of a table into slices of one state, for files that are filled by tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from stores.disk.lazy_rows import Checkpoint, Slice
from stores.outcomes import WriterRow
from stores.persistence import Census, Changes, Rows
from stores.table import Columns, Table


def net_changes(
    before: Columns, table: Table, writer: WriterRow, *, is_cleared: bool
) -> tuple[Changes, dict[bytes, int | None]]:
    """Give what makes rows of one state into those of a later one, and what ``sliced`` needs.

    If ``is_cleared``, everything goes first.
    """
    after = table.columns
    present = [key for key in after if is_cleared or before.entry(key) != after.entry(key)]
    erased = [] if is_cleared else [key for key in before if key not in after.values]
    past = {key: before.revisions.get(key) for key in (*present, *erased)}
    rows, census = Rows.of(after, present), Census.of(after)
    changes = Changes(table.revision, is_cleared, rows, erased, (writer,), (), census)
    return changes, past


def sliced(
    checkpoint: Checkpoint,
    changes: Changes,
    past: Mapping[bytes, int | None],
    count: int,
) -> Iterator[Slice]:
    """Divide changes into slices of so many rows; they come in this order.

    ``past`` has the revision that the file holds under each changed key, ``None`` if it lacks the
    key: the census of a slice needs it.
    """
    assert changes.census is not None, "rows that follow lazily are counted"
    counting = _Counting(changes, past)
    parts = [Changes(0, rows=rows) for rows in _rows_sliced(changes.rows, count)]
    erased = list(changes.erased)
    parts += [Changes(0, erased=erased[at : at + count]) for at in range(0, len(erased), count)]
    parts = parts or [Changes(0)]
    parts[0] = replace(parts[0], is_cleared=changes.is_cleared)
    *interim, last = parts
    for part in interim:
        yield Slice(checkpoint, replace(part, census=counting.after(part)), is_last=False)
    last = replace(
        last,
        revision=changes.revision,
        writers=changes.writers,
        forgotten=changes.forgotten,
        census=changes.census,
    )
    yield Slice(checkpoint, last, is_last=True)


class _Counting:
    """The census of a file whose rows change slice by slice."""

    def __init__(self, changes: Changes, past: Mapping[bytes, int | None]) -> None:
        """Start with what the file has before the first slice, or with nothing if all goes."""
        self._past = {} if changes.is_cleared else past
        self._count = self._total = 0
        if not changes.is_cleared:
            count, total = self._difference(changes)
            assert changes.census is not None
            self._count = changes.census.entry_count - count
            self._total = changes.census.revision_total - total

    def after(self, changes: Changes) -> Census:
        """Give the census with a slice, the next one."""
        count, total = self._difference(changes)
        self._count, self._total = self._count + count, self._total + total
        return Census(self._count, self._total)

    def _difference(self, changes: Changes) -> tuple[int, int]:
        keys = [*changes.rows.keys, *changes.erased]
        replaced = [each for each in map(self._past.get, keys) if each is not None]
        return len(changes.rows.keys) - len(replaced), sum(changes.rows.revisions) - sum(replaced)


def _rows_sliced(rows: Rows, count: int) -> Iterator[Rows]:
    order = range(len(rows.keys))
    for at in range(0, len(order), count):
        some = order[at : at + count]
        yield Rows(
            [rows.keys[each] for each in some],
            [rows.values[each] for each in some],
            [rows.revisions[each] for each in some],
            [rows.expiries[each] for each in some] if rows.expiries else (),
        )
