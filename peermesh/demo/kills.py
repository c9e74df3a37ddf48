"""When to kill whom: in the middle of a batch, one after the other, each once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from peermesh.demo.plan import Victim

SHARES: Final = {Victim.KEEPER: 0.25, Victim.DRIVER: 0.4, Victim.MASTER: 0.65}
"""How much of the input has to be counted before each is killed."""


class Kills:
    """Chooses the moments."""

    def __init__(self, victims: Iterable[Victim], lines: int) -> None:
        """Kill these in the course of so many lines."""
        self.left = sorted(victims, key=lambda victim: SHARES[victim])
        """Who is not killed yet."""
        self._lines = lines
        self._is_settled = False

    def on_batch(self) -> None:
        """A batch is done: whoever was killed last is made up for."""
        self._is_settled = True

    def on_counting(self, processed: int) -> Victim | None:
        """A batch is under way after so many lines: say who is to be killed now."""
        if not self.left or not self._is_settled:
            return None
        if processed < SHARES[self.left[0]] * self._lines:
            return None
        self._is_settled = False
        return self.left.pop(0)
