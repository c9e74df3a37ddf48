"""A recorded history: which operations began and ended when, and what was seen to happen.

The order in which events were recorded is the order of time; the times are there for people, and
for merging the histories of several processes. Values keep their typed identity: ``1``, ``True``,
``1.0`` and ``Count(1)`` are four different ones. ``docs/testing/histories.md`` shows it on disk.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import Any, Final, TypeAlias, TypeVar, overload

from peermesh.testing.observations import Found, Observation
from wire.errors import MeshError
from wire.scalars import Value

NEVER: Final = 2**62
"""The place of the end of an operation whose end nobody saw: after everything."""


class HistoryError(MeshError, ValueError):
    """What was recorded makes no history: the text names the event, or the line."""


@unique
class Ending(Enum):
    """What is known of an operation's effect."""

    OK = "ok"
    """It happened, and gave the result."""
    FAILED = "failed"
    """It was refused, and changed nothing."""
    UNKNOWN = "unknown"
    """It timed out, or somebody crashed: it happened, or will at any time, or never does."""


@dataclass(frozen=True, slots=True)
class Began:
    """An operation was called."""

    at: float
    process: str
    number: int
    name: str
    arguments: tuple[Value, ...] = ()
    node: str = ""
    """Where it was asked for, if that is not the process itself: several may use one node."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation came to its end."""

    at: float
    process: str
    number: int
    ending: Ending
    result: Found = ()
    reason: str = ""
    """Why it failed, or why nobody knows; for people."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Something was seen to happen at a process."""

    at: float
    process: str
    what: Observation


Event: TypeAlias = Began | Ended | Seen


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation from its beginning to its end."""

    began: Began
    ended: Ended | None
    """``None`` if the history stops before: then its outcome is unknown."""
    first: int
    """The place of its beginning among the events."""
    last: int
    """The place of its end, ``NEVER`` if its outcome is unknown: it may take effect late."""

    @property
    def number(self) -> int:
        """Give its number, which is unique within the history."""
        return self.began.number

    @property
    def name(self) -> str:
        """Give the name of what was called."""
        return self.began.name

    @property
    def arguments(self) -> tuple[Value, ...]:
        """Give what it was called with."""
        return self.began.arguments

    @property
    def node(self) -> str:
        """Give where it was asked for."""
        return self.began.node or self.began.process

    @property
    def ending(self) -> Ending:
        """Give what is known of its effect."""
        return Ending.UNKNOWN if self.ended is None else self.ended.ending

    @property
    def result(self) -> Found:
        """Give its result, if it has one."""
        return () if self.ended is None else self.ended.result

    def __str__(self) -> str:
        """Tell it in a line: who did what with which result, and when."""
        arguments = ", ".join(map(repr, self.arguments))
        who = f"#{self.number} {self.began.process}"
        return f"{who}: {self.name}({arguments}) {self._end_in_words()}"

    def _end_in_words(self) -> str:
        begin = f"{self.began.at:g}"
        if self.ended is None or self.ending is Ending.UNKNOWN:
            return f"with unknown outcome, from {begin} s on"
        span = f"[{begin} s to {self.ended.at:g} s]"
        if self.ending is Ending.FAILED:
            return f"failed {span}"
        return f"-> {self.result[0]!r} {span}" if self.result else f"-> nothing {span}"


_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")


class History:
    """Events in the order of time. ``begin`` and its likes record, the rest reads.

    A history is a plain value: it has no clock (``at`` is in seconds, virtual or monotonic) and
    waits for nobody.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        """Take events over, in their order. Raises ``HistoryError`` if they make no sense."""
        self.events: list[Event] = []
        self._open: dict[int, Began] = {}
        self._next = 1
        for event in events:
            self.record(event)

    def __len__(self) -> int:
        """Count the events."""
        return len(self.events)

    # Recording.

    def begin(self, process: str, name: str, *arguments: Value, at: float, node: str = "") -> int:
        """Record that an operation is called; give the number to end it with."""
        number = self._next
        self.record(Began(at, process, number, name, arguments, node))
        return number

    def end(self, number: int, *result: Value, at: float) -> None:
        """Record that an operation happened, with its result if it has one.

        A ``get`` of a missing key has none; one of a key that holds none has the result ``None``.
        """
        self.record(Ended(at, self._process_of(number), number, Ending.OK, result))

    def fail(self, number: int, *, at: float, reason: str = "") -> None:
        """Record that an operation was refused, and certainly changed nothing."""
        process = self._process_of(number)
        self.record(Ended(at, process, number, Ending.FAILED, reason=reason))

    def lose(self, number: int, *, at: float, reason: str = "") -> None:
        """Record that an operation's outcome will not be known."""
        process = self._process_of(number)
        self.record(Ended(at, process, number, Ending.UNKNOWN, reason=reason))

    def see(self, process: str, what: Observation, *, at: float) -> None:
        """Record that something was seen to happen."""
        self.record(Seen(at, process, what))

    def record(self, event: Event) -> None:
        """Take in an event as it is. Raises ``HistoryError`` if it contradicts earlier ones."""
        match event:
            case Began():
                if event.number < self._next:
                    raise HistoryError(f"operation {event.number} begins twice, or out of order")
                self._next = event.number + 1
                self._open[event.number] = event
            case Ended():
                self._process_of(event.number)
                del self._open[event.number]
            case Seen():
                pass
        self.events.append(event)

    def _process_of(self, number: int) -> str:
        if number not in self._open:
            raise HistoryError(f"operation {number} ends, but is not under way")
        return self._open[number].process

    # Reading.

    def operations(self) -> list[Operation]:
        """Give all operations, in the order in which they began."""
        ends = {
            event.number: (place, event)
            for place, event in enumerate(self.events)
            if isinstance(event, Ended)
        }
        return [
            self._operation(event, place, ends.get(event.number))
            for place, event in enumerate(self.events)
            if isinstance(event, Began)
        ]

    @staticmethod
    def _operation(began: Began, first: int, end: tuple[int, Ended] | None) -> Operation:
        if end is None:
            return Operation(began, None, first, NEVER)
        place, ended = end
        return Operation(began, ended, first, NEVER if ended.ending is Ending.UNKNOWN else place)

    @overload
    def seen(self, first: type[_A], /) -> Iterator[tuple[int, Seen, _A]]: ...
    @overload
    def seen(
        self, first: type[_A], second: type[_B], third: type[_C] = ..., /
    ) -> Iterator[tuple[int, Seen, _A | _B | _C]]: ...

    def seen(self, *kinds: type[Any]) -> Iterator[tuple[int, Seen, Any]]:
        """Give all observations of some kinds: place among the events, event, what was seen."""
        for place, event in enumerate(self.events):
            if isinstance(event, Seen) and isinstance(event.what, kinds):
                yield place, event, event.what


def merge(histories: Iterable[History]) -> History:
    """Join histories that were recorded with one clock, in the order of their times.

    Of events at the same time, those that begin something come first: operations that may have
    overlapped are taken to overlap, which never finds fault with an innocent history. Operations
    get new numbers.
    """
    merged = History()
    streams = [
        [(event.at, not isinstance(event, Began), source, event) for event in history.events]
        for source, history in enumerate(histories)
    ]
    numbers: dict[tuple[int, int], int] = {}
    # A recorder's own order wins over its clock, which may stand still between two events.
    for _, _, source, event in heapq.merge(*streams, key=lambda item: item[:2]):
        match event:
            case Began():
                number = merged.begin(
                    event.process, event.name, *event.arguments, at=event.at, node=event.node
                )
                numbers[source, event.number] = number
            case Ended():
                merged.record(replace(event, number=numbers[source, event.number]))
            case Seen():
                merged.record(event)
    return merged
