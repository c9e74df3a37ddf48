"""What a voter was told: that it has not the right to vote. Pure."""

from __future__ import annotations

from typing import Final

BAR_TICKS: Final = 20
"""Ticks after which a refusal that was not repeated is over. A voter that is not heard asks to join
every 4 ticks, and greets every 5."""


class Bar:
    """The last refusal of this replica's vote, while it holds."""

    def __init__(self) -> None:
        """Have none."""
        self.text: str | None = None
        """Why it is not heard; ``None`` while nothing is known to be in the way."""
        self._ticks = 0

    def set(self, text: str) -> bool:
        """Take a refusal in; says whether it is news."""
        is_news = self.text is None
        self.text, self._ticks = text, 0
        return is_news

    def tick(self) -> None:
        """Let a tick pass."""
        self._ticks += 1
        if self._ticks >= BAR_TICKS:
            self.text = None
