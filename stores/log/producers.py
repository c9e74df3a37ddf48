"""Named producers: why an append that is repeated after a restart is appended once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stores.log.limits import PRODUCER_WINDOW, PRODUCERS_MAX
from wire.errors import SequenceUnknown


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """What a backend keeps of a producer, or what it shall add to that."""

    name: str
    appended: tuple[tuple[int, int, int], ...]
    """Sequence numbers, ascending, each with partition and offset."""
    floor: int = 0
    """Sequence numbers below are forgotten."""


@dataclass(slots=True)
class _Record:
    appended: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=PRODUCER_WINDOW)
    )
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    fresh: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, sequence: int, partition: int, offset: int) -> None:
        if len(self.appended) == PRODUCER_WINDOW:
            del self.offsets[self.appended[0][0]]
        self.appended.append((sequence, partition, offset))
        self.offsets[sequence] = (partition, offset)


class Producers:
    """The windows of all named producers, the one that was idle longest first."""

    def __init__(self, rows: Iterable[ProducerRow] = ()) -> None:
        """Start with what a backend kept, the least recently active first."""
        self._records: dict[str, _Record] = {}
        self._touched: dict[str, None] = {}
        self._forgotten: dict[str, None] = {}
        for row in rows:
            record = self._records[row.name] = _Record()
            for appended in row.appended:
                record.add(*appended)

    def __len__(self) -> int:
        """Count the producers known."""
        return len(self._records)

    def find(self, name: str, sequence: int) -> tuple[int, int] | None:
        """Give where this was appended already; ``None`` if it was not.

        Raises ``SequenceUnknown`` for a number that is not the producer's next and not remembered:
        to append it might be to append it twice, and to skip it might be to lose it.
        """
        record = self._records.get(name)
        if record is None or sequence > record.appended[-1][0]:
            return None
        if (found := record.offsets.get(sequence)) is not None:
            return found
        last = record.appended[-1][0]
        if sequence > record.appended[0][0]:
            raise SequenceUnknown(
                f"producer {name} comes with {sequence} after {last}, and left it out before:"
                " sequence numbers only grow"
            )
        raise SequenceUnknown(
            f"producer {name} comes with {sequence} after {last}: only its last {PRODUCER_WINDOW}"
            " are remembered, so that nobody knows whether it was appended; read the log"
        )

    def add(self, name: str, sequence: int, partition: int, offset: int) -> None:
        """Remember an append."""
        record = self._records.pop(name, None) or _Record()
        self._records[name] = record
        record.add(sequence, partition, offset)
        record.fresh.append((sequence, partition, offset))
        self._touched[name] = None
        while len(self._records) > PRODUCERS_MAX:
            oldest = next(iter(self._records))
            del self._records[oldest]
            self._touched.pop(oldest, None)
            self._forgotten[oldest] = None

    def rows(self) -> Iterator[ProducerRow]:
        """Give all that is remembered, the least recently active producer first."""
        for name, record in self._records.items():
            yield ProducerRow(name, tuple(record.appended), record.appended[0][0])

    def follow(self, row: ProducerRow) -> None:
        """Take in, at a follower, what its keeper remembers; what is known changes nothing."""
        record = self._records.get(row.name)
        last = -1 if record is None else record.appended[-1][0]
        for sequence, partition, offset in row.appended:
            if sequence > last:
                self.add(row.name, sequence, partition, offset)

    def forget(self, name: str) -> None:
        """Forget a producer, as the keeper did."""
        if self._records.pop(name, None) is not None:
            self._touched.pop(name, None)
            self._forgotten[name] = None

    def take_touched(self) -> tuple[ProducerRow, ...]:
        """Give what is new since the last call."""
        names, self._touched = self._touched, {}
        rows: list[ProducerRow] = []
        for name in names:
            record = self._records[name]
            fresh = tuple(record.fresh[-PRODUCER_WINDOW:])
            rows.append(ProducerRow(name, fresh, record.appended[0][0]))
            record.fresh.clear()
        return tuple(rows)

    def take_forgotten(self) -> tuple[str, ...]:
        """Give who was forgotten since the last call, so that the backend forgets them too."""
        forgotten = tuple(name for name in self._forgotten if name not in self._records)
        self._forgotten.clear()
        return forgotten
