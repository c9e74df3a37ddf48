"""Rows of a file, whatever they hold: a checksum or a seal on each, and a count of all of them.

A record has a name and a body, which are written together; in the file it is a number. The head
knows what the file is, and what belongs to it: for each table the number of records, and the sum of
their marks. A mark is random and written in its record. So a record that is missing, was added, or
was put back to an earlier version makes the sum wrong.

How a row is closed is up to a codec: ``Plain`` adds a checksum, which finds accidents, and
``stores.disk.seals.Vault`` encrypts, so that only an owner of the key chooses marks that add up.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol
from zlib import crc32

import cbor2

from wire.errors import BackendFailure

HEAD_SCHEMA: Final = (
    "CREATE TABLE head (number INTEGER PRIMARY KEY, file BLOB NOT NULL, body BLOB NOT NULL)"
)

FILE_ID_SIZE: Final = 16
"""Bytes of a file's id."""

MARK_SIZE: Final = 8
"""Bytes of a mark: to guess a sum of them takes 2^64 attempts, each of which is a file to load."""

_MARK_END: Final = 1 << 8 * MARK_SIZE
_NAME_START: Final = MARK_SIZE + 4
_CHECKSUM_SIZE: Final = 4


class RowDamaged(ValueError):
    """A row is not what was written, or not in its place, or missing."""


class Codec(Protocol):
    """How the rows of one file are closed and opened."""

    is_sealed: bool
    overhead_size: int
    """Bytes by which a closed row is longer than what is in it."""
    schema: str
    """Statements that make the tables of head and codec."""

    def beside(self, path: str) -> Codec:
        """Give one for another file of the same owner."""

    def create(self, connection: sqlite3.Connection) -> None:
        """Give a new file its head, which is empty yet."""

    def enter(self, connection: sqlite3.Connection) -> None:
        """Look at a file that is there; raises ``BackendFailure`` if what it takes is not there."""

    def begin(self, connection: sqlite3.Connection) -> None:
        """Start a commit."""

    def seal(self, place: bytes, content: bytes) -> bytes:
        """Close a row for this place alone, in a commit that has begun."""

    def open(self, connection: sqlite3.Connection, place: bytes, record: bytes) -> bytes:
        """Give what is in a row; raises ``ValueError``."""

    def is_current(self, connection: sqlite3.Connection, record: bytes) -> bool:
        """Tell whether a row is closed as it would be now."""


class Plain:
    """Adds a checksum of content and place."""

    is_sealed = False
    overhead_size = _CHECKSUM_SIZE
    schema = HEAD_SCHEMA

    def beside(self, path: str) -> Codec:
        """Give itself: it knows of no file."""
        return self

    def create(self, connection: sqlite3.Connection) -> None:
        """Give the file an id."""
        add_head(connection)

    def enter(self, connection: sqlite3.Connection) -> None:
        """Do nothing: no key is needed."""

    def begin(self, connection: sqlite3.Connection) -> None:
        """Do nothing: no nonce is needed."""

    def seal(self, place: bytes, content: bytes) -> bytes:
        """Put the checksum behind the content."""
        return content + crc32(content, crc32(place)).to_bytes(_CHECKSUM_SIZE, "big")

    def open(self, connection: sqlite3.Connection, place: bytes, record: bytes) -> bytes:
        """Give the content; raises ``RowDamaged``."""
        content = record[:-_CHECKSUM_SIZE]
        if crc32(content, crc32(place)).to_bytes(_CHECKSUM_SIZE, "big") != record[len(content) :]:
            raise RowDamaged("its checksum is another one")
        return content

    def is_current(self, connection: sqlite3.Connection, record: bytes) -> bool:
        """There is one way."""
        return True


PLAIN: Final = Plain()


def add_head(connection: sqlite3.Connection) -> bytes:
    """Write an empty head with a new id; gives the id."""
    file_id = secrets.token_bytes(FILE_ID_SIZE)
    connection.execute("INSERT INTO head VALUES (0, ?, ?)", (file_id, b""))
    return file_id


class RecordTable:
    """Records by name, in a table of the file."""

    def __init__(self, codec: Codec, name: str) -> None:
        """Start with none; ``load`` comes with the connection."""
        self._codec = codec
        self._name = name
        self._head = name.encode()
        self._places: dict[bytes, int] = {}
        """By name: the record's number, and its mark below."""
        self._total = 0
        self._next = 1

    @property
    def schema(self) -> str:
        """The statement that makes the table."""
        return f"CREATE TABLE {self._name} (number INTEGER PRIMARY KEY, body BLOB NOT NULL)"

    @property
    def census(self) -> list[int]:
        """How many records there are, and the sum of their marks."""
        return [len(self._places), self._total]

    def names(self, *prefixes: bytes) -> list[bytes]:
        """Give the names that begin so."""
        return [name for name in self._places if name.startswith(prefixes)]

    def load(self, connection: sqlite3.Connection) -> Iterator[tuple[bytes, bytes]]:
        """Give all names and bodies; raises ``RowDamaged``. The head has to be asked then."""
        self._places.clear()
        self._total, self._next = 0, 1
        query = f"SELECT number, body FROM {self._name} ORDER BY number"
        for number, record in connection.execute(query):
            try:
                content = self._codec.open(connection, self._place(number), record)
            except (ValueError, TypeError) as error:
                raise RowDamaged(f"table {self._name}, row {number}: {error}") from error
            end = _NAME_START + int.from_bytes(content[MARK_SIZE:_NAME_START], "big")
            name, mark = content[_NAME_START:end], int.from_bytes(content[:MARK_SIZE], "big")
            self._places[name] = number * _MARK_END + mark
            self._total += mark
            self._next = number + 1
            yield name, content[end:]

    def put(self, connection: sqlite3.Connection, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Write records, each in the place of the one of its name."""
        marks, places = secrets.token_bytes(MARK_SIZE * len(records)), self._places
        seal, place, rows = self._codec.seal, self._place, []
        for index, (name, body) in enumerate(records):
            mark = marks[index * MARK_SIZE : (index + 1) * MARK_SIZE]
            value, old = int.from_bytes(mark, "big"), places.get(name)
            if old is None:
                number, self._next = self._next, self._next + 1
            else:
                number = old // _MARK_END
                self._total -= old % _MARK_END
            places[name] = number * _MARK_END + value
            self._total += value
            content = b"".join((mark, len(name).to_bytes(4, "big"), name, body))
            rows.append((number, seal(place(number), content)))
        connection.executemany(f"REPLACE INTO {self._name} VALUES (?, ?)", rows)

    def remove(self, connection: sqlite3.Connection, names: Sequence[bytes]) -> None:
        """Remove records, present or not."""
        rows = []
        for name in names:
            if (place := self._places.pop(name, None)) is not None:
                self._total -= place % _MARK_END
                rows.append((place // _MARK_END,))
        connection.executemany(f"DELETE FROM {self._name} WHERE number = ?", rows)

    def clear(self, connection: sqlite3.Connection) -> None:
        """Remove all records."""
        self._places.clear()
        self._total = 0
        connection.execute(f"DELETE FROM {self._name}")

    def reseal(self, connection: sqlite3.Connection, after: int, count: int) -> int | None:
        """Close some records behind ``after`` anew; gives the last's number, ``None`` at the end.

        Marks stay, so that the head does.
        """
        query = f"SELECT number, body FROM {self._name} WHERE number > ? ORDER BY number LIMIT ?"
        found = connection.execute(query, (after, count)).fetchall()
        rows = []
        for number, record in found:
            if not self._codec.is_current(connection, record):
                place = self._place(number)
                content = self._codec.open(connection, place, record)
                rows.append((self._codec.seal(place, content), number))
        connection.executemany(f"UPDATE {self._name} SET body = ? WHERE number = ?", rows)
        return found[-1][0] if found else None

    def _place(self, number: int) -> bytes:
        return self._head + number.to_bytes(8, "big")


class Head:
    """The record that says what the file is, and what belongs to it."""

    def __init__(self, codec: Codec, tables: dict[str, RecordTable]) -> None:
        """Answer for these tables."""
        self._codec = codec
        self._tables = tables
        self._census: dict[str, list[int]] = {}
        self.facts: dict[str, Any] = {}
        """What else is written there: numbers of the store or log, and its name."""

    def create(self, connection: sqlite3.Connection) -> None:
        """Give a new file its head."""
        self._codec.create(connection)
        self._codec.begin(connection)
        self.save(connection)

    def load(self, connection: sqlite3.Connection) -> None:
        """Read it, with what the codec needs; raises ``RowDamaged``."""
        row = connection.execute("SELECT body FROM head").fetchone()
        if row is None:
            raise RowDamaged("table head: it is empty")
        self._codec.enter(connection)
        try:
            content = cbor2.loads(self._codec.open(connection, b"head", row[0]))
        except (ValueError, TypeError) as error:
            raise RowDamaged(f"table head: {error}") from error
        self.facts, self._census = content["facts"], content["tables"]

    def check_name(self, path: str, name: str | None) -> None:
        """Refuse the file of another store or log; a new file gets the name."""
        if name is not None:
            check_name(path, self.facts.setdefault("name", name), name)

    def check(self) -> None:
        """Compare the tables, which have been loaded, with what the head says of them."""
        for name, table in self._tables.items():
            census, wanted = table.census, self._census[name]
            if census != wanted:
                raise RowDamaged(
                    f"table {name}: {census[0]} of {wanted[0]} records, or not all as last written"
                )

    def save(self, connection: sqlite3.Connection) -> None:
        """Write it, at the end of a commit."""
        census = {name: table.census for name, table in self._tables.items()}
        content = cbor2.dumps({"facts": self.facts, "tables": census})
        connection.execute("UPDATE head SET body = ?", (self._codec.seal(b"head", content),))


def check_name(path: str, found: str, name: str) -> None:
    """Refuse the file of another store or log: two paths that are mixed up serve wrong data."""
    if found != name:
        raise BackendFailure(
            f"{path} belongs to {found}, not to {name}: give each a file of its own. To look into"
            f" it, attach it as {found} at an endpoint without peers"
        )
