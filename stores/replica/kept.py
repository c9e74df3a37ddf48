"""How much of a journal stays for members that were away, or are slow. Pure.

Beyond, they take a snapshot.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from wire.limits import MIB

KEPT_ENTRIES: Final = 10_000
"""Committed entries that stay at most for members that are away."""

KEPT_SIZE: Final = 16 * MIB
"""Bytes of them: values that were erased stay no longer in memory than others that came since."""

SLOW_SIZE: Final = 256 * MIB
"""Bytes that stay for a member in session that is behind, or takes a snapshot: at 25 MiB a second
it has ten seconds. Or as much as the state itself has in memory, if that is more: to send that
again would take longer, and what of the journal is in the state is there once."""

GRAINS: Final = 256
"""Into so many parts the bytes that stay are divided: what stays is one part more, at most."""


class Kept(NamedTuple):
    """What of a journal may go."""

    unneeded: int
    """The last entry that no member needs which is away."""
    excessive: int
    """The last entry that stays for no member."""


class KeptJournal:
    """What of one journal stays."""

    def __init__(self) -> None:
        """Keep all so far."""
        self._away, self._slow = _Window(), _Window()

    def tick(self, commit: int, traffic: int, state_size: int = 0) -> Kept:
        """Let a tick pass.

        ``traffic`` are the bytes of all entries that were ever committed, ``state_size`` those that
        the state has in memory.
        """
        floor = self._away.tick(commit, traffic, KEPT_SIZE)
        excessive = self._slow.tick(commit, traffic, max(SLOW_SIZE, state_size))
        return Kept(max(floor, excessive, commit - KEPT_ENTRIES), excessive)


class _Window:
    """Finds where a journal was when so many bytes were still to come."""

    def __init__(self) -> None:
        self._floor = 0
        self._marks: deque[tuple[int, int]] = deque()
        """A commit index, and the bytes that were committed until then."""

    def tick(self, commit: int, traffic: int, size: int) -> int:
        """Give the last entry that ``size`` bytes have followed, or 0."""
        if not self._marks or traffic - self._marks[-1][1] >= size // GRAINS:
            self._marks.append((commit, traffic))
        while traffic - self._marks[0][1] > size:
            self._floor, _ = self._marks.popleft()
        return self._floor
