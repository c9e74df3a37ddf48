"""How a snapshot travels: in parts, of which a few are under way at a time."""

from __future__ import annotations

from typing import Final

from stores.group.effects import Snapshot, StageParts
from stores.group.messages import SnapshotHead, SnapshotPart

WINDOW_PARTS: Final = 8
"""Parts under way: 2 MiB, as much as a link takes in a tick or two."""

RESEND_TICKS: Final = 3
"""Ticks without progress after which the parts under way are sent again."""


KEPT_TICKS: Final = 600
PART_TICKS: Final = 4
"""Ticks for a snapshot, and for each of its parts, after which a leader keeps nothing for it that
it would let go otherwise: a minute, and 640 KiB a second. One that takes longer may begin anew."""


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
        self._ticks = 0

    @property
    def head(self) -> SnapshotHead:
        """What is sent ahead of the parts."""
        snapshot = self.snapshot
        count = len(snapshot.parts)
        place = snapshot.position, snapshot.voters, snapshot.times
        return SnapshotHead(*place, count, snapshot.after, snapshot.dismissed)

    @property
    def is_in_time(self) -> bool:
        """True while it is as fast as may be expected: so long what is in it is kept for it."""
        return self._ticks <= KEPT_TICKS + len(self.snapshot.parts) * PART_TICKS

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
        self._ticks += 1
        self._idle_ticks += 1
        if self._idle_ticks < RESEND_TICKS:
            return []
        self._idle_ticks, self._sent = 0, self._acknowledged
        return self.more()


class SnapshotReceiving:
    """A follower's side. Parts out of order are dropped: they are sent again.

    What the machine does not keep goes to the disk, a few parts at a time, and is acknowledged once
    it is there: so no more of it is in memory than is under way.
    """

    def __init__(self, head: SnapshotHead, end: int) -> None:
        """Wait for the parts; ``end`` is where the leader's journal ended."""
        self.head = head
        self.end = end
        self.idle_ticks = 0
        self.count = 0
        """Parts that are acknowledged."""
        self._parts: list[object] = []
        self._unstaged: list[object] = []
        self._staging: int | None = None
        """Parts that are there once the write under way is done."""
        self._has_staged = False

    def takes(self, number: int) -> bool:
        """Tell whether a part is the next one, and no more are under way than there may be."""
        is_next = number == len(self._parts) < self.head.part_count
        return is_next and number < self.count + WINDOW_PARTS

    def take(self, part: object, kept: object) -> None:
        """Take the next part in, of which the machine keeps something, or all of it."""
        self._parts.append(kept)
        self.idle_ticks = 0
        if kept is not part:
            self._unstaged.append(part)
        self._count()

    def next_staged(self, token: int) -> StageParts | None:
        """Start the next write, if there is something to write and none is under way."""
        if not self._unstaged or self._staging is not None:
            return None
        parts, self._unstaged = tuple(self._unstaged), []
        is_first, self._has_staged = not self._has_staged, True
        self._staging = len(self._parts)
        return StageParts(token, is_first, parts)

    def staged(self) -> None:
        """Learn that the write is done."""
        assert self._staging is not None, self.head
        self.count, self._staging = self._staging, None
        self.idle_ticks = 0
        self._count()

    def tick(self) -> None:
        """Let a tick pass. A disk that is slow is waited for."""
        if self._staging is None:
            self.idle_ticks += 1

    @property
    def snapshot(self) -> Snapshot | None:
        """The whole, once it is here."""
        head = self.head
        if self.count < head.part_count:
            return None
        parts = tuple(self._parts)
        return Snapshot(head.position, head.voters, head.times, parts, head.after, head.dismissed)

    def _count(self) -> None:
        if self._staging is None and not self._unstaged:
            self.count = len(self._parts)
