"""One direction between two hosts: what becomes of each packet. Pure.

Unlike the link proxy, which shows what TCP makes of a bad network, this is the bad network: packets
are lost, doubled and overtaken, and the kernel's own TCP has to cope.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import inf
from typing import Final

from peermesh.testing.conditions import HEALTHY, Conditions
from peermesh.testing.faults import Duplication, Loss, Reordering

REORDER_SECONDS: Final = 0.005
"""How long a packet is held so that others overtake it: many packets' time on a busy link."""

QUEUE_SECONDS: Final = 0.5
"""What does not fit into so much time of a limited rate is dropped, as a router does. More would be
the bloated buffer that TCP cannot work with, less would not hold a burst at low rates."""

FLYING_SIZE_MAX: Final = 64 * 1024 * 1024
"""Bytes on their way. More are dropped; it takes a long delay at a high rate to get there."""

QUEUE_PACKETS_MIN: Final = 16
"""Packets that a limited rate holds in any case: with fewer TCP hardly starts."""

PACKET_SIZE_MAX: Final = 1_500
"""Of the network's interfaces: that of Ethernet."""

_TCP: Final = 6
_FIN_OR_RST: Final = 0x05

Chance = Callable[[], float]
"""Gives numbers from 0 up to 1: ``random.Random(seed).random``."""


class Wire:
    """Decides when packets arrive, if they do. Times are seconds of any monotonic clock."""

    def __init__(self, chance: Chance) -> None:
        """Begin healthy and empty."""
        self._conditions = HEALTHY
        self._chance = chance
        self._flying: list[tuple[float, int, bytes]] = []
        self._flying_size = 0
        self._number = 0
        self._due_last = -inf
        self._line_free_at = -inf
        self.passed = 0
        """Packets that arrived."""
        self.dropped = 0
        """Packets that did not: lost, cut off, or too many."""

    @property
    def conditions(self) -> Conditions:
        """What stands."""
        return self._conditions

    def change(self, conditions: Conditions) -> None:
        """Stand under other conditions. What flies is not affected, but by a partition."""
        if conditions.rate != self._conditions.rate:
            self._line_free_at = -inf
        self._due_last = -inf
        self._conditions = conditions

    def receive(self, packet: bytes, now: float) -> None:
        """Take a packet from the sender."""
        conditions = self._conditions
        if conditions.is_held or self._happens(conditions.loss):
            self.dropped += 1
            return
        leaves_at = self._leave_line(len(packet), now)
        if leaves_at is None or self._flying_size + len(packet) > FLYING_SIZE_MAX:
            self.dropped += 1
            return
        arrives_at = self._arrival(packet, leaves_at)
        self._fly(packet, arrives_at)
        if self._happens(conditions.duplication):
            self._fly(packet, arrives_at)

    def take_due(self, now: float) -> list[bytes]:
        """Give the packets that arrive now; a partition swallows them at the door."""
        due: list[bytes] = []
        while self._flying and self._flying[0][0] <= now:
            due.append(heapq.heappop(self._flying)[2])
        self._flying_size -= sum(map(len, due))
        if self._conditions.is_held:
            self.dropped += len(due)
            return []
        self.passed += len(due)
        return due

    def wake_at(self) -> float:
        """Say when something is due; ``inf`` if nothing flies."""
        return self._flying[0][0] if self._flying else inf

    def _happens(self, fault: Loss | Duplication | Reordering | None) -> bool:
        return fault is not None and self._chance() < fault.probability

    def _leave_line(self, size: int, now: float) -> float | None:
        """Give the time at which the packet has left a limited line; ``None`` if it is too long."""
        if self._conditions.rate is None:
            return now
        rate = self._conditions.rate.bytes_per_second
        begins_at = max(now, self._line_free_at)
        patience = max(QUEUE_SECONDS, QUEUE_PACKETS_MIN * PACKET_SIZE_MAX / rate)
        if begins_at - now > patience:
            return None
        self._line_free_at = begins_at + size / rate
        return self._line_free_at

    def _arrival(self, packet: bytes, leaves_at: float) -> float:
        """Give the time of arrival: after all that were sent before, unless a fault says else."""
        arrives_at = leaves_at + self._travel()
        slow_close = self._conditions.slow_close
        if slow_close is not None and is_ending(packet):
            return arrives_at + slow_close.seconds
        if self._happens(self._conditions.reordering):
            return arrives_at + REORDER_SECONDS
        self._due_last = max(self._due_last, arrives_at)
        return self._due_last

    def _fly(self, packet: bytes, arrives_at: float) -> None:
        self._number += 1  # Of two that are due at once, the first sent arrives first.
        self._flying_size += len(packet)
        heapq.heappush(self._flying, (arrives_at, self._number, packet))

    def _travel(self) -> float:
        delay = self._conditions.delay
        if delay is None:
            return 0.0
        return delay.seconds + delay.jitter * (2 * self._chance() - 1 if delay.jitter else 0.0)


def is_ending(packet: bytes) -> bool:
    """Say whether a packet ends a TCP connection, with FIN or RST."""
    start = (packet[0] & 0x0F) * 4  # the size of the IP header, in words
    return packet[9] == _TCP and len(packet) > start + 13 and bool(packet[start + 13] & _FIN_OR_RST)
