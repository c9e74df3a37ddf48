"""What survives a member: its ballot, the journal with the machine's state, older copies of both.

Writes count once their sync is over. A power cut takes back, or tears, what has had none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from stores.group.ballot import NEW_SLOTS, Slot, new_promises
from stores.group.effects import Persist, Promises
from stores.group.member_parts import Stored
from stores.group.positions import START, MemberId, Position
from tests.stores.group.lists import Lists


class File(NamedTuple):
    """The journal's file: what it begins after, the entries, and the machine up to ``applied``."""

    floor: Position
    voters: tuple[MemberId, ...]
    entries: tuple
    applied: int
    parts: tuple
    dismissed: tuple[str, ...] = ()

    @property
    def end(self) -> Position:
        term = self.entries[-1].term if self.entries else self.floor.term
        return Position(term, self.floor.index + len(self.entries))

    def persist(self, write: Persist) -> File:
        file = self
        if write.snapshot is not None:
            snapshot = write.snapshot
            index = snapshot.position.index
            parts = Lists.whole(snapshot.parts)
            place = snapshot.position, snapshot.voters
            file = File(*place, (), index, parts, snapshot.dismissed)
        kept = file.entries[: write.keep - file.floor.index]
        assert write.keep >= file.floor.index
        assert len(kept) == write.keep - file.floor.index, "a hole in the journal"
        return file._replace(entries=(*kept, *write.entries))


def empty_file(voters=()):
    return File(START, tuple(voters), (), 0, tuple(Lists().freeze()))


@dataclass
class Disk:
    member: MemberId
    file: File
    promises: Promises = None
    slots: list[Slot | None] = field(default_factory=lambda: list(NEW_SLOTS))
    synced_slots: list[Slot | None] = field(default_factory=lambda: list(NEW_SLOTS))
    truth: Position = START
    """How far the journal was durable: for the checks alone, which know what marks forget."""
    copies: list[File] = field(default_factory=list)
    """Older files of this member, which may come back."""

    def __post_init__(self):
        self.promises = self.promises or new_promises(self.member)

    def stored(self) -> Stored:
        """Read all, after a sync."""
        self.synced_slots = list(self.slots)
        file = self.file
        place = file.floor, file.voters, file.entries, file.applied
        return Stored(self.promises, tuple(self.slots), *place, dismissed=file.dismissed)

    @property
    def mark(self) -> Position | None:
        readable = [slot for slot in self.slots if slot is not None]
        return max(readable, key=lambda slot: slot.number).mark if readable else None

    def write_mark(self, effect):
        self.slots[effect.slot] = Slot(effect.number, effect.mark)

    def power_cut(self, random):
        """Have each slot that was not synced new, old or torn."""
        for i, (new, old) in enumerate(zip(self.slots, self.synced_slots, strict=True)):
            if new != old:
                self.slots[i] = random.choice((new, old, None))

    def keep_copy(self):
        self.copies.append(self.file)
        del self.copies[:-6]

    @property
    def is_regressed(self):
        mark = self.mark
        is_behind = mark is None or mark > self.file.end or self.truth > self.file.end
        return not self.promises.is_whole or is_behind
