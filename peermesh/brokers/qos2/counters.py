"""What the broker counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Counters:
    """Since the broker began."""

    publishers: int = 0
    """Connected now."""
    consumers: int = 0
    """Connected now."""
    turned_away: int = 0
    """Connections that had to make room for others."""
    not_trusted: int = 0
    """Connections without TLS, or without a certificate of our authority, where both are needed."""
    cut: int = 0
    """Connections that the broker ended."""
    failed: int = 0
    """Connections that ended with an error of the broker's own: look into its log."""
    published: int = 0
    """Messages made durable, repetitions not among them."""
    repeated: int = 0
    """Messages that were durable already."""
    refused: int = 0
    """Messages that were not made durable, and whose publishers were told."""
    delivered: int = 0
    """Messages whose PUBREC was made durable."""
    buried: int = 0
    """Messages made dead letters."""
    given_up: int = 0
    """Dead letters that a consumer of dead letters could not deal with either."""
    missed: int = 0
    """Messages that retention took before a consumer had them."""

    def as_dict(self) -> dict[str, int]:
        """Give all of them by name."""
        return asdict(self)
