"""What is sent in all variants alike, and how each of them checks that all of it came, in order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final

from wire.values import Value

TOPIC: Final = "benchmark/messages"

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


_MARKS_IN_TURN: Final = bytes(range(MARKS))


def check(batch: list[tuple[str, Value]], taken: int, size: int) -> None:
    """Check the length and the order of messages that were read at once, after ``taken`` others."""
    begin = taken % MARKS
    turns = 1 + (begin + len(batch)) // MARKS
    expected = (_MARKS_IN_TURN * turns)[begin : begin + len(batch)]
    if bytes([data[0] for _, data in batch]) != expected or {len(data) for _, data in batch} != {
        size
    }:
        for place, (_, data) in enumerate(batch, taken):
            if len(data) != size or data[0] != place % MARKS:
                raise Disorder(place, data)


class Disorder(AssertionError):
    """A message that should not be here now: one was lost, doubled, changed or overtaken."""

    def __init__(self, place: int, data: object) -> None:
        """Name the place in the whole sequence, and show what stands there."""
        super().__init__(f"message {place} is {str(data)[:60]}, which is out of order or changed")
