"""When what is small of a log follows its journal into the file, and what that is. Pure.

The runs are in the file as soon as the journal is. So a checkpoint has no entries in it: it is one
commit, of the state at one position.
"""

from __future__ import annotations

from typing import Final

from stores.disk.lazy_rows import Books, Checkpoint
from stores.group.member import Member
from stores.log.machine import LogMachine
from stores.replica.logs.parts import kept_starts

CHECKPOINT_TICKS: Final = 10
"""Ticks between two checkpoints: in a second most cursors of a busy log move several times."""

CHECKPOINT_ENTRIES: Final = 5_000
"""Entries after which one is due at once: a restart applies about as many."""


class BookKeeper:
    """Follows a log's machine, for its file."""

    is_behind: Final = False
    """True never: a checkpoint is one commit, and new entries need not wait for it."""

    def __init__(self, machine: LogMachine, applied: int) -> None:
        """Start with a file that has the machine's state at ``applied``."""
        machine.use_file()
        self._machine = machine
        self._applied = applied
        self._books: Books | None = None
        self._ticks = 0

    def take(self, durable: int) -> Books | None:
        """Give a checkpoint that is due, once; it is of what is ``durable`` when it is written."""
        books, self._books = self._books, None
        assert books is None or books.checkpoint.applied.index <= durable, (books, durable)
        return books

    def tick(self, member: Member, floor: int) -> None:
        """Make a checkpoint, if one is due; the journal may begin at ``floor`` with it."""
        self._ticks += 1
        commit, journal = member.state.commit, member.journal
        new = commit - self._applied
        is_due = new >= CHECKPOINT_ENTRIES or self._ticks >= CHECKPOINT_TICKS
        if not is_due or self._books is not None or journal.durable < commit:
            return
        self._ticks = 0
        before = journal.floor.index
        if member.compact(floor) == before and not new:
            return
        self._applied = commit
        voters, dismissed = journal.voters.at(journal.floor.index)
        point = Checkpoint(
            journal.position(commit),
            member.state.clock.times,
            journal.floor,
            voters,
            dismissed=dismissed,
        )
        machine = self._machine
        machine.release(journal.floor.index)
        starts = kept_starts(member, machine.partitions.starts())
        producers = machine.take_producers()
        self._books = Books(point, machine.beside_rows(), starts, producers)

    def restart(self, applied: int) -> None:
        """Forget what is due: a snapshot was installed, and all of it goes to the file at once."""
        self._books = None
        self._applied = applied
        self._machine.release(applied)
