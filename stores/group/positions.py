"""Names of entries and of members: what a group counts by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


# Not frozen, like all that is built for every entry; it is never changed.
@dataclass(slots=True, order=True, unsafe_hash=True)
class Position:
    """The name of one journal entry. Positions are ordered, and none is ever used twice.

    Of two journals the one that ends at the greater position has everything that was committed.
    """

    term: int
    index: int

    def __str__(self) -> str:
        """Show term and index."""
        return f"{self.term}:{self.index}"


START: Final = Position(0, 0)
"""Where a journal begins that has no entry."""


class MemberId(NamedTuple):
    """One life of an endpoint's replica.

    A replica that lost its ballot, and one in memory after each start, is another member: it
    promised nothing, and knows nothing.
    """

    name: str
    """The endpoint's name, as voters are declared by."""
    life: int
    """A random number, drawn when the replica's ballot was made."""

    def __str__(self) -> str:
        """Show the name, and enough of the life to tell two of them apart."""
        return f"{self.name}.{self.life & 0xFFFF:x}"


Voters = tuple[MemberId, ...]
"""The members whose majority decides, in the order in which they were added."""

Dismissed = tuple[str, ...]
"""The names whose vote a person took, the one of the longest ago first: no leader gives one of them
a vote by itself. None of them is a voter's."""
