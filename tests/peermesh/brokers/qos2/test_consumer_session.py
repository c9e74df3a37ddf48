"""The broker's side of a consumer's connection, step by step."""

from __future__ import annotations

import hashlib

import pytest

from peermesh.brokers.qos2.consumer_session import ConsumerSession
from peermesh.brokers.qos2.limits import MISTAKES_MAX, Pace
from peermesh.brokers.qos2.steps import (
    Bury,
    Close,
    Commit,
    Delivery,
    Enter,
    Fetch,
    Open,
    Send,
    Wait,
)  # fmt: skip

TEA = Delivery("tea", 0, b"green\n")
PUBREC = f"PUBREC {hashlib.md5(TEA.payload).hexdigest()}"


def of_kind(kind, steps):
    return [step for step in steps if isinstance(step, kind)]


def subscribed(options: str = "", pace: Pace | None = None) -> ConsumerSession:
    session = ConsumerSession(pace or Pace())
    assert of_kind(Enter, session.receive(f"LOGIN billing {options}\n".encode()))
    session.entered()
    assert of_kind(Open, session.receive(b"SUBSCRIBE tea\n"))
    assert of_kind(Fetch, session.opened()) == [Fetch(1, ("tea",))]
    return session


def test_what_was_fetched_for_earlier_subscriptions_is_not_sent():
    session = subscribed()
    assert of_kind(Fetch, session.receive(b"UNSUBSCRIBE tea\n")) == [Fetch(2, ())]
    assert session.fetched(1, TEA) == []


def test_pubrel_is_said_when_it_is_durable_and_not_before():
    session = subscribed()
    session.fetched(1, TEA)
    steps = session.receive(PUBREC.encode())
    assert of_kind(Commit, steps) == [Commit(TEA)]
    assert not of_kind(Send, steps)
    assert session.is_busy
    assert of_kind(Send, session.committed()) == [Send(b"PUBREL\n")]


def test_what_is_said_twice_is_answered_twice_and_done_once():
    session = subscribed("ids")
    session.fetched(1, TEA)
    line = f"{PUBREC} id=tea/1".encode()
    session.receive(line)
    session.committed()
    again = session.receive(line)
    assert (of_kind(Send, again), of_kind(Commit, again)) == ([Send(b"PUBREL id=tea/1\n")], [])
    assert of_kind(Fetch, session.receive(b"PUBCOMP id=tea/1")) == [Fetch(2, ("tea",))]
    assert not of_kind(Fetch | Send, session.receive(b"PUBCOMP id=tea/1"))
    assert of_kind(Send, session.receive(line)) == [Send(b"PUBREL id=tea/1\n")]


def test_pubrel_is_repeated_to_the_silent_who_are_cut_in_the_end():
    session = subscribed(pace=Pace(resends_max=2))
    session.fetched(1, TEA)
    session.receive(PUBREC.encode())
    session.committed()
    for _ in range(2):
        assert of_kind(Send, session.timer_elapsed()) == [Send(b"PUBREL\n")]
    assert of_kind(Close, session.timer_elapsed())


@pytest.mark.parametrize(
    ("options", "is_carried"),
    [("", False), ("ids", False), ("stuffed", True), ("lengths", True)],
)
def test_an_end_within_the_data_never_ends_it(options, is_carried):
    session = subscribed(options)
    steps = session.fetched(1, Delivery("tea", 0, b"one\nEND\nPUBREL\n"))
    assert bool(of_kind(Send, steps)) == is_carried
    assert bool(of_kind(Bury, steps)) == (not is_carried)


def test_pauses_between_resends_double_up_to_a_limit():
    session = subscribed(pace=Pace(resend_seconds=1, resend_seconds_max=5, resends_max=5))
    session.fetched(1, TEA)
    pauses = []
    for _ in range(5):
        (wait,) = of_kind(Wait, session.receive(b"PUBREC 0"))
        pauses.append(wait.seconds)
        assert of_kind(Send, session.timer_elapsed()) == [Send(b"BEGIN tea\ngreen\nEND\n")]
    assert pauses == [1, 2, 4, 5, 5]
    (burial,) = of_kind(Bury, session.receive(b"PUBREC 0"))
    assert burial.attempts == 6


def test_who_makes_nothing_but_mistakes_is_cut():
    session = subscribed()
    for _ in range(MISTAKES_MAX - 1):
        assert not of_kind(Close, session.receive(b"HELLO"))
    assert of_kind(Close, session.receive(b"HELLO"))
