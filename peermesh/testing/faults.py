"""The words for what may go wrong, the same in every world. Values only: the worlds carry them out.

The words for links are Toxiproxy's where it has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique


@unique
class Direction(Enum):
    """Which way over a link, seen from the end that is named first."""

    FORTH = "forth"
    BACK = "back"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Delay:
    """What is sent arrives ``seconds`` later, give or take ``jitter`` seconds; in order still."""

    seconds: float
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class Loss:
    """Packets are lost with a probability; TCP sends them again, later."""

    probability: float


@dataclass(frozen=True, slots=True)
class Duplication:
    """Packets come twice with a probability; TCP drops the second."""

    probability: float


@dataclass(frozen=True, slots=True)
class Reordering:
    """Packets overtake each other with a probability; TCP waits and puts them in order."""

    probability: float


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most so many bytes a second get through."""

    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class SlowClose:
    """The end of a connection is seen by the other side only ``seconds`` later."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reset:
    """Connections break at once, with a reset; new ones are possible."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Nothing gets through, and nobody is told. Connections stay open until somebody gives up."""


LinkFault = Delay | Loss | Duplication | Reordering | RateLimit | SlowClose | Reset | Partition
"""What may happen to a link."""


class Unsupported(Exception):  # a fact about a world, which skips the test
    """A world cannot do this. The text names the world, the fault and what is missing."""
