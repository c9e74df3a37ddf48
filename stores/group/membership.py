"""Which change of the voters a leader makes by itself: it replaces what is gone, and fills up.

A member without its ballot comes back under another life. Its old life votes no more, and counts as
lost until it is replaced: removed first, then the new life added, in two entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from stores.group.limits import DISMISSED_MAX
from stores.group.positions import Dismissed, MemberId, Voters

IN_TOUCH_TICKS: Final = 100
"""A member is there for 10 s before it becomes a voter by itself: one that flaps never does."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which voters a group is to have. Those in the journal are never removed for it."""

    names: frozenset[str] = frozenset()
    """The declared names. Empty lets any member be a voter."""
    count: int = 0
    """How many voters, where none are declared."""

    def wants(self, name: str) -> bool:
        """Tell whether a member of this name asks for a vote."""
        return name in self.names or bool(self.count)

    def admits(self, name: str, voters: Voters) -> bool:
        """Tell whether a member of this name is to be added."""
        if self.names:
            return name in self.names
        return len(voters) < self.count


@dataclass(frozen=True, slots=True)
class Declared:
    """What one replica was given: which voters its group is to have, and how it begins."""

    names: tuple[str, ...] = ()
    count: int = 0
    is_founder: bool = False
    """True if it founds the group alone, where there is none."""

    @property
    def wanted(self) -> Wanted:
        """Which voters its group is to have."""
        return Wanted(frozenset(self.names), self.count)

    def founds(self, name: str) -> bool:
        """Tell whether a member of this name founds the group: the first one, or by order."""
        return self.is_founder or self.names[:1] == (name,)


NO_VOTERS_WANTED: Final = Wanted()
"""Leaves the voters as they are, until a caller changes them."""


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """What a leader knows of one member."""

    member: MemberId
    is_voter: bool
    is_whole: bool
    match: int
    """All up to this index is durable there."""
    silent_ticks: int
    """Since its last echo."""
    is_dismissed: bool = False
    """True if a person took its vote, and none has given it one again."""


def dismissed_after(
    dismissed: Dismissed,
    voters: Voters,
    removed: Iterable[str] = (),
    declared: Collection[str] = (),
) -> Dismissed:
    """Give the names without a vote by a person's word, where these are the voters from now on.

    Names that were ``removed`` now are the latest ones; voters are none any more. Of too many the
    first that are not ``declared`` are forgotten: the leader would give them no vote.
    """
    lives = {voter.name for voter in voters}
    names = [name for name in dict.fromkeys((*dismissed, *removed)) if name not in lives]
    spare = [name for name in names if name not in declared]
    forgotten = spare[: max(0, len(names) - DISMISSED_MAX)]
    return tuple(name for name in names if name not in forgotten)


def next_voters(
    voters: Voters, settled: Iterable[MemberId], gone: Iterable[MemberId], wanted: Wanted
) -> Voters | None:
    """Give the voters after the next change, or ``None`` if all is as wanted.

    ``settled`` are the members that ask for a vote, and were in touch for ``IN_TOUCH_TICKS``, whole
    and level; ``gone`` are voters that are out of touch. One that is there is not replaced: its
    name is in use twice.
    """
    candidates = sorted(set(settled) - set(voters))
    lives = {voter.name for voter in voters}
    lost = {voter.name for voter in gone}
    for candidate in candidates:
        others = tuple(voter for voter in voters if voter.name != candidate.name)
        if candidate.name in lost and wanted.admits(candidate.name, others):
            return others
    for candidate in candidates:
        if candidate.name not in lives and wanted.admits(candidate.name, voters):
            return (*voters, candidate)
    return None
