"""Who votes, what a majority has, and which change of the voters is safe now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from stores.group.limits import VOTERS_MAX
from stores.group.positions import Dismissed, MemberId, Voters


def majority(voters: Voters) -> int:
    """Give how many voters decide; more than half of them."""
    return len(voters) // 2 + 1


def has_majority(voters: Voters, granted: Iterable[MemberId]) -> bool:
    """Tell whether a majority of the voters is among ``granted``."""
    return len(set(granted) & set(voters)) >= majority(voters)


def agreed(voters: Voters, reached: Callable[[MemberId], int]) -> int:
    """Give the highest number that a majority of the voters has reached."""
    if len(voters) == 1:
        return reached(voters[0])
    return sorted(map(reached, voters), reverse=True)[majority(voters) - 1] if voters else 0


class VoterHistory:
    """The configurations in a journal. The latest is in force from the moment it is appended.

    Waiting for its commit would let two majorities decide side by side that share no voter.
    """

    def __init__(self, index: int, voters: Voters, dismissed: Dismissed = ()) -> None:
        """Take the configuration in force at ``index``."""
        self._changes = [(index, voters, dismissed)]
        self.current = voters
        """The voters in force."""
        self.dismissed = dismissed
        """The names that no leader makes voters by itself."""
        self.changed_at = index
        """The index of the entry that put them in force, or that of the journal's floor."""

    def at(self, index: int) -> tuple[Voters, Dismissed]:
        """Give the configuration that was in force at an index, not below the journal's floor."""
        return next(change[1:] for change in reversed(self._changes) if change[0] <= index)

    def append(self, index: int, voters: Voters, dismissed: Dismissed = ()) -> None:
        """Put new voters in force."""
        self._changes.append((index, voters, dismissed))
        self._look()

    def truncate(self, index: int) -> None:
        """Forget the changes above an index: the voters before them are in force again."""
        while self._changes[-1][0] > index:
            del self._changes[-1]
        self._look()

    def compact(self, index: int) -> None:
        """Forget the configurations that ended below an index."""
        while len(self._changes) > 1 and self._changes[1][0] <= index:
            del self._changes[0]
        self._look()

    def _look(self) -> None:
        self.changed_at, self.current, self.dismissed = self._changes[-1]


LEAST_TO_LOSE_ONE: Final = 3
"""As few voters go on when one of them is lost."""


class ChangeRefusal(Enum):
    """Why the voters cannot be changed now."""

    NOT_READY = "the leader has not committed an entry of its own term yet"
    UNDER_WAY = "another change is not committed yet"
    NO_CHANGE = "these are the voters"
    SEVERAL = "one voter is added or removed at a time"
    NOBODY = "a group has at least one voter"
    TOO_MANY = f"a group has up to {VOTERS_MAX} voters: remove one that is not needed first"
    LAST_OF_THREE = "of three voters one is removed only if it is out of touch"
    TOO_FEW_HEALTHY = "no majority of the new voters is whole and in touch"
    UNCONFIRMED = "the new voters are asked whether they are there"
    SILENT = "the new voter is not in touch"
    NOT_LEVEL = "the new voter has not caught up"


def refusal_of(
    old: Voters,
    new: Voters,
    *,
    is_healthy: Callable[[MemberId], bool],
    is_level: Callable[[MemberId], bool],
    is_there: Callable[[MemberId], bool],
    has_echoed: Callable[[MemberId], bool],
) -> ChangeRefusal | None:
    """Judge a change by itself; ``None`` if it is safe.

    Majorities of two configurations that differ in one voter share a voter, so that no entry is
    committed by one and unknown to the other. A new majority that is not healthy could elect no
    leader again: the leader would be the last one. Two voters survive no loss, and three do: they
    are two only for as long as it takes to replace a lost one. More voters than there may be would
    be an entry that no other member reads. A new voter that is gone counts in the majority, and its
    last acknowledgement says nothing of that: it has to have echoed.
    """
    added, removed = set(new) - set(old), set(old) - set(new)
    if not new:
        return ChangeRefusal.NOBODY
    if not added and not removed:
        return ChangeRefusal.NO_CHANGE
    if len(added) + len(removed) > 1:
        return ChangeRefusal.SEVERAL
    if added and len(new) > VOTERS_MAX:
        return ChangeRefusal.TOO_MANY
    if len(old) == LEAST_TO_LOSE_ONE and any(map(is_there, removed)):
        return ChangeRefusal.LAST_OF_THREE
    if not has_majority(new, filter(is_healthy, new)):
        return ChangeRefusal.TOO_FEW_HEALTHY
    if not all(map(has_echoed, added)):
        return ChangeRefusal.SILENT
    if not all(map(is_level, added)):
        return ChangeRefusal.NOT_LEVEL
    return None
