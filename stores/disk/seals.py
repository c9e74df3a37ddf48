"""Seals rows: what an encrypted file shows is how many there are, and how long."""

from __future__ import annotations

import secrets
import sqlite3
from os import PathLike, fspath
from typing import Final

from stores.disk.rows import HEAD_SCHEMA, add_head
from stores.sealing import (
    CHANCE_SIZE,
    OVERHEAD_SIZE,
    SALT_SIZE,
    SealBroken,
    Session,
    StorageKeys,
    session_of,
)
from wire.errors import BackendFailure

_SCHEMA: Final = f"""
    {HEAD_SCHEMA};
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL, salt BLOB NOT NULL
    )
"""


class Vault:
    """The keys of one open file: seals in a session of its own, opens those of all."""

    is_sealed = True
    overhead_size = OVERHEAD_SIZE
    schema = _SCHEMA

    def __init__(self, path: str | PathLike[str], keys: StorageKeys) -> None:
        """Remember the keys; ``enter`` comes with the connection."""
        self._path = fspath(path)
        self._keys = keys
        self._sessions: dict[int, Session] = {}
        self._file_id = b""
        self._current: Session | None = None

    def beside(self, path: str) -> Vault:
        """Give one for another file, with the same keys."""
        return Vault(path, self._keys)

    def create(self, connection: sqlite3.Connection) -> None:
        """Give a new file its id, which makes its keys its own."""
        self._current, self._sessions = None, {}
        self._file_id = add_head(connection)

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
