"""Which terms made a table: tells a position of this history from one of another.

A watch that resumes names the position up to which it has seen everything. After a lead that was
taken by force, that position may be of entries that are gone; then it has to begin anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from stores.group.positions import START, Position

LINEAGE_MAX: Final = 1_024
"""Terms that are remembered: years of a quiet group, hours of one that changes leaders by the
second. A watch that resumes from before them begins anew."""


class Reign(NamedTuple):
    """One term in which something was applied."""

    term: int
    first: int
    """The index after the last action before it. Entries in between are no actions: the new leader
    appended them, and what others had under their indexes is lost."""


class Standing(Enum):
    """What a position is to a machine."""

    KNOWN = "it is part of what was applied here"
    AHEAD = "it is not applied here yet"
    FORGOTTEN = "it is too old to tell"
    FOREIGN = "it is of another history"


class Lineage:
    """The terms of applied entries, and the last of these."""

    def __init__(self, position: Position = START, reigns: Iterable[Reign] = ()) -> None:
        """Take what a snapshot says."""
        self.position = position
        """The last applied action."""
        self.reigns = list(reigns)

    def advance(self, position: Position) -> None:
        """Note that an action is applied."""
        assert position.index > self.position.index, (position, self.position)
        if not self.reigns or position.term > self.reigns[-1].term:
            self.reigns.append(Reign(position.term, self.position.index + 1))
            del self.reigns[:-LINEAGE_MAX]
        self.position = position

    def standing(self, position: Position) -> Standing:
        """Tell what a position of an applied action is here."""
        if position == START:
            return Standing.KNOWN
        if position > self.position:
            return Standing.AHEAD
        if not self.reigns or position.term < self.reigns[0].term:
            return Standing.FORGOTTEN
        end = self.position.index + 1
        for term, first in reversed(self.reigns):
            if term == position.term:
                is_known = first <= position.index < end
                return Standing.KNOWN if is_known else Standing.FOREIGN
            end = first
        return Standing.FOREIGN

    def cut(self, position: Position) -> int | None:
        """Give the index from which on this may be another history than that of a position.

        ``None`` if the position is of this one, as far as can be told. What is before the index is
        in both.
        """
        if self.standing(position) is not Standing.FOREIGN:
            return None
        end = self.position.index + 1
        for term, first in reversed(self.reigns):
            if term == position.term:
                return end  # Its leader had these entries, too.
            if term < position.term:
                return first  # Where in this term the other history began, is not known.
            end = first
        return 0
