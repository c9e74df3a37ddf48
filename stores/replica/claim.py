"""What a master that starts does about what clones hold: begins, takes it over, or refuses. Pure.

The entries that a lost master acknowledged are at most what its clones have. So a master that holds
less than they do leads nothing before it has what the best of them has.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from stores.group.positions import START, MemberId, Position
from wire.errors import ErrorCode
from wire.identifiers import EndpointId

CLAIM_TICKS: Final = 10
"""Ticks that announced clones have to say what they hold: a second, as an election takes."""


@dataclass(frozen=True, slots=True)
class Held:
    """What one replica holds."""

    member: MemberId
    group: bytes | None
    end: Position
    """Where its journal ends; the start if nothing in it is worth keeping."""
    is_led: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Lead with what is here: no clone has more."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Have the clone at this endpoint cede the lead."""

    endpoint: EndpointId
    held: Held


@dataclass(frozen=True, slots=True)
class Refuse:
    """Lead nothing, for this reason."""

    code: ErrorCode
    text: str


class Claim:
    """The answers to one question of a master."""

    def __init__(self, own: Held, announced: Collection[EndpointId], mark: Position | None) -> None:
        """Ask the ``announced`` clones.

        ``mark`` is set for a master whose file lacks something: that far it has acknowledged. It is
        before the file's end for one that ended while it took over what a clone had.
        """
        self._own = own
        self._mark = mark
        self._missing = set(announced)
        self._answers: dict[EndpointId, Held] = {}
        self._ticks = 0

    def hear(self, endpoint: EndpointId, held: Held) -> None:
        """Take in what a clone holds; its latest word counts."""
        self._answers[endpoint] = held
        self._missing.discard(endpoint)

    def lose(self, endpoint: EndpointId) -> None:
        """Forget an endpoint that is gone."""
        self._answers.pop(endpoint, None)
        self._missing.discard(endpoint)

    def tick(self) -> None:
        """Let a tick pass."""
        self._ticks += 1

    @property
    def is_over(self) -> bool:
        """True once it can be decided: all have answered, or the time is up.

        One that is led may lose its leader meanwhile, and one whose file lacks something may find
        clones that are not announced yet: both wait for the time.
        """
        if self._ticks >= CLAIM_TICKS:
            return True
        is_led = any(held.is_led for held in self._answers.values())
        is_content = self._mark is None or isinstance(self.decide(), TakeOver)
        return not self._missing and not is_led and is_content

    def decide(self) -> Start | TakeOver | Refuse:
        """Say what to do, by the answers so far."""
        for endpoint, held in self._answers.items():
            if held.is_led:
                return Refuse(
                    ErrorCode.MASTER_EXISTS,
                    f"the store at endpoint {endpoint} has a master that lives: attach a clone"
                    " here, or close that master",
                )
        holders = {where: held for where, held in self._answers.items() if held.end > START}
        groups = {held.group for held in holders.values()}
        if self._own.group is not None:
            groups &= {self._own.group}  # Files are of one group for good.
        if len(groups) > 1:
            return Refuse(
                ErrorCode.STORE_CONFLICT,
                "clones in reach have stores of this name that differ: close those that are not"
                " wanted, or give fresh=True, which empties them",
            )
        ours = {where: held for where, held in holders.items() if held.group in groups}
        best = max(ours, key=lambda where: (ours[where].end, where), default=None)
        if best is not None and ours[best].end >= self._wanted:
            return TakeOver(best, ours[best])
        if self._mark is None:
            return Start()
        return Refuse(ErrorCode.REPLICA_REGRESSED, self._explain(ours[best].end if best else START))

    @property
    def _wanted(self) -> Position:
        """The least end of a clone's journal that is taken over."""
        if self._mark is not None:
            return max(self._mark, self._own.end)
        return Position(self._own.end.term, self._own.end.index + 1)

    def _explain(self, best: Position) -> str:
        assert self._mark is not None, "something is missing"
        if self._mark < self._own.end:
            return (
                f"it ended while it took over what a clone had, its file may lack the rest after"
                f" {self._own.end}, and no clone in reach has as much: start that clone; fresh=True"
                " leads with what the file has"
            )
        if self._mark == self._own.end:
            return (
                "another master took over since its file was written, and no clone of that one is"
                " in reach: start that master, or clones that have what it had; fresh=True leads"
                " with what the file has"
            )
        found = (
            f"the best of the clones in reach ends at {best}" if best > START else "no clone has"
        )
        return (
            f"it has acknowledged entries up to {self._mark}, its file ends at {self._own.end}, and"
            f" {found} them: put back the latest copy of the file and of its ballot, or start"
            " clones that have more; fresh=True leads with what the file has, and the rest is lost"
        )
