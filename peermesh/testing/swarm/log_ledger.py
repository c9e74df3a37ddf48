"""What may never happen to a log: what was appended, acknowledged, and read. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from peermesh.testing.swarm.ledgers import Broken
from wire.values import Value

Place = tuple[int, int]
"""A partition, and an offset in it."""


@dataclass(slots=True)
class Append:
    """One entry that a handle was asked to append."""

    writer: Hashable
    """The handle: entries of one are in the order of its calls."""
    number: int
    """The entry's value, which no other one has."""
    place: Place | None = None
    """Where it is, once that is acknowledged."""
    is_unknown: bool = False
    """Whether its handle gave no outcome."""

    @property
    def is_open(self) -> bool:
        """Whether an outcome is still to come."""
        return self.place is None and not self.is_unknown


class LogLedger:
    """What was asked of a log, what it answered, and what its readers got."""

    def __init__(self) -> None:
        """Start with no entry."""
        self._appends: list[Append] = []
        self._contents: dict[Place, int] = {}
        """What is at an offset: by a receipt, or a reader."""
        self._places: dict[int, Place] = {}
        self._next: dict[Hashable, dict[int, int]] = {}
        """By reader and partition, which offset comes next."""

    def ask(self, writer: Hashable) -> Append:
        """Note an append before it is asked for."""
        append = Append(writer, len(self._appends))
        self._appends.append(append)
        return append

    @property
    def acknowledged(self) -> int:
        """Count the entries that have a receipt."""
        return sum(append.place is not None for append in self._appends)

    def open(self, writer: Hashable) -> list[Append]:
        """Give what a handle was asked for, and has no answer to."""
        return [each for each in self._appends if each.writer == writer and each.is_open]

    def acknowledge(self, append: Append, place: Place) -> None:
        """Note a receipt; raises ``Broken`` if something else is there, or it elsewhere."""
        append.place = place
        self._put(place, append.number)

    def read(self, reader: Hashable, place: Place, value: Value) -> None:
        """Note what a reader that reads all from the first offset on has got next."""
        if not isinstance(value, int) or not 0 <= value < len(self._appends):
            raise Broken(f"made up: {reader} read {value!r} at {place}")
        self._put(place, value)
        partition, offset = place
        ends = self._next.setdefault(reader, {})
        if offset != ends.get(partition, 0):
            raise Broken(f"{reader} read {place}, and {ends.get(partition, 0)} comes next there")
        ends[partition] = offset + 1

    def _put(self, place: Place, number: int) -> None:
        known = self._contents.setdefault(place, number)
        if known != number:
            raise Broken(f"two entries of offset {place}: {known} and {number}")
        if self._places.setdefault(number, place) != place:
            raise Broken(f"appended twice: {number} is at {self._places[number]} and {place}")

    def has_read(self, reader: Hashable, ends: Mapping[int, int]) -> bool:
        """Tell whether a reader has got all before these offsets."""
        found = self._next.get(reader, {})
        return all(found.get(partition, 0) == end for partition, end in ends.items())

    def check_kept(self, ends: Mapping[int, int]) -> None:
        """Raise ``Broken`` if an acknowledged entry is behind the end, or writers out of order."""
        last: dict[tuple[Hashable, int], int] = {}
        for (partition, offset), number in sorted(self._contents.items()):
            append = self._appends[number]
            if offset >= ends[partition]:
                raise Broken(f"acknowledged, or read, and lost: {append} at {(partition, offset)}")
            before = last.get((append.writer, partition), -1)
            if number < before:
                raise Broken(f"out of order: {append} behind {before} of the same handle")
            last[append.writer, partition] = number
