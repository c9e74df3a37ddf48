"""How long the readers of a store or log wait for its leader, and do without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from endpoint.replicas.attaching import STALE_SECONDS

TICKS_PER_SECOND: Final = 10
"""The loop's ticks, which cores count."""


@dataclass(frozen=True, slots=True)
class Patience:
    """What a reader is attached with; a deposed leader becomes one that is as patient as usual."""

    seconds: float
    """What is asked here waits so long for a leader before it fails."""
    stale_seconds: float | None = STALE_SECONDS
    """What is here is read for so long without a leader; ``None`` is for ever."""

    @property
    def ticks(self) -> int:
        """Give the seconds as cores count them."""
        return max(0, round(self.seconds * TICKS_PER_SECOND))

    @property
    def stale_ns(self) -> int | None:
        """Give the other ones likewise."""
        return None if self.stale_seconds is None else round(self.stale_seconds * 1_000_000_000)
