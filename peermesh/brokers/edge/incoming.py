"""A subscriber's topics: which messages are new, what the reader took, what was missed. Pure.

The same messages may come by two connections while a topic moves from the default channel to its
own, and once more from the next broker. The position within a channel tells the first apart, the
publisher's own numbers the second.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from peermesh.brokers.edge.channel import Line
from peermesh.brokers.edge.messages import Attached, Taken

PUBLISHERS_MAX: Final = 16_384
"""Publishers of a topic whose last number is remembered. The longest silent goes first."""

TAKEN_COUNT: Final = 1024
"""Messages after which the broker is told that they were taken: a quarter of its window."""


class Incoming:
    """One topic of a subscriber."""

    __slots__ = (
        "_incarnation", "_next", "_position", "_sequences", "_taken", "_told", "duplicates",
        "missed", "received", "topic", "waiting",
    )  # fmt: skip

    def __init__(self, topic: str) -> None:
        """Begin with whatever comes first."""
        self.topic = topic
        self.received = self.duplicates = self.missed = 0
        self.waiting = 0
        """Messages that the reader has not taken yet."""
        self._incarnation = ""
        self._position = 0
        self._next: dict[Line, tuple[str, int]] = {}
        """By connection: the channel's incarnation, and the position of what comes next."""
        self._sequences: OrderedDict[bytes, int] = OrderedDict()
        self._taken = self._told = 0

    def attached(self, line: Line, attached: Attached) -> int:
        """The channel begins to send by a connection; give how many messages were missed."""
        self._next[line] = (attached.incarnation, attached.position)
        if attached.incarnation != self._incarnation:
            self._incarnation = attached.incarnation
            self._position = self._taken = self._told = attached.position - 1
            self.waiting = 0  # The old channel's; this one does not count them.
            return 0
        self._told = min(self._told, attached.position - 1)  # What we told may not have arrived.
        missed = max(0, attached.position - 1 - self._position)
        self._position += missed
        self._taken += missed
        self.missed += missed
        return missed

    def lose(self, line: Line) -> None:
        """A connection was lost."""
        self._next.pop(line, None)

    def receive(self, line: Line, publisher: bytes, sequence: int, count: int) -> int:
        """Take note of consecutive messages; give how many of them, in front, came before.

        ``sequence`` is the publisher's number of the first.
        """
        if line not in self._next:  # From before the topic was unsubscribed.
            return self._skip(count, count)
        incarnation, position = self._next[line]
        self._next[line] = (incarnation, position + count)
        if incarnation != self._incarnation:
            return self._skip(count, count)
        skip = min(count, max(0, self._position + 1 - position))
        new_here = count - skip
        self._position += new_here
        last = self._sequences.get(publisher)
        if last is not None:
            skip = max(skip, min(count, last + 1 - sequence))
        self._remember(publisher, sequence + count - 1)
        self._taken += new_here - (count - skip)  # Nobody reads what an older broker brought.
        self.waiting += count - skip
        return self._skip(skip, count)

    def _skip(self, skip: int, count: int) -> int:
        self.duplicates += skip
        self.received += count - skip
        return skip

    def _remember(self, publisher: bytes, sequence: int) -> None:
        self._sequences[publisher] = max(sequence, self._sequences.get(publisher, 0))
        self._sequences.move_to_end(publisher)
        if len(self._sequences) > PUBLISHERS_MAX:
            self._sequences.popitem(last=False)

    def take(self) -> None:
        """The reader took a message."""
        if self.waiting:  # Those of a channel that is gone are counted by nobody.
            self.waiting -= 1
            self._taken += 1

    def report(self) -> Taken | None:
        """Give what the broker is to be told, if it is time for that."""
        count = self._taken - self._told
        if not count or (self.waiting and count < TAKEN_COUNT):
            return None
        self._told = self._taken
        return Taken(self.topic, self._incarnation, self._taken)
