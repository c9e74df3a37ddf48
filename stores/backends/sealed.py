"""Encrypted records in an SQLite file: what it shows is how many there are, and how long.

Each record has a name and a body, which are sealed together; in the file it is a number. The record
of the head, sealed as well, knows what the file is, whose it is, and what belongs to it: for each
table the number of records, and the sum of their marks. A mark is random and sealed in its record.
So a record that is missing, or was put back to an earlier version, makes the sum wrong, and nobody
without the key can choose others that make it right.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import cbor2

from stores.sealing import (
    CHANCE_SIZE,
    FILE_ID_SIZE,
    SALT_SIZE,
    SealBroken,
    Session,
    StorageKeys,
    session_of,
)
from wire.errors import BackendFailure

SCHEMA: Final = """
    CREATE TABLE head (number INTEGER PRIMARY KEY, file BLOB NOT NULL, body BLOB NOT NULL);
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL, salt BLOB NOT NULL
    )
"""

MARK_SIZE: Final = 8
"""Bytes of a mark: to guess a sum of them takes 2^64 attempts, each of which is a file to load."""

_MARK_END: Final = 1 << 8 * MARK_SIZE
_NAME_START: Final = MARK_SIZE + 4


class Vault:
    """The keys of one open file: seals in a session of its own, opens those of all."""

    def __init__(self, path: str, keys: StorageKeys) -> None:
        """Remember the keys; ``enter`` comes with the connection."""
        self._path = path
        self._keys = keys
        self._sessions: dict[int, Session] = {}
        self._file_id = b""
        self._current: Session | None = None

    def create(self, connection: sqlite3.Connection) -> None:
        """Give a new file its id, which makes its keys its own."""
        self._file_id = secrets.token_bytes(FILE_ID_SIZE)
        connection.execute("INSERT INTO head VALUES (0, ?, ?)", (self._file_id, b""))

    def enter(self, connection: sqlite3.Connection) -> None:
        """Find the keys of a file; raises ``BackendFailure`` if one is not in the ring."""
        self._current, self._sessions = None, {}  # of an earlier opening, which may have failed
        (self._file_id,) = connection.execute("SELECT file FROM head").fetchone()
        for _, fingerprint, _ in _sessions(connection):
            if self._keys.find(fingerprint) is None:
                raise BackendFailure(
                    f"{self._path} is encrypted with key {bytes(fingerprint).hex()}, which is not"
                    f" among those given ({self._keys}): give that key too; the first one of a key"
                    " file is for what is written, all of them for what is read"
                )

    def begin(self, connection: sqlite3.Connection) -> None:
        """Start a commit: with other nonces, and in another session when this one is spent."""
        if self._current is None or self._current.is_spent:
            (last,) = connection.execute("SELECT max(number) FROM sessions").fetchone()
            number, salt = 1 + (last or 0), secrets.token_bytes(SALT_SIZE)
            key = self._keys.current
            row = (number, key.fingerprint, salt)
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?)", row)
            self._current = Session(number, key, self._file_id, salt)
            self._sessions[number] = self._current
        self._current.begin(secrets.token_bytes(CHANCE_SIZE))

    def seal(self, place: bytes, content: bytes) -> bytes:
        """Close a record, in a commit that has begun."""
        assert self._current is not None
        return self._current.seal(place, content)

    def open(self, connection: sqlite3.Connection, place: bytes, record: bytes) -> bytes:
        """Give what is in a record; raises ``SealBroken``."""
        number = session_of(record)
        session = self._sessions.get(number)
        if session is None:
            session = self._sessions[number] = self._find(connection, number)
        return session.open(place, record)

    def _find(self, connection: sqlite3.Connection, number: int) -> Session:
        query = "SELECT fingerprint, salt FROM sessions WHERE number = ?"
        row = connection.execute(query, (number,)).fetchone()
        key = None if row is None else self._keys.find(row[0])
        if key is None:
            raise SealBroken("the session of a sealed record is not there")
        return Session(number, key, self._file_id, bytes(row[1]))

    def is_current(self, connection: sqlite3.Connection, record: bytes) -> bool:
        """Tell whether a record is sealed with the key that is for writing."""
        number = session_of(record)
        query = "SELECT fingerprint FROM sessions WHERE number = ?"
        row = connection.execute(query, (number,)).fetchone()
        return row is not None and row[0] == self._keys.current.fingerprint

    def forget_old_keys(self, connection: sqlite3.Connection) -> None:
        """Remove the sessions of all keys but the one in which everything is sealed now."""
        fingerprint = self._keys.current.fingerprint
        connection.execute("DELETE FROM sessions WHERE fingerprint <> ?", (fingerprint,))


def _sessions(connection: sqlite3.Connection) -> list[tuple[int, bytes, bytes]]:
    return connection.execute("SELECT number, fingerprint, salt FROM sessions").fetchall()


@dataclass(slots=True)
class Census:
    """What a table has to add up to."""

    count: int = 0
    total: int = 0


class SealedTable:
    """Records by name, in a table of the file."""

    def __init__(self, vault: Vault, name: str) -> None:
        """Start with none; ``load`` comes with the connection."""
        self._vault = vault
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
    def census(self) -> tuple[int, int]:
        """How many records there are, and the sum of their marks."""
        return len(self._places), self._total

    def load(self, connection: sqlite3.Connection) -> Iterator[tuple[bytes, bytes]]:
        """Give all names and bodies; raises ``SealBroken``. The census has to be looked at then."""
        self._places.clear()
        self._total, self._next = 0, 1
        query = f"SELECT number, body FROM {self._name} ORDER BY number"
        for number, record in connection.execute(query):
            content = self._vault.open(connection, self._place(number), record)
            end = _NAME_START + int.from_bytes(content[MARK_SIZE:_NAME_START], "big")
            name, mark = content[_NAME_START:end], int.from_bytes(content[:MARK_SIZE], "big")
            self._places[name] = number * _MARK_END + mark
            self._total += mark
            self._next = number + 1
            yield name, content[end:]

    def put(
        self, connection: sqlite3.Connection, records: Iterable[tuple[bytes, bytes]], count: int
    ) -> None:
        """Write ``count`` records, each in the place of the one of its name."""
        marks, places = secrets.token_bytes(MARK_SIZE * count), self._places
        seal, place, rows = self._vault.seal, self._place, []
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

    def remove(self, connection: sqlite3.Connection, names: Iterable[bytes]) -> None:
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
        """Seal some records behind ``after`` anew; gives the last's number, ``None`` at the end.

        Marks stay, so that the head does.
        """
        query = f"SELECT number, body FROM {self._name} WHERE number > ? ORDER BY number LIMIT ?"
        found = connection.execute(query, (after, count)).fetchall()
        rows = []
        for number, record in found:
            if not self._vault.is_current(connection, record):
                place = self._place(number)
                content = self._vault.open(connection, place, record)
                rows.append((self._vault.seal(place, content), number))
        connection.executemany(f"UPDATE {self._name} SET body = ? WHERE number = ?", rows)
        return found[-1][0] if found else None

    def _place(self, number: int) -> bytes:
        return self._head + number.to_bytes(8, "big")


class SealedHead:
    """The record that says what the file is, and what belongs to it."""

    def __init__(self, vault: Vault, tables: dict[str, SealedTable]) -> None:
        """Answer for these tables."""
        self._vault = vault
        self._tables = tables
        self._census: dict[str, list[int]] = {}
        self.facts: dict[str, Any] = {}
        """What else is written there: numbers of the store or log, and its name."""

    def load(self, connection: sqlite3.Connection) -> None:
        """Read it; raises ``SealBroken``."""
        (record,) = connection.execute("SELECT body FROM head").fetchone()
        content = cbor2.loads(self._vault.open(connection, b"head", record))
        self.facts, self._census = content["facts"], content["tables"]

    def check(self, name: str) -> None:
        """Compare a table, which has been loaded, with what the head says of it."""
        census, wanted = self._tables[name].census, self._census[name]
        if list(census) != wanted:
            raise SealBroken(f"{census[0]} of {wanted[0]} records, or not all as last written")

    def check_name(self, path: str, name: str | None) -> None:
        """Refuse the file of another store or log; a new file gets the name."""
        if name is not None and self.facts.setdefault("name", name) != name:
            raise BackendFailure(
                f"{path} belongs to {self.facts['name']}, not to {name}: give each a file of its"
                " own"
            )

    def save(self, connection: sqlite3.Connection) -> None:
        """Write it, at the end of a commit."""
        census = {name: list(table.census) for name, table in self._tables.items()}
        content = cbor2.dumps({"facts": self.facts, "tables": census})
        connection.execute("UPDATE head SET body = ?", (self._vault.seal(b"head", content),))
