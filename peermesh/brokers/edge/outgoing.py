"""A publisher's topics: what is not acknowledged, and by which connection it goes. Pure.

Until every known subscriber has a message, it is kept here: whatever the broker had dies with it.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from peermesh.brokers.edge.messages import TTL, Void, write
from peermesh.brokers.edge.subscription import WINDOW, WINDOW_BYTES, Line
from wire.framing import encode_node
from wire.limits import GROUP_COUNT, GROUP_SIZE

BUFFER_SIZE: Final = 4096
"""Messages of a topic that wait for a broker, or for its subscribers, before ``send`` does."""

BUFFER_BYTES: Final = WINDOW_BYTES
"""Bytes of the same; one message is taken whatever its size."""


class Outgoing:
    """One topic of a publisher: its message buffer, and where its sender stands."""

    __slots__ = (
        "_buffer", "_bytes", "_headers", "_publisher", "_sent", "_void", "accepted",
        "capacity", "has_room", "line", "refused", "repeated", "topic",
    )  # fmt: skip

    def __init__(
        self, topic: str, publisher: bytes, capacity: int = BUFFER_SIZE, last: int = 0
    ) -> None:
        """Number the messages from ``last`` + 1 on; no connection is there yet."""
        self.topic = topic
        self.capacity = capacity
        self.line: Line | None = None
        self.accepted = last
        """The number of the last message that all subscribers have."""
        self.refused: str | None = None
        """Why messages were refused, until the caller was told."""
        self.repeated = 0
        self._publisher = publisher
        self._headers = (topic.encode(),)
        self._buffer: deque[bytes | None] = deque()
        """What is not acknowledged; nothing in the place of what was refused."""
        self._bytes = 0
        self.has_room = True
        """Whether ``send`` need not wait."""
        self._sent = 0
        self._void = 0
        """Up to which number the broker is to be told that what it refused are no messages."""

    @property
    def waiting(self) -> int:
        """Messages that are not acknowledged."""
        return len(self._buffer)

    @property
    def last(self) -> int:
        """The number of the last message."""
        return self.accepted + len(self._buffer)

    def add(self, payload: bytes) -> None:
        """Take in one message."""
        self._buffer.append(payload)
        self._bytes += len(payload)
        self._weigh()

    def _weigh(self) -> None:
        self.has_room = len(self._buffer) < self.capacity and self._bytes < BUFFER_BYTES

    def switch(self, line: Line | None) -> None:
        """Go by another connection from now on: what is not acknowledged is sent once more."""
        self.line = line
        self.repeated += self._sent
        self._sent = self._void = 0

    def accept(self, sequence: int) -> None:
        """Every known subscriber has everything up to a number."""
        count = min(sequence - self.accepted, len(self._buffer))
        if count <= 0:
            return
        for _ in range(count):
            self._bytes -= len(self._buffer.popleft() or b"")
        self.accepted += count
        self._sent = max(0, self._sent - count)
        self._weigh()

    def refuse(self, sequence: int, count: int, reason: str) -> None:
        """The broker does not take the last messages up to a number: drop them, say why later.

        Their numbers stay, and those before them: they may be with the broker alone.
        """
        self.refused = reason
        end = min(sequence - self.accepted, len(self._buffer))
        for place in range(max(0, sequence - count - self.accepted), end):
            self._bytes -= len(self._buffer[place] or b"")
            self._buffer[place] = None
            self._void = self.accepted + place + 1
        self._weigh()

    def take(self) -> list[bytes | memoryview]:
        """Give what is to be sent now, framed, as far as the broker's window goes."""
        pieces: list[bytes | memoryview] = []
        if self._void > self.accepted:
            pieces.append(write(Void(self.topic, self._publisher, self._void)))
        self._void = 0
        end = min(len(self._buffer), WINDOW)
        while self._sent < end:
            group, voids = self._group(end)
            first = self.accepted + self._sent + 1
            self._sent += len(group) + voids
            if group:
                pieces += encode_node(self._publisher, TTL, first, self._headers, b"", group)[0]
            if voids:
                last = self.accepted + self._sent
                pieces.append(write(Void(self.topic, self._publisher, last)))
        return pieces

    def _group(self, end: int) -> tuple[list[bytes], int]:
        """Give the next messages for one frame, and how many refused ones follow."""
        group: list[bytes] = []
        size = voids = 0
        for payload in islice(self._buffer, self._sent, min(end, self._sent + GROUP_COUNT)):
            if payload is None:
                voids += 1
                continue
            size += len(payload)
            if voids or (group and size > GROUP_SIZE):
                break
            group.append(payload)
        return group, voids
