"""The journal of one member: entries by index, their terms, and what of it is on the disk.

It is the channel's backlog, too: a leader sends again out of it what a follower lacks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stores.group.effects import Persist, Snapshot
from stores.group.entries import ActionEntry, Entry, VotersEntry
from stores.group.limits import WRITE_CHANGES, WRITE_ENTRIES, WRITE_SIZE
from stores.group.positions import Dismissed, Position, Voters
from stores.group.quorum import VoterHistory


class Measures(Protocol):
    """Says how much an action is: see ``Machine``."""

    def size_of(self, body: object) -> int:
        """Give its bytes."""

    def changes_of(self, body: object) -> int:
        """Count what it changes."""


@dataclass(slots=True)
class _Write:
    """A write under way: all up to ``limit`` is durable once it is done."""

    token: int
    limit: int


class Journal:
    """Entries above a floor. What lies below it is in the machine's state alone.

    One write is under way at a time, so that all that comes meanwhile shares the next fsync.
    """

    def __init__(
        self,
        floor: Position,
        voters: Voters,
        entries: Iterable[Entry] = (),
        *,
        is_volatile: bool = False,
        dismissed: Dismissed = (),
    ) -> None:
        """Hold what the disk has: ``voters`` and ``dismissed`` are those in force at the floor.

        One that ``is_volatile`` has no disk: what is appended is as durable as it ever gets.
        """
        self.is_volatile = is_volatile
        self.floor = floor
        """The last entry that it does not hold."""
        self.end_index = floor.index
        """The index of the last entry."""
        self._entries: list[Entry] = []
        # Where each term begins. The floor stands for its own term.
        self._terms = [floor]
        self.voters = VoterHistory(floor.index, voters, dismissed)
        self._write: _Write | None = None
        self._token = 0
        self._installing: Snapshot | None = None
        self._has_cut = False
        for entry in entries:
            self.append(entry)
        self.durable = self._stored = self.end_index

    def __repr__(self) -> str:
        """Show in one line where it begins and ends, and how much is durable."""
        return f"<Journal floor={self.floor!s} end={self.end} durable={self.durable}>"

    # -- what is in it ---------------------------------------------------------------------------

    @property
    def end(self) -> Position:
        """The last entry, durable or not."""
        return Position(self._terms[-1].term, self.end_index)

    @property
    def end_term(self) -> int:
        """The term of the last entry."""
        return self._terms[-1].term

    def term_at(self, index: int) -> int:
        """Give the term of the entry at an index between floor and end."""
        assert self.floor.index <= index <= self.end_index, (index, self)
        if index >= self._terms[-1].index:
            return self._terms[-1].term
        return self._terms[bisect_right(self._terms, index, key=lambda begin: begin.index) - 1].term

    def position(self, index: int) -> Position:
        """Give the full name of the entry at an index between floor and end."""
        return Position(self.term_at(index), index)

    def entry(self, index: int) -> Entry:
        """Give the entry at an index above the floor."""
        assert index > self.floor.index, (index, self)
        return self._entries[index - self.floor.index - 1]

    @property
    def first_sequence(self) -> int:
        """The index of the first entry that it holds, or of the next one."""
        return self.floor.index + 1

    def payloads(self, first: int, last: int) -> Sequence[Entry]:
        """Give the entries from ``first`` to ``last``."""
        assert first > self.floor.index, (first, self)
        return self._entries[first - self.floor.index - 1 : last - self.floor.index]

    # -- what two journals have in common --------------------------------------------------------

    def ends(self) -> tuple[Position, ...]:
        """Give where each term ends, the floor's first: enough to compare two journals by."""
        lasts = [begin.index - 1 for begin in self._terms[1:]] + [self.end_index]
        return tuple(
            Position(begin.term, last) for begin, last in zip(self._terms, lasts, strict=True)
        )

    def agreed(self, ends: Sequence[Position]) -> int:
        """Give the last index that this journal shares with the one of these ends.

        Entries of one term stand in one order everywhere, after the same entries. So two journals
        are equal up to where the latest term that both have ends in the shorter one.
        """
        mine = {end.term: end.index for end in self.ends()}
        for end in reversed(ends):
            if end.term in mine:
                return min(end.index, mine[end.term])
        return 0

    # -- changes ---------------------------------------------------------------------------------

    def append(self, entry: Entry) -> int:
        """Add an entry, and give its index."""
        last_term = self._terms[-1].term
        assert entry.term >= last_term, (entry, self)
        self._entries.append(entry)
        self.end_index = index = self.end_index + 1
        if entry.term > last_term:
            self._terms.append(Position(entry.term, index))
        if isinstance(entry, VotersEntry):
            self.voters.append(index, entry.voters, entry.dismissed)
        return index

    def pass_over(self, position: Position) -> None:
        """Go on after the next entry without keeping it, or any: the machine has applied it."""
        assert self.is_volatile, self
        assert position.index == self.end_index + 1, (position, self)
        self._entries.clear()
        self.floor = position
        self._terms = [position]
        self.voters.compact(position.index)
        self.durable = self.end_index = position.index

    def truncate(self, index: int) -> None:
        """Drop all entries above an index: they were never committed."""
        assert index >= self.floor.index, (index, self)
        del self._entries[index - self.floor.index :]
        self.end_index = index
        while self._terms[-1].index > index:
            del self._terms[-1]
        self.voters.truncate(index)
        self._forget_durable(index)
        self._has_cut = True

    def install(self, snapshot: Snapshot) -> None:
        """Replace all by a snapshot; the journal goes on after it."""
        self.floor = snapshot.position
        self.end_index = snapshot.position.index
        self._entries.clear()
        self._terms = [snapshot.position]
        self.voters = VoterHistory(snapshot.position.index, snapshot.voters, snapshot.dismissed)
        self._forget_durable(0)
        self._installing = snapshot

    def compact(self, index: int) -> None:
        """Forget the entries up to an index, which the machine has applied and keeps for itself."""
        assert self.floor.index <= index <= self.durable, (index, self)
        floor = self.position(index)
        del self._entries[: index - self.floor.index]
        self.floor = floor
        self._terms = [floor, *(begin for begin in self._terms if begin.index > index)]
        self.voters.compact(index)

    # -- the disk --------------------------------------------------------------------------------

    def keep(self) -> bool:
        """Count all as durable, where there is no disk; tells whether any of it is new."""
        end = self.end_index
        if not self.is_volatile or (self._installing is None and self.durable == end):
            return False
        self.durable, self._installing = end, None
        return True

    @property
    def writing(self) -> int | None:
        """The token of the write under way, if there is one."""
        return None if self._write is None else self._write.token

    def next_write(self, machine: Measures) -> Persist | None:
        """Start the next write, if there is something to write and none is under way.

        The ``machine`` says how much an action is.
        """
        end = self.end_index
        is_clean = self._stored == end and not self._has_cut and self._installing is None
        if is_clean or self._write is not None or self.is_volatile:
            return None
        self._token += 1
        first = max(self._stored, self.floor.index) + 1
        entries = self._written_next(first, machine)
        end = first - 1 + len(entries)
        write = Persist(self._token, self._installing, first - 1, entries)
        self._write = _Write(self._token, end)
        self._stored, self._has_cut, self._installing = end, False, None
        return write

    def _written_next(self, first: int, machine: Measures) -> tuple[Entry, ...]:
        """Give the entries from ``first`` that share a write: one at least, if there is one."""
        changes, size, entries = 0, 0, self.payloads(first, first - 1 + WRITE_ENTRIES)
        for count, entry in enumerate(entries):
            if isinstance(entry, ActionEntry):
                changes += machine.changes_of(entry.body)
                size += machine.size_of(entry.body)
            if count and (changes > WRITE_CHANGES or size > WRITE_SIZE):
                return tuple(entries[:count])
        return tuple(entries)

    def persisted(self, token: int) -> None:
        """Learn that a write is on the disk."""
        assert self._write is not None, token
        assert self._write.token == token, (token, self._write)
        self.durable = max(self.durable, self._write.limit)
        self._write = None

    def _forget_durable(self, index: int) -> None:
        """Count nothing above an index as stored; a write under way may bring what is cut here."""
        self.durable = min(self.durable, index)
        self._stored = min(self._stored, index)
        if self._write is not None:
            self._write.limit = min(self._write.limit, index)
