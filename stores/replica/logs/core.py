"""One replica of a log: its machine keeps runs of entries, and where consumers are. Pure.

What is read here is committed, at every member: a reader goes on at another one as it did here.
"""

from __future__ import annotations

from stores.group.codec import GroupCodec
from stores.log.bodies import check_asker
from stores.log.machine import LogMachine
from stores.outcomes import Applied, Outcome
from stores.replica.beginning import Beginning, World
from stores.replica.core import GroupCore
from stores.replica.logs.outbox import LogOutbox
from stores.replica.roster import Roster
from stores.statistics import LogStatistics, lags_of
from wire.identifiers import EndpointId, EntityId


class LogCore(GroupCore):
    """A replica of a log at one endpoint."""

    def __init__(
        self,
        entity: EntityId,
        roster: Roster,
        machine: LogMachine,
        codec: GroupCodec,
        beginning: Beginning,
        world: World,
    ) -> None:
        """Start with what is stored, and with the declared names that the ``roster`` has."""
        self.machine = machine
        outbox = LogOutbox(entity, world.now_ns())
        self.requests = outbox.requests
        """What the handle asks with."""
        super().__init__(roster, machine, outbox, codec, beginning, world)

    def shows(self, outcome: Outcome) -> bool:
        """Tell whether readers here see what came of a request, an append or a cursor."""
        if not isinstance(outcome.result, Applied):
            return True
        return self.machine.has_done(self.outbox.writer, outcome.last_request)

    def statistics(self) -> LogStatistics:
        """Give a snapshot of counts."""
        machine, copies = self.machine, self.copies()
        entries, size = machine.used
        spans, quota = machine.partitions.spans(), machine.meter.quota
        end = 0 if self.member is None else self.member.journal.end.index
        return LogStatistics(
            role=self._role,
            epoch=self.epoch,
            is_in_touch=self.is_served,
            spans=spans,
            sequence=end,
            unacknowledged=max((end - (each.acknowledged or 0) for each in copies), default=0),
            unanswered=len(self.outbox),
            consumers=lags_of(machine.cursors, spans),
            followers=copies,
            entries=entries,
            bytes=size,
            max_entries=quota.max_entries,
            max_bytes=quota.max_bytes,
        )

    def _check_asker(self, request: object, sender: EndpointId) -> None:
        check_asker(request, sender)
