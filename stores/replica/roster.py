"""Who is in a group, as far as one replica has heard: where each member is, and since when silent.

Before there is a group it knows, too, what others have told for its founding. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stores.group.founding import Founding, Known
from stores.group.limits import FOLLOWERS_MAX
from stores.group.membership import Wanted
from stores.group.positions import MemberId, Voters
from stores.group.quorum import majority
from stores.group.roles import DEFAULT_TIMING
from stores.group.words import Greeting, Letter
from wire.identifiers import EndpointId

SILENT_TICKS: Final = 2 * DEFAULT_TIMING.timeout_ticks_max
"""Ticks after which a member counts as silent: two elections came to nothing meanwhile."""

FORCE: Final = "promote(force=True)"
"""What a person does where voters are gone for good."""

_NAMES_SIZE: Final = 90
"""Characters for those that are in the way, in an error of 200: what to do stands behind them."""


class Roster:
    """The members of a group that were heard at one endpoint."""

    def __init__(
        self, own: MemberId, endpoint: EndpointId, voters: Sequence[str], count: int = 0
    ) -> None:
        """Know the replica of this ``endpoint``, and the declared names.

        Where none are, ``count`` may say how many voters the group is to have.
        """
        self.own = own
        self.wanted = Wanted(frozenset(voters), count)
        """The voters that this replica has its group have, as far as it leads."""
        self.declared = tuple(voters)
        self._founding = Founding(own, voters)
        self._where: dict[MemberId, EndpointId] = {own: endpoint}
        self._at: dict[EndpointId, MemberId] = {endpoint: own}
        """The same the other way round: an endpoint has one member, an earlier one is gone."""
        self._heard: dict[MemberId, int] = {}
        """The tick at which a member was heard last; of a voter also once it is out of reach."""
        self._ticks = 0

    # -- what is heard ---------------------------------------------------------------------------

    def tick(self, voters: Voters) -> None:
        """Let a tick pass, with these ``voters`` in force."""
        self._ticks += 1
        gone = [each for each in self._heard if each not in self._where and each not in voters]
        for member in gone:
            del self._heard[member]

    def hear(self, endpoint: EndpointId, letter: Letter, greeting: Greeting) -> None:
        """Take in what is told before there is a group."""
        self._founding.hear(endpoint, Known(letter.sender, letter.group, greeting.voters))

    def meet(self, endpoint: EndpointId, member: MemberId, voters: Voters) -> None:
        """Learn that a member is at an endpoint, unless it is one too many, and no voter."""
        if self._at.get(endpoint) != member:
            is_voter = member in voters or member.name in self.declared
            is_known = is_voter or member in self._where
            if member == self.own or not (is_known or len(self._where) < FOLLOWERS_MAX):
                return
            if member in self._where:
                del self._at[self._where[member]]
            if endpoint in self._at:
                del self._where[self._at[endpoint]]
            self._at[endpoint] = member
            self._where[member] = endpoint
        self._heard[member] = self._ticks

    def restart(self) -> None:
        """Know of no group any more, nor what was told of it."""
        self._founding = Founding(self.own, self.declared)

    def lose(self, endpoint: EndpointId) -> list[MemberId]:
        """Forget an endpoint that is gone, and give its members."""
        self._founding.lose(endpoint)
        member = self._at.pop(endpoint, None)
        if member is None:
            return []
        del self._where[member]
        return [member]

    # -- what is so ------------------------------------------------------------------------------

    def endpoint_of(self, member: MemberId) -> EndpointId | None:
        """Give the endpoint of a member, if it is known."""
        return self._where.get(member)

    def lacks(self, voters: Voters) -> bool:
        """Tell whether it has to be asked who there is: the endpoint of some voter is unknown."""
        return not voters or any(voter not in self._where for voter in voters)

    @property
    def group(self) -> bytes | None:
        """The group that is there, before this replica is of one; ``None`` if none is known."""
        return self._founding.group

    @property
    def may_found(self) -> bool:
        """True if no group is known to as many as are its majority later, this one included.

        So one that has lost what it had finds the group that it was of, and founds no other.
        """
        is_enough = self._founding.answers > self.wanted.count // 2
        return is_enough and self._founding.knows_none

    @property
    def founders(self) -> Voters | None:
        """The first voters, if this replica is to found the group now."""
        return self._founding.founders

    def hears_majority(self, voters: Voters) -> bool:
        """Tell whether so many voters are heard that they can elect a leader.

        One that came back in another life is none of them, before a leader has made it one.
        """
        heard = sum(map(self._is_heard, voters))
        return bool(voters) and heard >= majority(voters)

    def explain_founding(self, *, is_founder: bool = False) -> str:
        """Say in a sentence why there is no group here yet."""
        refusal = self._founding.refusal
        if self.wanted.count and self._founding.knows_none:
            answers, least = self._founding.answers, self.wanted.count // 2 + 1
            text = (
                f"no group of this name was heard: {answers} of {least} replicas have answered that"
                " one begins with"
            )
            if is_founder:
                return f"{text}: attach it elsewhere with the same voters, too, and peer with it"
            return f"{text}, and one of them has to be given found=True"
        if refusal is None and self.declared[:1] != (self.own.name,):
            return f"{self.declared[0]} has not founded the group yet"
        return refusal or "the group is being founded"

    def explain_silence(self, voters: Voters) -> str:
        """Say in a sentence why no leader serves this replica."""
        if not voters:
            # A founder in memory may be lost as it founds, with the first entries.
            text = "the group is known, and nothing of its journal has come yet"
            return f"{text}: if its founder is gone, {FORCE} at one replica"
        if self.hears_majority(voters):
            return "a leader is being elected"
        silent = [voter for voter in voters if not self._is_heard(voter)]
        there = {member.name for member in self._where if self._is_heard(member)}
        anew = [voter.name for voter in silent if voter.name in there]
        if len(voters) - len(anew) < majority(voters):
            rest = " or ".join(voter.name for voter in voters if voter.name not in anew)
            names = ", ".join(anew)[:_NAMES_SIZE]
            return f"{names} came back with nothing: {FORCE} at {rest or self.own.name}"
        names = ", ".join(map(self._silence, silent))[:_NAMES_SIZE]
        remedy = f"; start them, or {FORCE}" if len(voters) > 1 else ""
        return f"{len(silent)} of {len(voters)} voters: {names}{remedy}"

    def _is_heard(self, member: MemberId) -> bool:
        if member == self.own:
            return True
        heard = self._heard.get(member, -SILENT_TICKS)
        return member in self._where and self._ticks - heard < SILENT_TICKS

    def _silence(self, voter: MemberId) -> str:
        heard = self._heard.get(voter)
        if heard is None:
            return f"{voter.name} never heard"
        return f"{voter.name} silent {(self._ticks - heard) / 10:.1f} s"
