"""What becomes of packets on their way, on a clock of its own."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from peermesh.testing.conditions import HEALTHY
from peermesh.testing.faults import (
    Delay,
    Duplication,
    Loss,
    Partition,
    RateLimit,
    Reordering,
    SlowClose,
)
from peermesh.testing.namespaces.wire import REORDER_SECONDS, Wire

FIN, RST, ACK = 1, 4, 16


def make(*faults, seed=0):
    wire = Wire(Random(seed).random)
    apply(wire, *faults)
    return wire


def apply(wire, *faults):
    conditions = wire.conditions
    for fault in faults:
        conditions = conditions.with_fault(fault)
    wire.change(conditions)


def packet(mark=0, flags=ACK, protocol=6):
    """The head of an IP packet, and of TCP's in it."""
    ip = bytes([0x45, *[0] * 8, protocol, *[0] * 10])
    return ip + bytes([*[0] * 13, flags, mark])


def send(wire, count, now=0.0):
    for mark in range(count):
        wire.receive(packet(mark), now)


def marks(wire, now):
    return [each[-1] for each in wire.take_due(now)]


def test_a_healthy_wire_passes_everything_at_once_and_in_order():
    wire = make()
    send(wire, 5)
    assert marks(wire, 0) == [0, 1, 2, 3, 4]
    assert wire.wake_at() == inf
    assert (wire.passed, wire.dropped) == (5, 0)


def test_a_delay_with_jitter_keeps_the_order():
    wire = make(Delay(1.0, jitter=0.5))
    send(wire, 50)
    assert marks(wire, 0.49) == []
    assert marks(wire, 1.5) == list(range(50))


def test_losses_are_as_likely_as_was_asked_for_and_the_same_with_the_same_seed():
    def lost(seed):
        wire = make(Loss(0.3), seed=seed)
        send(wire, 200)
        return sorted(set(range(200)) - set(marks(wire, 0)))

    assert 40 < len(lost(1)) < 80
    assert lost(1) == lost(1) != lost(2)


def test_duplicates_come_twice():
    wire = make(Duplication(1))
    send(wire, 2)
    assert marks(wire, 0) == [0, 0, 1, 1]


def test_reordered_packets_are_overtaken_and_come():
    wire = make(Reordering(0.3))
    send(wire, 100)
    at_once = marks(wire, 0)
    late = marks(wire, REORDER_SECONDS)
    assert late
    assert sorted(at_once + late) == list(range(100))


@pytest.mark.parametrize("fault", [Partition(), Loss(1)])
def test_a_partition_swallows_what_is_sent_and_what_flies(fault):
    wire = make(Delay(1.0))
    send(wire, 1)
    apply(wire, fault)
    send(wire, 2)
    assert marks(wire, 2.0) == []
    wire.change(HEALTHY)
    send(wire, 1, 3.0)
    assert marks(wire, 3.0) == [0]
    assert (wire.passed, wire.dropped) == (1, 3)


def test_a_rate_spreads_packets_and_drops_what_its_queue_does_not_hold():
    size = len(packet())
    wire = make(RateLimit(size * 1000))
    for _ in range(2000):
        wire.receive(packet(), 0)
    assert len(wire.take_due(0.1001)) == 100
    wire.take_due(inf)
    assert 500 < wire.passed < 800
    assert wire.dropped == 2000 - wire.passed


def test_a_very_low_rate_still_passes_packets():
    wire = make(RateLimit(1))
    send(wire, 10)
    assert marks(wire, inf) == list(range(10))


@pytest.mark.parametrize("flags", [FIN | ACK, RST])
def test_a_slow_close_holds_the_packets_that_end_a_connection(flags):
    wire = make(SlowClose(5.0))
    wire.receive(packet(1, flags), 0)
    wire.receive(packet(2), 0)
    wire.receive(packet(3, flags, protocol=17), 0)  # not of TCP
    assert marks(wire, 4.9) == [2, 3]
    assert marks(wire, 5.0) == [1]
