"""The roles of a member, what moves them beside messages, and the pace of elections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

Draw = Callable[[int, int], int]
"""Gives a random number between two numbers, both included."""


class Role(Enum):
    """What a member is in the group, in this term."""

    LEARNER = "has no vote"
    FOLLOWER = "follows a leader, or waits for one"
    ASKING = "asks whether it would win, without a new term"
    CANDIDATE = "asks for votes in its own term"
    LEADER = "decides"


class Trigger(Enum):
    """What moves a role, and is no message."""

    TIMEOUT = "no leader was heard for an election timeout"
    LEADER_UNREACHABLE = "the connection to the leader was reset"
    VOTERS_CHANGED = "the journal has other voters"
    MAJORITY_WON = "a majority of the voters granted what it asked for"
    FORCED = "a person has it lead without a majority"
    MAJORITY_LOST = "no majority echoes the leader's rounds, or its disk does not answer"


@dataclass(frozen=True, slots=True)
class Timing:
    """Ticks of elections. All members of a group have the same."""

    timeout_ticks_min: int = 10
    """One second at the usual pace: a pause below it costs no leader its office."""
    timeout_ticks_max: int = 20
    hint_ticks_max: int = 2
    """A connection that was reset lets followers ask after so many ticks at most."""
    backoff_max: int = 4
    """The timeouts of a member that lost its lead double up to this factor."""
    backoff_ticks: int = 300
    """For so long after the last lost lead."""


DEFAULT_TIMING: Final = Timing()
"""Leads change within two seconds of silence; no pause below 0.9 s changes one."""
