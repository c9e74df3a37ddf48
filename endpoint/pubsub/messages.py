"""What reads a mailbox, and finds there: messages, and where some are missing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

from wire.decoding import decode
from wire.limits import VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX
from wire.public import public
from wire.shape import check_shape
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


Shape = tuple[int, int]
"""How deep a value may be that is handed out, and how many values it may hold."""

SHAPE_DEFAULT: Final = (VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX)
"""What decoding holds all values to."""


def decoder_of(shape: Shape) -> Callable[[bytes], Value]:
    """Give what decodes values up to a shape, and raises ``DecodeError`` for others."""
    return decode if shape == SHAPE_DEFAULT else partial(_decode_within, shape)


def _decode_within(shape: Shape, payload: bytes) -> Value:
    check_shape(payload, *shape)
    return decode(payload)


class Reader(Protocol):
    """What reads a mailbox."""

    def wake(self, more_follows: bool) -> None:  # noqa: FBT001 - called for each read: an argument by name costs more
        """There is something to read. If ``more_follows`` at once, this is said again soon."""

    def ready_count(self) -> int:
        """Count what was taken from the mailbox and not handed out yet."""

    def end(self) -> None:
        """The endpoint ends."""
