"""Which function had the last batch of a query: so that a second one is told, and loses nothing.

What is kept in a store says that a batch is done, and not by which function: it is the same after a
restart. So a process remembers who had its turn, for as long as one run of the query goes on.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Place: TypeAlias = tuple[str, ...]
"""Where it is kept what a query has done."""

PLACES_MAX: Final = 1_000
"""Places that are remembered, of queries that went on lately: some hundred bytes each."""


class LastTurns:
    """The last turn at each place."""

    def __init__(self) -> None:
        """Remember none yet."""
        self._last: dict[Place, tuple[str, int, object]] = {}

    def take(self, place: Place, run: str | None, batch: int, function: object) -> bool:
        """Let a function have a batch; tell whether another one had it before in the same run.

        A function that comes again may do so: what failed is tried again. A run that is not known
        is another one each time.
        """
        if run is None:
            return False
        last = self._last.pop(place, (run, batch, function))
        is_second = last[:2] == (run, batch) and last[2] is not function
        self._last[place] = last if is_second else (run, batch, function)
        if len(self._last) > PLACES_MAX:
            del self._last[next(iter(self._last))]
        return is_second
