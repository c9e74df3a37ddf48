"""What packets meet on their way in one direction between two hosts. Pure: chance is an argument.

TCP hides what happens to packets from those who use it: a packet that is lost, or overtaken by the
next, makes the bytes behind it late. So conditions say when bytes arrive, and never that they do
not, unless nothing gets through at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from peermesh.testing.faults import (
    Delay,
    Duplication,
    LinkFault,
    Loss,
    Partition,
    RateLimit,
    Reordering,
    Reset,
    SlowClose,
)

if TYPE_CHECKING:
    from random import Random

PACKET_SIZE: Final = 1_448
"""Bytes of a stream that one packet of Ethernet carries."""

PACKETS_DRAWN_MAX: Final = 64
"""Packets of one write whose fate is drawn one by one; more of them share these draws."""

RETRANSMISSION_SECONDS_MIN: Final = 0.2
"""Linux repeats an unanswered packet no sooner."""

RETRANSMISSION_SECONDS_MAX: Final = 120.0
"""And no later: the pauses double up to this."""

SLICE_PROBABILITY: Final = 1 / 16
"""How often the bytes of one write come in two parts: a stream keeps no boundaries."""

GRID_SECONDS: Final = 0.0001
"""Arrivals happen at multiples of it: then some coincide, and their order is the scheduler's."""


@dataclass(slots=True)
class Conditions:
    """The state of one direction of a link. Probabilities are of each packet."""

    latency: float
    """Seconds from one host to the other."""
    jitter: float
    """Seconds that a packet may be late or early."""
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    bytes_per_second: int | None = None
    close_delay: float = 0.0
    """Seconds by which the end of a stream is late."""
    is_cut: bool = False
    busy_until: float = 0.0
    """When a limited rate has room for the next byte."""

    def apply(self, fault: LinkFault) -> None:
        """Get worse, in one respect."""
        match fault:
            case Delay(seconds, jitter):
                self.latency, self.jitter = seconds, jitter
            case Loss(probability):
                self.loss = probability
            case Duplication(probability):
                self.duplication = probability
            case Reordering(probability):
                self.reordering = probability
            case RateLimit(bytes_per_second):
                self.bytes_per_second = bytes_per_second
            case SlowClose(seconds):
                self.close_delay = seconds
            case Partition():
                self.is_cut = True
            case Reset():
                pass  # It happens to the connections, once.

    def delay(self, chance: Random) -> float:
        """Draw how long one packet takes, with all its repetitions."""
        seconds = self.latency
        if self.jitter:
            seconds += self.jitter * (2 * chance.random() - 1)
        if self.reordering and chance.random() < self.reordering:
            seconds += self.latency * chance.random()  # The packet after it was faster.
        pause = max(RETRANSMISSION_SECONDS_MIN, 2 * self.latency)
        while self.loss and chance.random() < self.loss:
            seconds += pause
            pause = min(2 * pause, RETRANSMISSION_SECONDS_MAX)
            if seconds > 10 * RETRANSMISSION_SECONDS_MAX:
                break  # A loss of 1 is as good as a cut; time has to go on.
        return max(seconds, 0.0)

    def transmit(self, size: int, now: float) -> float:
        """Give the time at which the last of ``size`` bytes is on the line."""
        if self.bytes_per_second is None:
            return now
        packets = 1 + self.duplication  # A copy takes room, and nothing else.
        self.busy_until = max(now, self.busy_until) + size * packets / self.bytes_per_second
        return self.busy_until

    def split(self, size: int, chance: Random) -> int:
        """Choose how many bytes of a write arrive first; the rest is later."""
        if size < 2:
            return size
        if self.loss and size > PACKET_SIZE:
            packets = min(-(-size // PACKET_SIZE), PACKETS_DRAWN_MAX)
            for packet in range(1, packets):
                if chance.random() < self.loss:
                    return packet * PACKET_SIZE
        if chance.random() < SLICE_PROBABILITY:
            return chance.randrange(1, size)
        return size


def on_grid(at: float) -> float:
    """Give the first instant of the grid that is not before ``at``."""
    return -(-at // GRID_SECONDS) * GRID_SECONDS


def next_repetition(first: float, now: float) -> float:
    """When TCP sends again what it sent first at ``first`` and got no answer to, after ``now``."""
    at, pause = first, RETRANSMISSION_SECONDS_MIN
    while at <= now:
        at += pause
        pause = min(2 * pause, RETRANSMISSION_SECONDS_MAX)
    return at
