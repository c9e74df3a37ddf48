"""One replica of a log: its machine keeps runs of entries, and where consumers are. Pure.

What is read here is committed, at every member: a reader goes on at another one as it did here.
"""

from __future__ import annotations

from collections.abc import Sequence

from stores.group.clock import Moment
from stores.group.codec import GroupCodec
from stores.group.messages import Message, SnapshotPart
from stores.group.positions import MemberId
from stores.group.words import Word
from stores.log.bodies import ChangeRetention, check_asker
from stores.log.kept_runs import KeptRun
from stores.log.machine import LogMachine
from stores.log.messages import Answer
from stores.log.partitions import Retention
from stores.log.parts import PlacedPart
from stores.outcomes import Applied, Outcome
from stores.quota import Meter
from stores.replica.asked.outbox import Outbox
from stores.replica.beginning import Beginning, World
from stores.replica.core import GroupCore
from stores.replica.effects import ReplicaEffect
from stores.replica.logs.outbox import LogOutbox
from stores.replica.logs.parts import PartSender
from stores.replica.logs.readers import LogReaders
from stores.replica.logs.reading import RunReader
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
        self._has_begun = False
        self._shown = 0
        super().__init__(roster, machine, outbox, codec, beginning, world)
        self.reader = RunReader(self.tell)
        """Reads runs whose entries are in the file alone."""
        self._parts = PartSender(self, self.reader)

    def runs_read(self, token: int, found: Sequence[KeptRun]) -> list[ReplicaEffect]:
        """Take in the runs of a ``ReadRuns`` that are in the file, and can be read."""
        self.reader.were_read(token, found)
        return self._take()

    def runs_damaged(self, token: int, text: str) -> list[ReplicaEffect]:
        """Take note that the file cannot give the runs of a ``ReadRuns``.

        Another voter has them: it is to lead, or those that lack them would ask for ever. A leader
        without other voters goes on with what it can read.
        """
        if len(self.voters) > 1:
            return self.commit_failed(0, text)
        return self.runs_read(token, ())

    def send(self, to: MemberId, content: Message | Word) -> None:
        """Send a letter to a member; a part of a snapshot once all that is in it is here."""
        if isinstance(content, SnapshotPart) and isinstance(content.part, PlacedPart):
            self._parts.send(to, content, content.part)
        else:
            super().send(to, content)

    def _outsiders(self) -> LogReaders:
        self.readers = LogReaders(self, self._carry_out, self.machine)
        return self.readers

    def receive(self, sender: EndpointId, payload: bytes) -> list[ReplicaEffect]:
        """Take in a command; raises ``DecodeError``."""
        self._run_clock()
        return super().receive(sender, payload)

    def flush(self) -> list[ReplicaEffect]:
        """Propose what was asked."""
        if self.outbox.has_unsent:
            self._run_clock()
        return super().flush()

    def work(self) -> list[ReplicaEffect]:
        """Take a step of longer work, and propose what was asked; raises ``DecodeError``."""
        if self.outbox.has_unsent:
            self._run_clock()
        return super().work()

    def _run_clock(self) -> None:
        """Have entries bear the time at which they are taken: it may be asked for."""
        if self.member is not None:
            self.member.run_to(Moment(self._world.monotonic_ns(), self._world.now_ns()))

    def inherit(self, outbox: Outbox) -> None:
        """Take on what the handle of another one has asked for so far."""
        assert isinstance(outbox, LogOutbox), outbox
        self.requests = outbox.requests
        super().inherit(outbox)

    def share_quota(self, meter: Meter) -> list[ReplicaEffect]:
        """Go by the quota of several logs, until this core ends; for the one that leads."""
        self.machine.share(meter)
        self.look_at_quota()
        return self._take()

    def set_retention(self, retention: Retention) -> list[ReplicaEffect]:
        """Have the group keep what another rule says; only at its leader."""
        if self.member is not None:
            self._carry_out(self.member.propose((None, 0), ChangeRetention(retention)))
        return self._take()

    def was_read(self, endpoint: EndpointId, ticket: int, answer: Answer) -> list[ReplicaEffect]:
        """Give a proxy the answer to what ``ReadFor`` asked."""
        if not self._is_closed:
            self.readers.was_read(endpoint, ticket, answer)
        return self._take()

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
        end = 0 if self.member is None else self.member.journal.end_index
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
            trouble=self.trouble,
        )

    def _tick(self) -> None:
        self.readers.tick()

    def _notice(self) -> None:
        super()._notice()
        if self.is_leader and not self._has_begun and self.member is not None:
            # A log has its partitions as soon as it is led: nothing waits for the next tick.
            self._has_begun = True
            self._carry_out(self.member.do_due())

    def _show(self) -> None:
        if self.member is not None and self.member.state.commit != self._shown:
            self._shown = self.member.state.commit
            self.readers.look_again()
            self.look_at_quota()  # Others may share it.

    def _check_asker(self, request: object, sender: EndpointId) -> None:
        check_asker(request, sender)
