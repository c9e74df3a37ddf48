"""The backend of a log in an SQLite file: an acknowledged append survives a crash and a power cut.

A row holds a run, which is what was appended to one partition by one commit; its number is made of
partition and first offset, so that appending is writing at the end of a tree for each partition.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from os import PathLike
from typing import Final

import cbor2

from stores import fields
from stores.actions import WriterId
from stores.backends import marks
from stores.backends.sqlite_file import SQLiteFile, Synchronous, check_there
from stores.epochs import next_epoch
from stores.log.changes import EpochEnds, LoadedLog, LogChanges, Role
from stores.log.limits import CACHE_SIZE_MAX, EPOCHS_MAX, OFFSET_END
from stores.log.messages import Cursors
from stores.log.partitions import Partition, RunInfo
from stores.log.producers import ProducerRow
from stores.log.runs import Run, RunList
from stores.outcomes import WriterRow
from wire.errors import BackendFailure, InvalidData

_SCHEMA: Final = """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE partitions (
        partition INTEGER PRIMARY KEY, start INTEGER NOT NULL, end INTEGER NOT NULL
    );
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY, count INTEGER NOT NULL, timestamp INTEGER NOT NULL,
        body BLOB NOT NULL
    );
    CREATE TABLE cursors (
        consumer TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
        PRIMARY KEY (consumer, partition)
    ) WITHOUT ROWID;
    CREATE TABLE epochs (epoch INTEGER PRIMARY KEY, ends BLOB NOT NULL);
    CREATE TABLE writers (
        writer BLOB PRIMARY KEY, request INTEGER NOT NULL, seen INTEGER NOT NULL,
        outcomes BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE producers (
        producer TEXT NOT NULL, sequence INTEGER NOT NULL, partition INTEGER NOT NULL,
        offset INTEGER NOT NULL, seen INTEGER NOT NULL,
        PRIMARY KEY (producer, sequence)
    ) WITHOUT ROWID
"""


IS_COPY: Final = (
    "{} holds a follower's copy of a log: attach it with attach_log_clone, and promote that if its"
    " keeper is gone for good"
)


class SQLiteLogBackend:
    """A log in one file. Several threads may use it: one commits while others read."""

    _application_id: int = marks.LOG
    _schema: str = _SCHEMA
    _overhead_size: int = 0
    """Bytes of a row's body that the run does not have."""

    def __init__(self, path: str | PathLike[str], *, synchronous: Synchronous = "FULL") -> None:
        """Remember the options; nothing is opened before it is loaded."""
        self._file = SQLiteFile(
            path,
            application_id=self._application_id,
            schema=self._schema,
            synchronous=synchronous,
        )
        self._seen = 0
        self._disk = threading.Lock()
        """Held by the thread that uses the connection."""
        self._cache_lock = threading.Lock()
        self._cache: dict[int, RunList] = {}
        self._cache_size = 0

    @property
    def is_durable(self) -> bool:
        """Methods wait for the disk."""
        return True

    def load_keeper(self, epoch_min: int, partition_count: int | None) -> LoadedLog:
        """Open or create the file for a keeper, and begin another life of it."""
        with self._disk:
            self._file.open()
            with self._file.failures_explained(), self._file.transaction() as connection:
                meta = dict(connection.execute("SELECT name, value FROM meta"))
                kept, role = meta.get("epoch", 0), Role(meta.get("role", 0))
                if kept and role is Role.DEPOSED:
                    return self._read(connection, meta)
                if kept and role is Role.COPY:
                    raise BackendFailure(IS_COPY.format(self._file.path))
                self._create(connection, meta, partition_count)
                epoch = next_epoch(kept, epoch_min)
                values = [("epoch", epoch), ("log_id", meta.get("log_id") or epoch)]
                values.append(("role", Role.KEEPER.value))
                connection.executemany("REPLACE INTO meta VALUES (?, ?)", values)
                rows = connection.execute("SELECT end FROM partitions ORDER BY partition")
                ends = [end for (end,) in rows]
                connection.execute("REPLACE INTO epochs VALUES (?, ?)", (epoch, cbor2.dumps(ends)))
                query = "DELETE FROM epochs WHERE epoch NOT IN "
                query += f"(SELECT epoch FROM epochs ORDER BY epoch DESC LIMIT {EPOCHS_MAX})"
                connection.execute(query)
                return self._read(connection, dict(values))

    def load_follower(self) -> LoadedLog:
        """Open or create the file for a follower."""
        with self._disk:
            self._file.open()
            with self._file.failures_explained(), self._file.transaction() as connection:
                meta = dict(connection.execute("SELECT name, value FROM meta"))
                return self._read(connection, meta)

    def _read(self, connection: sqlite3.Connection, meta: dict[str, int]) -> LoadedLog:
        return LoadedLog(
            meta.get("log_id", 0),
            meta.get("epoch", 0),
            self._read_partitions(connection),
            self._read_cursors(connection),
            self._read_epochs(connection),
            self._read_writers(connection),
            self._read_producers(connection),
            Role(meta.get("role", 0)),
            meta.get("known_epoch", 0),
            self._file.exposed,
        )

    def commit(self, changes: LogChanges) -> None:
        """Make changes durable in one transaction."""
        with self._disk:
            with self._file.failures_explained(), self._file.transaction() as connection:
                self._write(connection, changes)
            check_there(self._file.place)
            with self._cache_lock:
                self._remember(changes)

    def read_at_hand(self, partition: int, offset: int, size_max: int) -> list[Run] | None:
        """Give what is in the cache; ``None`` if the offset is older."""
        with self._cache_lock:
            cached = self._cache.get(partition)
            if cached is None or cached.first_offset is None or offset < cached.first_offset:
                return None
            return cached.read(offset, size_max)

    def read(self, partition: int, offset: int, size_max: int) -> list[Run]:
        """Give committed runs from the one with ``offset`` on, one at least if it is there."""
        found = self.read_at_hand(partition, offset, size_max)
        if found is not None:
            return found
        with self._disk, self._file.failures_explained():
            connection = self._file.connection
            query = "SELECT max(id) FROM runs WHERE id BETWEEN ? AND ?"
            bounds = (run_id(partition, 0), run_id(partition, offset))
            (first,) = connection.execute(query, bounds).fetchone()
            if first is None:
                return []
            runs = self._read_runs(connection, first, run_id(partition + 1, 0) - 1, size_max)
        return runs if runs and runs[0].end > offset else runs[1:]

    def find(self, partition: int, timestamp_ns: int) -> int | None:
        """Give the first offset that was appended at this time or later, if there is one."""
        with self._disk, self._file.failures_explained():
            low, high = run_id(partition, 0), run_id(partition + 1, 0)
            connection, found = self._file.connection, None
            query = "SELECT id, timestamp FROM runs WHERE id >= ? AND id < ? ORDER BY id LIMIT 1"
            # Times grow with offsets, so that halving finds the place; holes are skipped over.
            while low < high:
                middle = (low + high) // 2
                row = connection.execute(query, (middle, high)).fetchone()
                if row is None:
                    high = middle
                elif row[1] < timestamp_ns:
                    low = row[0] + 1
                else:
                    found, high = row[0], middle
            return None if found is None else found % OFFSET_END

    def close(self) -> None:
        """Close the file."""
        with self._disk:
            self._file.close()

    # -- steps: reading --------------------------------------------------------------------------

    def _create(
        self, connection: sqlite3.Connection, meta: dict[str, int], count: int | None
    ) -> None:
        existing = self._count_partitions(connection)
        if meta.get("log_id"):
            if count not in (None, existing):
                raise InvalidData(
                    f"{self._file.path} holds a log of {existing} partitions, not {count}: their"
                    " number stays, as keys belong to partitions by it"
                )
            return
        rows = [(number, 0, 0) for number in range(1 if count is None else count)]
        connection.executemany("INSERT INTO partitions VALUES (?, ?, ?)", rows)

    def _count_partitions(self, connection: sqlite3.Connection) -> int:
        (count,) = connection.execute("SELECT count(*) FROM partitions").fetchone()
        return int(count)

    def _read_partitions(self, connection: sqlite3.Connection) -> list[Partition]:
        rows = connection.execute("SELECT start, end FROM partitions ORDER BY partition")
        return self._index(connection, rows.fetchall())

    def _index(
        self, connection: sqlite3.Connection, bounds_of_all: Sequence[tuple[int, int]]
    ) -> list[Partition]:
        """Look at the heads of all runs, given where each partition begins and ends."""
        partitions: list[Partition] = []
        for start, end in bounds_of_all:
            number = len(partitions)
            partition = Partition()
            first = connection.execute(
                "SELECT min(id) FROM runs WHERE id BETWEEN ? AND ?",
                (run_id(number, 0), run_id(number + 1, 0) - 1),
            ).fetchone()[0]
            partition.clear(end if first is None else first % OFFSET_END)
            query = "SELECT id, count, timestamp, length(body) FROM runs WHERE id BETWEEN ? AND ?"
            bounds = (run_id(number, 0), run_id(number + 1, 0) - 1)
            for identity, count, timestamp, size in connection.execute(query, bounds):
                size -= self._overhead_size
                partition.extend(RunInfo(identity % OFFSET_END, count, timestamp, size))
            partition.trim(start)
            partitions.append(partition)
        return partitions

    def _read_cursors(self, connection: sqlite3.Connection) -> Cursors:
        cursors: dict[str, list[tuple[int, int]]] = {}
        for consumer, partition, offset in connection.execute("SELECT * FROM cursors"):
            cursors.setdefault(consumer, []).append((partition, offset))
        return tuple((consumer, tuple(positions)) for consumer, positions in cursors.items())

    def _read_epochs(self, connection: sqlite3.Connection) -> list[EpochEnds]:
        rows = connection.execute("SELECT epoch, ends FROM epochs ORDER BY epoch")
        return [EpochEnds(epoch, tuple(cbor2.loads(ends))) for epoch, ends in rows]

    def _read_writers(self, connection: sqlite3.Connection) -> list[WriterRow]:
        writers: list[WriterRow] = []
        query = "SELECT writer, request, seen, outcomes FROM writers ORDER BY seen"
        for writer, request, seen, outcomes in connection.execute(query):
            self._seen = max(self._seen, seen)
            found = tuple(fields.outcome(item) for item in cbor2.loads(outcomes))
            writers.append(WriterRow(WriterId(writer), request, found))
        return writers

    def _read_producers(self, connection: sqlite3.Connection) -> list[ProducerRow]:
        appended: dict[str, list[tuple[int, int, int]]] = {}
        seen: dict[str, int] = {}
        for row in connection.execute("SELECT * FROM producers ORDER BY producer, sequence"):
            name, *place, when = row
            appended.setdefault(name, []).append((place[0], place[1], place[2]))
            seen[name] = max(when, seen.get(name, 0))
            self._seen = max(self._seen, when)
        names = sorted(appended, key=seen.__getitem__)
        return [ProducerRow(name, tuple(appended[name])) for name in names]

    def _read_runs(
        self, connection: sqlite3.Connection, first: int, last: int, size_max: int
    ) -> list[Run]:
        runs: list[Run] = []
        query = "SELECT id, count, timestamp, body FROM runs WHERE id BETWEEN ? AND ? ORDER BY id"
        for identity, count, timestamp, body in connection.execute(query, (first, last)):
            size_max -= len(body) - self._overhead_size
            if runs and size_max < 0:
                break
            number, offset = divmod(identity, OFFSET_END)
            run = Run(number, offset, count, timestamp, body)
            runs.append(self._opened(connection, run))
        return runs

    def _opened(self, connection: sqlite3.Connection, run: Run) -> Run:
        """Give a run that was read as it was appended."""
        return run

    # -- steps: writing --------------------------------------------------------------------------

    def _write(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        self._write_identity(connection, changes)
        for partition, start in changes.cleared:
            bounds = (run_id(partition, 0), run_id(partition + 1, 0) - 1)
            connection.execute("DELETE FROM runs WHERE id BETWEEN ? AND ?", bounds)
            row = (partition, start, start)
            connection.execute("REPLACE INTO partitions VALUES (?, ?, ?)", row)
        for partition, end in changes.cut:
            bounds = (run_id(partition, end), run_id(partition + 1, 0) - 1)
            connection.execute("DELETE FROM runs WHERE id BETWEEN ? AND ?", bounds)
            values = (end, partition)
            connection.execute("UPDATE partitions SET end = ? WHERE partition = ?", values)
        self._write_runs(connection, changes)
        names = [(name,) for name in changes.forgotten_consumers]
        connection.executemany("DELETE FROM cursors WHERE consumer = ?", names)
        cursors = [
            (name, partition, offset)
            for name, positions in changes.cursors
            for partition, offset in positions
        ]
        connection.executemany("REPLACE INTO cursors VALUES (?, ?, ?)", cursors)
        self._write_writers(connection, changes)
        self._write_producers(connection, changes)

    def _write_identity(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        if changes.log_id is not None:
            for table in ("runs", "partitions", "cursors"):
                connection.execute(f"DELETE FROM {table}")
            connection.execute("REPLACE INTO meta VALUES ('log_id', ?)", (changes.log_id,))
        if changes.epoch is not None:
            connection.execute("REPLACE INTO meta VALUES ('epoch', ?)", (changes.epoch,))
        if changes.role is not None:
            connection.execute("REPLACE INTO meta VALUES ('role', ?)", (changes.role.value,))
        if changes.known_epoch is not None:
            row = (changes.known_epoch,)
            connection.execute("REPLACE INTO meta VALUES ('known_epoch', ?)", row)
        if changes.lives is not None:
            rows = [(life.epoch, cbor2.dumps(life.ends)) for life in changes.lives]
            connection.execute("DELETE FROM epochs")
            connection.executemany("INSERT INTO epochs VALUES (?, ?)", rows)
        if changes.is_memory_new:
            connection.execute("DELETE FROM writers")
            connection.execute("DELETE FROM producers")

    def _write_runs(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        rows = [
            (run_id(run.partition, run.first_offset), run.count, run.timestamp_ns, run.body)
            for run in changes.runs
        ]
        connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", rows)
        ends = {run.partition: run.end for run in changes.runs}
        connection.executemany(
            "UPDATE partitions SET end = ?2 WHERE partition = ?1", list(ends.items())
        )
        for partition, start in changes.starts:
            bounds = {"low": run_id(partition, 0), "high": run_id(partition, start)}
            connection.execute(
                "DELETE FROM runs WHERE id >= :low AND id < :high AND id + count <= :high", bounds
            )
            row = (start, partition)
            connection.execute("UPDATE partitions SET start = ? WHERE partition = ?", row)

    def _write_writers(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        gone = [(writer,) for writer in changes.forgotten_writers]
        connection.executemany("DELETE FROM writers WHERE writer = ?", gone)
        for row in changes.writers:
            self._seen += 1
            outcomes = cbor2.dumps(fields.pack(row.outcomes))
            values = (bytes(row.writer), row.last_request, self._seen, outcomes)
            connection.execute("REPLACE INTO writers VALUES (?, ?, ?, ?)", values)

    def _write_producers(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        gone = [(name,) for name in changes.forgotten_producers]
        connection.executemany("DELETE FROM producers WHERE producer = ?", gone)
        for row in changes.producers:
            self._seen += 1
            values = [(row.name, *appended, self._seen) for appended in row.appended]
            connection.executemany("REPLACE INTO producers VALUES (?, ?, ?, ?, ?)", values)
            query = "DELETE FROM producers WHERE producer = ? AND sequence < ?"
            connection.execute(query, (row.name, row.floor))

    # -- steps: the cache ------------------------------------------------------------------------

    def _remember(self, changes: LogChanges) -> None:
        if changes.log_id is not None:
            self._cache.clear()
        for partition, _ in changes.cleared:
            self._cache.pop(partition, None)
        for partition, end in changes.cut:
            if partition in self._cache:
                self._cache[partition].cut(end)
        for run in changes.runs:
            self._cache.setdefault(run.partition, RunList()).append(run)
        for partition, start in changes.starts:
            if partition in self._cache:
                self._cache[partition].trim(start)
        self._cache_size = sum(cached.size for cached in self._cache.values())
        while self._cache_size > CACHE_SIZE_MAX:
            largest = max(self._cache.values(), key=lambda cached: cached.size)
            self._cache_size -= largest.drop_first()


def run_id(partition: int, offset: int) -> int:
    """Number a run: in order of partitions, then offsets; 62 bits of SQLite's 63."""
    return partition * OFFSET_END + offset
