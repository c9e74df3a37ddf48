"""A replica's file: the journal of its group, and the rows of its machine, which follow lazily."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Final, Protocol, Unpack

from stores.disk.founding import Founding
from stores.disk.journal_entries import Bodies, runs_of
from stores.disk.journal_rows import JOURNAL_SCHEMA, JournalRows
from stores.disk.lazy_rows import Slice
from stores.disk.machine_meta import META_SCHEMA, Meta, read_meta, write_meta
from stores.disk.rows import PLAIN, Codec, RowDamaged, check_name
from stores.disk.sqlite import FileOptions, SQLiteFile, free_name
from stores.disk.table_rows import TableRows, table_rows
from stores.disk.table_state import TableState
from stores.epochs import term_of
from stores.group.clock import NO_TIMES, Times
from stores.group.effects import Persist, Snapshot
from stores.group.entries import Entry
from stores.group.positions import MemberId, Position
from stores.outcomes import WriterRow
from stores.persistence import Census, Changes
from stores.table import Columns
from stores.table.rows import Rows

VERSION: Final = 3
"""Since 3 a store's file has the journal of its group."""

LOST: Final = ".lost-"
"""In the name of a file with entries that were cut off, before their term."""

REMEDY: Final = (
    "Move it away, and not its ballot, and start the replica anew: it takes all from its group."
    " Of a group of one, restore a copy of the file"
)


@dataclass(frozen=True, slots=True)
class LoadedReplica:
    """All that a file has."""

    meta: Meta
    entries: list[Entry]
    """The journal above the floor."""
    revision: int
    """Of the store, as columns and writers are, in the state that the rows are of."""
    columns: Columns
    writers: tuple[WriterRow, ...]
    """The least recently active first."""
    exposed: tuple[str, ...]
    """Files that others could read until now, a sentence for each."""


Resealing = Callable[[sqlite3.Connection, int, int], int | None]
"""Closes some rows of a table behind a number anew; gives the last, or ``None`` at the end."""


class ReplicaRows(Protocol):
    """A replica's file, whatever it is in. Every method may block, and raise ``BackendFailure``."""

    def load(self, founding: Founding) -> LoadedReplica:
        """Open or create the file."""

    def set_aside(self) -> str | None:
        """Give a file of an earlier release another name, and say which, if there is one."""

    def join(self, group: bytes, entries: Sequence[Entry] = ()) -> None:
        """Note of which group the journal is, once for ever, with the founder's entries."""

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
        """Make a change of the journal durable, with a slice of rows if given.

        A snapshot may come with the ``group`` that the journal is of from then on.
        """

    def checkpoint(self, rows: Slice) -> None:
        """Make a slice of rows durable."""

    def close(self) -> None:
        """Let go of files and locks."""


class SQLiteReplica:
    """A replica's file. Use it from one thread at a time; it need not always be the same.

    Every method may block, and may raise ``BackendFailure``: then it is of no more use.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        bodies: Bodies,
        codec: Codec = PLAIN,
        name: str | None = None,
        **options: Unpack[FileOptions],
    ) -> None:
        """Remember the options; nothing is opened before ``load``.

        ``bodies`` writes the machine's actions. ``name`` is that of the store, which the file
        keeps.
        """
        self._rows: TableRows = table_rows(codec, name)
        before = self._rows.layout
        layout = replace(
            before,
            owner="replica",
            version=VERSION,
            schema=";".join([before.schema, JOURNAL_SCHEMA, META_SCHEMA]),
            remedy=REMEDY,
            upgraded=frozenset({before.version}),
        )
        self.file = SQLiteFile(path, layout, **options)
        self._name = name
        self._bodies = bodies
        self._codec = codec
        self._state = TableState(self._rows)
        self._journal = JournalRows(codec)
        self._meta = Meta()

    def load(self, founding: Founding) -> LoadedReplica:
        """Open or create the file; one of an earlier format is upgraded.

        Raises ``BackendFailure`` if it is no store, in use, or damaged.
        """
        file, rows = self.file, self._rows
        with file.loading() as connection:
            rows.enter(connection, file.path, is_new=file.is_new)
            columns, writers = self._state.load(connection)
            self._codec.begin(connection)
            if file.is_new:
                rows.save(connection, {"revision": 0, "applied": 0}, Census(0, 0))
                write_meta(connection, self._codec, Meta())
            elif file.version < VERSION:
                self._upgrade(connection, founding)
            self._take_meta(read_meta(connection, self._codec))
            self._check_name()
            entries: list[Entry] = []
            for run in self._journal.load(connection):
                entries += run.entries(self._bodies)
            self._check()
        revision = rows.facts.get("revision", 0)
        return LoadedReplica(self._meta, entries, revision, columns, writers, file.exposed)

    def set_aside(self) -> str | None:
        """Give a file of an earlier release another name, and say which, if there is one.

        For a replica that takes all from its group: an upgrade would make a group of its own of it.
        """
        return self.file.set_aside()

    def join(self, group: bytes, entries: Sequence[Entry] = ()) -> None:
        """Note of which group the journal is, once for ever, and with it the founder's entries.

        Both at once: a file of a group that lacks the founder's word has no voters, and waits for
        ever for a leader.
        """
        assert self._meta.group in (None, group), "a file is of one group"
        with self._committing() as connection:
            self._write_meta(connection, replace(self._meta, group=group))
            self._journal.append(connection, runs_of(1, entries, self._bodies))

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
        """Make a change of the journal durable, in one transaction, with a slice of rows if given.

        A snapshot comes with ``installed``: all rows of its state, in slices, the last one with
        writers, revision and census, and with what the machine keeps beside them. With ``group`` a
        file of none is of that one as soon as it has all of the snapshot, and no sooner. Entries
        that are dropped, or replaced by a snapshot that may lack them, are put into a file of their
        own before, if none of them is of a term after ``forced_after``: a lead that was taken by
        force may take back what was acknowledged.
        """
        journal = self._journal
        is_cut = write.snapshot is None and write.keep < journal.end.index
        if (lost_after := journal.lost_after(write, forced_after)) is not None:
            self._keep_lost(lost_after)
        with self._committing() as connection:
            if write.snapshot is not None:
                assert group is None or self._meta.group in (None, group), "it is of one group"
                of = group or self._meta.group
                self._install(connection, of, write.snapshot, installed, machine)
            elif is_cut:
                assert write.keep >= self._meta.reached, "what is committed is not dropped"
                journal.truncate(connection, write.keep)
            assert journal.end.index == write.keep, (journal.end, write.keep)
            journal.append(connection, runs_of(write.keep + 1, write.entries, self._bodies))
            if rows is not None:
                self._write_slice(connection, rows)
            journal.forget(connection)

    def checkpoint(self, rows: Slice) -> None:
        """Make a slice of the machine's rows durable, when there is no change of the journal."""
        with self._committing() as connection:
            self._write_slice(connection, rows)
            self._journal.forget(connection)

    def resealing(self) -> list[Resealing]:
        """Give what closes all rows anew, some behind a number."""
        of_rows = [table.reseal for table in self._rows.tables]
        return [*of_rows, self._journal.reseal, self._reseal_single]

    def copy_from(self, loaded: LoadedReplica, count: int) -> Iterator[int]:
        """Take in all that another file has, in commits of so many entries, and give their sizes.

        This file was made by being loaded. It is a copy when the last commit is done, not before.
        """
        columns, names, meta = loaded.columns, list(loaded.columns), loaded.meta
        for start in range(0, len(names), count):
            rows = Rows.of(columns, names[start : start + count])
            with self._committing() as connection:
                self._state.write(connection, Changes(loaded.revision, rows=rows), {})
            yield len(rows.keys)
        self._journal.group, self._journal.floor = meta.group, meta.floor
        for start in range(0, len(loaded.entries), count):
            some = loaded.entries[start : start + count]
            runs = runs_of(self._journal.end.index + 1, some, self._bodies)
            with self._committing() as connection:
                self._journal.append(connection, runs)
            yield len(some)
        census, numbers = Census.of(columns), {"applied": meta.applied.index}
        last = Changes(loaded.revision, writers=loaded.writers, census=census)
        with self._committing() as connection:
            self._state.write(connection, last, {"revision": loaded.revision, **numbers})
            self._write_meta(connection, meta)

    def close(self) -> None:
        """Close the file, which moves the log into it and takes the lock off."""
        self.file.close()

    # -- steps -----------------------------------------------------------------------------------

    @contextmanager
    def _committing(self) -> Iterator[sqlite3.Connection]:
        with self.file.committing() as connection, self.file.damage_explained():
            self._codec.begin(connection)
            yield connection

    def _upgrade(self, connection: sqlite3.Connection, founding: Founding) -> None:
        """Add what a file of an earlier release lacks; its rows stay as they are."""
        for statement in (JOURNAL_SCHEMA, META_SCHEMA):
            connection.execute(statement)
        facts, times = self._rows.facts, Times(founding.now_ns, founding.now_ns)
        at = Position(term_of(facts.get("epoch", 0)) + 1, facts.get("revision", 0))
        meta = Meta(founding.group, at, (founding.member,), at, times, at.index)
        write_meta(connection, self._codec, meta)
        self._rows.save(connection, {"applied": at.index}, None)

    def _reseal_single(self, connection: sqlite3.Connection, after: int, count: int) -> int | None:
        """Close what is no table of many: the head, and the word of which state the rows are."""
        if after >= 0:
            return None
        self._rows.save(connection, {}, None)
        write_meta(connection, self._codec, self._meta)
        return 0

    def _check_name(self) -> None:
        """Refuse the file of another store; one that knows no name gets it with its next change.

        Not now: it may still be refused, as what another endpoint has.
        """
        if self._name is None:
            return
        name = self._meta.name or self._name
        check_name(self.file.path, name, self._name)
        self._meta = replace(self._meta, name=name)

    def _check(self) -> None:
        meta, end = self._meta, self._journal.end
        if self._rows.facts.get("applied") != meta.applied.index:
            raise RowDamaged("table machine_meta: it is of another state than the rows")
        if meta.reached > end.index:
            raise RowDamaged(f"table journal: entries after {end.index} are missing")

    def _install(
        self,
        connection: sqlite3.Connection,
        group: bytes | None,
        snapshot: Snapshot,
        installed: Iterable[Changes],
        machine: bytes,
    ) -> None:
        at, numbers = snapshot.position, {"applied": snapshot.position.index}
        self._journal.clear(connection)
        self._rows.clear(connection)
        self._rows.forget_all(connection)
        for changes in installed:
            numbers["revision"] = changes.revision
            self._state.write(connection, changes, numbers)
        voters, times, names = snapshot.voters, snapshot.times, snapshot.dismissed
        meta = Meta(group, at, voters, at, times, at.index, machine, names, self._meta.name)
        self._write_meta(connection, meta)

    def _write_slice(self, connection: sqlite3.Connection, rows: Slice) -> None:
        point, meta = rows.checkpoint, self._meta
        index = point.applied.index
        reached = max(meta.reached, index, rows.reached)
        assert meta.applied <= point.applied <= self._journal.end, "rows follow the journal"
        assert reached <= self._journal.end.index, "rows follow the journal, each of them"
        assert meta.floor <= point.floor <= point.applied, (meta.floor, point)
        if rows.is_last:
            numbers = {"revision": rows.changes.revision, "applied": index}
            self._state.write(connection, rows.changes, numbers)
            meta = Meta(
                meta.group,
                point.floor,
                point.voters,
                point.applied,
                point.times,
                reached,
                point.machine,
                point.dismissed,
                meta.name,
            )
            self._write_meta(connection, meta)
        else:
            self._state.write(connection, rows.changes, {})
            if meta.reached != reached:
                self._write_meta(connection, replace(meta, reached=reached))

    def _write_meta(self, connection: sqlite3.Connection, meta: Meta) -> None:
        write_meta(connection, self._codec, meta)
        self._take_meta(meta)

    def _take_meta(self, meta: Meta) -> None:
        self._meta = meta
        self._journal.group, self._journal.floor = meta.group, meta.floor

    def _keep_lost(self, keep: int) -> None:
        """Put the entries above an index into a file that can be loaded as this one is."""
        journal, group = self._journal, self._meta.group
        assert group is not None, "a journal with entries is of a group"
        # There may be one of the same term, or of an attempt that was cut off.
        path = free_name(f"{self.file.place}{LOST}{journal.end.term}")
        entries: list[Entry] = []
        with self.file.failures_explained(), self.file.damage_explained():
            for run in journal.above(self.file.connection, keep):
                entries += run.entries(self._bodies)
        snapshot = Snapshot(journal.position(keep), self._meta.voters, NO_TIMES, ())
        nothing = Changes(0, census=Census(0, 0))
        codec = self._codec.beside(path)
        with closing(SQLiteReplica(path, self._bodies, codec, self._name)) as lost:
            lost.load(Founding(group, MemberId("", 0), 0))
            lost.join(group)
            write = Persist(0, snapshot, keep, tuple(entries))
            lost.persist(write, installed=[nothing])
