"""What came of a promotion, and of a comparison of all replicas, as users see it."""

from __future__ import annotations

from dataclasses import dataclass

from stores.digests import ReplicaDigest
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


@public
@dataclass(frozen=True, slots=True)
class Verification:
    """What each replica had at the same event of the master's stream: true if all are equal.

    A clone that differed has begun anew by now, with a snapshot of its master.
    """

    replicas: tuple[ReplicaDigest, ...]
    """The master's first."""

    def __bool__(self) -> bool:
        """Tell whether all are equal, and all have answered."""
        return len({row.digest for row in self.replicas}) == 1

    def __str__(self) -> str:
        """Write one line for each replica."""
        own = self.replicas[0].digest
        lines = [f"{self.replicas[0].replica} {own} master"]
        for row in self.replicas[1:]:
            verdict = "equal" if row.digest == own else "DIFFERENT"
            lines.append(f"{row.replica} {row.digest or '-'} {verdict if row.digest else 'silent'}")
        return "\n".join(lines)
