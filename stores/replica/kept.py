"""How much of a journal stays for members that were away; beyond, they take a snapshot. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

from wire.limits import MIB

KEPT_ENTRIES: Final = 10_000
"""Committed entries that stay at most."""

KEPT_SIZE: Final = 16 * MIB
"""Bytes of them: values that were erased stay no longer in memory than others that came since."""


class KeptJournal:
    """What of one journal stays."""

    def __init__(self) -> None:
        """Keep all so far."""
        self._floor = 0
        self._marks: deque[tuple[int, int]] = deque()
        """By the tick: the commit index, and the bytes that were committed until then."""

    def tick(self, commit: int, traffic: int) -> int:
        """Let a tick pass; gives the last entry that is not needed.

        ``traffic`` are the bytes of all entries that were ever committed.
        """
        if not self._marks or self._marks[-1][0] < commit:
            self._marks.append((commit, traffic))
        while self._marks and traffic - self._marks[0][1] > KEPT_SIZE:
            self._floor, _ = self._marks.popleft()
        while self._marks and self._marks[0][0] <= commit - KEPT_ENTRIES:
            self._marks.popleft()
        return max(self._floor, commit - KEPT_ENTRIES)
