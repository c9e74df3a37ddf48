"""Whether all replicas are equal: each looks at itself at the same event of the master's stream.

The master puts a mark into the stream. A clone that comes to it has done exactly what the master
had done, and has to have the same digest: it tells its own, and begins anew if the master's, which
comes later in the stream, is another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from stores.broadcasting import CloneId
from stores.digests import Digest, ReplicaDigest
from wire.errors import DecodeError
from wire.identifiers import EntityId

ANSWER_TICKS: Final = 50
"""Ticks that clones have to tell their digest after the master: five seconds, and the largest need
as long as it did."""

ASKS_MAX: Final = 1_024
"""Comparisons that an asker waits for at a time: one comparison answers all of them."""


@dataclass(slots=True)
class _Round:
    number: int
    asks: dict[CloneId | None, list[int]]
    answers: dict[CloneId, Digest | None]
    own: Digest | None = None
    ticks_left: int = ANSWER_TICKS

    @property
    def is_complete(self) -> bool:
        return self.own is not None and (self.ticks_left <= 0 or None not in self.answers.values())


@dataclass(frozen=True, slots=True)
class Finished:
    """A comparison that is at its end."""

    asker: CloneId | None
    """Which clone has asked for it; ``None`` if it was the master's own handle."""
    token: int
    rows: tuple[ReplicaDigest, ...]
    """The master's first."""


class Verifier:
    """The master's: asks all clones for their digest at one event, and gathers the answers.

    One comparison is under way at a time. All that ask meanwhile share the next one, so that a
    hundred questions cost two comparisons.
    """

    def __init__(self, entity: EntityId) -> None:
        """Compare for the master ``entity``."""
        self._entity = entity
        self._number = 0
        self._round: _Round | None = None
        self._asks: dict[CloneId | None, list[int]] = {}

    def ask(self, asker: CloneId | None, token: int) -> None:
        """Queue a wish for a comparison that starts after now; beyond the limit, ignore it."""
        tokens = self._asks.setdefault(asker, [])
        if len(tokens) < ASKS_MAX:
            tokens.append(token)

    @property
    def is_due(self) -> bool:
        """True if a comparison is wanted, and none is under way."""
        return self._round is None and bool(self._asks)

    def begin(self, clones: Iterable[CloneId]) -> int:
        """Start a comparison with these clones, for all that have asked; gives its number."""
        self._number += 1
        self._round = _Round(self._number, self._asks, dict.fromkeys(clones))
        self._asks = {}
        return self._number

    def conclude(self, number: int, own: Digest) -> None:
        """Take in what the master has."""
        if self._round is not None and self._round.number == number:
            self._round.own = own

    def answer(self, clone: CloneId, number: int, digest: Digest) -> None:
        """Take in what a clone has."""
        found = self._round
        if found is not None and found.number == number and clone in found.answers:
            found.answers[clone] = digest

    def tick(self) -> None:
        """Let one tick pass."""
        if self._round is not None and self._round.own is not None:
            self._round.ticks_left -= 1

    def take_finished(self) -> list[Finished]:
        """Give what came of the comparison, for each that asked, once it is at its end."""
        found = self._round
        if found is None or not found.is_complete:
            return []
        self._round = None
        others = [ReplicaDigest(clone.entity, each) for clone, each in found.answers.items()]
        rows = (ReplicaDigest(self._entity, found.own), *others)
        return [
            Finished(asker, token, rows) for asker, tokens in found.asks.items() for token in tokens
        ]


class Comparison:
    """A clone's: what it has at the event that is compared, and what its master has there."""

    def __init__(self, number: int) -> None:
        """Start without either."""
        self.number = number
        self.own: Digest | None = None
        self.theirs: Digest | None = None

    def check(self) -> None:
        """Raise ``DecodeError`` if both are known and differ."""
        own, theirs = self.own, self.theirs
        if own is not None and theirs is not None and own != theirs:
            raise DecodeError(f"the state here ({own}) is not the master's: it is loaded anew")
