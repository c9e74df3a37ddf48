"""Which rows of a machine its file lacks, and the slices in which they follow. Pure.

What changed since the last checkpoint is known by its keys, each with what the file has under it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import cbor2

from stores.actions import Action, ClearCommand
from stores.disk.lazy_rows import SLICE_ROWS, SLICE_SIZE, Checkpoint, Slice
from stores.group.effects import Snapshot
from stores.group.member import Member
from stores.outcomes import WriterRow
from stores.persistence import Census, Changes
from stores.quota import STORE_QUOTA
from stores.table import Columns
from stores.table.codec import decode_part, encode_part
from stores.table.machine import TableMachine
from stores.table.overlay import keys_of
from stores.table.parts import EntriesPart, HeadPart, Part, SessionsPart, WritersPart
from stores.table.rows import Rows
from stores.table.writers import LedgerRow
from wire.limits import MIB

if TYPE_CHECKING:
    from stores.disk.machine_meta import Meta

CHECKPOINT_TICKS: Final = 10
"""Ticks between two checkpoints: in a second most keys of a busy store change several times."""

CHECKPOINT_ENTRIES: Final = 5_000
"""Entries after which one begins at once: a restart applies about as many."""

CHECKPOINT_KEYS: Final = 16 * SLICE_ROWS
"""Changed keys after which one begins at once: a restart finds about as many in the journal."""

CHECKPOINT_SIZE: Final = 32 * MIB
"""Bytes of entries after which one begins at once: what a restart reads beside the rows."""

BEHIND_KEYS: Final = 128 * SLICE_ROWS
"""Changed keys beyond which new entries wait for rows: a restart applies the entries of about as
many, in a third of a second."""

BEHIND_SIZE: Final = 128 * MIB
"""Bytes of entries beyond which new ones wait for rows: a restart reads about as many."""

SORTED_ROWS: Final = 16 * SLICE_ROWS
"""Keys that are put in order at a time: neighbours share their pages then, which are written once
for all of them. To sort more at once would hold up the loop for more than some milliseconds."""


class RowKeeper:
    """Follows the changes of a machine, for its file.

    A slice has the rows as they are when it is taken: nothing is copied before, however much has
    changed. What changes again afterwards is for the next checkpoint.
    """

    def __init__(self, machine: TableMachine, applied: int) -> None:
        """Start with a file that has the rows of the machine, which is at ``applied``."""
        self._machine = machine
        self._applied = applied
        self._changed: dict[bytes, int | None] = {}
        """The revision that the file has under each key that changed since."""
        self._is_cleared = False
        """True if all that the file has is to go first."""
        self._census = machine.census()
        """Of the file, once all slices that were taken are written."""
        self._point: Checkpoint | None = None
        """The checkpoint under way, its revision, and what of its keys is not taken yet."""
        self._revision = self._at = 0
        self._due: list[bytes] = []
        self._sorted = 0
        """So many of these are in order, each part in itself."""
        self._traffic = machine.traffic
        """That of the machine when a checkpoint last began."""
        self._ticks = 0
        machine.before = self._observe

    @property
    def is_behind(self) -> bool:
        """True if so much has changed that rows go before the journal's next entries."""
        is_much = len(self._changed) > BEHIND_KEYS or self._new_size > BEHIND_SIZE
        return self._point is not None and is_much

    @property
    def _new_size(self) -> int:
        """Bytes of all that was applied since a checkpoint last began."""
        return self._machine.traffic - self._traffic

    @property
    def has_slices(self) -> bool:
        """True while a checkpoint is not all written."""
        return self._point is not None

    def _observe(self, action: Action) -> None:
        changed, machine = self._changed, self._machine
        if isinstance(action, ClearCommand):
            changed.clear()
            self._is_cleared = True
            return
        new = [key for key in keys_of(action) if key not in changed]
        if self._is_cleared:
            changed.update(dict.fromkeys(new))
        elif new:
            changed.update(zip(new, machine.revisions(new), strict=True))

    def restart(self, applied: int) -> None:
        """Forget all: a snapshot was installed, and all of it goes to the file at once."""
        self._changed.clear()
        self._is_cleared = False
        self._point, self._due = None, []
        self._census = self._machine.census()
        self._applied, self._traffic = applied, self._machine.traffic

    def take(self, durable: int) -> Slice | None:
        """Give the next slice, to be written after those before it.

        There is none while the machine is ahead of what is ``durable`` when it is written.
        """
        point, reached = self._point, self._machine.position.index
        if point is None or reached > durable:
            return None
        start = self._at
        if start == self._sorted:
            self._sorted += SORTED_ROWS
            self._due[start : self._sorted] = sorted(self._due[start : self._sorted])
        keys = self._due[start : min(start + SLICE_ROWS, self._sorted)]
        count = self._machine.count_within(keys, SLICE_SIZE)
        self._at += count
        changes = self._changes(keys[:count])
        is_last = self._at >= len(self._due)
        if is_last:
            changes = replace(changes, revision=self._revision)
            self._point, self._due = None, []
        return Slice(point, changes, is_last, reached)

    def _changes(self, keys: Sequence[bytes]) -> Changes:
        changed, census = self._changed, self._census
        keys = [key for key in keys if key in changed]
        past = [revision for key in keys if (revision := changed.pop(key)) is not None]
        is_cleared, self._is_cleared = self._is_cleared, False
        if is_cleared:
            census = Census(0, 0)
        rows = self._machine.rows(keys)
        erased: Sequence[bytes] = ()
        if len(rows.keys) < len(keys):
            kept = set(rows.keys)
            erased = [key for key in keys if key not in kept]
        count = census.entry_count + len(rows.keys) - len(past)
        total = census.revision_total + sum(rows.revisions) - sum(past)
        self._census = census = Census(count, total)
        return Changes(0, is_cleared=is_cleared, rows=rows, erased=erased, census=census)

    def tick(self, member: Member, floor: int) -> None:
        """Start a checkpoint, if one is due; the journal may begin at ``floor`` with it."""
        self._ticks += 1
        commit = member.state.commit
        new = commit - self._applied
        is_many = new >= CHECKPOINT_ENTRIES or len(self._changed) >= CHECKPOINT_KEYS
        is_large = is_many or self._new_size >= CHECKPOINT_SIZE
        is_due = is_large or (new > 0 and self._ticks >= CHECKPOINT_TICKS)
        if is_due and self._point is None and member.journal.durable >= commit:
            self._ticks = 0
            self._begin(member, commit, floor)

    def _begin(self, member: Member, commit: int, floor: int) -> None:
        member.compact(floor)
        journal = member.journal
        voters, dismissed = journal.voters.at(journal.floor.index)
        self._point = Checkpoint(
            journal.position(commit),
            member.state.clock.times,
            journal.floor,
            voters,
            packed(self._machine),
            dismissed,
        )
        self._revision = self._machine.revision
        self._due, self._at, self._sorted = list(self._changed), 0, 0
        self._traffic = self._machine.traffic
        self._applied = commit


def packed(machine: TableMachine) -> bytes:
    """Give what a file has of a machine beside its rows; writers that were idle cost little."""
    return _pack(machine.beside_rows())


def _pack(parts: Sequence[Part]) -> bytes:
    return cbor2.dumps([encode_part(part) for part in parts])


def restored(
    meta: Meta, revision: int, columns: Columns, writers: Sequence[WriterRow]
) -> list[Part]:
    """Give what a machine installs that begins with a file's rows."""
    pairs: list[bytes] = []
    for key, value in columns.values.items():
        pairs += (key, value)
    expiries: list[int] = []
    for at, key in enumerate(columns.values):
        if (expires_at_ns := columns.expiries.get(key)) is not None:
            expiries += (at, expires_at_ns)
    revisions = map(columns.revisions.__getitem__, columns.values)
    entries = EntriesPart(tuple(pairs), tuple(revisions), tuple(expiries))
    if not meta.machine:
        rows = tuple(
            LedgerRow(row.writer, row.number, row.last_request, row.outcomes)
            for row in writers
            if row.number
        )
        new = HeadPart(revision, meta.applied, len(columns), STORE_QUOTA)
        return [new, entries, WritersPart(rows)]
    head, *rest = [decode_part(data) for data in cbor2.loads(meta.machine)]
    assert isinstance(head, HeadPart), head
    # Some rows may be of a later state: there may be more of them, or fewer.
    return [replace(head, entry_count=len(columns)), entries, *rest]


def installed(snapshot: Snapshot) -> tuple[list[Changes], bytes]:
    """Give the rows of a snapshot in slices, and what goes beside them."""
    changes: list[Changes] = []
    beside: list[Part] = []
    count = total = revision = 0
    for part in snapshot.parts:
        match part:
            case EntriesPart():
                expiries: list[int | None] = [None] * len(part.revisions)
                for at, expires_at_ns in _pairs(part.expiries):
                    expiries[at] = expires_at_ns
                rows = Rows(part.pairs[::2], part.pairs[1::2], part.revisions, expiries)
                count += len(part.revisions)
                total += sum(part.revisions)
                changes.append(Changes(0, rows=rows))
            case HeadPart():
                revision = part.revision
                beside.append(part)
            case WritersPart() | SessionsPart():
                beside.append(part)
            case _:
                raise AssertionError(f"no part of a table: {part}")
    changes.append(Changes(revision, census=Census(count, total)))
    return changes, _pack(beside)


def _pairs(flat: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(flat[::2], flat[1::2], strict=True)
