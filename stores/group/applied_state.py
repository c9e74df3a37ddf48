"""The committed part of a journal, and the machine that has applied it."""

from __future__ import annotations

from stores.group.clock import GroupClock, Times
from stores.group.effects import Snapshot
from stores.group.entries import ActionEntry, VotersEntry
from stores.group.journal import Journal
from stores.group.machine import Machine
from stores.group.positions import Position


class CannotApply(Exception):
    """A committed entry does not go with the state here: its leader, or this member, is at fault.

    The replica ends with it, and no other. To leave the entry out would be to differ in silence.
    """


class AppliedState:
    """A machine beside its journal. What is committed is applied at once, in order."""

    def __init__(self, journal: Journal, machine: Machine, applied: int, times: Times) -> None:
        """Take a machine that has applied all up to ``applied``, at those times of the group."""
        assert journal.floor.index <= applied <= journal.end_index, (journal, applied)
        self.journal = journal
        self.machine = machine
        self.clock = GroupClock(times)
        self.commit = applied
        """All entries up to it are committed, and applied here."""

    @property
    def is_voters_committed(self) -> bool:
        """True if the voters in force are known to stay so."""
        return self.journal.voters.changed_at <= self.commit

    def advance(self, commit: int) -> dict[int, object]:
        """Apply what is committed now, and give the answers of actions by index.

        Raises ``CannotApply``.
        """
        answers: dict[int, object] = {}
        while self.commit < commit:
            index = self.commit + 1
            entry = self.journal.entry(index)
            if isinstance(entry, ActionEntry):
                position = Position(entry.term, index)
                try:
                    answers[index] = self.machine.apply(position, entry.body)
                except Exception as error:
                    raise CannotApply(
                        f"entry {position} of the journal does not go with what is here: {error!r}"
                    ) from error
            elif not isinstance(entry, VotersEntry):
                self.clock.hear(entry.times)
            self.commit = index
        return answers

    def stage_all(self) -> None:
        """Have later requests judged with all entries of the journal, committed or not."""
        for index in range(self.commit + 1, self.journal.end_index + 1):
            entry = self.journal.entry(index)
            if isinstance(entry, ActionEntry):
                self.machine.stage(Position(entry.term, index), entry.body)

    def freeze(self, after: int = 0) -> Snapshot:
        """Give the state as it is now, for a member that has the entries up to ``after``."""
        voters, dismissed = self.journal.voters.at(self.commit)
        position = self.journal.position(self.commit)
        parts = self.machine.freeze(after)
        return Snapshot(position, voters, self.clock.times, parts, after, dismissed)

    def install(self, snapshot: Snapshot) -> None:
        """Replace machine and journal; what was committed here is in the snapshot.

        Raises ``DecodeError`` for parts that the machine does not know; then nothing has changed.
        """
        assert snapshot.position.index >= self.commit, (snapshot.position, self.commit)
        self.machine.install(snapshot.parts)
        self.journal.install(snapshot)
        self.clock.hear(snapshot.times)
        self.commit = snapshot.position.index

    def truncate(self, index: int) -> None:
        """Drop the entries above an index, none of which is committed."""
        assert index >= self.commit, (index, self.commit, self.journal)
        self.journal.truncate(index)
