"""The queue of appointments: nothing is missed, nothing expires early or twice."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from stores.expiry import SLACK_COUNT, ExpiryQueue
from stores.mutations import span_ns
from wire.errors import InvalidData


def test_keys_come_when_their_time_has_come_earliest_first():
    expiries = {b"late": 30, b"early": 10, b"now": 20}
    queue = ExpiryQueue(expiries)
    assert queue.take_due(20, expiries) == [b"early", b"now"]
    assert queue.take_due(20, expiries) == []
    assert queue.take_due(99, expiries) == [b"late"]


def test_an_appointment_that_was_moved_or_cancelled_is_not_kept():
    expiries = {b"moved": 10, b"cancelled": 10}
    queue = ExpiryQueue(expiries)
    expiries = {b"moved": 50}
    queue.add(b"moved", 50, expiries)
    assert queue.take_due(20, expiries) == []
    assert queue.take_due(50, expiries) == [b"moved"]


def test_the_same_appointment_made_twice_is_kept_once():
    expiries = {b"a": 10}
    queue = ExpiryQueue(expiries)
    queue.add(b"a", 10, expiries)
    assert queue.take_due(10, expiries) == [b"a"]


def test_a_key_that_is_moved_again_and_again_does_not_fill_memory():
    expiries: dict[bytes, int] = {}
    queue = ExpiryQueue(expiries)
    for moment in range(20 * SLACK_COUNT):
        expiries[b"a"] = moment
        queue.add(b"a", moment, expiries)
    assert len(queue) <= SLACK_COUNT + 3
    assert queue.take_due(10**9, expiries) == [b"a"]


def test_long_keys_come_a_megabyte_at_a_time():
    expiries = {bytes([number]) * 65_536: 10 for number in range(40)}
    queue = ExpiryQueue(expiries)
    taken = [queue.take_due(10, expiries) for _ in range(4)]
    assert list(map(len, taken)) == [16, 16, 8, 0]


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 20))))
def test_the_queue_agrees_with_looking_at_every_key(appointments):
    expiries: dict[bytes, int] = {}
    queue = ExpiryQueue(expiries)
    for now_ns, (key, expires_at_ns) in enumerate(appointments):
        expiries[key] = expires_at_ns
        queue.add(key, expires_at_ns, expiries)
        due = queue.take_due(now_ns, expiries)
        assert sorted(due) == sorted(key for key, at_ns in expiries.items() if at_ns <= now_ns)
        for key in due:
            del expiries[key]


@pytest.mark.parametrize("expiry", [math.nan, math.inf, "1"])
def test_what_is_no_number_of_seconds_is_no_expiry(expiry):
    with pytest.raises(InvalidData, match="expiry"):
        span_ns(expiry)
