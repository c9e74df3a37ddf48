"""When to kill whom: in the middle of a batch, one after the other, each once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from peermesh.demo.plan import Victim

SHARES: Final = {Victim.LOG_LEADER: 0.25, Victim.DRIVER: 0.4, Victim.STORE_LEADER: 0.65}
"""How much of the input has to be counted before each is killed."""


class Kills:
    """Chooses the moments."""

    def __init__(self, victims: Iterable[Victim], lines: int) -> None:
        """Kill these in the course of so many lines."""
        self.left = sorted(victims, key=lambda victim: SHARES[victim])
        """Who is not killed yet."""
        self._lines = lines
        self._is_settled = False
        self._batch = -1

    def on_batch(self, batch: int) -> bool:
        """A batch is done; tell whether whoever was killed last is made up for by that.

        The end of a batch may be told after the begin of the next one.
        """
        if batch < self._batch or self._is_settled:
            return False
        self._is_settled = True
        return self._batch >= 0

    def on_counting(self, batch: int, processed: int) -> Victim | None:
        """A batch is under way after so many lines: say who is to be killed now."""
        if not self.left or not self._is_settled:
            return None
        if processed < SHARES[self.left[0]] * self._lines:
            return None
        self._is_settled, self._batch = False, batch
        return self.left.pop(0)
