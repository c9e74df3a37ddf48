"""What came of a promotion, as users see it."""

from __future__ import annotations

from dataclasses import dataclass

from wire.public import public


@public
@dataclass(frozen=True, slots=True)
class Promotion:
    """What came of a promotion."""

    term: int
    """How many promotions the store has seen: masters of earlier terms are fenced."""
    revision: int
    """The new master goes on from here. What its master acknowledged beyond is lost."""
    silent_seconds: float
    """How long ago the last master was heard: what it did since is unknown here."""
