"""What a leader decides about the requests of one write, as it gathers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stores.log.messages import Cursors, Positions
from stores.log.runs import Flat, OpenRun, Run


@dataclass(slots=True)
class LogStage:
    """What becomes one entry of the journal."""

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

    def append(
        self, partition: int, offset: int, entries: Flat, size: int, timestamp_ns: int
    ) -> None:
        """Take in entries of so many bytes, with the offset of the first."""
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


def apply_cursors(
    cursors: dict[str, dict[int, int]], forgotten: Sequence[str], moved: Cursors
) -> None:
    """Take in where consumers are now."""
    for consumer in forgotten:
        cursors.pop(consumer, None)
    for consumer, positions in moved:
        cursors.setdefault(consumer, {}).update(positions)
