"""Does what a replica's member asks: letters leave, writes reach the disk in their order. Pure.

Effects of one step leave before the writes of a replica in memory count as done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from stores.group import effects as grouped
from stores.group.member import Member
from stores.replica.effects import Begin, ReplicaEffect
from stores.replica.facts import ReplicaMachine
from stores.replica.kept import KeptJournal
from stores.replica.standing import Standing
from stores.replica.write_queue import Keeper, Write, WriteQueue

COMPACT_TICKS: Final = 10
"""Ticks between two looks at what the journal of a replica in memory may forget."""


class Carrier:
    """The hands of one replica."""

    def __init__(
        self,
        standing: Standing,
        hear: Callable[[grouped.Effect], None],
        begun: Callable[[Begin], None],
        machine: ReplicaMachine,
        floor: int,
    ) -> None:
        """Let ``hear`` know what is for no other one, and call ``begun`` once that is stored.

        ``floor`` is where the stored journal begins.
        """
        self.keeper: Keeper | None = None
        """What follows the machine's changes for the file, if there is one."""
        self._standing = standing
        self._hear = hear
        self._begun = begun
        self._machine = machine
        self._kept = KeptJournal()
        self._floor = floor
        self._queue = WriteQueue()
        self._is_carrying = self._has_answered = False
        self._ticks = 0

    def carry_out(self, effects: Iterable[grouped.Effect]) -> None:
        """Do what the member asks, and what follows from that at once."""
        was_carrying, self._is_carrying = self._is_carrying, True
        self._do(effects)
        self._is_carrying = was_carrying
        while not was_carrying and (write := self._queue.take_instant()) is not None:
            self._wrote(write)

    def begin(self, begin: Begin) -> None:
        """Have noted of which group the replica is."""
        self._to_disk(begin)
        if not self._is_carrying:
            self.carry_out(())

    def use(self, keeper: Keeper, floor: int) -> None:
        """Write to a file from now on, whose journal begins at ``floor``."""
        self.keeper, self._floor = keeper, floor

    def restart(self) -> None:
        """Forget the journal of a replica in memory."""
        self._floor = 0

    def end_step(self) -> None:
        """Tell others what is committed if one of them has an answer by this step.

        It may look at any member now. Callers that are here ask anew in this turn, as a rule.
        """
        has_answered, self._has_answered = self._has_answered, False
        if has_answered:
            self.end_turn()

    def end_turn(self) -> None:
        """Tell others what is committed, if no entry has told them."""
        member = self._standing.member
        if member is not None and (effects := member.settle()):
            self.carry_out(effects)

    @property
    def is_writing(self) -> bool:
        """True while the disk has something to do."""
        return self._queue.is_writing

    def persisted(self, token: int) -> ReplicaEffect | None:
        """Take note that the write under way is on the disk; gives the next one."""
        self._wrote(self._queue.written(token))
        member = self._standing.member
        durable = 0 if member is None else member.journal.durable
        return self._queue.next(self.keeper, durable)

    def tend_journal(self, member: Member) -> None:
        """Let a tick pass: rows follow the journal, and what of it is needed no more is dropped."""
        self._ticks += 1
        machine = self._machine
        kept = self._kept.tick(member.state.commit, machine.traffic, machine.memory_size)
        member.excessive = kept.excessive
        if self.keeper is not None:
            self.keeper.tick(member, kept.unneeded)
            if (rows := self._queue.put_rows(self.keeper, member.journal.durable)) is not None:
                self._standing.tell(rows)
        elif self._ticks % COMPACT_TICKS == 0:
            member.compact(kept.unneeded)

    def _to_disk(self, write: Write) -> None:
        first = self._queue.put(write, self.keeper)
        if first is not None:
            self._standing.tell(first)

    def _wrote(self, write: Write | None) -> None:
        if isinstance(write, Begin):
            self._begun(write)
            return
        member = self._standing.member
        assert member is not None, write
        match write:
            case grouped.Persist(token=token):
                self.carry_out(member.persisted(token))
            case grouped.StageParts(token=token):
                self.carry_out(member.parts_staged(token))
            case grouped.SavePromises(token=token):
                self.carry_out(member.promises_saved(token))
            case grouped.SyncMarks(number=number):
                self.carry_out(member.marks_synced(number))
            case None:
                pass

    def _do(self, effects: Iterable[grouped.Effect]) -> None:
        for effect in effects:
            match effect:
                case grouped.Send(to=to, message=message):
                    self._standing.send(to, message)
                case grouped.Broadcast(message=message):
                    self._standing.send_all(message)
                case grouped.Committed(last=last):
                    self._look_at_floor(last)
                case grouped.Replied(caller=(asker, _)):
                    self._has_answered = self._has_answered or asker is not None
                    self._hear(effect)
                case grouped.Persist() | grouped.StageParts():
                    self._to_disk(effect)
                case grouped.SavePromises() | grouped.SyncMarks():
                    self._to_disk(effect)
                case grouped.WriteMark():
                    if self.keeper is not None:
                        self._standing.tell(effect)
                case _:
                    self._hear(effect)

    def _look_at_floor(self, last: int) -> None:
        """Notice that the commit was a snapshot: then the journal begins behind it."""
        member = self._standing.member
        if self.keeper is not None and member is not None:
            floor = member.journal.floor.index
            if floor == last > self._floor:
                self.keeper.restart(last)
            self._floor = floor
