"""Named producers in a log replica's file: a record of the books each.

A checkpoint writes those that changed, behind all others: so the order of records is that in which
the producers were active, or retired, last. Each record is a part of a snapshot with one producer.
An earlier state of a file had many in one, which are written anew when it is loaded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from stores.disk.rows import RecordTable
from stores.log.codec import LogCodec
from stores.log.parts import Part, ProducersPart
from stores.log.producers import ProducerChange

_PREFIX: Final = b"p"
"""Of the names of these records, which are in the order of their numbers; other names are digits,
which come before."""

_AT_ONCE: Final = 256
"""Records that are in memory at a time, encoded: 4 MiB or so."""

_CODEC: Final = LogCodec()


class ProducerRows:
    """The records of producers among the books."""

    def __init__(self, books: RecordTable) -> None:
        """Have none; ``load`` comes with the books."""
        self._books = books
        self._numbers: dict[str, int] = {}
        """By name of a producer, that of its record."""
        self._last = 0

    def load(self, connection: sqlite3.Connection, parts: Mapping[bytes, Part]) -> list[bytes]:
        """Learn what there is, by name of a record in order; gives the names of no producers."""
        self._numbers.clear()
        self._last = 0
        others, old = list[bytes](), dict[bytes, ProducersPart]()
        for name, part in parts.items():
            if not isinstance(part, ProducersPart):
                others.append(name)
            elif name.startswith(_PREFIX):
                self._last = int.from_bytes(name[len(_PREFIX) :], "big")
                self._numbers.update((row.name, self._last) for row in part.rows)
            else:
                old[name] = part
        self._books.remove(connection, list(old))
        self.write(connection, ((row.name, row) for part in old.values() for row in part.rows))
        return others

    def write(self, connection: sqlite3.Connection, changes: Iterable[ProducerChange]) -> None:
        """Write what is known of some producers, the one that was active longest ago first."""
        rest = iter(changes)
        while some := list(islice(rest, _AT_ONCE)):
            names = [name for name, _ in some]
            numbers = [self._numbers.pop(name) for name in names if name in self._numbers]
            self._books.remove(connection, list(map(_record, numbers)))
            records: list[tuple[bytes, bytes]] = []
            for name, row in some:
                if row is not None:
                    self._last += 1
                    self._numbers[name] = self._last
                    body = _CODEC.encode_part(ProducersPart((row,)))
                    records.append((_record(self._last), body))
            self._books.put(connection, records)

    def replace(self, connection: sqlite3.Connection, parts: Iterable[ProducersPart]) -> None:
        """Have those of another state in place of all that are there."""
        self._books.remove(connection, list(map(_record, self._numbers.values())))
        self._numbers.clear()
        self.write(connection, ((row.name, row) for part in parts for row in part.rows))


def _record(number: int) -> bytes:
    return _PREFIX + number.to_bytes(8, "big")
