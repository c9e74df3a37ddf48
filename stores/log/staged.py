"""The log as requests are judged: with all that a leader has appended and no majority has yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from stores.group.clock import Times
from stores.log.bodies import Begun, Body, Performed, Produced
from stores.log.judge import Judge
from stores.log.messages import Positions, Trimmed
from stores.log.partitions import Partitions
from stores.log.producers import Producers, unknown
from stores.quota import Meter


class StagedProducers:
    """What is remembered of named producers, with what is not committed."""

    def __init__(self, applied: Producers) -> None:
        """Look through to what is applied."""
        self._applied = applied
        self._fresh: dict[str, dict[int, tuple[int, int]]] = {}
        """By name and sequence number, in order: partition and offset."""
        self._judged: list[Produced] = []

    def find(self, name: str, sequence: int) -> tuple[int, int] | None:
        """Give where this was appended already; raises ``SequenceUnknown``: see ``Producers``."""
        fresh = self._fresh.get(name)
        if fresh is None:
            return self._applied.find(name, sequence)
        last = next(reversed(fresh))
        if sequence > last:
            return None
        found = fresh.get(sequence) or self._applied.place(name, sequence)
        if found is None:
            first, _ = self._applied.numbers(name) or (next(iter(fresh)), last)
            raise unknown(name, sequence, first, last)
        return found

    def add(self, name: str, sequence: int, partition: int, offset: int) -> None:
        """Remember an append that was judged."""
        self._judged.append(Produced(name, sequence, partition, offset))
        self.stage(self._judged[-1])

    def take_judged(self) -> tuple[Produced, ...]:
        """Give what was added since the last call."""
        judged, self._judged = tuple(self._judged), []
        return judged

    def stage(self, one: Produced) -> None:
        """Remember an append that is staged; a second time changes nothing."""
        self._fresh.setdefault(one.producer, {})[one.sequence] = one.partition, one.offset

    def settle(self, one: Produced) -> None:
        """Learn that a staged append is applied."""
        fresh = self._fresh[one.producer]
        del fresh[one.sequence]
        if not fresh:
            del self._fresh[one.producer]


class Staged:
    """What is applied, and what is to come; a leader makes one at its first need."""

    def __init__(
        self,
        partitions: Partitions,
        cursors: Mapping[str, object],
        producers: Producers,
        meter: Meter,
        times: Times,
    ) -> None:
        """Start where nothing is staged. ``times`` are those of the last run."""
        self.times = times
        self.producers = StagedProducers(producers)
        self.starts = list(partitions.starts())
        self._consumers = dict.fromkeys(cursors)
        self.judge = Judge(partitions, self._consumers, self.producers)
        self.judge.meter = meter
        self._queue: deque[Body] = deque()
        self._count = self._size = 0

    def __len__(self) -> int:
        """Count the bodies that are staged."""
        return len(self._queue)

    def has(self, kind: type[Body]) -> bool:
        """Tell whether one of a kind is staged."""
        return any(isinstance(body, kind) for body in self._queue)

    def count_used(self, entries: int, size: int) -> None:
        """Judge with so much that is applied, and what is staged."""
        self.judge.used = entries + self._count, size + self._size

    def stage(self, body: Body) -> None:
        """Have later requests judged with this; what was judged by it here is known in part."""
        self._queue.append(body)
        if isinstance(body, Performed):
            self._stage_performed(body)
        elif isinstance(body, Trimmed):
            self._trim(body.starts)
        elif isinstance(body, Begun):
            self.starts += [0] * body.partition_count
            self.judge.staged_ends += [0] * body.partition_count

    def settle(self, body: Body) -> None:
        """Learn that the first of the bodies that are staged is applied."""
        first = self._queue.popleft()
        assert first is body, (first, body)
        if isinstance(body, Performed):
            for run in body.runs:
                self._count -= run.count
                self._size -= len(run.body)
            for one in body.produced:
                self.producers.settle(one)

    def _stage_performed(self, body: Performed) -> None:
        for run in body.runs:
            self.judge.staged_ends[run.partition] = run.end
            self._count += run.count
            self._size += len(run.body)
            self.times = Times(body.elapsed_ns, run.timestamp_ns)
        for one in body.produced:
            self.producers.stage(one)
        self._trim(body.starts)
        for consumer in body.forgotten:
            self._consumers.pop(consumer, None)
        self._consumers.update((consumer, None) for consumer, _ in body.moved)

    def _trim(self, starts: Positions) -> None:
        for partition, start in starts:
            self.starts[partition] = max(start, self.starts[partition])
