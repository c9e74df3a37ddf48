"""How a snapshot travels: in parts, of which a few are under way at a time."""

from __future__ import annotations

from typing import Final

from stores.group.effects import Snapshot
from stores.group.messages import SnapshotHead, SnapshotPart

WINDOW_PARTS: Final = 8
"""Parts under way: 2 MiB, as much as a link takes in a tick or two."""

RESEND_TICKS: Final = 3
"""Ticks without progress after which the parts under way are sent again."""


class SnapshotSending:
    """A leader's side, for one session of one follower."""

    def __init__(self, snapshot: Snapshot, term: int, session: int) -> None:
        """Send a state that was frozen for this session, or shared with others."""
        self.snapshot = snapshot
        self._term = term
        self._session = session
        self._acknowledged = 0
        self._sent = 0
        self._idle_ticks = 0

    @property
    def head(self) -> SnapshotHead:
        """What is sent ahead of the parts."""
        snapshot = self.snapshot
        count = len(snapshot.parts)
        place = snapshot.position, snapshot.voters, snapshot.times
        return SnapshotHead(*place, count, snapshot.after)

    @property
    def is_done(self) -> bool:
        """True if the follower has all parts."""
        return self._acknowledged == len(self.snapshot.parts)

    def acknowledge(self, count: int) -> list[SnapshotPart]:
        """Learn how many parts the follower has, and give those to send next."""
        if self._acknowledged < count <= len(self.snapshot.parts):
            self._acknowledged, self._idle_ticks = count, 0
            self._sent = max(self._sent, count)
        return self.more()

    def more(self) -> list[SnapshotPart]:
        """Give the parts that have room in the window."""
        end = min(self._acknowledged + WINDOW_PARTS, len(self.snapshot.parts))
        numbers = range(self._sent, end)
        self._sent = max(self._sent, end)
        return [
            SnapshotPart(self._term, self._session, number, self.snapshot.parts[number])
            for number in numbers
        ]

    def tick(self) -> list[SnapshotPart]:
        """Let a tick pass, and give what seems to be lost."""
        self._idle_ticks += 1
        if self._idle_ticks < RESEND_TICKS:
            return []
        self._idle_ticks, self._sent = 0, self._acknowledged
        return self.more()


class SnapshotReceiving:
    """A follower's side. Parts out of order are dropped: they are sent again."""

    def __init__(self, head: SnapshotHead, end: int) -> None:
        """Wait for the parts; ``end`` is where the leader's journal ended."""
        self.head = head
        self.end = end
        self.parts: list[object] = []
        self.idle_ticks = 0

    def receive(self, number: int, part: object) -> bool:
        """Take the next part in; tells whether this was it."""
        if number != len(self.parts) or number >= self.head.part_count:
            return False
        self.parts.append(part)
        self.idle_ticks = 0
        return True

    @property
    def snapshot(self) -> Snapshot | None:
        """The whole, once it is here."""
        head = self.head
        if len(self.parts) < head.part_count:
            return None
        parts = tuple(self.parts)
        return Snapshot(head.position, head.voters, head.times, parts, head.after)
