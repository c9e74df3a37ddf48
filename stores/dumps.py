"""Dumps of stores: a header, a record an entry, and an end that tells whether all of it is there.

A record is its length (four bytes, big-endian) and the encoding of a value: of the header, the
format's name, its version, the store's name and revision; of an entry, key and value (as encoded
bytes), its revision and when it expires; of the end, the number of entries and the SHA-256 of all
bytes before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from stores.table import Entry
from wire.decoding import check, decode, is_canonical
from wire.encoding import encode
from wire.errors import DecodeError, InvalidData
from wire.limits import PAYLOAD_SIZE_MAX
from wire.values import Value

FORMAT: Final = "peermesh store dump"
VERSION: Final = 1
_LENGTH_SIZE: Final = 4


@dataclass(frozen=True, slots=True)
class Header:
    """What a dump is of."""

    name: str
    revision: int
    """The store's, at the moment of which the dump is."""


class DumpWriter:
    """Gives the bytes of a dump, record by record."""

    def __init__(self) -> None:
        """Start; call ``header`` first and ``end`` last."""
        self._digest = sha256()
        self._count = 0

    def header(self, header: Header) -> bytes:
        """Say what the dump is of."""
        return self._record((FORMAT, VERSION, header.name, header.revision))

    def entry(self, key: bytes, entry: Entry) -> bytes:
        """Write an entry."""
        self._count += 1
        return self._record((key, entry.value, entry.revision, entry.expires_at_ns))

    def end(self) -> bytes:
        """Say how many entries there were, and what all of it amounts to."""
        return self._record((self._count, self._digest.digest()))

    def _record(self, value: Value) -> bytes:
        encoded = encode(value)
        record = len(encoded).to_bytes(_LENGTH_SIZE, "big") + encoded
        self._digest.update(record)
        return record


class DumpReader:
    """Takes the bytes of a dump, in pieces of any size; believes nothing before the end."""

    def __init__(self) -> None:
        """Start; call ``feed`` for each piece, and ``finish`` at the end of the file."""
        self.header: Header | None = None
        """What the dump is of, once that has come."""
        self.count = 0
        """Entries that have come."""
        self._digest = sha256()
        self._rest = b""
        self._is_ended = False

    def feed(self, data: bytes) -> list[tuple[bytes, Entry]]:
        """Take a piece in, and give the entries in it; raises ``InvalidData``."""
        self._rest += data
        found: list[tuple[bytes, Entry]] = []
        for record in self._records():
            if self._is_ended:
                raise InvalidData("the dump goes on after its end: it was altered")
            entry = self._read(record)
            if entry is not None:
                found.append(entry)
        return found

    def finish(self) -> Header:
        """Make sure that all of it was there; raises ``InvalidData``."""
        if self._rest or not self._is_ended or self.header is None:
            raise InvalidData(f"the dump breaks off after {self.count} entries: get all of it")
        return self.header

    # -- steps -----------------------------------------------------------------------------------

    def _records(self) -> Iterator[bytes]:
        start, rest = 0, self._rest
        while len(rest) - start >= _LENGTH_SIZE:
            end = start + _LENGTH_SIZE + int.from_bytes(rest[start : start + _LENGTH_SIZE], "big")
            if end - start > PAYLOAD_SIZE_MAX + _LENGTH_SIZE:
                raise InvalidData("this is no dump of a store, or it was altered")
            if end > len(rest):
                break
            yield rest[start:end]
            start = end
        self._rest = rest[start:]

    def _read(self, record: bytes) -> tuple[bytes, Entry] | None:
        try:
            value = decode(record[_LENGTH_SIZE:])
        except DecodeError as error:
            raise InvalidData(f"this is no dump of a store, or it was altered: {error}") from None
        if self.header is None:
            self.header = _header(value)
        elif isinstance(value, tuple) and len(value) == 2:
            if value != (self.count, self._digest.digest()):
                raise InvalidData("the dump's checksum is another one: it was altered")
            self._is_ended = True
        else:
            self._digest.update(record)
            self.count += 1
            return _entry(value)
        self._digest.update(record)
        return None


def _header(value: Value) -> Header:
    match value:
        case (str(name), int(version), str(store), int(revision)) if name == FORMAT:
            if version != VERSION:
                raise InvalidData(
                    f"the dump has version {version}, and this release reads {VERSION}: load it"
                    " with the release that wrote it"
                )
            return Header(store, revision)
        case _:
            raise InvalidData("this is no dump of a store")


def _entry(value: Value) -> tuple[bytes, Entry]:
    match value:
        case (bytes(key), bytes(stored), int(revision), None | int() as expires_at_ns):
            try:
                check(stored)
                is_key = is_canonical(key)
            except DecodeError:
                is_key = False
            if is_key:
                return key, Entry(stored, revision, expires_at_ns)
        case _:
            pass
    raise InvalidData("an entry of the dump makes no sense: it was altered")


def dumped(header: Header, entries: Iterable[tuple[bytes, Entry]]) -> Iterator[bytes]:
    """Give all records of a dump."""
    writer = DumpWriter()
    yield writer.header(header)
    for key, entry in entries:
        yield writer.entry(key, entry)
    yield writer.end()
