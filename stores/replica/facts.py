"""What is so at a replica of a group, for those who ask: counts, sizes, its role. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from stores.actions import WriterId
from stores.effects import QuotaCrossed
from stores.group.codec import GroupCodec
from stores.group.effects import Effect, HistoryConflict, WholenessChanged
from stores.group.entries import ActionEntry
from stores.group.machine import Machine
from stores.group.member import Member
from stores.group.positions import START, MemberId, Position
from stores.group.terms import is_of_another_lead
from stores.group.words import Aim
from stores.outcomes import Outcome
from stores.quota import Meter, QuotaLevel
from stores.replica.asked.outbox import Outbox
from stores.replica.beginning import Beginning, World
from stores.replica.effects import News
from stores.replica.roster import Roster
from stores.replica.standing import Standing
from stores.statistics import ReplicaStatistics
from wire.identifiers import EntityId

UNLED_NS: Final = 5_000_000_000
"""Some elections fit in it: what has no leader for so long needs a person, as a rule."""


class ReplicaMachine(Machine, Protocol):
    """What a replica asks of its machine, beside what its group does."""

    meter: Meter
    """What is used of the quota."""

    @property
    def used(self) -> tuple[int, int]:
        """Entries, and their bytes, as the quota counts them."""

    @property
    def memory_size(self) -> int:
        """Bytes of the state that are in memory."""

    @property
    def is_blank(self) -> bool:
        """True while nothing was applied that is worth keeping."""

    def outcomes_of(self, writer: WriterId, number: int, first: int) -> Sequence[Outcome]:
        """Give what became of a registered writer's requests from ``first`` on that are applied."""

    def look_at_quota(self) -> QuotaLevel | None:
        """Give how close it is to its quota, if that has changed; for a leader's events."""

    def tick(self) -> None:
        """Let one tick (100 ms) pass."""

    def restart_history(self) -> None:
        """Have those that follow changes begin anew: not all of the latest can be told."""

    def begin_anew(self) -> None:
        """Drop all."""


class Facts(Standing):
    """A replica with its machine, as far as it is looked at."""

    def __init__(
        self,
        roster: Roster,
        codec: GroupCodec,
        machine: ReplicaMachine,
        outbox: Outbox,
        beginning: Beginning,
        world: World,
    ) -> None:
        """Start as no member yet."""
        super().__init__(roster, codec, beginning, outbox)
        self._machine = machine
        self.outcomes_of = machine.outcomes_of
        """Gives what this replica itself knows of a writer's requests, by the writer's number."""
        self.is_volatile = beginning.stored.is_volatile
        """True without a disk."""
        self._world = world
        self._touched_ns = world.monotonic_ns()
        """When a leader served this replica last: a time of day may be set back."""
        self.was_served = False
        """True once a leader has served this replica: it has a state that may be read."""
        self.is_deposed = False
        """True for a master in whose place a clone was promoted by force."""
        self._was_dismissed = False
        self._is_unled = False

    @property
    def is_master(self) -> bool:
        """True if this replica is to be the one voter."""
        return self._manner.is_single and (bool(self.roster.declared) or self.own in self.voters)

    @property
    def is_fresh(self) -> bool:
        """True if it is to lead a store of its own, whatever clones hold."""
        return self._manner.aim is Aim.ANEW

    def held(self, made: Member | None = None) -> Position:
        """Give where the journal ends; the start while nothing in it is worth keeping.

        ``made`` is a member that has not started yet.
        """
        member = made or self.member
        if member is None:
            return START
        journal = member.journal
        entries = journal.payloads(
            max(member.state.commit, journal.floor.index) + 1, journal.end_index
        )
        is_blank = self._machine.is_blank and not any(
            isinstance(each, ActionEntry) for each in entries
        )
        return START if is_blank else journal.end

    @property
    def size(self) -> int:
        """Bytes of what it holds."""
        return self._machine.used[1]

    @property
    def epoch(self) -> int:
        """The term."""
        return 0 if self.member is None else self.member.ballot.term

    @property
    def meter(self) -> Meter:
        """What is used of the quota."""
        return self._machine.meter

    def has_room(self) -> bool:
        """Tell whether more may be asked."""
        return self.outbox.has_room

    def is_stale(self) -> bool:
        """Tell whether no leader has served this replica for as long as reads are borne."""
        limit = self._manner.stale_ns
        return limit is not None and not self.is_served and self.silent_ns() >= limit

    def copies(self) -> tuple[ReplicaStatistics, ...]:
        """Give what a leader knows of the other members that are in reach."""
        return tuple(
            ReplicaStatistics(where, each.match, each.silent_ticks)
            for each in self.members()
            if each.member != self.own and (where := self.roster.endpoint_of(each.member))
        )

    def _is_deposed_in(self, term: int) -> bool:
        """Tell whether a term that is heard of means that this master is deposed.

        Its one vote would take the lead again in a still later term, and depose the promoted one.
        """
        is_master = self._manner.is_single and self.voters == (self.own,)
        return is_master and is_of_another_lead(term, self.epoch)

    @property
    def _role(self) -> str:
        if self._manner.is_single:
            return self.outbox.words.leader if self.is_leader else self.outbox.words.copy
        return "leader" if self.is_leader else "replica"

    @property
    def trouble(self) -> str | None:
        """Why no leader serves this replica, or what it takes from it anew; ``None`` without."""
        arriving = self.explain_arrival()
        if self.is_served or arriving is not None:
            return arriving
        alone = f"its {self.outbox.words.leader} is not heard"
        return alone if self._manner.is_single else self.explain()

    @property
    def hears_majority(self) -> bool:
        """True if so many voters are heard here that they can elect a leader."""
        return self.roster.hears_majority(self.voters)

    @property
    def missing_count(self) -> int:
        """How many entries a leader is known to have that are not here."""
        return 0 if self.member is None else self.member.missing_count

    def silent_ns(self) -> int:
        """Give how long no leader has served this replica; it is known to a tick."""
        return 0 if self.is_served else self._world.monotonic_ns() - self._touched_ns

    def look_at_quota(self) -> None:
        """Tell at the leader when the store comes close to its quota, or is well below it again."""
        level = self._machine.look_at_quota() if self.is_leader else None
        if level is not None:
            text = self._machine.meter.describe(*self._machine.used)
            self.tell(QuotaCrossed(level, text))

    def look_at_lead(self, monotonic_ns: int) -> None:
        """Tell a voter, or one that is to be one, once that nothing leads it; and of the end."""
        if self.is_served:
            self._touched_ns = monotonic_ns
            if self._is_unled and self.leader is not None:
                self.tell_news(News.LED, f"{self.leader.name} leads")
            self._is_unled = False
        elif self.leader is not None or self._is_unled:
            return  # It takes a snapshot; or it was told.
        elif monotonic_ns - self._touched_ns >= UNLED_NS:
            is_voter = self.roster.wanted.wants(self.own.name) or self.own in self.voters
            if is_voter and not self._manner.is_single:
                self._is_unled = True
                self.tell_news(News.UNLED, f"it has no leader: {self.explain()}")

    def look_at_vote(self) -> None:
        """Tell a replica that is to be a voter, once, that a person took its vote."""
        member, name = self.member, self.own.name
        if member is None or not self.is_served or member.missing_count:
            return  # What is missing here may be that it was added since.
        if not member.state.is_voters_committed:
            return
        is_dismissed = name in member.journal.voters.dismissed
        if is_dismissed and not self._was_dismissed and self.roster.wanted.wants(name):
            text = f"{name} was removed: it keeps a copy, and votes again after add_voter({name!r})"
            self.tell_news(News.DISMISSED, text)
        self._was_dismissed = is_dismissed

    # -- what is told ----------------------------------------------------------------------------

    def entity_of(self, member: MemberId) -> EntityId:
        """Name a member as masters are named where one is found or lost."""
        if self._manner.is_single and member == self.own:
            return self.entity
        return EntityId(self.roster.endpoint_of(member) or self.entity.endpoint, 0)

    def tell_of(self, effect: Effect) -> None:
        """Have a person know of what became of this replica's history."""
        match effect:
            case WholenessChanged(is_whole=is_whole):
                news = News.WHOLE if is_whole else News.REGRESSED
                self.tell_news(news, news.value)
            case HistoryConflict():
                self.tell_news(News.CONFLICT, conflict_text(effect))
            case _:
                pass


def conflict_text(conflict: HistoryConflict) -> str:
    """Say what a leader and the replica here do not have in common."""
    return (
        f"the leader {conflict.leader.name} has entries up to {conflict.agreed} in common with this"
        f" replica, which has {conflict.kept} that may have been acknowledged, and keeps them"
    )
