"""Named producers: why an append that is repeated after a restart is appended once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stores.log.limits import PRODUCER_WINDOW, PRODUCERS_MAX, RETIRED_PRODUCERS_MAX
from wire.errors import SequenceUnknown


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """What a backend keeps of a producer, or what it shall add to that."""

    name: str
    appended: tuple[tuple[int, int, int], ...]
    """Sequence numbers, ascending, each with partition and offset; none of one that is retired."""
    floor: int = 0
    """Sequence numbers below are forgotten."""


@dataclass(slots=True)
class _Record:
    appended: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=PRODUCER_WINDOW)
    )
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, sequence: int, partition: int, offset: int) -> None:
        if len(self.appended) == PRODUCER_WINDOW:
            del self.offsets[self.appended[0][0]]
        self.appended.append((sequence, partition, offset))
        self.offsets[sequence] = (partition, offset)


class Producers:
    """The windows of all named producers, the one that was idle longest first.

    One that makes room for others is *retired*: its last number is known, and nothing else.
    """

    def __init__(self, rows: Iterable[ProducerRow] = ()) -> None:
        """Start with what was kept, the least recently active first."""
        self._records: dict[str, _Record] = {}
        self._retired: dict[str, int] = {}
        for row in rows:
            if not row.appended:
                self._retired[row.name] = row.floor - 1
                continue
            record = self._records[row.name] = _Record()
            for appended in row.appended:
                record.add(*appended)

    def __len__(self) -> int:
        """Count the producers known."""
        return len(self._records)

    def numbers(self, name: str) -> tuple[int, int] | None:
        """Give the first sequence number that is remembered of a producer, and its last one."""
        if (record := self._records.get(name)) is not None:
            return record.appended[0][0], record.appended[-1][0]
        last = self._retired.get(name)
        return None if last is None else (last + 1, last)

    def place(self, name: str, sequence: int) -> tuple[int, int] | None:
        """Give where this was appended, if it was, and that is remembered."""
        record = self._records.get(name)
        return None if record is None else record.offsets.get(sequence)

    def find(self, name: str, sequence: int) -> tuple[int, int] | None:
        """Give where this was appended already; ``None`` if it was not.

        Raises ``SequenceUnknown`` for a number that is not the producer's next and not remembered:
        to append it might be to append it twice, and to skip it might be to lose it.
        """
        numbers = self.numbers(name)
        if numbers is None or sequence > numbers[1]:
            return None
        if (found := self.place(name, sequence)) is not None:
            return found
        raise unknown(name, sequence, *numbers)

    def add(self, name: str, sequence: int, partition: int, offset: int) -> None:
        """Remember an append."""
        record = self._records.pop(name, None) or _Record()
        self._records[name] = record
        self._retired.pop(name, None)
        record.add(sequence, partition, offset)
        while len(self._records) > PRODUCERS_MAX:
            self._make_room(next(iter(self._records)))

    def rows(self) -> Iterator[ProducerRow]:
        """Give all that is remembered, the least recently active producer first."""
        for name, last in self._retired.items():
            yield ProducerRow(name, (), last + 1)
        for name, record in self._records.items():
            yield ProducerRow(name, tuple(record.appended), record.appended[0][0])

    def _make_room(self, name: str) -> None:
        """Retire a producer."""
        self._retired[name] = self._records.pop(name).appended[-1][0]
        if len(self._retired) > RETIRED_PRODUCERS_MAX:
            del self._retired[next(iter(self._retired))]


def unknown(name: str, sequence: int, first: int, last: int) -> SequenceUnknown:
    """Give the error for a number that is none of those remembered, and no later one."""
    if sequence >= first:
        return SequenceUnknown(
            f"producer {name} comes with {sequence} after {last}, and left it out before:"
            " sequence numbers only grow"
        )
    return SequenceUnknown(
        f"producer {name} comes with {sequence} after {last}: only its last {PRODUCER_WINDOW}"
        " are remembered, so that nobody knows whether it was appended; read the log"
    )
