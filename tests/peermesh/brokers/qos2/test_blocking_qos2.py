"""The broker and its clients without trio."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from peermesh import blocking
from peermesh.brokers.qos2 import BrokerUnavailable, Place, Ports, Refused
from peermesh.brokers.qos2.blocking import Consumer, Publisher, QoS2Broker, open_broker
from peermesh.testing.time_limits import limit
from wire.errors import AddressInUse

ANY_PORTS = Ports(publishers=0, consumers=0)


@contextmanager
def broker_in(folder: Path | None = None) -> Iterator[QoS2Broker]:
    with (
        blocking.Endpoint() as endpoint,
        open_broker(endpoint, Place(folder=folder), ANY_PORTS) as broker,
    ):
        yield broker


def test_a_message_goes_through_without_trio_and_is_there_after_a_restart(tmp_path):
    with broker_in(tmp_path) as broker:
        with Publisher("till", broker.publisher_port) as out:
            out.publish(1, "tea", b"green")
            out.publish(2, "tea", b"black")
            out.publish(2, "tea", b"black")
        with Consumer("billing", "tea", broker.consumer_port) as source:
            assert source.get(timeout=limit()).payload == b"green"
            source.done()
        assert broker.statistics()["repeated"] == 1
    with (
        broker_in(tmp_path) as broker,
        Consumer("billing", "tea", broker.consumer_port) as source,
    ):
        assert source.get(timeout=limit()).payload == b"black"
        source.refuse("too strong", is_final=True)
        while not (letters := broker.letters.list()):
            pass
        with pytest.raises(BrokerUnavailable, match="ask again"):
            source.get(timeout=0.01)
        (letter,) = letters
        broker.letters.replay(letter.number)
        assert source.get(timeout=limit()).payload == b"black"
        assert broker.letters.list() == []


def test_topics_are_listed_looked_into_and_deleted_without_trio():
    with broker_in() as broker:
        with Publisher("till", broker.publisher_port) as out:
            out.publish(1, "tea", b"green")
        assert [each.name for each in broker.topics.list()] == ["dead_letter", "tea"]
        assert broker.topics.get("tea").messages == 1
        broker.topics.delete("tea")
        assert [each.name for each in broker.topics.list()] == ["dead_letter"]
        with pytest.raises(Refused, match="there is no topic tea"):
            broker.topics.get("tea")


def test_a_broker_that_cannot_start_says_why():
    with broker_in() as broker:
        taken = Ports(publishers=broker.publisher_port, consumers=0)
        with blocking.Endpoint() as other, pytest.raises(AddressInUse):
            with open_broker(other, ports=taken):
                pass


def test_a_publisher_without_a_broker_gives_up_when_it_is_told_to():
    with broker_in() as broker:
        port = broker.publisher_port
    with Publisher("till", port) as out, pytest.raises(BrokerUnavailable, match="ask again"):
        out.publish(1, "tea", b"green", timeout=0.3)
