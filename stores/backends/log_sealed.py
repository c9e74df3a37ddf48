"""The backend of a log in an encrypted SQLite file.

Entries and whatever has a name are sealed. To find a run by its offset or time the file shows of
each: its partition, first offset, number of entries, time and length.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, Final

import cbor2

from stores import fields
from stores.actions import WriterId
from stores.backends import marks
from stores.backends.log_sqlite import IS_COPY, SQLiteLogBackend, run_id
from stores.backends.sealed import SCHEMA, SealedHead, SealedTable, Vault
from stores.backends.sqlite_file import Synchronous
from stores.epochs import next_epoch
from stores.log.changes import EpochEnds, LoadedLog, LogChanges, Role
from stores.log.limits import EPOCHS_MAX, OFFSET_END
from stores.log.partitions import Partition
from stores.log.producers import ProducerRow
from stores.log.runs import Run
from stores.outcomes import WriterRow
from stores.sealing import OVERHEAD_SIZE, SealBroken, StorageKeys
from wire.errors import BackendFailure, DecodeError, InvalidData

_RUNS: Final = """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY, count INTEGER NOT NULL, timestamp INTEGER NOT NULL,
        body BLOB NOT NULL
    )
"""

_PLACE: Final = struct.Struct(">4sQQQ8s")
"""What a run is sealed for: its number, count and time, and the life of its partition."""

_LIFE_SIZE: Final = 8
"""Bytes that name a life of a partition: when it is cleared, and filled again, the runs of before
fit no more."""

REMEDY: Final = (
    "do not use it. Let a follower that has the log be the keeper, or restore a copy of the file"
)

_RUNS_AFTER: Final = "SELECT id, count, timestamp, body FROM runs WHERE id > ? ORDER BY id LIMIT ?"

Row = tuple[Any, ...]


class SealedLogBackend(SQLiteLogBackend):
    """An encrypted log in one file."""

    _application_id = marks.SEALED_LOG
    _overhead_size = OVERHEAD_SIZE

    def __init__(
        self,
        path: str | PathLike[str],
        keys: StorageKeys,
        *,
        name: str | None = None,
        synchronous: Synchronous = "FULL",
    ) -> None:
        """Remember the options; nothing is opened before it is loaded.

        ``name`` is that of the log: a file is refused that belongs to another one.
        """
        self._name = name
        self._vault = Vault(os.fspath(path), keys)
        self._books = SealedTable(self._vault, "books")
        self._head = SealedHead(self._vault, {"books": self._books})
        self._schema = ";".join([SCHEMA, _RUNS, self._books.schema])
        self._rows: dict[str, dict[Row, Row]] = {}
        """The books: rows of each kind, by their key."""
        self._windows: dict[str, deque[int]] = {}
        """The sequence numbers that are remembered of each producer."""
        super().__init__(path, synchronous=synchronous)

    def load_keeper(self, epoch_min: int, partition_count: int | None) -> LoadedLog:
        """Open or create the file for a keeper, and begin another life of it."""
        with self._loading() as connection:
            facts = self._head.facts
            kept, role = facts.get("epoch", 0), Role(facts.get("role", 0))
            if kept and role is Role.DEPOSED:
                return self._loaded(self._load_partitions(connection, None, is_follower=True))
            if kept and role is Role.COPY:
                raise BackendFailure(IS_COPY.format(self._file.path))
            partitions = self._load_partitions(connection, partition_count)
            epoch = next_epoch(kept, epoch_min)
            epochs = self._rows.setdefault("epoch", {})
            lives: dict[Row, Row] = {(epoch,): tuple(partition.end for partition in partitions)}
            self._put(connection, "epoch", lives)
            self._remove(connection, "epoch", sorted(epochs)[:-EPOCHS_MAX])
            facts["epoch"], facts["log_id"] = epoch, facts.get("log_id") or epoch
            facts["role"] = Role.KEEPER.value
            self._head.save(connection)
            return self._loaded(partitions)

    def load_follower(self) -> LoadedLog:
        """Open or create the file for a follower."""
        with self._loading() as connection:
            partitions = self._load_partitions(connection, None, is_follower=True)
            self._head.save(connection)
            return self._loaded(partitions)

    def _loaded(self, partitions: list[Partition]) -> LoadedLog:
        facts, epochs = self._head.facts, self._rows.get("epoch", {})
        return LoadedLog(
            facts.get("log_id", 0),
            facts.get("epoch", 0),
            partitions,
            self._cursors(),
            [EpochEnds(int(number), epochs[number,]) for (number,) in sorted(epochs)],
            self._writers(),
            self._producers(),
            Role(facts.get("role", 0)),
            facts.get("known_epoch", 0),
            self._file.exposed,
        )

    def rekey(self, count: int) -> Iterator[int]:
        """Seal all that is under an old key anew, ``count`` records a commit; gives each count.

        After ``load_follower``. What was done stays done, wherever it is interrupted.
        """
        with self._disk, self._file.failures_explained():
            last: int | None = 0
            while last is not None:
                with self._file.transaction() as connection:
                    self._vault.begin(connection)
                    last = self._books.reseal(connection, last, count)
                yield count
            last = -1
            while last is not None:
                with self._file.transaction() as connection:
                    self._vault.begin(connection)
                    last = self._reseal_runs(connection, last, count)
                yield count
            with self._file.transaction() as connection:
                self._vault.forget_old_keys(connection)

    def _reseal_runs(self, connection: sqlite3.Connection, after: int, count: int) -> int | None:
        found = connection.execute(_RUNS_AFTER, (after, count)).fetchall()
        rows = []
        for row in found:
            if not self._vault.is_current(connection, row[-1]):
                identity, _, _, body = self._sealed(self._opened(connection, _run(*row)))
                rows.append((body, identity))
        connection.executemany("UPDATE runs SET body = ? WHERE id = ?", rows)
        return found[-1][0] if found else None

    def adopt(self, source: sqlite3.Connection, count: int) -> Iterator[int]:
        """Take over a plain log, ``count`` runs a commit; after ``load_follower`` of a new file."""
        with self._disk, self._file.failures_explained():
            with self._file.transaction() as connection:
                self._vault.begin(connection)
                self._adopt_books(connection, source)
                self._head.save(connection)
            last = -1
            while found := source.execute(_RUNS_AFTER, (last, count)).fetchall():
                with self._file.transaction() as connection:
                    self._vault.begin(connection)
                    rows = [self._sealed(_run(*row)) for row in found]
                    connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", rows)
                last = found[-1][0]
                yield len(found)

    def _adopt_books(self, connection: sqlite3.Connection, source: sqlite3.Connection) -> None:
        self._head.facts.update(source.execute("SELECT name, value FROM meta"))
        books: dict[str, dict[Row, Row]] = {"partition": {}, "epoch": {}, "writer": {}}
        for partition, start, end in source.execute("SELECT partition, start, end FROM partitions"):
            books["partition"][partition,] = (start, end, secrets.token_bytes(_LIFE_SIZE))
        for epoch, ends in source.execute("SELECT epoch, ends FROM epochs"):
            books["epoch"][epoch,] = tuple(cbor2.loads(ends))
        for writer, *row, outcomes in source.execute(
            "SELECT writer, request, seen, outcomes FROM writers"
        ):
            books["writer"][writer,] = (*row, cbor2.loads(outcomes))
        cursors = source.execute("SELECT consumer, partition, offset FROM cursors")
        books["cursor"] = {(row[0], row[1]): tuple(row[2:]) for row in cursors}
        query = "SELECT producer, sequence, partition, offset, seen FROM producers"
        books["producer"] = {(row[0], row[1]): tuple(row[2:]) for row in source.execute(query)}
        for kind, rows in books.items():
            self._put(connection, kind, rows)

    # -- steps: loading --------------------------------------------------------------------------

    @contextmanager
    def _loading(self) -> Iterator[sqlite3.Connection]:
        with self._disk:
            self._file.open()
            with self._file.failures_explained(), self._file.transaction() as connection:
                try:
                    self._load_books(connection)
                    yield connection
                except (ValueError, TypeError, OverflowError, DecodeError) as error:
                    if isinstance(error, InvalidData):
                        raise
                    raise self._damage(error) from error

    def _damage(self, error: Exception) -> BackendFailure:
        return BackendFailure(f"{self._file.path} is damaged ({error!s:.80}): {REMEDY}")

    def _load_books(self, connection: sqlite3.Connection) -> None:
        (count,) = connection.execute("SELECT count(*) FROM head").fetchone()
        if not count:
            self._vault.create(connection)
            self._vault.begin(connection)
            self._head.save(connection)
        self._vault.enter(connection)
        self._head.load(connection)
        self._head.check_name(self._file.path, self._name)
        self._rows, self._windows = {}, {}
        for name, body in self._books.load(connection):
            kind, *key = cbor2.loads(name)
            self._rows.setdefault(kind, {})[tuple(key)] = tuple(cbor2.loads(body))
        self._head.check("books")
        self._vault.begin(connection)

    def _load_partitions(
        self, connection: sqlite3.Connection, count: int | None, *, is_follower: bool = False
    ) -> list[Partition]:
        found = self._rows.setdefault("partition", {})
        if not self._head.facts.get("log_id") and not is_follower:
            new: dict[Row, Row] = {(number,): self._begun(0) for number in range(count or 1)}
            self._put(connection, "partition", new)
        elif count not in (None, len(found)):
            raise InvalidData(
                f"{self._file.path} holds a log of {len(found)} partitions, not {count}: their"
                " number stays, as keys belong to partitions by it"
            )
        bounds = [(start, end) for _, (start, end, _) in sorted(found.items())]
        self._check_runs(connection, bounds)
        return self._index(connection, bounds)

    def _begun(self, start: int) -> Row:
        return start, start, secrets.token_bytes(_LIFE_SIZE)

    def _check_runs(self, connection: sqlite3.Connection, bounds: list[tuple[int, int]]) -> None:
        """See that the runs are those between the ends of each partition, without a hole."""
        query = "SELECT id, count FROM runs WHERE id BETWEEN ? AND ? ORDER BY id"
        for number, (start, end) in enumerate(bounds):
            low, high = run_id(number, 0), run_id(number + 1, 0) - 1
            offset: int | None = None
            for identity, count in connection.execute(query, (low, high)):
                first = identity - low
                if first > start if offset is None else first != offset:
                    raise SealBroken(f"entries of partition {number} are missing")
                offset = first + count
            if (start if offset is None else offset) != end:
                raise SealBroken(f"entries of partition {number} are missing")

    def _cursors(self) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
        cursors: dict[str, list[tuple[int, int]]] = {}
        for (name, partition), (offset,) in sorted(self._rows.get("cursor", {}).items()):
            cursors.setdefault(name, []).append((partition, offset))
        return tuple((name, tuple(positions)) for name, positions in cursors.items())

    def _writers(self) -> list[WriterRow]:
        rows = sorted(self._rows.get("writer", {}).items(), key=lambda row: row[1][1])
        found: list[WriterRow] = []
        for (writer,), (request, seen, outcomes) in rows:
            self._seen = max(self._seen, seen)
            known = tuple(fields.outcome(item) for item in outcomes)
            found.append(WriterRow(WriterId(writer), request, known))
        return found

    def _producers(self) -> list[ProducerRow]:
        appended: dict[str, list[tuple[int, int, int]]] = {}
        seen: dict[str, int] = {}
        for (name, sequence), (partition, offset, when) in sorted(
            self._rows.get("producer", {}).items()
        ):
            appended.setdefault(name, []).append((sequence, partition, offset))
            self._windows.setdefault(name, deque()).append(sequence)
            seen[name] = max(when, seen.get(name, 0))
            self._seen = max(self._seen, when)
        return [ProducerRow(name, tuple(appended[name])) for name in sorted(seen, key=seen.get)]  # type: ignore[arg-type]  # all are there

    # -- steps: reading runs ---------------------------------------------------------------------

    def _opened(self, connection: sqlite3.Connection, run: Run) -> Run:
        try:
            body = self._vault.open(connection, self._place(run), run.body)
        except (ValueError, TypeError, KeyError) as error:
            raise self._damage(error) from error
        return Run(run.partition, run.first_offset, run.count, run.timestamp_ns, body)

    def _sealed(self, run: Run) -> Row:
        body = self._vault.seal(self._place(run), run.body)
        return run_id(run.partition, run.first_offset), run.count, run.timestamp_ns, body

    def _place(self, run: Run) -> bytes:
        _, _, life = self._rows["partition"][run.partition,]
        number = run_id(run.partition, run.first_offset)
        return _PLACE.pack(b"runs", number, run.count, run.timestamp_ns, life)

    # -- steps: writing --------------------------------------------------------------------------

    def _write(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        self._vault.begin(connection)
        self._write_identity(connection, changes)
        self._clear_partitions(connection, changes)
        self._write_runs(connection, changes)
        self._write_cursors(connection, changes)
        self._write_writers(connection, changes)
        self._write_producers(connection, changes)
        self._head.save(connection)

    def _write_identity(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        facts = self._head.facts
        if changes.log_id is not None:
            connection.execute("DELETE FROM runs")
            for kind in ("partition", "cursor"):
                self._remove(connection, kind, list(self._rows.get(kind, {})))
            facts["log_id"] = changes.log_id
        if changes.epoch is not None:
            facts["epoch"] = changes.epoch
        if changes.role is not None:
            facts["role"] = changes.role.value
        if changes.known_epoch is not None:
            facts["known_epoch"] = changes.known_epoch
        if changes.lives is not None:
            self._remove(connection, "epoch", list(self._rows.get("epoch", {})))
            lives: dict[Row, Row] = {(life.epoch,): life.ends for life in changes.lives}
            self._put(connection, "epoch", lives)
        if changes.is_memory_new:
            for kind in ("writer", "producer"):
                self._remove(connection, kind, list(self._rows.get(kind, {})))
            self._windows.clear()

    def _clear_partitions(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        for partition, start in changes.cleared:
            bounds = (run_id(partition, 0), run_id(partition + 1, 0) - 1)
            connection.execute("DELETE FROM runs WHERE id BETWEEN ? AND ?", bounds)
            self._put(connection, "partition", {(partition,): self._begun(start)})
        for partition, end in changes.cut:
            bounds = (run_id(partition, end), run_id(partition + 1, 0) - 1)
            connection.execute("DELETE FROM runs WHERE id BETWEEN ? AND ?", bounds)
            start, _, life = self._rows["partition"][partition,]
            self._put(connection, "partition", {(partition,): (start, end, life)})

    def _write_runs(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        known = self._rows.get("partition", {})
        changed: dict[Row, Row] = {}
        rows = []
        for run in changes.runs:
            rows.append(self._sealed(run))
            start, _, life = changed.get((run.partition,), known[run.partition,])
            changed[run.partition,] = (start, run.end, life)
        connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", rows)
        for partition, start in changes.starts:
            bounds = {"low": run_id(partition, 0), "high": run_id(partition, start)}
            connection.execute(
                "DELETE FROM runs WHERE id >= :low AND id < :high AND id + count <= :high", bounds
            )
            _, end, life = changed.get((partition,), known[partition,])
            changed[partition,] = (start, end, life)
        self._put(connection, "partition", changed)

    def _write_cursors(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        if gone := set(changes.forgotten_consumers):
            known = self._rows.get("cursor", {})
            self._remove(connection, "cursor", [key for key in known if key[0] in gone])
        cursors: dict[Row, Row] = {
            (name, partition): (offset,)
            for name, positions in changes.cursors
            for partition, offset in positions
        }
        self._put(connection, "cursor", cursors)

    def _write_writers(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        self._remove(connection, "writer", [(bytes(it),) for it in changes.forgotten_writers])
        rows: dict[Row, Row] = {}
        for row in changes.writers:
            self._seen += 1
            rows[bytes(row.writer),] = (row.last_request, self._seen, fields.pack(row.outcomes))
        self._put(connection, "writer", rows)

    def _write_producers(self, connection: sqlite3.Connection, changes: LogChanges) -> None:
        gone: list[Row] = []
        for name in changes.forgotten_producers:
            gone += [(name, sequence) for sequence in self._windows.pop(name, ())]
        rows: dict[Row, Row] = {}
        for row in changes.producers:
            self._seen += 1
            window = self._windows.setdefault(row.name, deque())
            for sequence, partition, offset in row.appended:
                rows[row.name, sequence] = (partition, offset, self._seen)
                window.append(sequence)
            while window and window[0] < row.floor:
                gone.append((row.name, window.popleft()))
        self._put(connection, "producer", rows)
        self._remove(connection, "producer", gone)

    # -- steps: the books ------------------------------------------------------------------------

    def _put(self, connection: sqlite3.Connection, kind: str, rows: dict[Row, Row]) -> None:
        self._rows.setdefault(kind, {}).update(rows)
        records = [(cbor2.dumps([kind, *key]), cbor2.dumps(row)) for key, row in rows.items()]
        self._books.put(connection, records, len(records))

    def _remove(self, connection: sqlite3.Connection, kind: str, keys: Sequence[Row]) -> None:
        known = self._rows.get(kind, {})
        for key in keys:
            known.pop(key, None)
        self._books.remove(connection, [cbor2.dumps([kind, *key]) for key in keys])


def _run(identity: int, count: int, timestamp_ns: int, body: bytes) -> Run:
    partition, offset = divmod(identity, OFFSET_END)
    return Run(partition, offset, count, timestamp_ns, body)
