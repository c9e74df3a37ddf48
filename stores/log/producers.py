"""Named producers: why an append that is repeated after a restart is appended once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stores.log.limits import PRODUCER_WINDOW, PRODUCERS_MAX, RETIRED_PRODUCERS_MAX
from stores.log.windows import Appended, Appends, Window
from wire.errors import SequenceUnknown


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """What snapshots and files have of a producer."""

    name: str
    appended: Sequence[Appended]
    """In the order of growing sequence numbers; none of a producer that is retired."""
    floor: int = 0
    """Sequence numbers below are forgotten."""


ProducerChange = tuple[str, ProducerRow | None]
"""A producer, and what is known of it now: nothing of one that is forgotten."""


class Producers:
    """The windows of all named producers, the one that was idle longest first.

    One that makes room for others is *retired*: its last number is known, and nothing else.
    """

    def __init__(self, rows: Iterable[ProducerRow] = ()) -> None:
        """Start with what was kept, the least recently active first."""
        self._windows: dict[str, Window] = {}
        self._retired: dict[str, int] = {}
        self._changed: dict[str, None] | None = None
        """Those of which something else is known than before, in the order of that; ``None`` where
        that is of no interest."""
        for row in rows:
            if row.appended:
                self._windows[row.name] = Appends.of(row.appended).thawed()
            else:
                self._retired[row.name] = row.floor - 1

    def __len__(self) -> int:
        """Count the producers known."""
        return len(self._windows)

    def numbers(self, name: str) -> tuple[int, int] | None:
        """Give the first sequence number that is remembered of a producer, and its last one."""
        if (window := self._windows.get(name)) is not None:
            return window.first, window.last
        last = self._retired.get(name)
        return None if last is None else (last + 1, last)

    def place(self, name: str, sequence: int) -> tuple[int, int] | None:
        """Give where this was appended, if it was, and that is remembered."""
        window = self._windows.get(name)
        return None if window is None else window.place(sequence)

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
        window = self._windows.pop(name, None)
        if window is None:
            window = Window()
        self._windows[name] = window
        self._retired.pop(name, None)
        window.add(sequence, partition, offset)
        if len(window) > PRODUCER_WINDOW:
            window.drop()
        self._note(name)
        while len(self._windows) > PRODUCERS_MAX:
            self._make_room(next(iter(self._windows)))

    def rows(self) -> Iterator[ProducerRow]:
        """Give all that is remembered, the least recently active producer first."""
        for name, last in self._retired.items():
            yield ProducerRow(name, (), last + 1)
        for name, window in self._windows.items():
            yield ProducerRow(name, window.frozen(), window.first)

    def follow(self) -> None:
        """Note from now on what changes, for ``take_changes``."""
        if self._changed is None:
            self._changed = {}

    def take_changes(self) -> list[ProducerChange]:
        """Give what has changed since the last call: of two active ones the earlier one first.

        So it is with two that are retired. All others were active, or retired, before these.
        """
        changed = self._changed
        if not changed:
            return []
        self._changed = {}
        return [(name, self._row(name)) for name in changed]

    def _row(self, name: str) -> ProducerRow | None:
        if (window := self._windows.get(name)) is not None:
            return ProducerRow(name, window.frozen(), window.first)
        last = self._retired.get(name)
        return None if last is None else ProducerRow(name, (), last + 1)

    def _note(self, name: str) -> None:
        if self._changed is not None:
            self._changed.pop(name, None)
            self._changed[name] = None

    def _make_room(self, name: str) -> None:
        """Retire a producer."""
        self._retired[name] = self._windows.pop(name).last
        self._note(name)
        if len(self._retired) > RETIRED_PRODUCERS_MAX:
            forgotten = next(iter(self._retired))
            del self._retired[forgotten]
            self._note(forgotten)


def unknown(name: str, sequence: int, first: int, last: int) -> SequenceUnknown:
    """Give the error for a number that is none of those remembered, and no later one."""
    if sequence >= first:
        return SequenceUnknown(
            f"producer {name} comes with {sequence} after {last}, and left it out before:"
            " sequence numbers only grow"
        )
    known = f"only its last {PRODUCER_WINDOW} are remembered"
    if first > last:
        known = f"it was idle while {PRODUCERS_MAX:,} others appended, and is remembered no more"
    return SequenceUnknown(
        f"producer {name} comes with {sequence} after {last}: {known}, so that it is not known"
        " whether it was appended; read the log"
    )
