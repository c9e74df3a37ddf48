"""Where a replica stands in its group: who it is, who leads, how it speaks to others. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stores.effects import Multicast, ToProxy, Unicast
from stores.group.clock import NO_TIMES
from stores.group.codec import GroupCodec
from stores.group.member import Member
from stores.group.membership import MemberStatus
from stores.group.messages import Message
from stores.group.positions import MemberId, Voters
from stores.group.words import Letter, Word
from stores.outcomes import Outcome
from stores.replica.asked.outbox import Outbox
from stores.replica.beginning import Beginning
from stores.replica.effects import News, ReplicaEffect, Told
from stores.replica.roster import FORCE, Roster
from wire.identifiers import EndpointId

BAR_TICKS: Final = 20
"""Ticks after which a refusal that was not repeated is over. A voter that is not heard asks to join
every 4 ticks, and greets every 5."""


class Bar:
    """The last refusal of this replica's vote, while it holds."""

    def __init__(self) -> None:
        """Have none."""
        self.text: str | None = None
        """Why it is not heard; ``None`` while nothing is known to be in the way."""
        self._ticks = 0

    def set(self, text: str) -> bool:
        """Take a refusal in; says whether it is news."""
        is_news = self.text is None
        self.text, self._ticks = text, 0
        return is_news

    def tick(self) -> None:
        """Let a tick pass."""
        self._ticks += 1
        if self._ticks >= BAR_TICKS:
            self.text = None


class Standing:
    """A replica, as the parts of its core share it. What they tell leaves in their order."""

    def __init__(
        self,
        roster: Roster,
        codec: GroupCodec,
        beginning: Beginning,
        outbox: Outbox,
    ) -> None:
        """Start as no member yet."""
        self.entity = outbox.entity
        self.own = roster.own
        """The member that is here."""
        self.outbox = outbox
        """What the handle asked for."""
        self.roster = roster
        self.group = beginning.group
        """``None`` before one is founded or joined."""
        self.member: Member | None = None
        self.bar = Bar()
        self._manner = beginning.manner
        self._codec = codec
        self._effects: list[ReplicaEffect] = []

    # -- what is so ------------------------------------------------------------------------------

    @property
    def leader(self) -> MemberId | None:
        """The leader, if one is known."""
        return None if self.member is None else self.member.election.leader

    @property
    def is_leader(self) -> bool:
        """True if this replica leads, and serves."""
        member = self.member
        return member is not None and member.leading is not None and member.leading.is_ready

    @property
    def server(self) -> MemberId | None:
        """The leader that serves this replica, which is one that has committed something.

        Of a group of one, that is its voter: a clone leads for as long as it takes to cede.
        """
        member = self.member
        if member is None:
            return None
        leader, leading = member.election.leader, member.leading
        has_committed = member.state.commit > 0 if leading is None else leading.is_ready
        is_its = not self._manner.is_single or leader in member.journal.voters.current
        return leader if has_committed and is_its else None

    @property
    def is_served(self) -> bool:
        """True if a leader serves this replica."""
        return self.server is not None

    @property
    def voters(self) -> Voters:
        """The voters in force, as far as this replica knows."""
        return () if self.member is None else self.member.journal.voters.current

    def is_voter(self, member: MemberId) -> bool:
        """Tell whether a member is a voter in force, or may be one by its declared name."""
        return member.name in self.roster.declared or member in self.voters

    @property
    def epoch_ns(self) -> int:
        """When the group's elapsed time was nought, as a time of Unix."""
        times = NO_TIMES if self.member is None else self.member.state.clock.times
        return times.stamp_ns - times.elapsed_ns

    def shows(self, outcome: Outcome) -> bool:
        """Tell whether readers here see what came of a request."""
        return True

    def members(self) -> list[MemberStatus]:
        """Give what a leader knows of all members; nothing elsewhere."""
        return [] if self.member is None else self.member.members()

    def explain(self) -> str:
        """Say in a sentence why no leader serves this replica."""
        if self.bar.text is not None:
            return self.bar.text
        if self.group is None:
            return self.roster.explain_founding(is_founder=self._manner.is_founder)
        if self.member is not None and self.member.election.is_passed_over:
            return f"a lead was taken by force, and its leader is not heard: start it, or {FORCE}"
        if (arriving := self.explain_arrival()) is not None:
            return arriving
        if self.is_served:
            return "the leader is there, and waits for the disks of a majority"
        if self.leader is not None and not self.voters:
            return f"{self.leader.name} leads, and nothing of its journal has come yet"
        return self.roster.explain_silence(self.voters)

    def explain_arrival(self) -> str | None:
        """Say in a sentence that a snapshot is on its way here, if one is."""
        parts = None if self.member is None else self.member.snapshot_parts
        if parts is None or self.leader is None:
            return None
        return f"it takes a snapshot of {self.leader.name}: {parts[0]} of {parts[1]} parts are here"

    # -- what it says ----------------------------------------------------------------------------

    def read(self, payload: bytes) -> Letter:
        """Read a letter; raises ``DecodeError``."""
        return self._codec.decode(payload)

    def write(self, content: Message | Word) -> Iterable[bytes]:
        """Write a letter of this replica's."""
        return self._codec.encode(self.own, self.group, content)

    def send(self, to: MemberId, content: Message | Word) -> None:
        """Send a letter to a member; it is dropped where the member's endpoint is unknown."""
        where = self.roster.endpoint_of(to)
        if where is not None:
            self.send_to(where, content)

    def send_to(self, where: EndpointId, content: Message | Word) -> None:
        """Send a letter to an endpoint."""
        for payload in self.write(content):
            self._effects.append(Unicast(where, payload))

    def send_outside(self, where: EndpointId, content: Message | Word) -> None:
        """Send a letter to a proxy, which does not hear the group's topic."""
        for payload in self.write(content):
            self._effects.append(ToProxy(where, payload))

    def send_all(self, content: Message | Word) -> None:
        """Send a letter to all that hear the group's topic."""
        for payload in self.write(content):
            self._effects.append(Multicast(payload))

    def tell(self, *effects: ReplicaEffect) -> None:
        """Have the driver do this."""
        self._effects += effects

    def tell_news(self, news: News, text: str) -> None:
        """Have a person know of this."""
        self._effects.append(Told(news, text))

    def take(self) -> list[ReplicaEffect]:
        """Give what was told, once."""
        effects, self._effects = self._effects, []
        return effects
