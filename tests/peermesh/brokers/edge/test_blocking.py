"""The broker and its clients from threads."""

from __future__ import annotations

import pytest

from peermesh.brokers.edge import EdgeClosed, RegistryError
from peermesh.brokers.edge.blocking import Broker, Publisher, Subscriber, Where
from peermesh.testing.time_limits import limit


def test_threads_publish_and_subscribe():
    with Broker() as broker:
        broker.active()
        with Publisher(broker.registry) as publisher, Subscriber(broker.registry) as reader:
            assert reader.subscribe("a", timeout=limit())
            publisher.send("a", 0)
            publisher.send_batch("a", range(1, 100))
            assert publisher.flush(limit())
            assert [reader.get(timeout=limit())[1] for _ in range(100)] == list(range(100))
            assert reader.poll() == []
            with pytest.raises(TimeoutError, match="no message within"):
                reader.get(timeout=0.01)
            assert publisher.statistics()[0].count == 100
            assert reader.statistics()[0].count == 100
            assert broker.statistics().channels[0].accepted == 100
            assert (reader.is_attached("a"), reader.available()) == (True, 0)
            reader.unsubscribe("a")
            publisher.stop("a")
        for call in (lambda: publisher.send("a", 1), reader.poll, reader.statistics):
            with pytest.raises(EdgeClosed, match="make a new one"):
                call()
        assert list(reader) == []
    with pytest.raises(EdgeClosed, match="make a new one"):
        broker.statistics()


def test_what_cannot_be_opened_is_raised_and_leaves_nothing_behind():
    with pytest.raises(RegistryError, match="say where the registry is"):
        Publisher(Where())


def test_a_broker_that_is_told_where_shares_that_registry():
    with Broker() as first, Broker(where=first.registry) as second:
        first.active()
        assert not second.statistics().is_active
