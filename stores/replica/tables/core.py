"""One replica of a store: its machine is a table, which is read, watched, and compared. Pure."""

from __future__ import annotations

from stores.group.codec import GroupCodec
from stores.group.positions import MemberId
from stores.group.words import Looked, Verdict, Verify
from stores.outcomes import Applied, Outcome
from stores.replica.asked.outbox import Outbox
from stores.replica.beginning import Beginning, World
from stores.replica.comparing import Comparing
from stores.replica.core import GroupCore
from stores.replica.effects import ReplicaEffect
from stores.replica.roster import Roster
from stores.replica.tables.outbox import TableOutbox
from stores.replica.tables.proxies import Proxies
from stores.statistics import StoreStatistics
from stores.table.bodies import Stamp, check_asker
from stores.table.machine import TableMachine
from wire.identifiers import EndpointId, EntityId


class TableCore(GroupCore):
    """A replica of a store at one endpoint."""

    def __init__(
        self,
        entity: EntityId,
        roster: Roster,
        machine: TableMachine,
        codec: GroupCodec,
        beginning: Beginning,
        world: World,
    ) -> None:
        """Start with what is stored, and with the declared names that the ``roster`` has."""
        self.machine = machine
        outbox = TableOutbox(entity, world.now_ns())
        self.requests = outbox.requests
        """What the handle asks with."""
        super().__init__(roster, machine, outbox, codec, beginning, world)
        self.comparing = Comparing(self, machine, self._carry_out)

    def _outsiders(self) -> Proxies:
        return Proxies(self, self._carry_out, self.machine, lambda: self.stamp)

    # -- what is so ------------------------------------------------------------------------------

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

    def shows(self, outcome: Outcome) -> bool:
        """Tell whether readers here see what came of a request."""
        result = outcome.result
        if not isinstance(result, Applied):
            return True
        last = result.revision + outcome.last_request - outcome.first_request
        return last <= self.machine.revision

    def statistics(self) -> StoreStatistics:
        """Give a snapshot of counts."""
        quota, clones = self.machine.meter.quota, self.copies()
        end = 0 if self.member is None else self.member.journal.end_index
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
            expiring=self.machine.count_expiring(),
            max_entries=quota.max_entries,
            max_bytes=quota.max_bytes,
            trouble=self.trouble,
        )

    def observe(self, *, is_observed: bool) -> None:
        """Give each change as an effect, or do so no more."""
        self.machine.telling.observe(self.tell if is_observed else None)

    # -- what is asked ---------------------------------------------------------------------------

    def begin_verify(self, token: int) -> list[ReplicaEffect]:
        """Compare what all members hold; ``Verified`` tells what came of it."""
        self.comparing.begin(token)
        return self._take()

    def inherit(self, outbox: Outbox) -> None:
        """Take on what the handle of another one has asked for so far."""
        assert isinstance(outbox, TableOutbox), outbox
        self.requests = outbox.requests
        super().inherit(outbox)

    # -- longer work -----------------------------------------------------------------------------

    def work(self) -> list[ReplicaEffect]:
        """Take a step of each, and look up a page; raises ``DecodeError``."""
        self.machine.telling.step()
        self.comparing.work()
        return super().work()

    # -- for the core ----------------------------------------------------------------------------

    _check_asker = staticmethod(check_asker)

    def _has_more(self) -> bool:
        """Tell it also while what is here is compared, or events are told."""
        return self.machine.has_steps or super()._has_more()

    def _tick(self) -> None:
        self.comparing.tick()

    def _show(self) -> None:
        if self.machine.telling.has_hidden and self._is_level:
            self.machine.reveal()

    def _on_comparison(
        self, sender: EndpointId, other: MemberId, word: Verify | Looked | Verdict
    ) -> None:
        self.comparing.hear(sender, other, word)
