"""What the sensor makes of the lines of the input, and the recount, too: events. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from peermesh.demo.keys import BAD, BadLine, key_of, parse
from peermesh.demo.times import MICROSECONDS, Clock, to_datetime
from wire.limits import MIB
from wire.values import Value

LOG_NAME: Final = "events"
"""The log that the events are appended to, by line: the offset is the number of the line, less
one."""

PRODUCER: Final = "sensor"
"""The name under which they are appended once, whoever was restarted in between."""

COLUMNS: Final = "at TIMESTAMP, key STRING"
"""What the job reads of an event."""

CHUNK_COUNT: Final = 500
"""Lines of an append: a majority has it on its disks in some milliseconds."""

CHUNK_SIZE: Final = 2 * MIB
"""Bytes after which an append takes no more lines: half of what a log takes, with the last."""


@dataclass(frozen=True, slots=True)
class Event:
    """A line, as it is counted."""

    number: int
    """Of the line, from one."""
    time: int
    """When it happened, in microseconds since 1970."""
    key: str
    line: bytes
    reason: str = ""
    """Why it is no event, for a bad line."""

    def to_value(self, copy: int, shift_seconds: int) -> Value:
        """Give what is appended to the log; ``copy`` counts the replays, which come later."""
        return {
            "at": to_datetime(self.time + copy * shift_seconds * MICROSECONDS),
            "key": self.key,
            "line": self.number,
            "event": self.line if self.reason else self.line.decode(),
        }


class EventReader:
    """Reads the lines of an input, one after the other."""

    def __init__(self, key_field: str, time_field: str) -> None:
        """Count by a field, and find times in another."""
        self._key_field = key_field
        self._clock = Clock(time_field)

    def read(self, number: int, line: bytes) -> Event:
        """Read a line; a bad one is an event of its own kind."""
        event = None
        try:
            event = parse(line)
            key, reason = key_of(event, self._key_field), ""
        except BadLine as error:
            key, reason = BAD, str(error)
        return Event(number, self._clock.read(number, event), key, line, reason)
