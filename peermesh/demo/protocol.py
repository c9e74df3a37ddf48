"""What the three processes say to each other: topics, messages, and the checkpoint. Pure.

- ``demo/events``, from the sensor: ``(number, line)``; after the last line ``(number + 1, None)``.
- ``demo/replay``, from the job: ``first``. The sensor publishes from that line on, whatever it was
  doing before.
- store ``counts``, mastered by the sensor: encoded key to count, and ``CHECKPOINT`` to how far the
  input is in those counts. Both change in one batch, so that they never disagree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from peermesh.demo.tally import Tally
from stores.batch import Batch
from stores.limits import BATCH_COUNT_MAX
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError
from wire.limits import MIB
from wire.scalars import Enum, Value

EVENTS_TOPIC: Final = "demo/events"
REPLAY_TOPIC: Final = "demo/replay"
STORE_NAME: Final = "counts"

CHECKPOINT: Final = Enum("checkpoint")
"""The key of the checkpoint, which no JSON value can be."""

BATCH_LINES_MAX: Final = BATCH_COUNT_MAX - 24
"""Lines in a batch: each may be a key of its own, and all of them have to fit in one of the store's
batches, with the checkpoint."""

BATCH_SIZE_MAX: Final = 2 * MIB
"""Bytes after which a batch takes no more lines. Keys may be up to four times as long as what they
were read from (``1e15`` is written out), and the store takes 15 MiB at once."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far the input is processed."""

    lines: int = 0
    """All lines up to this one are in the counts."""
    bad: int = 0
    """So many of them were no events."""

    def value(self) -> Value:
        """Write it for the store."""
        return (self.lines, self.bad)

    @classmethod
    def of(cls, value: object) -> Checkpoint:
        """Read what the store has; nothing means the beginning."""
        match value:
            case None:
                return cls()
            case (int(lines), int(bad)):
                return cls(lines, bad)
            case _:
                raise DecodeError(
                    f"{value!r} is no checkpoint of the demo: is the store another's?"
                )


def commit(before: Checkpoint, tally: Tally, last: int) -> tuple[Batch, Checkpoint]:
    """Make the batch that adds a tally of the lines up to ``last``, and the checkpoint after it.

    It fails as a whole unless the store is still where the job believes it to be: a job that was
    killed may have a batch under way that its successor does not know of.
    """
    after = Checkpoint(last, before.bad + tally.bad)
    batch = Batch()
    if before.lines:
        batch.if_value(CHECKPOINT, before.value())
    else:
        batch.if_absent(CHECKPOINT)
    batch.put(CHECKPOINT, after.value())
    for key, count in tally.counts.items():
        batch.increment(decode(key), count)
    return batch, after


def read_table(items: Iterable[tuple[Value, Value]]) -> tuple[dict[bytes, int], Checkpoint]:
    """Split the content of the store into the counts by encoded key, and the checkpoint."""
    counts: dict[bytes, int] = {}
    checkpoint = Checkpoint()
    for key, value in items:
        if key == CHECKPOINT:
            checkpoint = Checkpoint.of(value)
        elif isinstance(value, int):
            counts[encode(key)] = value
    return counts, checkpoint


def read_event(data: object) -> tuple[int, bytes | None] | None:
    """Take a message apart; ``None`` if it is none of ours."""
    match data:
        case (int(number), bytes() | None as line):
            return number, line
        case _:
            return None


def read_replay(data: object) -> int | None:
    """Give the line from which a replay is asked for; ``None`` if the message is none of ours."""
    return data if type(data) is int and data > 0 else None
