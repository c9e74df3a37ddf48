"""Whether all replicas are equal: each looks at itself at the same event of the master's stream.

The master puts its digest into the stream. A clone that comes to it has done exactly what the
master had done, and has to have the same one: it tells its own, and begins anew if they differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from stores.broadcasting import CloneId
from stores.digests import Digest, ReplicaDigest
from wire.identifiers import EntityId

ANSWER_TICKS: Final = 50
"""Ticks that clones have to tell their digest: five seconds, of which the largest needs one."""


@dataclass(slots=True)
class _Round:
    asker: CloneId | None
    token: int
    own: ReplicaDigest
    answers: dict[CloneId, Digest | None]
    ticks_left: int = ANSWER_TICKS

    @property
    def is_complete(self) -> bool:
        return self.ticks_left <= 0 or None not in self.answers.values()


@dataclass(frozen=True, slots=True)
class Finished:
    """A comparison that is at its end."""

    asker: CloneId | None
    """Which clone has asked for it; ``None`` if it was the master's own handle."""
    token: int
    rows: tuple[ReplicaDigest, ...]
    """The master's first."""


class Verifier:
    """The master's: asks all clones for their digest at one event, and gathers the answers."""

    def __init__(self, entity: EntityId) -> None:
        """Compare for the master ``entity``."""
        self._entity = entity
        self._number = 0
        self._rounds: dict[int, _Round] = {}

    def begin(
        self, asker: CloneId | None, token: int, own: Digest, clones: Iterable[CloneId]
    ) -> int:
        """Start a comparison with these clones; gives its number."""
        self._number += 1
        row = ReplicaDigest(self._entity, own)
        self._rounds[self._number] = _Round(asker, token, row, dict.fromkeys(clones))
        return self._number

    def answer(self, clone: CloneId, number: int, digest: Digest) -> None:
        """Take in what a clone has."""
        found = self._rounds.get(number)
        if found is not None and clone in found.answers:
            found.answers[clone] = digest

    def tick(self) -> None:
        """Let one tick pass."""
        for found in self._rounds.values():
            found.ticks_left -= 1

    def take_finished(self) -> list[Finished]:
        """Give the comparisons in which everybody has answered, or had the time to."""
        finished: list[Finished] = []
        for number, found in list(self._rounds.items()):
            if found.is_complete:
                del self._rounds[number]
                rows = [ReplicaDigest(clone.entity, each) for clone, each in found.answers.items()]
                finished.append(Finished(found.asker, found.token, (found.own, *rows)))
        return finished
