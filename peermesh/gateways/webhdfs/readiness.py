"""Whether a gateway serves, waits, or sends its clients elsewhere. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from peermesh.gateways.webhdfs.limits import LEADER_SECONDS, WAIT_SECONDS


class State(Enum):
    """What a gateway does with requests."""

    ACTIVE = auto()
    """It serves: it heard a leader, or is at it. It is ready."""
    ELECTING = auto()
    """A leader is being elected: requests wait. It is well, and not ready."""
    STANDBY = auto()
    """It is cut off from a majority, or knows of no group yet: clients are sent elsewhere. It is
    well, and not ready."""
    CLOSED = auto()
    """Its store has ended: it is not well."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is seen of a store at one gateway."""

    silent_seconds: float
    """Since when no leader serves the replica here: 0 while one does, infinite if none ever did."""
    hears_majority: bool
    """Whether so many voters are heard that they can elect a leader."""
    is_closed: bool = False

    @property
    def state(self) -> State:
        """Decide by it: a leader that was heard within ``LEADER_SECONDS`` counts as there."""
        if self.is_closed:
            return State.CLOSED
        if self.silent_seconds < LEADER_SECONDS:
            return State.ACTIVE
        return State.ELECTING if self.hears_majority else State.STANDBY

    @property
    def is_led(self) -> bool:
        """True if a leader serves the replica here now."""
        return not self.is_closed and not self.silent_seconds

    @property
    def patience_seconds(self) -> float:
        """Say how long a request waits for a leader, from its beginning."""
        if self.is_led or self.is_closed:
            return 0.0
        return WAIT_SECONDS if self.state is State.ELECTING else LEADER_SECONDS
