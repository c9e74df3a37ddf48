"""Which rows of a machine its file lacks, and the slices in which they follow. Pure.

What changed since the last checkpoint is known by its keys, each with what the file has under it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

import cbor2

from stores.actions import Action, ClearCommand
from stores.disk.lazy_rows import Checkpoint, Slice, sliced
from stores.group.effects import Snapshot
from stores.group.member import Member
from stores.outcomes import WriterRow
from stores.persistence import Census, Changes, Rows
from stores.quota import STORE_QUOTA
from stores.table import Columns
from stores.table.codec import decode_part, encode_part
from stores.table.machine import TableMachine
from stores.table.overlay import keys_of
from stores.table.parts import EntriesPart, HeadPart, Part, SessionsPart, WritersPart
from stores.table.writers import LedgerRow

if TYPE_CHECKING:
    from stores.disk.machine_meta import Meta

KEPT_ENTRIES: Final = 10_000
"""Committed entries that stay in the journal for members that were away; beyond, a snapshot."""

CHECKPOINT_TICKS: Final = 10
"""Ticks between two checkpoints: in a second most keys of a busy store change several times."""

CHECKPOINT_ENTRIES: Final = 5_000
"""Entries after which one begins at once: a restart applies about as many."""


class RowKeeper:
    """Follows the changes of a machine, for its file."""

    def __init__(self, machine: TableMachine, columns: Columns, applied: int) -> None:
        """Start with a file that has ``columns``; the machine has them, too."""
        self._machine = machine
        self._applied = applied
        self._past: dict[bytes, int | None] = {}
        """The revision that the file has under each key that changed since."""
        self._total = sum(columns.revisions.values())
        self._slices: deque[Slice] = deque()
        self._ticks = 0
        machine.before = self._observe

    @property
    def has_slices(self) -> bool:
        """True while a checkpoint is not all written."""
        return bool(self._slices)

    def _observe(self, action: Action) -> None:
        past, machine = self._past, self._machine
        keys = list(machine) if isinstance(action, ClearCommand) else keys_of(action)
        new = [key for key in keys if key not in past]
        if new:
            past.update(zip(new, machine.revisions(new), strict=True))

    def restart(self, applied: int) -> None:
        """Forget all: a snapshot was installed, and all of it goes to the file at once."""
        self._past.clear()
        self._slices.clear()
        self._total = sum(self._machine.snapshot().revisions.values())
        self._applied = applied

    def take(self) -> Slice | None:
        """Give the next slice, to be written after those before it."""
        return self._slices.popleft() if self._slices else None

    def tick(self, member: Member) -> None:
        """Start a checkpoint, if one is due."""
        self._ticks += 1
        commit = member.state.commit
        new = commit - self._applied
        is_due = new >= CHECKPOINT_ENTRIES or (new > 0 and self._ticks >= CHECKPOINT_TICKS)
        if is_due and not self._slices and member.journal.durable >= commit:
            self._ticks = 0
            self._begin(member, commit)

    def _begin(self, member: Member, commit: int) -> None:
        member.compact(commit - KEPT_ENTRIES)
        journal = member.journal
        point = Checkpoint(
            journal.position(commit),
            member.state.clock.times,
            journal.floor,
            journal.voters.at(journal.floor.index),
            _pack(self._machine.beside_rows()),
        )
        past, self._past = self._past, {}
        rows = self._machine.rows(past)
        erased: list[bytes] = []
        if len(rows.keys) < len(past):
            kept = set(rows.keys)
            erased = [key for key in past if key not in kept]
        self._total += sum(rows.revisions)
        self._total -= sum(filter(None, past.values()))
        census = Census(len(self._machine), self._total)
        changes = Changes(self._machine.revision, rows=rows, erased=erased, census=census)
        self._slices.extend(sliced(point, changes, past))
        self._applied = commit


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
    entries = EntriesPart(pairs, list(map(columns.revisions.__getitem__, columns.values)), expiries)
    if not meta.machine:
        rows = tuple(
            LedgerRow(row.writer, row.number, row.last_request, row.outcomes)
            for row in writers
            if row.number
        )
        new = HeadPart(revision, meta.applied, len(columns), STORE_QUOTA)
        return [new, entries, WritersPart(rows)]
    head, *rest = [decode_part(data) for data in cbor2.loads(meta.machine)]
    # Some rows may be of a later state: there may be more of them, or fewer.
    return [replace(cast("HeadPart", head), entry_count=len(columns)), entries, *rest]


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
