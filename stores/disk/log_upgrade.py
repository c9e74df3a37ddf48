"""Upgrades a log of format 1, in which rows had no checksum, in the transaction that loads it.

What can be checked is: that each run can be decoded, or unsealed, and has as many entries as it
says; loading then sees that none is missing. Sealed records had their marks already.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from typing import Any, Final
from zlib import crc32

import cbor2

from stores.disk.log_rows import (
    INSERT_RUN,
    LIFE_SIZE,
    RUNS_SCHEMA,
    Books,
    record_of,
    run_place,
)
from stores.disk.rows import Codec, Head, RecordTable, RowDamaged
from stores.disk.sqlite import DAMAGE
from stores.log.limits import OFFSET_END
from stores.log.runs import Run

RUNS_AT_ONCE: Final = 256
"""Runs that are in memory at a time, of 256 KiB at most; their old pages are free for the next."""

_PLAIN_TABLES: Final = ("meta", "partitions", "runs", "cursors", "epochs", "writers", "producers")


def upgrade(connection: sqlite3.Connection, codec: Codec, schema: str) -> None:
    """Write a log of format 1 anew; raises ``ValueError`` and others if it is damaged."""
    table = RecordTable(codec, "books")
    head = Head(codec, {"books": table})
    if codec.is_sealed:
        head.load(connection)
        books = _sealed_books(connection, table)
        head.check()
        codec.begin(connection)
        table.clear(connection)
        connection.execute("ALTER TABLE runs RENAME TO old_runs")
        connection.execute(RUNS_SCHEMA)
    else:
        for name in _PLAIN_TABLES:
            connection.execute(f"ALTER TABLE {name} RENAME TO old_{name}")
        for statement in schema.split(";"):
            connection.execute(statement)
        head.create(connection)
        head.facts.update(connection.execute("SELECT name, value FROM old_meta"))
        books = _plain_books(connection)
    lives = {key[0]: row[2] for key, row in books["partition"].items()}
    _move_runs(connection, codec, lives)
    books["producer"] = _grouped(books.get("producer", {}))
    table.put(
        connection,
        [record_of(kind, key, row) for kind, rows in books.items() for key, row in rows.items()],
    )
    head.save(connection)
    for name in ("runs",) if codec.is_sealed else _PLAIN_TABLES:
        connection.execute(f"DROP TABLE old_{name}")


def _sealed_books(connection: sqlite3.Connection, table: RecordTable) -> Books:
    books: Books = {"partition": {}}
    for name, body in table.load(connection):
        kind, *key = cbor2.loads(name)
        books.setdefault(kind, {})[tuple(key)] = tuple(cbor2.loads(body))
    return books


def _plain_books(connection: sqlite3.Connection) -> Books:
    books: Books = {"partition": {}, "epoch": {}, "writer": {}, "cursor": {}, "producer": {}}
    query = "SELECT partition, start, end FROM old_partitions"
    for partition, start, end in connection.execute(query):
        books["partition"][partition,] = (start, end, secrets.token_bytes(LIFE_SIZE))
    for epoch, ends in connection.execute("SELECT epoch, ends FROM old_epochs"):
        books["epoch"][epoch,] = tuple(cbor2.loads(ends))
    query = "SELECT writer, request, seen, outcomes FROM old_writers"
    for writer, request, seen, outcomes in connection.execute(query):
        books["writer"][writer,] = (request, seen, cbor2.loads(outcomes))
    for name, partition, offset in connection.execute("SELECT * FROM old_cursors"):
        books["cursor"][name, partition] = (offset,)
    query = "SELECT producer, sequence, partition, offset, seen FROM old_producers"
    for name, sequence, *content in connection.execute(query):
        books["producer"][name, sequence] = tuple(content)
    return books


def _grouped(old: dict[tuple[Any, ...], tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Have one record for what was remembered of each producer, in place of one for each append."""
    appended: dict[str, list[tuple[int, int, int]]] = {}
    seen: dict[str, int] = {}
    for (name, sequence), (partition, offset, when) in sorted(old.items()):
        appended.setdefault(name, []).append((sequence, partition, offset))
        seen[name] = max(when, seen.get(name, 0))
    return {(name, rows[-1][0]): (seen[name], 0, rows) for name, rows in appended.items()}


def _move_runs(connection: sqlite3.Connection, codec: Codec, lives: dict[int, bytes]) -> None:
    while found := list(_old_runs(connection)):
        rows = []
        for identity, count, timestamp, body in found:
            number, offset = divmod(identity, OFFSET_END)
            try:
                place = run_place(identity, count, timestamp, lives[number])
                if codec.is_sealed:
                    codec.open(connection, place, body)
                else:
                    Run(number, offset, count, timestamp, body).entries()
                    body = codec.seal(place, body)
            except DAMAGE as error:
                text = f"table runs: partition {number}, offset {offset}: {error}"
                raise RowDamaged(text) from error
            rows.append((identity, count, timestamp, crc32(place), body))
        connection.executemany(INSERT_RUN, rows)
        connection.execute("DELETE FROM old_runs WHERE id <= ?", (found[-1][0],))


def _old_runs(connection: sqlite3.Connection) -> Iterator[tuple[int, int, int, bytes]]:
    query = "SELECT id, count, timestamp, body FROM old_runs ORDER BY id LIMIT ?"
    return connection.execute(query, (RUNS_AT_ONCE,))
