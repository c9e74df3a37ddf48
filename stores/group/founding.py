"""How a group begins: of the declared names the first one founds it, once all know of none.

So two halves of a mesh never found one each: every declared name has to have answered. One that has
a group already is joined instead, even by a founder that lost its disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stores.group.positions import MemberId, Voters
from wire.identifiers import EndpointId


class Known(NamedTuple):
    """What one endpoint has told of its replica."""

    member: MemberId
    group: bytes | None
    voters: tuple[str, ...]
    """The names that were declared to it."""


class Founding:
    """What a replica knows of the others before it is of a group."""

    def __init__(self, own: MemberId, voters: Sequence[str]) -> None:
        """Have these declared names, in the order in which all have them.

        Without one this replica founds nothing: it joins any group of its store.
        """
        self._own = own
        self._voters = tuple(voters)
        self._known: dict[EndpointId, Known] = {}

    def hear(self, endpoint: EndpointId, known: Known) -> None:
        """Take in what an endpoint tells. Where no name is declared, any may be of the group."""
        if not self._voters or known.member.name in self._voters:
            self._known[endpoint] = known

    def lose(self, endpoint: EndpointId) -> None:
        """Forget an endpoint that is gone."""
        self._known.pop(endpoint, None)

    @property
    def group(self) -> bytes | None:
        """The group that is there; ``None`` if none is known, or several."""
        groups = {known.group for known in self._known.values() if known.group is not None}
        return next(iter(groups)) if len(groups) == 1 else None

    @property
    def knows_none(self) -> bool:
        """True if no group is known; several are worse than none."""
        return all(known.group is None for known in self._known.values())

    @property
    def answers(self) -> int:
        """How many replicas have told what they know, this one included."""
        return len({self._own.name, *(known.member.name for known in self._known.values())})

    @property
    def founders(self) -> Voters | None:
        """The first voters, if this replica is to found the group now."""
        if self.refusal is not None or self._voters[:1] != (self._own.name,):
            return None
        lives = {known.member.name: known.member for known in self._known.values()}
        return tuple({**lives, self._own.name: self._own}[name] for name in self._voters)

    @property
    def refusal(self) -> str | None:
        """Why nothing can be founded, in a sentence; ``None`` if nothing is in the way."""
        known = list(self._known.values())
        groups = {each.group for each in known if each.group is not None}
        if len(groups) > 1:
            of_them = ", ".join(sorted(each.member.name for each in known if each.group))
            return f"{of_them} are of different groups of this name: remove the data of one of them"
        if groups:
            return "there is a group, which this replica is about to join"
        if not self._voters:
            return "no master and no group of this name was heard"
        names = [self._own.name, *(each.member.name for each in known)]
        for name in self._voters:
            if names.count(name) > 1:
                return f"two endpoints are called {name}: give each voter a name of its own"
        for each in known:
            if each.voters != self._voters:
                theirs, ours = ", ".join(each.voters), ", ".join(self._voters)
                return (
                    f"{each.member.name} was given voters {theirs or 'of no name'}, and this"
                    f" replica {ours}: give the same line to all"
                )
        missing = [name for name in self._voters if name not in names]
        if missing:
            return (
                f"no answer of {', '.join(missing)}: a group begins with all of its voters, so"
                " attach it there, too, and peer with them"
            )
        return None
