"""What is so at a replica of a group, for those who ask: counts, sizes, its role. Pure."""

from __future__ import annotations

from stores.effects import QuotaCrossed
from stores.group.codec import GroupCodec
from stores.group.effects import Effect, HistoryConflict, WholenessChanged
from stores.group.election import FORCED_TERMS
from stores.group.entries import ActionEntry
from stores.group.member import Member
from stores.group.positions import START, MemberId, Position
from stores.group.words import Aim
from stores.quota import Meter
from stores.replica.asked.outbox import Outbox
from stores.replica.beginning import Beginning
from stores.replica.effects import News
from stores.replica.roster import Roster
from stores.replica.standing import Standing
from stores.requests import Requests
from stores.statistics import ReplicaStatistics, StoreStatistics
from stores.table.bodies import Stamp
from stores.table.machine import TableMachine
from wire.identifiers import EntityId


class Facts(Standing):
    """A replica with its machine, as far as it is looked at."""

    def __init__(
        self,
        entity: EntityId,
        roster: Roster,
        codec: GroupCodec,
        machine: TableMachine,
        beginning: Beginning,
        now_ns: int,
    ) -> None:
        """Start as no member yet."""
        super().__init__(entity, roster, codec, beginning.group, Outbox(entity, now_ns))
        self.machine = machine
        self._manner = beginning.manner
        self.is_volatile = beginning.stored.is_volatile
        """True without a disk."""
        self._touched_ns = now_ns
        """When a leader served this replica last."""
        self.was_served = False
        """True once a leader has served this replica: it has a state that may be read."""
        self.is_deposed = False
        """True for a master in whose place a clone was promoted by force."""

    @property
    def requests(self) -> Requests:
        """What the handle asked for."""
        return self.outbox.requests

    @property
    def is_served(self) -> bool:
        """True if this replica knows a leader that has committed something.

        Of a group of one, that is its voter: a clone leads for as long as it takes to cede.
        """
        is_voted = not self._manner.is_single or self.leader in self.voters
        return is_voted and super().is_served

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
        is_blank = not self.machine.revision and not any(
            isinstance(each, ActionEntry) for each in entries
        )
        return START if is_blank else journal.end

    @property
    def size(self) -> int:
        """Bytes of the keys and values."""
        return self.machine.size

    @property
    def epoch(self) -> int:
        """The term."""
        return 0 if self.member is None else self.member.ballot.term

    @property
    def meter(self) -> Meter:
        """What is used of the quota."""
        return self.machine.meter

    @property
    def revision(self) -> int:
        """How many mutations made what readers see."""
        return self.machine.revision

    @property
    def stamp(self) -> Stamp:
        """How far the state is that readers see."""
        state = None if self.member is None else self.member.state
        term = 0 if state is None else state.journal.term_at(state.commit)
        return Stamp(term, self.machine.revision)

    def observe(self, *, is_observed: bool) -> None:
        """Give each change as an effect, or do so no more."""
        self.machine.observer = self.tell if is_observed else None

    def has_room(self) -> bool:
        """Tell whether more may be asked."""
        return self.outbox.has_room

    def is_stale(self, now_ns: int) -> bool:
        """Tell whether no leader has served this replica for as long as reads are borne."""
        limit = self._manner.stale_ns
        return limit is not None and not self.is_served and now_ns - self._touched_ns >= limit

    def statistics(self) -> StoreStatistics:
        """Give a snapshot of counts."""
        quota, clones = self.machine.meter.quota, self._clones()
        end = 0 if self.member is None else self.member.journal.end.index
        return StoreStatistics(
            role=self._role,
            epoch=self.epoch,
            entries=len(self.machine),
            revision=self.machine.revision,
            is_in_touch=self.is_served,
            sequence=end,
            unacknowledged=max((end - (each.acknowledged or 0) for each in clones), default=0),
            unanswered=len(self.outbox),
            clones=clones,
            bytes=self.size,
            max_entries=quota.max_entries,
            max_bytes=quota.max_bytes,
        )

    def _clones(self) -> tuple[ReplicaStatistics, ...]:
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
        return is_master and term - self.epoch >= FORCED_TERMS

    @property
    def _role(self) -> str:
        if self._manner.is_single:
            return "master" if self.is_leader else "clone"
        return "leader" if self.is_leader else "replica"

    @property
    def missing_count(self) -> int:
        """How many entries a leader is known to have that are not here."""
        return 0 if self.member is None else self.member.missing_count

    def silent_ns(self, now_ns: int) -> int:
        """Give how long no leader has served this replica; it is known to a tick."""
        return 0 if self.is_served else max(0, now_ns - self._touched_ns)

    def look_at_quota(self) -> None:
        """Tell at the leader when the store comes close to its quota, or is well below it again."""
        level = self.machine.look_at_quota() if self.is_leader else None
        if level is not None:
            text = self.machine.meter.describe(len(self.machine), self.size)
            self.tell(QuotaCrossed(level, text))

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
