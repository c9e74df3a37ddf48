"""What is sent in all variants alike, and how each of them checks that all of it came, in order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final

from wire.values import Value

TOPIC: Final = "benchmark/messages"

VOTERS: Final = ("a", "b", "c")
"""Of groups: the first one founds, and asks."""

MARKS: Final = 251
"""Different messages, sent in turn. A prime, so that a lost or doubled group of 256 breaks the
order instead of hiding in it."""


def payloads(size: int) -> list[bytes]:
    """Make the messages: each begins with its mark."""
    return [bytes((mark,)) * 2 + b"x" * (size - 2) for mark in range(MARKS)]


def messages(count: int, size: int) -> Iterator[bytes]:
    """Give so many messages in turn, made beforehand."""
    return islice(cycle(payloads(size)), count)


def event(mark: int) -> Value:
    """Make a structured event: small, and nested three deep, as the events of Zeek are."""
    return ("zeek.event", ("conn", (mark, "10.0.0.1", 53, 0.25, {"a": 1})))


def events(count: int) -> Iterator[Value]:
    """Give so many events in turn, made beforehand."""
    return islice(cycle([event(mark) for mark in range(MARKS)]), count)


class Expected:
    """What a reader of many messages at once should find, to the last byte."""

    def __init__(self, size: int) -> None:
        """Expect messages of ``size`` bytes on ``TOPIC``, from the first one on."""
        self._size = size
        self._turn: list[tuple[str, Value]] = []
        self._next = 0

    def check(self, batch: list[tuple[str, Value]]) -> None:
        """Compare the next messages with what was sent; raises ``Disorder``.

        All at once, in a fraction of the time that reading takes: it is not what is measured.
        """
        if batch and not self._turn:
            # Made with the first message's own string, if it is the right one: the same object
            # costs next to nothing to compare.
            topic = batch[0][0] if batch[0][0] == TOPIC else TOPIC
            self._turn = [(topic, payload) for payload in payloads(self._size)]
        begin = self._next % MARKS
        while len(self._turn) < begin + len(batch):
            self._turn += self._turn[:MARKS]
        expected = self._turn[begin : begin + len(batch)]
        if batch != expected:
            for place, pair in enumerate(zip(batch, expected, strict=True), self._next):
                if pair[0] != pair[1]:
                    raise Disorder(place, pair[0])
        self._next += len(batch)


class Disorder(AssertionError):
    """A message that should not be here now: one was lost, doubled, changed or overtaken."""

    def __init__(self, place: int, data: object) -> None:
        """Name the place in the whole sequence, and show what stands there."""
        super().__init__(f"message {place} is {str(data)[:60]}, which is out of order or changed")
