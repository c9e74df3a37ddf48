"""A publisher's topics: what was not accepted yet, and by which connection it goes. Pure."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from peermesh.brokers.edge.channel import WINDOW, WINDOW_BYTES, Line
from peermesh.brokers.edge.messages import TTL
from wire.framing import encode_node
from wire.limits import GROUP_COUNT, GROUP_SIZE

BUFFER_SIZE: Final = 4096
"""Messages of a topic that wait for a broker, or for its acceptance, before ``send`` does."""

BUFFER_BYTES: Final = WINDOW_BYTES
"""Bytes of the same; one message is taken whatever its size."""


class Outgoing:
    """One topic of a publisher: its message buffer, and where its sender stands."""

    __slots__ = (
        "_buffer", "_bytes", "_headers", "_publisher", "_sent", "accepted", "capacity", "line",
        "refused", "repeated", "topic",
    )  # fmt: skip

    def __init__(
        self, topic: str, publisher: bytes, capacity: int = BUFFER_SIZE, last: int = 0
    ) -> None:
        """Number the messages from ``last`` + 1 on; no connection is there yet."""
        self.topic = topic
        self.capacity = capacity
        self.line: Line | None = None
        self.accepted = last
        """The number of the last message that the broker has accepted, or refused."""
        self.refused: str | None = None
        """Why messages were refused, until the caller was told."""
        self.repeated = 0
        self._publisher = publisher
        self._headers = (topic.encode(),)
        self._buffer: deque[bytes] = deque()
        self._bytes = 0
        self._sent = 0

    @property
    def waiting(self) -> int:
        """Messages that were not accepted yet."""
        return len(self._buffer)

    @property
    def last(self) -> int:
        """The number of the last message."""
        return self.accepted + len(self._buffer)

    @property
    def has_room(self) -> bool:
        """Tell whether ``send`` need not wait."""
        return len(self._buffer) < self.capacity and self._bytes < BUFFER_BYTES

    def add(self, payload: bytes) -> None:
        """Take in one message."""
        self._buffer.append(payload)
        self._bytes += len(payload)

    def switch(self, line: Line | None) -> None:
        """Go by another connection from now on: all that was not accepted is sent once more."""
        self.line = line
        self.repeated += self._sent
        self._sent = 0

    def accept(self, sequence: int) -> None:
        """The broker has everything up to a number."""
        count = min(sequence - self.accepted, len(self._buffer))
        if count <= 0:
            return
        for _ in range(count):
            self._bytes -= len(self._buffer.popleft())
        self.accepted += count
        self._sent = max(0, self._sent - count)

    def refuse(self, sequence: int, reason: str) -> None:
        """The broker does not take what is left up to a number: drop it, and keep the reason."""
        self.accept(sequence)
        self.refused = reason

    def take(self) -> list[bytes | memoryview]:
        """Give what is to be sent now, framed, as far as the broker's window goes."""
        pieces: list[bytes | memoryview] = []
        end = min(len(self._buffer), WINDOW)
        while self._sent < end:
            group = self._group(end)
            first = self.accepted + self._sent + 1
            pieces += encode_node(self._publisher, TTL, first, self._headers, b"", group)[0]
            self._sent += len(group)
        return pieces

    def _group(self, end: int) -> list[bytes]:
        group: list[bytes] = []
        size = 0
        for payload in islice(self._buffer, self._sent, min(end, self._sent + GROUP_COUNT)):
            size += len(payload)
            if group and size > GROUP_SIZE:
                break
            group.append(payload)
        return group
