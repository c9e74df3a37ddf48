"""The backend of a log in an SQLite file: an acknowledged append survives crashes and power cuts.

A row holds a run, which is what was appended to one partition by one commit; its number is made of
partition and first offset, so that appending is writing at the end of a tree for each partition.
Its head has a checksum of its own, so that loading need not read the entries: they are checked, or
unsealed, when they are read. All else is in the books: one table of small records.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any, Final, Unpack
from zlib import crc32

import cbor2

from stores import fields
from stores.actions import WriterId
from stores.disk import marks
from stores.disk.log_rows import (
    INSERT_RUN,
    LIFE_SIZE,
    RUNS_SCHEMA,
    Books,
    beginning,
    closed_run,
    record_of,
    run_id,
    run_place,
)
from stores.disk.log_upgrade import upgrade
from stores.disk.rows import PLAIN, Codec, Head, RecordTable, RowDamaged
from stores.disk.sqlite import FileOptions, Format, SQLiteFile
from stores.epochs import next_epoch
from stores.log.changes import EpochEnds, LoadedLog, LogChanges, Role
from stores.log.limits import CACHE_SIZE_MAX, EPOCHS_MAX, OFFSET_END
from stores.log.messages import Cursors
from stores.log.partitions import Partition, RunInfo
from stores.log.producers import ProducerRow
from stores.log.runs import Run, RunList
from stores.outcomes import WriterRow
from wire.errors import BackendFailure, InvalidData

VERSION: Final = 2
"""Since 2 every row has a checksum, plain or sealed, and the whole a count."""

REMEDY: Final = (
    "Promote a follower that has the log (peermesh log promote), or restore a copy of the file"
)

IS_COPY: Final = (
    "{} holds a follower's copy of a log: attach it with attach_log_clone, and promote that if its"
    " keeper is gone for good"
)

_RUNS: Final = "SELECT id, count, timestamp, body FROM runs"


class SQLiteLogBackend:
    """A log in one file. Several threads may use it: one commits while others read."""

    def __init__(
        self,
        path: str | PathLike[str],
        codec: Codec = PLAIN,
        name: str | None = None,
        **options: Unpack[FileOptions],
    ) -> None:
        """Remember the options; nothing is opened before it is loaded.

        ``name`` is that of the log: a file is refused that belongs to another one.
        """
        self._codec = codec
        self._name = name
        self._books = RecordTable(codec, "books")
        self._head = Head(codec, {"books": self._books})
        mark = marks.SEALED_LOG if codec.is_sealed else marks.LOG
        schema = ";".join([codec.schema, RUNS_SCHEMA, self._books.schema])
        owner = "keeper or follower"
        self._format = Format("log", owner, mark, VERSION, schema, REMEDY, frozenset({1}))
        self.file = SQLiteFile(path, self._format, **options)
        self._partitions: dict[int, tuple[int, int, bytes]] = {}
        """Where each begins and ends, and its life."""
        self._windows: dict[str, deque[int]] = {}
        """By producer: the last sequence number of each record about it."""
        self._seen = 0
        self._disk = threading.Lock()
        """Held by the thread that uses the connection."""
        self._cache_lock = threading.Lock()
        self._cache: dict[int, RunList[Run]] = {}
        self._cache_size = 0

    @property
    def is_durable(self) -> bool:
        """Methods wait for the disk."""
        return True

    def load_keeper(self, epoch_min: int, partition_count: int | None) -> LoadedLog:
        """Open or create the file for a keeper, and begin another life of it."""
        with self._loading() as (connection, books):
            facts = self._head.facts
            kept, role = facts.get("epoch", 0), Role(facts.get("role", 0))
            if kept and role is Role.DEPOSED:
                return self._loaded(connection, books)
            if kept and role is Role.COPY:
                raise BackendFailure(IS_COPY.format(self.file.path))
            self._begin_partitions(connection, partition_count)
            epoch, epochs = next_epoch(kept, epoch_min), books.setdefault("epoch", {})
            epochs[epoch,] = tuple(end for _, end, _ in self._bounds())
            self._books.put(connection, [record_of("epoch", (epoch,), epochs[epoch,])])
            for gone in sorted(epochs)[:-EPOCHS_MAX]:
                self._books.remove(connection, [record_of("epoch", gone, epochs.pop(gone))[0]])
            facts["epoch"], facts["log_id"] = epoch, facts.get("log_id") or epoch
            facts["role"] = Role.KEEPER.value
            return self._loaded(connection, books)

    def load_follower(self) -> LoadedLog:
        """Open or create the file for a follower."""
        with self._loading() as (connection, books):
            return self._loaded(connection, books)

    def commit(self, changes: LogChanges) -> None:
        """Make changes durable in one transaction."""
        with self._disk:
            with self._committing() as connection:
                self._write(connection, changes)
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
        """Give committed runs from the one with ``offset`` on, one at least if it is there.

        Raises ``BackendFailure`` for one that is not what was written.
        """
        found = self.read_at_hand(partition, offset, size_max)
        if found is not None:
            return found
        with self._disk, self.file.failures_explained(), self.file.damage_explained():
            connection = self.file.connection
            query = "SELECT max(id) FROM runs WHERE id BETWEEN ? AND ?"
            bounds = (run_id(partition, 0), run_id(partition, offset))
            (first,) = connection.execute(query, bounds).fetchone()
            if first is None:
                return []
            runs = self._read_runs(connection, first, run_id(partition + 1, 0) - 1, size_max)
        return runs if runs and runs[0].end > offset else runs[1:]

    def find(self, partition: int, timestamp_ns: int) -> int | None:
        """Give the first offset that was appended at this time or later, if there is one."""
        with self._disk, self.file.failures_explained():
            low, high = run_id(partition, 0), run_id(partition + 1, 0)
            connection, found = self.file.connection, None
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
            self.file.close()

    # -- for another key -------------------------------------------------------------------------

    def resealing(self) -> list[Callable[[sqlite3.Connection, int, int], int | None]]:
        """Give what closes the rows of a table anew, some behind a number: see ``RecordTable``."""
        return [self._books.reseal, self._reseal_runs]

    def copy_from(self, other: SQLiteLogBackend, count: int) -> Iterator[int]:
        """Take over all of another log, ``count`` runs a commit; both are loaded, this one new."""
        with self._committing() as connection:
            self._head.facts.update(other._head.facts)
            self._books.put(connection, list(other._books.load(other.file.connection)))
            self._partitions = dict(other._partitions)
        source, last = other.file.connection, -1
        query = f"{_RUNS} WHERE id > ? ORDER BY id LIMIT ?"
        while found := source.execute(query, (last, count)).fetchall():
            with self._committing() as connection, other.file.damage_explained():
                runs = [other._opened(source, *row) for row in found]
                connection.executemany(INSERT_RUN, [self._closed(run) for run in runs])
            last = found[-1][0]
            yield len(found)

    def _reseal_runs(self, connection: sqlite3.Connection, after: int, count: int) -> int | None:
        query = f"{_RUNS} WHERE id > ? ORDER BY id LIMIT ?"
        found = connection.execute(query, (after, count)).fetchall()
        rows = []
        for row in found:
            if not self._codec.is_current(connection, row[-1]):
                number, *_, body = self._closed(self._opened(connection, *row))
                rows.append((body, number))
        connection.executemany("UPDATE runs SET body = ? WHERE id = ?", rows)
        return found[-1][0] if found else None

    # -- steps: loading --------------------------------------------------------------------------

    @contextmanager
    def _loading(self) -> Iterator[tuple[sqlite3.Connection, Books]]:
        """Give all that is in the books, and write the head behind the block."""
        with self._disk, self.file.loading() as connection:
            if self.file.version < VERSION:
                upgrade(connection, self._codec, self._format.schema)
            if self.file.is_new:
                self._head.create(connection)
            self._head.load(connection)
            self._head.check_name(self.file.path, self._name)
            books: Books = {}
            for name, body in self._books.load(connection):
                kind, *key = cbor2.loads(name)
                books.setdefault(kind, {})[tuple(key)] = tuple(cbor2.loads(body))
            self._head.check()
            self._partitions = {
                number: (start, end, life)
                for (number,), (start, end, life) in books.get("partition", {}).items()
            }
            self._codec.begin(connection)
            yield connection, books
            self._head.save(connection)

    def _begin_partitions(self, connection: sqlite3.Connection, count: int | None) -> None:
        found = len(self._partitions)
        if not self._head.facts.get("log_id"):
            self._partitions = {number: _begun(0) for number in range(count or 1)}
            self._books.put(connection, self._partition_records(self._partitions))
        elif count not in (None, found):
            raise InvalidData(
                f"{self.file.path} holds a log of {found} partitions, not {count}: their number"
                " stays, as keys belong to partitions by it"
            )

    def _bounds(self) -> list[tuple[int, int, bytes]]:
        return [bounds for _, bounds in sorted(self._partitions.items())]

    def _loaded(self, connection: sqlite3.Connection, books: Books) -> LoadedLog:
        facts = self._head.facts
        epochs = sorted(books.get("epoch", {}).items())
        if self.file.is_integrity_checked:
            for row in connection.execute(_RUNS):
                self._opened(connection, *row)
        return LoadedLog(
            facts.get("log_id", 0),
            facts.get("epoch", 0),
            self._index(connection),
            _cursors(books),
            [EpochEnds(int(number), ends) for (number,), ends in epochs],
            self._writers(books),
            self._producers(books),
            Role(facts.get("role", 0)),
            facts.get("known_epoch", 0),
            self.file.exposed,
        )

    def _index(self, connection: sqlite3.Connection) -> list[Partition]:
        """Look at the heads of all runs: they are those between the ends, without a hole."""
        bounds, partitions = self._bounds(), list[Partition]()
        query = "SELECT id, count, timestamp, head, length(body) FROM runs"
        query += " WHERE id >= ? AND id < ? ORDER BY id"
        overhead_size = self._codec.overhead_size
        for number, (start, end, life) in enumerate(bounds):
            partition, low = Partition(), run_id(number, 0)
            offset: int | None = None
            rows = connection.execute(query, (low, run_id(number + 1, 0)))
            for identity, count, timestamp, head, size in rows:
                first = identity - low
                if crc32(run_place(identity, count, timestamp, life)) != head:
                    raise RowDamaged(f"table runs: partition {number}, offset {first}: its head")
                if offset is None and first <= start:
                    partition.clear(first)
                elif offset != first:
                    raise RowDamaged(f"table runs: entries of partition {number} are missing")
                partition.extend(RunInfo(first, count, timestamp, size - overhead_size))
                offset = partition.end
            if offset is None:
                partition.clear(start)
            if partition.end != end:
                raise RowDamaged(f"table runs: entries of partition {number} are missing")
            partition.trim(start)
            partitions.append(partition)
        query = "SELECT count(*) FROM runs WHERE id < 0 OR id >= ?"
        (others,) = connection.execute(query, (run_id(len(bounds), 0),)).fetchone()
        if others:
            raise RowDamaged(f"table runs: {others} are of no partition")
        return partitions

    def _writers(self, books: Books) -> list[WriterRow]:
        rows = sorted(books.get("writer", {}).items(), key=lambda row: row[1][1])
        found: list[WriterRow] = []
        for (writer,), (request, seen, outcomes) in rows:
            self._seen = max(self._seen, seen)
            known = tuple(fields.outcome(item) for item in outcomes)
            found.append(WriterRow(WriterId(writer), request, known))
        return found

    def _producers(self, books: Books) -> list[ProducerRow]:
        latest: dict[str, tuple[int, int]] = {}
        appended: dict[str, list[tuple[int, int, int]]] = {}
        self._windows = {}
        for (name, last), (seen, floor, rows) in sorted(books.get("producer", {}).items()):
            self._windows.setdefault(name, deque()).append(last)
            appended.setdefault(name, []).extend(map(tuple, rows))
            latest[name] = seen, floor
            self._seen = max(self._seen, seen)
        found: list[ProducerRow] = []
        for name in sorted(latest, key=latest.__getitem__):
            floor = latest[name][1]
            found.append(ProducerRow(name, tuple(at for at in appended[name] if at[0] >= floor)))
        return found

    # -- steps: runs -----------------------------------------------------------------------------

    def _read_runs(
        self, connection: sqlite3.Connection, first: int, last: int, size_max: int
    ) -> list[Run]:
        runs: list[Run] = []
        query = f"{_RUNS} WHERE id BETWEEN ? AND ? ORDER BY id"
        for identity, count, timestamp, body in connection.execute(query, (first, last)):
            size_max -= len(body) - self._codec.overhead_size
            if runs and size_max < 0:
                break
            try:
                runs.append(self._opened(connection, identity, count, timestamp, body))
            except RowDamaged:
                if not runs:
                    raise
                break  # what is before it can be read
        return runs

    def _opened(
        self,
        connection: sqlite3.Connection,
        identity: int,
        count: int,
        timestamp_ns: int,
        body: bytes,
    ) -> Run:
        number, offset = divmod(identity, OFFSET_END)
        try:
            place = run_place(identity, count, timestamp_ns, self._partitions[number][2])
            body = self._codec.open(connection, place, body)
        except (ValueError, TypeError) as error:
            text = f"table runs: partition {number}, offset {offset}: {error}"
            raise RowDamaged(text) from error
        return Run(number, offset, count, timestamp_ns, body)

    def _closed(self, run: Run) -> tuple[int, int, int, int, bytes]:
        return closed_run(self._codec, run, self._partitions[run.partition][2])

    # -- steps: writing --------------------------------------------------------------------------

    @contextmanager
    def _committing(self) -> Iterator[sqlite3.Connection]:
        with self.file.committing() as connection:
            self._codec.begin(connection)
            yield connection
            self._head.save(connection)

    def _write(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        records: list[tuple[bytes, bytes]] = []
        self._write_identity(connection, changes, records)
        self._write_runs(connection, changes, records)
        if changes.forgotten_consumers:
            gone = [beginning(2, "cursor", name) for name in changes.forgotten_consumers]
            self._books.remove(connection, self._books.names(*gone))
        for name, positions in changes.cursors:
            records += [record_of("cursor", (name, number), (at,)) for number, at in positions]
        self._write_memory(connection, changes, records)
        self._books.put(connection, records)

    def _write_identity(
        self,
        connection: sqlite3.Connection,
        changes: LogChanges,
        records: list[tuple[bytes, bytes]],
    ) -> None:
        facts = self._head.facts
        if changes.log_id is not None:
            connection.execute("DELETE FROM runs")
            gone = self._books.names(beginning(1, "partition"), beginning(2, "cursor"))
            self._books.remove(connection, gone)
            self._partitions = {}
            facts["log_id"] = changes.log_id
        if changes.epoch is not None:
            facts["epoch"] = changes.epoch
        if changes.role is not None:
            facts["role"] = changes.role.value
        if changes.known_epoch is not None:
            facts["known_epoch"] = changes.known_epoch
        if changes.lives is not None:
            self._books.remove(connection, self._books.names(beginning(1, "epoch")))
            records += [record_of("epoch", (life.epoch,), life.ends) for life in changes.lives]

    def _write_runs(
        self,
        connection: sqlite3.Connection,
        changes: LogChanges,
        records: list[tuple[bytes, bytes]],
    ) -> None:
        known, touched = self._partitions, dict[int, None]()
        for number, start in changes.cleared:
            bounds = (run_id(number, 0), run_id(number + 1, 0))
            connection.execute("DELETE FROM runs WHERE id >= ? AND id < ?", bounds)
            known[number], touched[number] = _begun(start), None
        for number, end in changes.cut:
            bounds = (run_id(number, end), run_id(number + 1, 0))
            connection.execute("DELETE FROM runs WHERE id >= ? AND id < ?", bounds)
            start, _, life = known[number]
            known[number], touched[number] = (start, end, life), None
        connection.executemany(INSERT_RUN, [self._closed(run) for run in changes.runs])
        for run in changes.runs:
            start, _, life = known[run.partition]
            known[run.partition], touched[run.partition] = (start, run.end, life), None
        for number, start in changes.starts:
            query = "DELETE FROM runs WHERE id >= ?1 AND id < ?2 AND id + count <= ?2"
            connection.execute(query, (run_id(number, 0), run_id(number, start)))
            _, end, life = known[number]
            known[number], touched[number] = (start, end, life), None
        records += self._partition_records(touched)

    def _partition_records(self, numbers: dict[int, Any]) -> list[tuple[bytes, bytes]]:
        return [record_of("partition", (each,), self._partitions[each]) for each in numbers]

    def _write_memory(
        self,
        connection: sqlite3.Connection,
        changes: LogChanges,
        records: list[tuple[bytes, bytes]],
    ) -> None:
        gone: list[bytes] = []
        if changes.is_memory_new:
            gone += self._books.names(beginning(1, "writer"), beginning(2, "producer"))
            self._windows.clear()
        gone += [_name("writer", bytes(writer)) for writer in changes.forgotten_writers]
        for name in changes.forgotten_producers:
            gone += [_name("producer", name, last) for last in self._windows.pop(name, ())]
        for row in changes.writers:
            self._seen += 1
            content = (row.last_request, self._seen, fields.pack(row.outcomes))
            records.append(record_of("writer", (bytes(row.writer),), content))
        for each in changes.producers:
            if each.appended:
                self._seen += 1
                window, last = self._windows.setdefault(each.name, deque()), each.appended[-1][0]
                window.append(last)
                content = (self._seen, each.floor, each.appended)
                records.append(record_of("producer", (each.name, last), content))
                while window[0] < each.floor:
                    gone.append(_name("producer", each.name, window.popleft()))
        if gone:
            self._books.remove(connection, gone)

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


def _begun(start: int) -> tuple[int, int, bytes]:
    return start, start, secrets.token_bytes(LIFE_SIZE)


def _name(kind: str, *key: str | bytes | int) -> bytes:
    return record_of(kind, key, ())[0]


def _cursors(books: Books) -> Cursors:
    cursors: dict[str, list[tuple[int, int]]] = {}
    for (name, partition), (offset,) in sorted(books.get("cursor", {}).items()):
        cursors.setdefault(name, []).append((partition, offset))
    return tuple((name, tuple(positions)) for name, positions in cursors.items())
