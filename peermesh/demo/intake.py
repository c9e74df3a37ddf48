"""The job's way in: events in whatever state the mesh delivers them, to batches without gaps. Pure.

Publish/subscribe is best effort while processes are killed: events get lost, or come twice. Counts
are exact nevertheless, because of three rules:

1. Counts and checkpoint change in one batch of the store, or not at all.
2. Only the line after the last one is taken. Lines before it are known, lines after it show a gap.
3. Whoever starts, finds a gap, or hears nothing for a while, asks for a replay from that line.

So a job that is killed at any moment leaves a checkpoint from which its successor goes on, and a
sensor that is killed is asked again. Times are in seconds, of any clock that never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from peermesh.demo.protocol import BATCH_LINES_MAX, BATCH_SIZE_MAX
from peermesh.demo.tally import Event

LINGER_SECONDS: Final = 0.5
"""How long the first line of a batch waits for more: the table is never further behind."""

RETRY_SECONDS: Final = 2.0
"""After so long without the line that is due, a replay is asked for again."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Lines without a gap, for Spark to count."""

    events: tuple[Event, ...]
    is_last: bool
    """Whether the input ends here."""


class Intake:
    """Puts batches together. What it returns is the line from which to ask for a replay."""

    def __init__(self, processed: int, now: float, lines_max: int = BATCH_LINES_MAX) -> None:
        """Go on after line ``processed``; the first thing to do is to ask for ``due``."""
        self.due = processed + 1
        """The line that is wanted next."""
        self._lines_max = lines_max
        self._events: list[Event] = []
        self._size = 0
        self._begun = now
        self._is_ended = False
        self._asked: float | None = now
        self._heard = now

    def receive(self, number: int, line: bytes | None, now: float) -> int | None:
        """Take in a line, or the end of the input where there is no line any more."""
        if number != self.due or self._is_ended:
            return self._on_other(number, now)
        self._heard, self._asked = now, None
        if line is None:
            self._is_ended = True
            return None
        if not self._events:
            self._begun = now
        self._events.append((number, line))
        self._size += len(line)
        self.due += 1
        return None

    def tick(self, now: float) -> int | None:
        """Notice that what is due does not come."""
        since = self._heard if self._asked is None else self._asked
        return self._ask(now) if now - since >= RETRY_SECONDS and not self._is_ended else None

    def is_ready(self, now: float) -> bool:
        """Tell whether there is a batch to take."""
        is_full = len(self._events) >= self._lines_max or self._size >= BATCH_SIZE_MAX
        has_lingered = bool(self._events) and now - self._begun >= LINGER_SECONDS
        return self._is_ended or is_full or has_lingered

    def take(self, now: float) -> EventBatch:
        """Give the next batch, once it is ready; an empty one can only be the last."""
        events = tuple(self._events[: self._lines_max])
        del self._events[: self._lines_max]
        self._size = sum(len(line) for _, line in self._events)
        self._begun = self._heard = now
        return EventBatch(events, is_last=self._is_ended and not self._events)

    def _on_other(self, number: int, now: float) -> int | None:
        is_gap = number > self.due and not self._is_ended
        if is_gap and self._asked is None:
            return self._ask(now)
        return self.tick(now)

    def _ask(self, now: float) -> int:
        self._asked = now
        return self.due
