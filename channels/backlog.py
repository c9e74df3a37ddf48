"""Where a producer finds the events that consumers may still ask for, by number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from channels.messages import PayloadT

PayloadT_co = TypeVar("PayloadT_co", covariant=True)


class Backlog(Protocol[PayloadT_co]):
    """Numbered events without a hole. An owner that keeps a journal lends it to its producer."""

    @property
    def first_sequence(self) -> int:
        """The number of the first event that is kept, or of the next one if none is."""

    def payloads(self, first: int, last: int) -> Sequence[PayloadT_co]:
        """Give the events from ``first`` to ``last``, all of which are kept."""


class Buffer(Generic[PayloadT]):
    """The backlog of a producer that has no other: what some consumer has not acknowledged."""

    def __init__(self, first_sequence: int) -> None:
        """Hold nothing; the next event gets the number ``first_sequence``."""
        self.events: list[PayloadT] = []
        self._first_sequence = first_sequence

    @property
    def first_sequence(self) -> int:
        """The number of the first event that is kept, or of the next one if none is."""
        return self._first_sequence

    def payloads(self, first: int, last: int) -> list[PayloadT]:
        """Give the events from ``first`` to ``last``, all of which are kept."""
        return self.events[first - self._first_sequence : last + 1 - self._first_sequence]

    def extend(self, payloads: Iterable[PayloadT]) -> None:
        """Keep the next events."""
        self.events.extend(payloads)

    def forget(self, last: int) -> None:
        """Forget all events up to ``last``."""
        count = last + 1 - self._first_sequence
        assert 0 <= count <= len(self.events), (last, self._first_sequence, len(self.events))
        del self.events[:count]
        self._first_sequence += count
