"""A log replica's file: the journal of its group, its runs once each, and what is small.

What is small follows at checkpoints: cursors, named producers, writers, quota and retention, and
where partitions begin and end. The runs are there as soon as the journal is. So a checkpoint moves
no entries, and a snapshot brings those alone that the file lacks.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from os import PathLike
from typing import Final, Unpack

from stores.disk import marks
from stores.disk.founding import Founding
from stores.disk.journal_entries import runs_of
from stores.disk.journal_rows import JOURNAL_SCHEMA, JournalRows
from stores.disk.lazy_rows import Books
from stores.disk.log_founding import EarlierLog
from stores.disk.log_rows import RUNS_SCHEMA, run_id
from stores.disk.log_upgrade import upgrade
from stores.disk.machine_meta import META_SCHEMA, Meta, read_meta, write_meta
from stores.disk.placed_runs import PLACED_RUNS_SCHEMA, PlacedRuns, ReferringBodies
from stores.disk.producer_rows import ProducerRows
from stores.disk.replica import LOST, REMEDY, VERSION, Resealing
from stores.disk.rows import PLAIN, Codec, Head, RecordTable, RowDamaged
from stores.disk.sqlite import FileOptions, Format, SQLiteFile, free_name
from stores.group.clock import NO_TIMES
from stores.group.effects import Persist, Snapshot, StageParts
from stores.group.entries import ActionEntry, Entry
from stores.group.positions import MemberId, Position
from stores.log.bodies import Performed
from stores.log.codec import LogCodec
from stores.log.kept_runs import KeptRun, KeptRuns, RunPlace
from stores.log.limits import PARTITIONS_MAX
from stores.log.parts import HeadPart, Part, PlacedPart, ProducersPart, RunsPart, thaw
from wire.errors import DecodeError

_BODIES: Final = ReferringBodies()
_CODEC: Final = LogCodec()


@dataclass(frozen=True, slots=True)
class LoadedLogReplica:
    """All that a file has."""

    meta: Meta
    entries: list[Entry]
    """The journal above the floor."""
    parts: Sequence[Part]
    """What the machine installs, of the state that the meta names; nothing of a new file."""
    exposed: tuple[str, ...]
    """Files that others could read until now, a sentence for each."""


class SQLiteLogReplica:
    """A log replica's file. Use it from one thread at a time; it need not always be the same.

    Every method may block, and may raise ``BackendFailure``: then it is of no more use.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        codec: Codec = PLAIN,
        name: str | None = None,
        **options: Unpack[FileOptions],
    ) -> None:
        """Remember the options; nothing is opened before ``load``.

        ``name`` is that of the log: a file is refused that belongs to another one.
        """
        self._codec = codec
        self._name = name
        self._books = RecordTable(codec, "books")
        self._head = Head(codec, {"books": self._books})
        tables = (self._books.schema, PLACED_RUNS_SCHEMA, JOURNAL_SCHEMA, META_SCHEMA)
        schema = ";".join([codec.schema, *tables])
        self._earlier_schema = ";".join([codec.schema, RUNS_SCHEMA, self._books.schema])
        mark = marks.SEALED_LOG if codec.is_sealed else marks.LOG
        layout = Format("log", "replica", mark, VERSION, schema, REMEDY, frozenset({1, 2}))
        self.file = SQLiteFile(path, layout, **options)
        self._disk = threading.Lock()
        """Held by the thread that uses the connection: one commits while others read."""
        self._journal = JournalRows(codec)
        self._runs = PlacedRuns(codec)
        self._meta = Meta()
        self._producers = ProducerRows(self._books)
        self._written: dict[bytes, bytes] = {}
        """By name of a record in the books: a hash of what it holds; not of producers."""

    def load(self, founding: Founding) -> LoadedLogReplica:
        """Open or create the file; one of an earlier format becomes a group of one.

        Raises ``BackendFailure`` if it is no log, in use, or damaged.
        """
        with self._disk, self.file.loading() as connection:
            if self.file.version == 1:
                upgrade(connection, self._codec, self._earlier_schema)
            if self.file.is_new:
                self._head.create(connection)
            self._head.load(connection)
            self._head.check_name(self.file.path, self._name)
            self._codec.begin(connection)
            if self.file.is_new:
                write_meta(connection, self._codec, Meta())
            records = dict(self._books.load(connection))
            self._head.check()
            if self.file.version < VERSION:
                self._found(connection, records, founding)
                records = dict(self._books.load(connection))
            small = {name: _CODEC.decode_part(records[name]) for name in sorted(records)}
            others = self._producers.load(connection, small)
            self._written = {name: _hash(records[name]) for name in others}
            self._take_meta(read_meta(connection, self._codec))
            self._runs.forget_arrivals(connection)
            if self.file.is_integrity_checked:
                self._runs.check_all(connection)
            entries = self._load_journal(connection)
            parts = self._load_parts(connection, entries, list(small.values()))
            self._head.save(connection)
        return LoadedLogReplica(self._meta, entries, parts, self.file.exposed)

    def set_aside(self) -> str | None:
        """Give a file of an earlier release another name, and say which, if there is one.

        For a replica that takes all from its group: an upgrade would make a group of its own of it.
        """
        return self.file.set_aside()

    def join(self, group: bytes, entries: Sequence[Entry] = ()) -> None:
        """Note of which group the journal is, once for ever, and with it the founder's entries."""
        assert self._meta.group in (None, group), "a file is of one group"
        with self._committing() as connection:
            self._write_meta(connection, replace(self._meta, group=group))
            self._append(connection, 0, entries)

    def persist(self, write: Persist, *, forced_after: int = -1) -> None:
        """Make a change of the journal durable, with the runs of its entries, in one transaction.

        Entries that are dropped, or replaced by a snapshot that may lack them, are put into a file
        of their own before, if none of them is of a term after ``forced_after``: a lead that was
        taken by force may take back what was acknowledged.
        """
        journal = self._journal
        is_cut = write.snapshot is None and write.keep < journal.end.index
        if (lost_after := journal.lost_after(write, forced_after)) is not None:
            self._keep_lost(lost_after)
        with self._committing() as connection:
            if write.snapshot is not None:
                self._install(connection, write.snapshot)
            elif is_cut:
                assert write.keep >= self._meta.applied.index, "what is committed is not dropped"
                self._runs.cut(connection, write.keep)
                journal.truncate(connection, write.keep)
            assert journal.end.index == write.keep, (journal.end, write.keep)
            self._append(connection, write.keep, write.entries)
            journal.forget(connection)

    def stage(self, write: StageParts) -> None:
        """Put runs of a snapshot aside, until it comes; those of another one go."""
        with self._committing() as connection:
            if write.is_first:
                self._runs.await_arrivals(connection)
            for part in write.parts:
                assert isinstance(part, RunsPart), part
                self._runs.arrive(connection, part.runs)

    def checkpoint(self, books: Books) -> None:
        """Make durable what is small of a state: ``LogMachine.beside_rows`` gives the parts."""
        point = books.checkpoint
        assert self._meta.applied <= point.applied <= self._journal.end, "parts follow the journal"
        assert self._meta.floor <= point.floor <= point.applied, (self._meta.floor, point)
        with self._committing() as connection:
            at, group = point.applied, self._meta.group
            place = point.floor, point.voters, at, point.times, at.index
            self._write_meta(connection, Meta(group, *place, dismissed=point.dismissed))
            self._write_parts(connection, books.parts, books.starts)
            self._producers.write(connection, books.producers)
            self._journal.forget(connection)

    def read(self, places: Sequence[RunPlace]) -> list[KeptRun]:
        """Give those of some runs that are still there, checked or unsealed, up to a damaged one.

        Raises ``BackendFailure`` if that is the first.
        """
        with self._disk, self.file.failures_explained(), self.file.damage_explained():
            return self._runs.read(self.file.connection, places)

    def resealing(self) -> list[Resealing]:
        """Give what closes all rows anew, some behind a number."""
        return [self._books.reseal, self._runs.reseal, self._journal.reseal, self._reseal_single]

    def copy_from(
        self, other: SQLiteLogReplica, loaded: LoadedLogReplica, count: int
    ) -> Iterator[int]:
        """Take in all that another file has, in commits of so many runs, and give their sizes.

        Both were loaded, this one as a new one. It is a copy when the last commit is done, not
        before.
        """
        source, last = other.file.connection, -1
        self._runs.group = other._runs.group
        while found := other._runs.some(source, last, count):
            with self._committing() as connection:
                self._runs.add(connection, found)
            last = run_id(found[-1].partition, found[-1].first_offset)
            yield len(found)
        with self._committing() as connection:
            self._head.facts.update(other._head.facts)
            self._books.put(connection, list(other._books.load(source)))
            self._write_meta(connection, loaded.meta)
            first = loaded.meta.floor.index + 1
            self._journal.append(connection, runs_of(first, loaded.entries, _BODIES))
        yield len(loaded.entries)

    def close(self) -> None:
        """Close the file, which moves the log into it and takes the lock off."""
        with self._disk:
            self.file.close()

    # -- steps: reading --------------------------------------------------------------------------

    def _found(
        self, connection: sqlite3.Connection, records: dict[bytes, bytes], founding: Founding
    ) -> None:
        """Found a group of one on the log of an earlier format."""
        earlier = EarlierLog(self.file.path, records, self._head.facts, founding)
        for statement in (JOURNAL_SCHEMA, META_SCHEMA):
            connection.execute(statement)
        self._runs.group = founding.group
        earlier.move_runs(connection, self._codec, self._runs)
        at, voters = earlier.position, (founding.member,)
        self._write_meta(connection, Meta(founding.group, at, voters, at, earlier.times, at.index))
        self._books.clear(connection)
        starts = [span.start for span in earlier.spans]
        self._replace_parts(connection, earlier.parts() if earlier.spans else [], starts)
        name = self._head.facts.get("name")
        self._head.facts = {} if name is None else {"name": name}

    def _load_journal(self, connection: sqlite3.Connection) -> list[Entry]:
        entries: list[Entry] = []
        for run in self._journal.load(connection):
            for index, entry in enumerate(run.entries(_BODIES), run.first):
                entries.append(self._filled(connection, index, entry))
        applied, end = self._meta.applied, self._journal.end
        if applied.index > end.index:
            raise RowDamaged(f"table journal: entries after {end.index} are missing")
        return entries

    def _load_parts(
        self, connection: sqlite3.Connection, entries: list[Entry], small: list[Part]
    ) -> list[Part]:
        head, *others = small or [HeadPart()]
        applied = self._meta.applied
        if not isinstance(head, HeadPart) or head.position > applied:
            raise RowDamaged("table books: it is of another state")
        kept, ends, later = KeptRuns(PARTITIONS_MAX), dict[int, int](), 0
        for run in self._runs.places(connection):
            if run.position.index > applied.index:
                later += 1
            elif _is_in(run, head):
                if run.first_offset != ends.setdefault(run.partition, run.first_offset):
                    raise RowDamaged(f"table runs: before {run.first_offset} some are missing")
                ends[run.partition] = run.end
                kept.append(run)
        if _count_runs(entries[applied.index - self._meta.floor.index :]) != later:
            raise RowDamaged("table runs: some are of no entry")
        if not small:
            return []
        parts: list[Part] = [replace(head, after=0), PlacedPart(kept.above(0)), *others]
        try:
            thaw(parts, KeptRuns())
        except DecodeError as error:
            raise RowDamaged(f"table runs: {error}") from error
        return parts

    def _filled(self, connection: sqlite3.Connection, index: int, entry: Entry) -> Entry:
        if not isinstance(entry, ActionEntry) or not isinstance(entry.body, Performed):
            return entry
        position = Position(entry.term, index)
        return ActionEntry(entry.term, self._runs.filled(connection, position, entry.body))

    def _reseal_single(self, connection: sqlite3.Connection, after: int, count: int) -> int | None:
        """Close what is no table of many: the head, and the word of which state the rows are."""
        if after >= 0:
            return None
        self._head.save(connection)
        write_meta(connection, self._codec, self._meta)
        return 0

    # -- steps: writing --------------------------------------------------------------------------

    @contextmanager
    def _committing(self) -> Iterator[sqlite3.Connection]:
        with self._disk, self.file.committing() as connection, self.file.damage_explained():
            self._codec.begin(connection)
            yield connection
            self._head.save(connection)

    def _append(self, connection: sqlite3.Connection, keep: int, entries: Sequence[Entry]) -> None:
        self._journal.append(connection, runs_of(keep + 1, entries, _BODIES))
        for index, entry in enumerate(entries, keep + 1):
            if isinstance(entry, ActionEntry) and isinstance(entry.body, Performed):
                self._runs.write(connection, Position(entry.term, index), entry.body)

    def _install(self, connection: sqlite3.Connection, snapshot: Snapshot) -> None:
        """Take another member's state; the runs that it leaves out are here."""
        at = snapshot.position
        self._journal.clear(connection)
        self._runs.cut(connection, snapshot.after)
        beside, arrived = list[Part](), 0
        for part in snapshot.parts:
            if isinstance(part, RunsPart):
                self._runs.add(connection, part.runs)
            elif isinstance(part, PlacedPart):
                arrived += len(part.runs)
            else:
                assert isinstance(part, Part), part
                beside.append(part)
        if arrived:
            self._runs.admit(connection, arrived)
        place = at, snapshot.voters, at, snapshot.times, at.index
        meta = Meta(self._meta.group, *place, dismissed=snapshot.dismissed)
        self._write_meta(connection, meta)
        head = beside[0]
        assert isinstance(head, HeadPart), head
        self._replace_parts(connection, beside, [span.start for span in head.spans])

    def _replace_parts(
        self, connection: sqlite3.Connection, parts: Sequence[Part], starts: Sequence[int]
    ) -> None:
        """Write another state, with all of its producers."""
        producers = [part for part in parts if isinstance(part, ProducersPart)]
        others = [part for part in parts if not isinstance(part, ProducersPart)]
        self._producers.replace(connection, producers)
        self._write_parts(connection, others, starts)

    def _write_parts(
        self, connection: sqlite3.Connection, parts: Sequence[Part], starts: Sequence[int]
    ) -> None:
        """Write those that changed, and let go the runs that are before the partitions' starts."""
        records = {b"%08d" % at: _CODEC.encode_part(part) for at, part in enumerate(parts)}
        hashes = {name: _hash(body) for name, body in records.items()}
        changed = [name for name in records if self._written.get(name) != hashes[name]]
        self._books.put(connection, [(name, records[name]) for name in changed])
        self._books.remove(connection, [name for name in self._written if name not in records])
        self._written = hashes
        self._runs.forget(connection, starts, self._meta.floor.index)

    def _write_meta(self, connection: sqlite3.Connection, meta: Meta) -> None:
        write_meta(connection, self._codec, meta)
        self._take_meta(meta)

    def _take_meta(self, meta: Meta) -> None:
        self._meta = meta
        self._journal.group, self._journal.floor = meta.group, meta.floor
        if meta.group is not None:
            self._runs.group = meta.group

    def _keep_lost(self, keep: int) -> None:
        """Put the entries above an index into a file that can be loaded as this one is."""
        journal, group = self._journal, self._meta.group
        assert group is not None, "a journal with entries is of a group"
        # There may be one of the same term, or of an attempt that was cut off.
        path = free_name(f"{self.file.place}{LOST}{journal.end.term}")
        entries: list[Entry] = []
        with self._disk, self.file.failures_explained(), self.file.damage_explained():
            connection = self.file.connection
            for run in journal.above(connection, keep):
                for index, entry in enumerate(run.entries(_BODIES), run.first):
                    entries.append(self._filled(connection, index, entry))
        at = journal.position(keep)
        snapshot = Snapshot(at, self._meta.voters, NO_TIMES, (HeadPart(position=at),))
        with closing(SQLiteLogReplica(path, self._codec.beside(path), self._name)) as lost:
            lost.load(Founding(group, MemberId("", 0), 0))
            lost.join(group)
            lost.persist(Persist(0, snapshot, keep, tuple(entries)))


def _hash(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()


def _is_in(run: RunPlace, head: HeadPart) -> bool:
    """Tell whether a run has entries that are not let go; one of no partition is for a check."""
    return run.partition >= len(head.spans) or run.end > head.spans[run.partition].start


def _count_runs(entries: Sequence[Entry]) -> int:
    return sum(
        len(entry.body.runs)
        for entry in entries
        if isinstance(entry, ActionEntry) and isinstance(entry.body, Performed)
    )
