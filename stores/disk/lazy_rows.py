"""A machine's rows follow its journal lazily: coalesced by key, a slice with each commit.

All slices of a checkpoint are of the state at one position. Between the first and the last, the
file has some rows of that state and some of the one before: so it also says up to where its rows
may *reach*, and who loads it applies the journal up to there before anything is read. Actions are
absolute, so that it does no harm to apply them to rows that have them already. Writers' records are
not: they go with the last slice, as the revision and the journal's floor do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stores.group.clock import Times
from stores.group.positions import Position, Voters
from stores.persistence import Census, Changes, Rows

SLICE_ROWS: Final = 2_000
"""Rows of one slice: a commit that waits for one takes some milliseconds longer."""


SORTED_ROWS: Final = 32_768
"""Rows that are put in order at a time: neighbours share their pages then, which are written once
for all of them. To sort more at once would hold up the loop for more than a few hundredths of a
second."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state of the machine that its rows are to have."""

    applied: Position
    """The last entry in it; the journal on the disk has it."""
    times: Times
    """The group's clocks there."""
    floor: Position
    """Where the journal begins once it is written, not after ``applied``."""
    voters: Voters
    """Those in force at the floor."""
    machine: bytes = b""
    """What the machine keeps beside its rows."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a checkpoint, for one commit."""

    checkpoint: Checkpoint
    changes: Changes
    is_last: bool


def sliced(
    checkpoint: Checkpoint,
    changes: Changes,
    past: Mapping[bytes, int | None],
    count: int = SLICE_ROWS,
) -> Iterator[Slice]:
    """Divide changes into slices of so many rows; they come in this order.

    ``past`` has the revision that the file holds under each changed key, ``None`` if it lacks the
    key: the census of a slice needs it.
    """
    assert changes.census is not None, "rows that follow lazily are counted"
    counting = _Counting(changes, past)
    parts = [Changes(0, rows=rows) for rows in _rows_sliced(changes.rows, count)]
    erased = [changes.erased[at] for at in _in_order(changes.erased)]
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
    order = _in_order(rows.keys)
    for at in range(0, len(order), count):
        some = order[at : at + count]
        yield Rows(
            [rows.keys[each] for each in some],
            [rows.values[each] for each in some],
            [rows.revisions[each] for each in some],
            [rows.expiries[each] for each in some] if rows.expiries else (),
        )


def _in_order(keys: Sequence[bytes]) -> list[int]:
    """Give the numbers of keys, some at a time in the order of the keys."""
    order: list[int] = []
    for start in range(0, len(keys), SORTED_ROWS):
        some = range(start, min(start + SORTED_ROWS, len(keys)))
        order += sorted(some, key=keys.__getitem__)
    return order
