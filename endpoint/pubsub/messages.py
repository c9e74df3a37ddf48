"""What reads a mailbox, and finds there: messages, and where some are missing."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from wire.public import public
from wire.values import Value

MISSED_TOPIC: Final = "<$>/local/missed"
"""The topic under which a reader finds ``Missed``: reserved, so that no endpoint can publish on it.
"""


@public
@dataclass(frozen=True, slots=True)
class Missed:
    """So many messages were dropped here, because the queue was full."""

    count: int


Pair = tuple[str, "Value | Missed"]
"""Topic and data of a message, as iteration, ``get_batch`` and ``poll`` give it."""


@public
class Message(NamedTuple):
    """One message, as ``get`` gives it: a pair that has names."""

    topic: str
    data: Value | Missed
    """The value; or ``Missed``, under a reserved topic, where messages were dropped."""


Messages = deque[Pair] | list[Pair]
"""Where a reader takes them to."""


class Reader(Protocol):
    """What reads a mailbox."""

    def wake(self, more_follows: bool) -> None:  # noqa: FBT001 - called for each read: an argument by name costs more
        """There is something to read. If ``more_follows`` at once, this is said again soon."""

    def ready_count(self) -> int:
        """Count what was taken from the mailbox and not handed out yet."""

    def end(self) -> None:
        """The endpoint ends."""
