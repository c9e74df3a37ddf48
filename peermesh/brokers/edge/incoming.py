"""A subscriber's topics: which messages are new, which were missed, what the broker is told. Pure.

The same messages may come by two connections while a topic moves from the default channel to its
own, and once more from the next broker. The position within a channel tells the first apart, the
publisher's own numbers the second; a gap in those is what was missed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from peermesh.brokers.edge.messages import Attached, Taken, read_numbers
from peermesh.brokers.edge.subscription import WINDOW, WINDOW_BYTES, Line

PUBLISHERS_MAX: Final = 16_384
"""Publishers of a topic whose last number is remembered. The longest silent goes first."""

TAKEN_COUNT: Final = 1024
"""Messages after which a broker is told that they were taken, while there are more: a quarter of
its window."""


class Incoming:
    """One topic of a subscriber.

    What has come counts as taken while a window at most waits for the reader: it is here, whatever
    becomes of the broker. Beyond, and where only ``is_read`` counts, it is taken when it was read.
    """

    __slots__ = (
        "_incarnation", "_is_read", "_next", "_position", "_sequences", "_told", "asked",
        "duplicates",
        "is_full", "is_known", "missed", "received", "topic", "waiting", "waiting_bytes",
    )  # fmt: skip

    def __init__(self, topic: str, *, is_read: bool = False) -> None:
        self.topic = topic
        self.is_known = False
        """Whether a broker has ever known of this subscription."""
        self.received = self.duplicates = self.missed = 0
        self.waiting = self.waiting_bytes = 0
        """Messages that the reader has not taken yet, and their bytes."""
        self.is_full = False
        """Whether some of them do not count as taken."""
        self._is_read = is_read
        self._incarnation = ""
        self._position = self._told = 0
        self.asked: Line | None = None
        """The connection by which it was asked for last."""
        self._next: dict[Line, tuple[str, int]] = {}
        """By connection: the channel's incarnation, and the position of what comes next."""
        self._sequences: OrderedDict[bytes, int] = OrderedDict()

    def attached(self, line: Line, attached: Attached) -> int:
        """The channel begins to send by a connection; give how many messages were missed.

        None are, as far as this channel's positions go on where they were. Those of another one do
        not tell, but the numbers of publishers do: what a broker repeats may have come from the one
        before. Raises ``DecodeError``.
        """
        numbers, before = read_numbers(attached.numbers), attached.position - 1
        self.is_known = True
        self._next[line] = (attached.incarnation, attached.position)
        goes_on = attached.incarnation == self._incarnation and before <= self._position
        if attached.incarnation != self._incarnation:
            self._incarnation = attached.incarnation
            self._position = self._told = before
        self._position = max(self._position, before)
        self._told = min(self._told, before)  # What we told may not have arrived.
        gaps = (self._gap(name, last + 1) for name, last in numbers.items())
        missed = 0 if goes_on else sum(gaps)
        for name, last in numbers.items():
            # Where positions go on, the next message of a publisher tells what came before them.
            if not goes_on or name not in self._sequences:
                self._remember(name, last)
        self.missed += missed
        return missed

    @property
    def is_attached(self) -> bool:
        """Tell whether a channel sends it by a connection that stands."""
        return bool(self._next)

    def lose(self, line: Line) -> None:
        """A connection was lost."""
        self._next.pop(line, None)

    def receive(self, line: Line, publisher: bytes, sequence: int, count: int) -> tuple[int, int]:
        """Take note of consecutive messages, the first of which has the number ``sequence``.

        Gives how many of them, in front, came before, and how many were missed before the others.
        """
        if line not in self._next:  # From before the topic was unsubscribed.
            return self._skip(count, count), 0
        incarnation, position = self._next[line]
        self._next[line] = (incarnation, position + count)
        if incarnation != self._incarnation:
            return self._skip(count, count), 0
        skip = min(count, max(0, self._position + 1 - position))
        self._position += count - skip
        last = self._sequences.get(publisher)
        if last is not None:
            skip = max(skip, min(count, last + 1 - sequence))
        missed = self._gap(publisher, sequence + skip) if skip < count else 0
        self._remember(publisher, sequence + count - 1)
        self.missed += missed
        return self._skip(skip, count), missed

    def void(self, line: Line, publisher: bytes, sequence: int) -> None:
        """Numbers of a publisher up to one are no messages; to say so takes a position."""
        if line not in self._next:
            return
        incarnation, position = self._next[line]
        self._next[line] = (incarnation, position + 1)
        if incarnation == self._incarnation:
            self._position = max(self._position, position)
            if publisher in self._sequences:
                self._remember(publisher, sequence)

    def _gap(self, publisher: bytes, sequence: int) -> int:
        """Count the messages between a publisher's last one and this; none of an unknown one."""
        last = self._sequences.get(publisher)
        return 0 if last is None else max(0, sequence - last - 1)

    def _skip(self, skip: int, count: int) -> int:
        self.duplicates += skip
        self.received += count - skip
        return skip

    def _remember(self, publisher: bytes, sequence: int) -> None:
        self._sequences[publisher] = max(sequence, self._sequences.get(publisher, 0))
        self._sequences.move_to_end(publisher)
        if len(self._sequences) > PUBLISHERS_MAX:
            self._sequences.popitem(last=False)

    def keep(self, count: int, size: int) -> None:
        """So many messages, and bytes, wait for the reader."""
        self.waiting += count
        self.waiting_bytes += size
        self.is_full = self._unread() > 0

    def take(self, size: int) -> bool:
        """The reader took a message of so many bytes; tell whether that made room for others."""
        self.waiting -= 1
        self.waiting_bytes -= size
        if not self.is_full:
            return False
        self.is_full = self._unread() > 0
        return True

    @property
    def is_due(self) -> bool:
        """Tell whether ``report`` gives something."""
        unread = self._unread()
        count = self._position - unread - self._told
        return count > 0 and (not unread or count >= TAKEN_COUNT)

    def _unread(self) -> int:
        """Count the messages that do not count as taken."""
        room = 0 if self._is_read or self.waiting_bytes >= WINDOW_BYTES else WINDOW
        return max(0, self.waiting - room)

    def report(self) -> Taken | None:
        """Give what the broker is to be told, if it is time for that."""
        if not self.is_due:
            return None
        self._told = self._position - self._unread()
        return Taken(self.topic, self._incarnation, self._told)
