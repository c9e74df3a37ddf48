"""A replica's file on a simulated disk, in place of SQLite: one record for each commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from peermesh.testing.simulation.disk import Disk
from peermesh.testing.simulation.record_file import RecordFile
from stores import fields
from stores.actions import WriterId
from stores.disk.founding import Founding
from stores.disk.journal_entries import Bodies, EntryRun, runs_of
from stores.disk.lazy_rows import Slice
from stores.disk.machine_meta import Meta
from stores.disk.replica import LOST, LoadedReplica
from stores.group.clock import Times
from stores.group.effects import Persist
from stores.group.entries import Entry
from stores.group.positions import MemberId, Position, Voters
from stores.outcomes import WriterRow
from stores.persistence import Changes
from stores.table import Columns

Record = dict[str, Any]
"""What is in a file: whatever CBOR can say."""


class DiskReplica:
    """A replica in one file of a simulated disk: see ``stores.disk.replica.ReplicaRows``."""

    def __init__(
        self, disk: Disk, owner: object, path: str, bodies: Bodies, options: dict[str, Any]
    ) -> None:
        """Take the options of ``Backend.SQLite``; raises ``BackendFailure`` for others.

        ``bodies`` writes the machine's actions.
        """
        self._disk, self._owner, self._path, self._bodies = disk, owner, path, bodies
        self._file = RecordFile(disk, owner, path, options, "an SQLite store")
        self._state = _State(bodies)

    def load(self, founding: Founding) -> LoadedReplica:
        """Open the file, and read all records that are whole."""
        self._state = state = _State(self._bodies)
        for record in self._file.load():
            state.take_in(record)
        state.columns.measure()
        writers = tuple(state.writers.values())
        return LoadedReplica(state.meta, state.entries, state.revision, state.columns, writers, ())

    def set_aside(self) -> str | None:
        """Give ``None``: there are no earlier formats of simulated files."""
        return None

    def join(self, group: bytes, entries: Sequence[Entry] = ()) -> None:
        """Note of which group the journal is, with the founder's entries."""
        self._append({"group": group, "runs": self._packed(1, entries)})

    def persist(
        self,
        write: Persist,
        rows: Slice | None = None,
        *,
        installed: Iterable[Changes] = (),
        machine: bytes = b"",
        group: bytes | None = None,
        forced_after: int = -1,
    ) -> None:
        """Append one record for a change of the journal, and sync."""
        snapshot = write.snapshot
        self._keep_lost(write.keep if snapshot is None else snapshot.after, forced_after)
        record: Record = {"keep": write.keep, "runs": self._packed(write.keep + 1, write.entries)}
        if snapshot is not None:
            at = _pair(snapshot.position)
            point = _point(at, snapshot.times, at, snapshot.voters, machine)
            record["point"] = {**point, "dismissed": list(snapshot.dismissed)}
            record["installed"] = [_changed(changes) for changes in installed]
            if group is not None:
                record["group"] = group
        if rows is not None:
            record |= _sliced(rows)
        self._append(record)

    def checkpoint(self, rows: Slice) -> None:
        """Append one record with a slice of rows, and sync."""
        self._append({"runs": [], **_sliced(rows)})

    def close(self) -> None:
        """Let go of the lock."""
        self._file.close()

    def _packed(self, first: int, entries: Sequence[Entry]) -> list[tuple[int, int, int, bytes]]:
        runs = runs_of(first, entries, self._bodies)
        return [(run.first, run.term, len(run.bodies), run.pack()) for run in runs]

    def _append(self, record: Record) -> None:
        self._file.append(record)
        self._state.take_in(record)

    def _keep_lost(self, keep: int, forced_after: int) -> None:
        """Put entries that a lead by force takes back into a file of their own."""
        lost = self._state.above(keep)
        if lost and lost[-1].term <= forced_after:
            path = f"{self._path}{LOST}{lost[-1].term}"
            file = RecordFile(self._disk, self._owner, path, {}, "what was lost")
            for _ in file.load():
                pass
            file.append({"runs": self._packed(keep + 1, lost)}, is_synced=True)
            file.close()


class _State:
    """What the records so far add up to."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.meta = Meta()
        self.entries: list[Entry] = []
        self.revision = 0
        self.columns = Columns()
        self.writers: dict[bytes, WriterRow] = {}

    def above(self, index: int) -> list[Entry]:
        """Give the entries above an index."""
        return self.entries[max(0, index - self.meta.floor.index) :]

    def take_in(self, record: Record) -> None:
        meta = self.meta
        if "group" in record:
            self.meta = meta = replace(meta, group=record["group"])
        if "installed" in record:
            self.columns, self.writers, self.entries = Columns(), {}, []
            for changes in record["installed"]:
                self._change(changes)
            self.meta = _meta_at(meta.group, record["point"])
        elif "keep" in record:
            del self.entries[record["keep"] - meta.floor.index :]
        for run in record["runs"]:
            self.entries += EntryRun.unpack(*run).entries(self._bodies)
        if "slice" in record:
            self._follow(record)

    def _follow(self, record: Record) -> None:
        """Take in a slice of rows; with the last one they are of another state."""
        changes = record["slice"]
        self._change(changes, is_last=record["is_last"])
        reached = max(self.meta.reached, record["point"]["applied"][1], record["reached"])
        if record["is_last"]:
            floor = self.meta.floor.index
            self.meta = _meta_at(self.meta.group, record["point"])
            del self.entries[: self.meta.floor.index - floor]
        self.meta = replace(self.meta, reached=reached)

    def _change(self, changes: Record, *, is_last: bool = True) -> None:
        if changes["cleared"]:
            self.columns = Columns()
        columns = self.columns
        for key, value, revision, expiry in changes["rows"]:
            columns.values[key], columns.revisions[key] = value, revision
            columns.expiries.pop(key, None)
            if expiry is not None:
                columns.expiries[key] = expiry
        for key in changes["erased"]:
            for column in (columns.values, columns.revisions, columns.expiries):
                column.pop(key, None)
        for writer in changes["forgotten"]:
            self.writers.pop(writer, None)
        for writer, request, outcomes, number in changes["writers"]:
            found = tuple(fields.outcome(item) for item in outcomes)
            self.writers[writer] = WriterRow(WriterId(writer), request, found, number)
        if is_last:
            self.revision = changes["revision"]


def _pair(position: Position) -> list[int]:
    return [position.term, position.index]


def _point(
    applied: list[int], times: Times, floor: list[int], voters: Voters, machine: bytes
) -> Record:
    return {
        "applied": applied,
        "times": list(times),
        "floor": floor,
        "voters": [list(voter) for voter in voters],
        "machine": machine,
    }


def _sliced(rows: Slice) -> Record:
    at = rows.checkpoint
    point = _point(_pair(at.applied), at.times, _pair(at.floor), at.voters, at.machine)
    point["dismissed"] = list(at.dismissed)
    return {
        "slice": _changed(rows.changes),
        "is_last": rows.is_last,
        "reached": rows.reached,
        "point": point,
    }


def _changed(changes: Changes) -> Record:
    return {
        "revision": changes.revision,
        "cleared": changes.is_cleared,
        "rows": [list(row) for row in changes.rows],
        "erased": list(changes.erased),
        "writers": [
            [bytes(row.writer), row.last_request, fields.pack(row.outcomes), row.number]
            for row in changes.writers
        ],
        "forgotten": [bytes(writer) for writer in changes.forgotten],
    }


def _meta_at(group: bytes | None, point: Record) -> Meta:
    applied = Position(*point["applied"])
    return Meta(
        group,
        Position(*point["floor"]),
        tuple(MemberId(*voter) for voter in point["voters"]),
        applied,
        Times(*point["times"]),
        applied.index,
        point["machine"],
        tuple(point["dismissed"]),
    )
