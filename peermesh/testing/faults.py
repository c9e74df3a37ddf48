"""The words for what may go wrong, the same in every world. Values only: the worlds carry them out.

The words for links are Toxiproxy's where it has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from math import inf, isfinite


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
    """Connections break with a reset; new ones are possible."""

    after_seconds: float | None = None
    """``None`` breaks those that stand, at once. Otherwise every connection, new ones too, breaks
    when it has stood for so long, until the link is healed."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Nothing gets through, and nobody is told. Connections stay open until somebody gives up."""


LinkFault = Delay | Loss | Duplication | Reordering | RateLimit | SlowClose | Reset | Partition
"""What may happen to a link."""


class Unsupported(Exception):  # a fact about a world, which skips the test
    """A world cannot do this. The text names the world, the fault and what is missing."""

    def __init__(self, world: str, fault: object, reason: str) -> None:
        """Say which world cannot do what, and why."""
        super().__init__(f"{world} cannot do {fault}: {reason}")
        self.world = world
        self.fault = fault
        self.reason = reason

    def __reduce__(self) -> tuple[type[Unsupported], tuple[str, object, str]]:
        """Let it cross processes, as test runners want."""
        return type(self), (self.world, self.fault, self.reason)


def check(fault: LinkFault) -> None:
    """Raise ``ValueError`` for a fault that makes no sense: less than no time, more than always."""
    match fault:
        case Delay(seconds, jitter):
            is_sound = 0 <= jitter <= seconds and isfinite(seconds)
            rule = "seconds and jitter are at least 0, and jitter is at most seconds"
        case Loss(probability) | Duplication(probability) | Reordering(probability):
            is_sound, rule = 0 <= probability <= 1, "a probability is between 0 and 1"
        case RateLimit(bytes_per_second):
            is_sound, rule = bytes_per_second >= 1, "use Partition for a link that passes nothing"
        case SlowClose(seconds) | Reset(float() | int() as seconds):
            is_sound, rule = 0 <= seconds < inf, "seconds are at least 0"
        case Reset() | Partition():
            is_sound, rule = True, ""
    if not is_sound:
        raise ValueError(f"{fault}: {rule}")
