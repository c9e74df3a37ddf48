"""What is so at a replica of a group, for those who ask: counts, sizes, its role. Pure."""

from __future__ import annotations

from stores.effects import QuotaCrossed
from stores.group.codec import GroupCodec
from stores.quota import Meter
from stores.replica.asked.outbox import Outbox
from stores.replica.beginning import Beginning
from stores.replica.roster import Roster
from stores.replica.standing import Standing
from stores.requests import Requests
from stores.statistics import StoreStatistics
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
        self._touched_ns = now_ns
        """When a leader served this replica last."""

    @property
    def requests(self) -> Requests:
        """What the handle asked for."""
        return self.outbox.requests

    @property
    def size(self) -> int:
        """Bytes of the keys and values."""
        return self.machine.size

    @property
    def has_work(self) -> bool:
        """False: nothing here takes long."""
        return False

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
        quota = self.machine.meter.quota
        return StoreStatistics(
            role=self._role,
            epoch=self.epoch,
            entries=len(self.machine),
            revision=self.machine.revision,
            is_in_touch=self.is_served,
            sequence=0 if self.member is None else self.member.journal.end.index,
            unanswered=len(self.outbox),
            bytes=self.size,
            max_entries=quota.max_entries,
            max_bytes=quota.max_bytes,
        )

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
