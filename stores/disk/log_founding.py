"""Makes a group of one of a log of an earlier release, in the transaction that loads its file.

Each run is opened, checked and closed anew, some at a time. Its time stands for the group's elapsed
time, which begins as wall time: retention by age goes on as it was. Writers are forgotten: none of
an earlier release can come back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final

import cbor2

from stores.disk.founding import Founding
from stores.disk.log_rows import Books, run_place
from stores.disk.log_upgrade import RUNS_AT_ONCE
from stores.disk.placed_runs import PLACED_RUNS_SCHEMA, PlacedRuns
from stores.disk.rows import Codec, RowDamaged
from stores.disk.sqlite import DAMAGE
from stores.epochs import term_of
from stores.group.clock import Times
from stores.group.positions import Position
from stores.log.kept_runs import KeptRun
from stores.log.limits import OFFSET_END
from stores.log.messages import Cursors
from stores.log.partitions import Span
from stores.log.parts import HeadPart, Part, beside
from stores.log.producers import ProducerRow
from stores.quota import STORE_QUOTA
from stores.table.lineage import Reign
from wire.errors import BackendFailure

_COPY, _DEPOSED = 1, 2
"""Roles of earlier releases that do not lead."""

_REFUSALS: Final = {
    _COPY: "{} holds a follower's copy of a log of an earlier release: attach it with"
    " attach_log_clone, which takes all anew from the keeper. If that is gone for good, promote the"
    " copy with the release that wrote it",
    _DEPOSED: "{} is the log of a keeper in whose place a follower was promoted: attach it with"
    " attach_log_clone, which takes all anew from that one",
}


class EarlierLog:
    """What a file of format 2 says of its log."""

    def __init__(
        self,
        path: str,
        records: Mapping[bytes, bytes],
        facts: Mapping[str, Any],
        founding: Founding,
    ) -> None:
        """Take what is small; raises ``BackendFailure`` for a log that does not lead."""
        refusal = _REFUSALS.get(facts.get("role", 0))
        if refusal is not None:
            raise BackendFailure(refusal.format(path))
        self._books = books = _sorted(records)
        bounds = sorted(books.get("partition", {}).items())
        self._lives = {number: life for (number,), (_, _, life) in bounds}
        self.spans = tuple(Span(start, end) for _, (start, end, _) in bounds)
        if set(self._lives) != set(range(len(bounds))):
            raise RowDamaged("table books: a partition is missing")
        term = term_of(facts.get("epoch", 0)) + 1
        self.position = Position(term, sum(span.end for span in self.spans))
        """All runs are of this entry, the last one that no journal holds."""
        self.times = Times(founding.now_ns, founding.now_ns)
        """Those of the group: a run's may be later, if the clock was put back."""

    def move_runs(self, connection: sqlite3.Connection, codec: Codec, placed: PlacedRuns) -> None:
        """Have all runs as a replica has them; raises ``RowDamaged``."""
        connection.execute("ALTER TABLE runs RENAME TO old_runs")
        connection.execute(PLACED_RUNS_SCHEMA)
        query = "SELECT id, count, timestamp, body FROM old_runs ORDER BY id LIMIT ?"
        while found := connection.execute(query, (RUNS_AT_ONCE,)).fetchall():
            placed.add(connection, self._opened(connection, codec, found))
            connection.execute("DELETE FROM old_runs WHERE id <= ?", (found[-1][0],))
        connection.execute("DROP TABLE old_runs")

    def parts(self) -> list[Part]:
        """Give what a machine installs, but for the runs."""
        at = self.position
        reigns = (Reign(at.term, at.index),) if at.index else ()
        head = HeadPart(at, at.index, self.spans, self.times, STORE_QUOTA, reigns=reigns)
        return beside(head, self._cursors(), self._producers(), ())

    # -- steps -----------------------------------------------------------------------------------

    def _opened(
        self, connection: sqlite3.Connection, codec: Codec, rows: list[tuple[int, int, int, bytes]]
    ) -> Iterator[KeptRun]:
        for number, count, timestamp_ns, body in rows:
            partition, offset = divmod(number, OFFSET_END)
            try:
                place = run_place(number, count, timestamp_ns, self._lives[partition])
                content = codec.open(connection, place, body)
            except DAMAGE as error:
                text = f"table runs: partition {partition}, offset {offset}: {error}"
                raise RowDamaged(text) from error
            self.times = Times(*(max(each, timestamp_ns) for each in self.times))
            run = partition, offset, count, timestamp_ns
            yield KeptRun(*run, content, self.position, timestamp_ns)

    def _cursors(self) -> Cursors:
        cursors: dict[str, list[tuple[int, int]]] = {}
        for (name, partition), (offset,) in sorted(self._books.get("cursor", {}).items()):
            # A keeper that was promoted with less than another had was told of later ones.
            at = min(offset, self.spans[partition].end)
            cursors.setdefault(name, []).append((partition, at))
        return tuple((name, tuple(positions)) for name, positions in cursors.items())

    def _producers(self) -> list[ProducerRow]:
        latest: dict[str, tuple[int, int]] = {}
        appended: dict[str, list[tuple[int, int, int]]] = {}
        for (name, _), (seen, floor, rows) in sorted(self._books.get("producer", {}).items()):
            appended.setdefault(name, []).extend(map(tuple, rows))
            latest[name] = seen, floor
        found: list[ProducerRow] = []
        for name in sorted(latest, key=latest.__getitem__):
            floor = latest[name][1]
            kept = tuple(each for each in appended[name] if each[0] >= floor)
            found.append(ProducerRow(name, kept, kept[0][0]))
        return found


def _sorted(records: Mapping[bytes, bytes]) -> Books:
    books: Books = {}
    for name, body in records.items():
        kind, *key = cbor2.loads(name)
        books.setdefault(kind, {})[tuple(key)] = tuple(cbor2.loads(body))
    return books
