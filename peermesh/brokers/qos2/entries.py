"""What the entries of a topic's log hold: payloads for all, or for one, and dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wire.values import Value

ONLY_FOR: Final = "only for"
LETTER: Final = "letter"


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that a consumer could not deal with."""

    number: int
    """Its own, in the topic of dead letters, from one."""
    topic: str
    consumer: str
    message: int
    """The number that it had in its topic."""
    reason: str
    attempts: int
    payload: bytes
    buried_ns: int
    """When, in ns since 1970, by the clock of the topics' keeper."""


def replayed_value(payload: bytes, consumer: str) -> Value:
    """Make the entry of a message that only one consumer gets."""
    return (payload, ONLY_FOR, consumer)


def letter_value(letter: Letter) -> Value:
    """Make the entry of a dead letter."""
    origin = (letter.topic, letter.consumer, letter.message, letter.reason, letter.attempts)
    return (letter.payload, LETTER, *origin)


def payload_for(value: Value, consumer: str) -> bytes | None:
    """Give what an entry says to a consumer; ``None`` if it is for somebody else."""
    match value:
        case bytes():
            return value
        case (bytes() as payload, str() as kind, name, *_):
            return payload if kind != ONLY_FOR or name == consumer else None
        case _:
            return None  # Somebody else appends to this log, in a form of his own.


def letter_of(value: Value, offset: int, timestamp_ns: int) -> Letter:
    """Read an entry of the topic of dead letters. One that was published there has no origin."""
    origin: tuple[str, str, int, str, int] = ("", "", 0, "published there", 0)
    match value:
        case (bytes() as payload, "letter", str(a), str(b), int(c), str(d), int(e)):
            origin = (a, b, c, d, e)
        case _:
            payload = value if isinstance(value, bytes) else b""
    return Letter(offset + 1, *origin, payload, timestamp_ns)
