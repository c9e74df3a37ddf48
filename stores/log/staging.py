"""What a keeper has decided and not told yet: the next commit as it gathers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stores.actions import WriterId
from stores.log.memory import Remembered, WriterNews, in_parts
from stores.log.messages import Cursors, Event, ForgetConsumer, MoveCursor, Positions, Trimmed
from stores.log.producers import ProducerRow
from stores.log.runs import Flat, OpenRun, Run, size_of
from stores.outcomes import Outcome


@dataclass(slots=True)
class LogStage:
    """What becomes visible together, as soon as it is durable."""

    outcomes: list[Outcome] = field(default_factory=list)
    """Of the local handle's requests."""
    answered: dict[WriterId, list[Outcome]] = field(default_factory=dict)
    """What became of the requests of other writers."""
    resolved: dict[WriterId, int] = field(default_factory=dict)
    """What these writers know already."""
    remembered: list[Remembered] = field(default_factory=list)
    count: int = 0
    """Entries."""
    size: int = 0
    """Bytes of the entries, roughly."""
    runs: list[Run] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    cursors: dict[str, dict[int, int] | None] = field(default_factory=dict)
    """Where consumers are now; ``None`` for one that is forgotten, and did not come back."""
    _is_forgotten: set[str] = field(default_factory=set)
    _open: dict[int, OpenRun] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to commit, and no caller to answer."""
        return not (self._open or self.runs or self.starts or self.cursors or self.is_awaited)

    @property
    def is_awaited(self) -> bool:
        """True if a caller waits for an answer."""
        return bool(self.outcomes or self.answered)

    def append(self, partition: int, offset: int, entries: Flat, timestamp_ns: int) -> None:
        """Take in entries, with the offset of the first."""
        size = size_of(entries)
        run = self._open.get(partition)
        if run is not None and not run.takes(len(entries), size):
            self.runs.append(run.seal())
            run = None
        if run is None:
            run = self._open[partition] = OpenRun(partition, offset, timestamp_ns)
        run.flat.extend(entries)
        run.size += size
        self.count += len(entries) // 2
        self.size += size

    def answer(self, writer: WriterId, resolved_request: int, outcome: Outcome) -> None:
        """Take in what became of a writer's next request."""
        self.resolved[writer] = resolved_request
        known = self.answered.setdefault(writer, [])
        if known and (joined := known[-1].joined(outcome)) is not None:
            known[-1] = joined
        else:
            known.append(outcome)

    def told(self) -> dict[WriterId, int]:
        """Give the last request of each other writer that is answered."""
        return {writer: known[-1].last_request for writer, known in self.answered.items()}

    def remember(
        self,
        producers: tuple[ProducerRow, ...],
        forgotten_writers: tuple[WriterId, ...],
        forgotten_producers: tuple[str, ...],
    ) -> None:
        """Take in what followers shall remember with it."""
        news = [
            WriterNews(writer, known[-1].last_request, self.resolved[writer], tuple(known))
            for writer, known in self.answered.items()
        ]
        self.remembered = in_parts(news, producers, forgotten_writers, forgotten_producers)

    def move_cursor(self, consumer: str, positions: Positions) -> None:
        """Take in where a consumer is."""
        cursor = self.cursors.get(consumer)
        if cursor is None:
            cursor = self.cursors[consumer] = {}
        cursor.update(positions)

    def forget_consumer(self, consumer: str) -> None:
        """Take in that a consumer goes."""
        self.cursors[consumer] = None
        self._is_forgotten.add(consumer)

    def seal(self) -> None:
        """Encode what is open; nothing may be taken in afterwards."""
        self.runs += [run.seal() for run in self._open.values()]
        self._open.clear()

    def forgotten(self) -> tuple[str, ...]:
        """Give the consumers whose earlier cursors go."""
        return tuple(sorted(self._is_forgotten))

    def moved(self) -> tuple[tuple[str, Positions], ...]:
        """Give the cursors that are set."""
        return tuple(
            (consumer, tuple(sorted(cursor.items())))
            for consumer, cursor in self.cursors.items()
            if cursor is not None
        )

    def events(self) -> list[Event]:
        """Give what followers have to do, all of it or nothing."""
        events: list[Event] = list(self.runs)
        if self.starts:
            events.append(Trimmed(tuple(sorted(self.starts.items()))))
        events += [ForgetConsumer(consumer) for consumer in self.forgotten()]
        events += [MoveCursor(consumer, positions) for consumer, positions in self.moved()]
        events += self.remembered
        return events


def apply_cursors(
    cursors: dict[str, dict[int, int]], forgotten: Sequence[str], moved: Cursors
) -> None:
    """Take in where consumers are now."""
    for consumer in forgotten:
        cursors.pop(consumer, None)
    for consumer, positions in moved:
        cursors.setdefault(consumer, {}).update(positions)
