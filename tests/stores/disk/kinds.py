"""What tests of damage do with a store and with a log alike: fill a file, and say what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Protocol

from stores.actions import WriterId
from stores.disk.log import SQLiteLogBackend
from stores.disk.seals import Vault
from stores.log.changes import LogChanges
from stores.log.partitions import Span
from stores.log.producers import ProducerRow
from stores.log.runs import OpenRun, Run
from stores.outcomes import Applied, Outcome, WriterRow
from stores.sealing import StorageKeys
from tests.stores.disk.log_replicas import LogReplicaKind
from tests.stores.disk.replicas import ReplicaKind
from wire.encoding import encode
from wire.identifiers import EndpointId, EntityId

WRITER = WriterId.of(EntityId(EndpointId(b"w" * 16), 1), 1)
PARTITIONS = 2

Commits = Iterator[tuple[Any, object]]
"""Changes, each with the state that a file has behind them; the one before has to be committed."""


class Kind(Protocol):
    """A kind of file, plain or encrypted."""

    tables: tuple[str, ...]
    remedy: str
    """How the advice about a damaged file begins."""

    def make(self, path: Path, **options: Any) -> Any: ...

    def load(self, backend: Any) -> object: ...

    def commits(self, count: int) -> Commits: ...

    def is_right(self, found: object, expected: object) -> bool:
        """Tell whether nothing wrong would be served: all that is lacking is noticed elsewhere."""
        return found == expected


class LogKind(Kind):
    """A log."""

    remedy = "Promote a follower that has the log (peermesh log promote)"

    def __init__(self, keys: StorageKeys | None) -> None:
        self.keys = keys
        self.tables = ("runs", "books", "head")

    def make(self, path: Path, **options: Any) -> SQLiteLogBackend:
        if self.keys is None:
            return SQLiteLogBackend(path, **options)
        return SQLiteLogBackend(path, Vault(path, self.keys), **options)

    def load(self, backend: SQLiteLogBackend) -> object:
        loaded = backend.load_keeper(1, PARTITIONS)
        spans = [part.span for part in loaded.partitions]
        runs: list[Run] = []
        for number, span in enumerate(spans):
            at = span.start
            while at < span.end:
                runs += backend.read(number, at, 10**6)
                at = runs[-1].end
        times = [part.last_timestamp_ns for part in loaded.partitions]
        producers = [(row.name, row.appended) for row in loaded.producers]
        return spans, runs, times, loaded.cursors, list(loaded.writers), producers

    def commits(self, count: int) -> Commits:
        chance = Random(1)
        model = LogModel()
        for number in range(count):
            runs = [model.append(part, number, chance) for part in range(PARTITIONS)]
            row = WriterRow(WRITER, number + 1, (Outcome(number + 1, number + 1, Applied(1)),))
            yield (
                LogChanges(
                    runs=runs,
                    starts=model.trim(number),
                    cursors=(("consumer", ((0, number),)),),
                    writers=[row],
                    producers=[ProducerRow("p", (model.appended[-1],), model.appended[0][0])],
                ),
                model.state(number, row),
            )


class LogModel:
    """What a log should have in it."""

    def __init__(self) -> None:
        self.starts = [0] * PARTITIONS
        self.runs: list[list[Run]] = [[] for _ in range(PARTITIONS)]
        self.appended: list[tuple[int, int, int]] = []

    def append(self, partition: int, number: int, chance: Random) -> Run:
        runs = self.runs[partition]
        first = runs[-1].end if runs else 0
        flat: list[bytes | None] = []
        for _ in range(chance.randrange(1, 5)):
            flat += [None, encode(chance.randbytes(chance.choice((0, 20, 300, 6_000))))]
        run = OpenRun(partition, first, number + 1, flat).seal()
        runs.append(run)
        if not partition:
            self.appended = [*self.appended[-2:], (number, 0, first)]
        return run

    def trim(self, number: int) -> list[tuple[int, int]]:
        if number % 3 != 2:
            return []
        self.starts[1] = self.runs[1][1].first_offset + 1
        self.runs[1] = [run for run in self.runs[1] if run.end > self.starts[1]]
        return [(1, self.starts[1])]

    def state(self, number: int, row: WriterRow) -> object:
        spans = [
            Span(start, runs[-1].end) for start, runs in zip(self.starts, self.runs, strict=True)
        ]
        runs = [run for each in self.runs for run in each]
        cursors = (("consumer", ((0, number),)),)
        times = [number + 1] * PARTITIONS
        return spans, runs, times, cursors, [row], [("p", tuple(self.appended))]


KINDS: dict[str, Callable[[StorageKeys | None], Kind]] = {
    "log": LogKind,
    "replica": ReplicaKind,
    "logreplica": LogReplicaKind,
}
