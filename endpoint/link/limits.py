"""How much may wait in a link, and for how long; each number with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from wire.limits import GROUP_COUNT, GROUP_SIZE, KIB, MIB

WINDOW_SIZE: Final = 4 * MIB
"""Bytes of data that may be on the way to a peer: what loopback moves in about a millisecond."""

WRITE_SIZE: Final = 64 * KIB
"""Bytes of commands and data after which a write takes no more: one full frame, or many small ones.
With two frames in each, messages of 10 KB cost a third more processor time at both ends, and went
at two thirds of the rate."""

COMMANDS_SIZE_MAX: Final = 64 * MIB
"""Bytes of store commands above which new ones are dropped: the channel finds and repeats them, and
a peer that is so far behind is about to be stalled."""

PASSED_ON_SIZE_MAX: Final = 4 * MIB
"""Bytes of other endpoints' words that wait here, each with ``MESSAGE_CHARGE``: 63 of the largest.
What is dropped beyond is repeated."""

MESSAGE_CHARGE: Final = GROUP_SIZE // GROUP_COUNT
"""Bytes that a message counts as besides its size, so that one number bounds size and count."""


class Mark(NamedTuple):
    """Full at ``high``, with room again below ``low``: half of it, so that it does not flutter."""

    high: int
    low: int


OWN_MARK: Final = Mark(1 * MIB, MIB // 2)
"""Charge of own data at which publishers wait: four writes keep the pipe full."""

TRANSIT_MARK: Final = Mark(8 * MIB, 4 * MIB)
"""Charge of data that pass through at which their senders are told: a few windows."""


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """The limits of a link; tests of all interleavings have smaller ones."""

    own: Mark = OWN_MARK
    transit: Mark = TRANSIT_MARK
    reserve: int = 64 * MIB
    """Charge beyond ``transit`` for what is under way when the senders are told: the windows of a
    dozen links that feed this one."""
    window: int = WINDOW_SIZE
    """Bytes that the peer is granted at a time; less where its rate is limited. Both sides start
    with the whole window."""
    hold_seconds_max: float = 35.0
    """How long a full outbox may withhold the credit of a link: longer than a mailbox, 30 s, so
    that the place at fault gives way first."""
    stall_seconds: float = 5.0
    """The setting ``link_stall_seconds``."""
    stand_seconds_max: float = 38.0
    """How long the word ``withheld`` may keep a peer from being stalled: the longest hold of a
    link, and 3 s until the word is out of date. No setting: with the ``stall_seconds`` of this end
    in its place, a peer that lives is removed."""
