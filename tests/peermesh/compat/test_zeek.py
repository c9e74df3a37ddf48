"""Events of Zeek."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import peermesh
from peermesh.compat.broker import Count, Data, zeek
from peermesh.compat.broker.zeek import Event, MetadataType, SafeEvent
from tests.peermesh.compat.conftest import join

TIME = datetime(2024, 5, 17, 12, tzinfo=UTC)
NETWORK = MetadataType.NetworkTimestamp


def test_an_event_is_the_vector_that_zeek_takes():
    event = Event("ping", 1, ["a"])
    assert Data.to_py(event) == (Count(1), Count(1), ("ping", (1, ("a",))))
    assert (event.valid(), event.name(), event.args()) == (True, "ping", [1, ("a",)])
    assert event.metadata() is None
    assert str(event.as_data()) == "(1, 1, (ping, (1, (a))))"
    assert Event("empty").args() == []


@pytest.mark.parametrize(
    "metadata", [{NETWORK: TIME, 1234: "own"}, [(1, TIME), (Count(1234), "own")]]
)
def test_metadata_has_counts_as_its_keys(metadata):
    event = Event("ping", metadata=metadata)
    assert event.valid()
    assert event.metadata() == [(NETWORK, TIME), (Count(1234), "own")]


def test_a_network_timestamp_may_be_finer_than_datetime():
    fine = peermesh.Timestamp(1_700_000_000_000_000_001)
    assert Event("ping", metadata={1: fine}).valid()


@pytest.mark.parametrize(
    "data",
    [
        Event("ping", metadata={NETWORK: "noon"}).as_data(),
        Event("ping", metadata={NETWORK: 1.5}).as_data(),
        None,
        (),
        5,
        (1, 1, ("ping", ())),
        (Count(2), Count(1), ("ping", ())),
        (Count(1), Count(2), ("ping", ())),
        (Count(1), Count(1), (b"\xff", ())),
        (Count(1), Count(1), ("ping", 1)),
        (Count(1), Count(1), ("ping", (), ("no pair",))),
        (Count(1), Count(1), ("ping", (), ((1, 2),))),
        (Count(1), Count(1), ("ping", (), (), "more")),
    ],
)
def test_what_is_no_event_says_so(data):
    event = Event(data)
    assert event.valid() is False
    for ask in (event.name, event.args, event.metadata):
        with pytest.raises(ValueError, match="no event of Zeek"):
            ask()


def test_a_safe_event_has_arguments_that_can_be_hashed():
    told = Event("ping", [{"a": {1}}])
    assert SafeEvent(told.as_data()).args() == [({"a": {1}},)]
    assert len({*SafeEvent(told.as_data()).args(), *SafeEvent(told).args()}) == 1
    with pytest.raises(TypeError):
        hash(Event(told).args()[0])


def test_events_travel(pair):
    left, right = pair
    subscriber = right.make_subscriber("/zeek")
    join(left, right)
    left.publish("/zeek/ping", zeek.Event("ping", {"a": 1}, metadata={NETWORK: TIME}))
    _, data = subscriber.get()
    event = zeek.Event(data)
    assert (event.name(), event.args(), event.metadata()) == ("ping", [{"a": 1}], [(NETWORK, TIME)])
