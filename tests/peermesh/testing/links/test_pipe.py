"""One direction of a connection, on a clock of its own: what arrives, and when."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from hypothesis import given, strategies as st

from peermesh.testing.conditions import HEALTHY
from peermesh.testing.faults import (
    Delay,
    Loss,
    Partition,
    RateLimit,
    SlowClose,
)
from peermesh.testing.links.pipe import (
    FLYING_SIZE_MAX,
    READ_SIZE_MAX,
    RESEND_SECONDS,
    WAITING_SIZE_MAX,
    Ending,
    Pipe,
)


def under(*faults):
    conditions = HEALTHY
    for fault in faults:
        conditions = conditions.with_fault(fault)
    return conditions


def make(*faults, seed=0):
    return Pipe(under(*faults), Random(seed).random)


def drain(pipe, now):
    """Take all that may be had at a time."""
    taken = []
    while (what := pipe.peek(now)) is not None:
        pipe.advance(0 if isinstance(what, Ending) else len(what))
        taken.append(what if isinstance(what, Ending) else bytes(what))
    return taken


def text(pipe, now):
    return b"".join(part for part in drain(pipe, now) if isinstance(part, bytes))


def test_a_healthy_pipe_passes_everything_at_once_and_in_order():
    pipe = make()
    pipe.receive(b"one", 0)
    pipe.receive(b"two", 0)
    pipe.end(0)
    assert drain(pipe, 0) == [b"one", b"two", Ending.END]
    assert pipe.wake_at() == inf


def test_a_receiver_may_take_a_part():
    pipe = make()
    pipe.receive(b"abcdef", 0)
    pipe.advance(len(pipe.peek(0)[:2]))
    assert bytes(pipe.peek(0)) == b"cdef"


def test_a_delay_keeps_bytes_and_endings_for_its_time():
    pipe = make(Delay(1.0))
    pipe.receive(b"x", 0)
    pipe.end(0.5)
    assert drain(pipe, 0.999) == []
    assert pipe.wake_at() == 1.0
    assert drain(pipe, 1.0) == [b"x"]
    assert drain(pipe, 1.5) == [Ending.END]


def test_a_delay_does_not_make_a_link_slower():
    pipe = make(Delay(1.0))
    size = 0
    while room := pipe.read_size(0):
        pipe.receive(bytes(room), 0)
        size += room
    assert size == FLYING_SIZE_MAX
    assert len(text(pipe, 1.0)) == size


def test_a_slow_receiver_is_not_hidden_from_the_sender():
    pipe = make()
    size = 0
    while room := pipe.read_size(0):
        pipe.receive(bytes(room), 0)
        size += room
    assert WAITING_SIZE_MAX <= size < WAITING_SIZE_MAX + READ_SIZE_MAX
    assert pipe.read_at(0) == inf
    drain(pipe, 0)
    assert pipe.read_size(0) == READ_SIZE_MAX


@given(
    seed=st.integers(0, 1000),
    steps=st.lists(st.tuples(st.binary(min_size=1, max_size=4000), st.floats(0, 1))),
    faults=st.lists(
        st.sampled_from(
            [Delay(0.5, 0.5), Loss(0.4), RateLimit(5000), SlowClose(1.0), Delay(0), Partition()]
        )
    ),
)
def test_whatever_stands_order_and_content_are_kept(seed, steps, faults):
    pipe = make(seed=seed)
    now, arrived, changes = 0.0, [], iter(faults)
    for data, pause in steps:
        pipe.receive(data, now)
        now += pause
        arrived += drain(pipe, now)
        if fault := next(changes, None):
            pipe.change(under(fault), now)
    pipe.end(now)
    pipe.change(HEALTHY, now)
    arrived += drain(pipe, now)
    assert arrived.pop() is Ending.END
    assert b"".join(arrived) == b"".join(data for data, _ in steps)


def test_jitter_stays_within_its_bounds_and_never_lets_bytes_overtake():
    pipe = make(Delay(1.0, jitter=0.5))
    arrivals = []
    for number in range(100):
        pipe.receive(b"x", float(number))
        arrivals.append(pipe.wake_at() - number)
        drain(pipe, number + 2)
    assert all(0.5 <= late <= 1.5 for late in arrivals)
    assert max(arrivals) - min(arrivals) > 0.5
    pipe.receive(b"1", 200.0)
    pipe.receive(b"2", 200.01)
    assert text(pipe, 202.0) == b"12"


def test_a_rate_lets_bytes_trickle_and_asks_the_sender_to_wait():
    pipe = make(RateLimit(1000))
    assert pipe.read_size(0) == 20
    pipe.receive(bytes(100), 0)
    assert pipe.read_size(0.05) == 0
    assert pipe.read_at(0.05) == pytest.approx(0.1)
    assert len(text(pipe, 0.05)) == pytest.approx(50, abs=20)
    pipe.end(0.05)
    assert len(text(pipe, 0.0999)) < 60
    assert drain(pipe, 0.1001)[-1] is Ending.END
    assert pipe.read_size(0.1001) == 20


def test_a_very_low_rate_still_passes_bytes():
    pipe = make(RateLimit(1))
    pipe.receive(b"abc", 0)
    assert [text(pipe, at) for at in (1.0, 2.0, 3.0)] == [b"a", b"b", b"c"]


def test_a_lost_packet_comes_later_and_holds_up_what_is_behind():
    chances = iter([0.0, 0.0, 0.9, 0.9])  # lost, lost again, not; the second packet not
    pipe = Pipe(under(Loss(0.5)), lambda: next(chances))
    pipe.receive(b"lost", 0)
    pipe.receive(b"behind", 0)
    assert drain(pipe, 2.9 * RESEND_SECONDS) == []
    assert text(pipe, 3 * RESEND_SECONDS) == b"lostbehind"
    assert pipe.resends == 2


def test_as_many_packets_are_lost_as_was_asked_for():
    pipe = make(Loss(0.1))
    for number in range(1000):
        pipe.receive(bytes(1460), number * 1000)
        drain(pipe, number * 1000 + 999)
    assert 70 < pipe.resends < 150


def test_the_same_seed_gives_the_same_fate():
    def fates(seed):
        pipe = make(Delay(1.0, 1.0), Loss(0.3), seed=seed)
        for number in range(20):
            pipe.receive(b"x", number * 1000)
            yield pipe.wake_at()
            drain(pipe, inf)

    assert list(fates(7)) == list(fates(7)) != list(fates(8))


@pytest.mark.parametrize("fault", [Partition(), Loss(1)])
def test_a_partition_passes_neither_byte_nor_end_and_asks_for_none(fault):
    pipe = make()
    pipe.receive(b"before", 0)
    pipe.change(under(fault), 0)
    pipe.receive(b"after", 0)
    pipe.end(0)
    assert drain(pipe, 1e9) == []
    assert pipe.read_size(1e9) == 0
    assert (pipe.wake_at(), pipe.read_at(1e9)) == (inf, inf)
    pipe.change(HEALTHY, 1e9)
    assert drain(pipe, 1e9) == [b"before", b"after", Ending.END]


def test_a_slow_close_is_for_the_end_alone():
    pipe = make(SlowClose(5.0))
    pipe.receive(b"x", 0)
    pipe.end(0)
    assert drain(pipe, 4.9) == [b"x"]
    assert drain(pipe, 5.0) == [Ending.END]


def test_what_was_sent_before_an_abort_arrives_and_it_is_told_once():
    pipe = make(Delay(1.0))
    pipe.receive(b"x", 0)
    pipe.end(0)
    pipe.abort(0)
    pipe.abort(0)
    assert drain(pipe, 1.0) == [b"x", Ending.END, Ending.ABORT]


def test_healing_lets_all_that_is_on_its_way_arrive():
    pipe = make(Delay(100.0), RateLimit(1))
    pipe.receive(b"x", 0)
    pipe.end(0)
    pipe.change(HEALTHY, 1)
    assert drain(pipe, 1) == [b"x", Ending.END]
    pipe.receive(b"y", 1)
    assert drain(pipe, 1) == [b"y"]
