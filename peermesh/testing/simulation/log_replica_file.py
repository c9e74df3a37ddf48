"""A log replica's file on a simulated disk, in place of SQLite: one record for each commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from peermesh.testing.simulation.disk import Disk
from peermesh.testing.simulation.record_file import RecordFile
from stores.disk.founding import Founding
from stores.disk.journal_entries import EntryRun, runs_of
from stores.disk.lazy_rows import Books, Checkpoint
from stores.disk.log_replica import LoadedLogReplica
from stores.disk.machine_meta import Meta
from stores.disk.replica import LOST
from stores.group.clock import Times
from stores.group.effects import Persist, StageParts
from stores.group.entries import ActionEntry, Entry
from stores.group.positions import MemberId, Position
from stores.log.bodies import Performed
from stores.log.codec import LogCodec
from stores.log.kept_runs import KeptRun, RunPlace
from stores.log.parts import HeadPart, Part, PlacedPart, ProducersPart, RunsPart

Record = dict[str, Any]
"""What is in a file: whatever CBOR can say."""

_CODEC: Final = LogCodec()


class DiskLogReplica:
    """A log's replica in one file of a simulated disk: see ``stores.disk.log_files``."""

    def __init__(self, disk: Disk, owner: object, path: str, options: dict[str, Any]) -> None:
        """Take the options of ``Backend.SQLite``; raises ``BackendFailure`` for others."""
        self._disk, self._owner, self._path = disk, owner, path
        self._file = RecordFile(disk, owner, path, options, "a log in SQLite")
        self._state = _State()

    def set_aside(self) -> str | None:
        """Do nothing: no file is of an earlier release."""
        return None

    def load(self, founding: Founding) -> LoadedLogReplica:
        """Open the file, and read all records that are whole."""
        self._state = state = _State()
        for record in self._file.load():
            state.take_in(record)
        return LoadedLogReplica(state.meta, state.entries, state.parts(), ())

    def join(self, group: bytes, entries: Sequence[Entry] = ()) -> None:
        """Note of which group the journal is, with the founder's entries."""
        self._append({"group": group, "runs": _packed(1, entries)})

    def persist(self, write: Persist, *, forced_after: int = -1) -> None:
        """Append one record for a change of the journal, and sync."""
        snapshot = write.snapshot
        self._keep_lost(write.keep if snapshot is None else snapshot.after, forced_after)
        record: Record = {"keep": write.keep, "runs": _packed(write.keep + 1, write.entries)}
        if snapshot is not None:
            at = snapshot.position
            place = at, snapshot.times, at, snapshot.voters
            record["point"] = _point(Checkpoint(*place, dismissed=snapshot.dismissed))
            here = [part for part in snapshot.parts if not isinstance(part, PlacedPart)]
            record["installed"] = [_CODEC.encode_part(part) for part in here]
            record["after"] = snapshot.after
        self._append(record)

    def stage(self, write: StageParts) -> None:
        """Append one record with runs that are of no account yet."""
        staged = [_CODEC.encode_part(part) for part in write.parts]
        self._append({"staged": staged, "is_first": write.is_first, "runs": []})

    def checkpoint(self, books: Books) -> None:
        """Append one record with what is small, and sync."""
        small = [_CODEC.encode_part(part) for part in books.parts]
        producers = [
            (name, None if row is None else _CODEC.encode_part(ProducersPart((row,))))
            for name, row in books.producers
        ]
        point, starts = _point(books.checkpoint), list(books.starts)
        record = {"small": small, "producers": producers, "point": point, "starts": starts}
        self._append({**record, "runs": []})

    def read(self, places: Sequence[RunPlace]) -> list[KeptRun]:
        """Give those of some runs that are still there."""
        wanted = set(places)
        state = self._state
        return [run for run in (*state.runs, *state.staged) if run.place in wanted]

    def close(self) -> None:
        """Let go of the lock."""
        self._file.close()

    def _append(self, record: Record) -> None:
        self._file.append(record)
        self._state.take_in(record)

    def _keep_lost(self, keep: int, forced_after: int) -> None:
        """Put entries that a lead by force takes back into a file of their own."""
        lost = self._state.entries[max(0, keep - self._state.meta.floor.index) :]
        if lost and lost[-1].term <= forced_after:
            path = f"{self._path}{LOST}{lost[-1].term}"
            file = RecordFile(self._disk, self._owner, path, {}, "what was lost")
            for _ in file.load():
                pass
            file.append({"runs": _packed(keep + 1, lost)}, is_synced=True)
            file.close()


class _State:
    """What the records so far add up to."""

    def __init__(self) -> None:
        self.meta = Meta()
        self.entries: list[Entry] = []
        self.runs: list[KeptRun] = []
        self._small: list[Part] = []
        self._producers: dict[str, ProducersPart] = {}
        self.staged: list[KeptRun] = []

    def parts(self) -> list[Part]:
        """Give what a machine installs, of the state that ``meta`` names."""
        if not self._small:
            return []
        head, *others = self._small
        assert isinstance(head, HeadPart), head
        applied = self.meta.applied.index
        runs = [
            run
            for run in self.runs
            if run.position.index <= applied and run.end > head.spans[run.partition].start
        ]
        runs.sort(key=lambda run: (run.partition, run.first_offset))
        placed = PlacedPart([run.place for run in runs])
        return [replace(head, after=0), placed, *others, *self._producers.values()]

    def take_in(self, record: Record) -> None:
        if "group" in record:
            self.meta = replace(self.meta, group=record["group"])
        if "staged" in record:
            self._stage(record)
        elif "installed" in record:
            self._install(record)
        elif "keep" in record:
            del self.entries[record["keep"] - self.meta.floor.index :]
            self.runs = [run for run in self.runs if run.position.index <= record["keep"]]
        for run in record["runs"]:
            for entry in EntryRun.unpack(*run).entries(_CODEC):
                self._extend(entry)
        if "small" in record:
            floor = self.meta.floor.index
            small = [_CODEC.decode_part(data) for data in record["small"]]
            for name, data in record["producers"]:
                self._producers.pop(name, None)
                if data is not None:
                    self._add_producers(_CODEC.decode_part(data))
            self._go_to(record["point"], small, record["starts"])
            del self.entries[: self.meta.floor.index - floor]

    def _install(self, record: Record) -> None:
        parts = [_CODEC.decode_part(data) for data in record["installed"]]
        self.entries = []
        self.runs = [run for run in self.runs if run.position.index <= record["after"]]
        for part in parts:
            if isinstance(part, RunsPart):
                self.runs += part.runs
        self.runs += self.staged
        self.staged = []
        self._producers = {}
        for part in parts:
            if isinstance(part, ProducersPart):
                self._add_producers(part)
        others = RunsPart | ProducersPart
        small: list[Part] = [part for part in parts if not isinstance(part, others)]
        head = small[0]
        assert isinstance(head, HeadPart), head
        self._go_to(record["point"], small, [span.start for span in head.spans])

    def _add_producers(self, part: Part) -> None:
        assert isinstance(part, ProducersPart), part
        for row in part.rows:
            self._producers[row.name] = ProducersPart((row,))

    def _stage(self, record: Record) -> None:
        if record["is_first"]:
            self.staged = []
        for data in record["staged"]:
            part = _CODEC.decode_part(data)
            assert isinstance(part, RunsPart), part
            self.staged += part.runs

    def _extend(self, entry: Entry) -> None:
        self.entries.append(entry)
        if isinstance(entry, ActionEntry) and isinstance(entry.body, Performed):
            at = Position(entry.term, self.meta.floor.index + len(self.entries))
            body = entry.body
            self.runs += [KeptRun.of(run, at, body.elapsed_ns) for run in body.runs]

    def _go_to(self, point: Record, small: list[Part], starts: list[int]) -> None:
        """Have what is small of another state, and let the runs go that are not to stay."""
        applied = Position(*point["applied"])
        voters = tuple(MemberId(*voter) for voter in point["voters"])
        floor, times = Position(*point["floor"]), Times(*point["times"])
        place = floor, voters, applied, times, applied.index
        self.meta = Meta(self.meta.group, *place, dismissed=tuple(point["dismissed"]))
        self._small = small
        self.runs = [
            run
            for run in self.runs
            if run.position.index > floor.index or run.end > starts[run.partition]
        ]


def _packed(first: int, entries: Sequence[Entry]) -> list[tuple[int, int, int, bytes]]:
    return [
        (run.first, run.term, len(run.bodies), run.pack())
        for run in runs_of(first, entries, _CODEC)
    ]


def _point(point: Checkpoint) -> Record:
    return {
        "applied": _pair(point.applied),
        "times": list(point.times),
        "floor": _pair(point.floor),
        "voters": [list(voter) for voter in point.voters],
        "dismissed": list(point.dismissed),
    }


def _pair(position: Position) -> list[int]:
    return [position.term, position.index]
