"""The broker and its clients without trio."""

from __future__ import annotations

import pytest

from peermesh.brokers.qos2 import BrokerUnavailable, Ports, Refused
from peermesh.brokers.qos2.blocking import Broker, Consumer, Publisher
from peermesh.testing.time_limits import limit
from wire.errors import AddressInUse

ANY_PORTS = Ports(publishers=0, consumers=0)


def test_a_message_goes_through_without_trio_and_is_there_after_a_restart(tmp_path):
    with Broker(tmp_path, ANY_PORTS) as broker:
        with Publisher("till", broker.publisher_port) as out:
            out.publish(1, "tea", b"green")
            out.publish(2, "tea", b"black")
            out.publish(2, "tea", b"black")
        with Consumer("billing", "tea", broker.consumer_port) as source:
            assert source.get(timeout=limit()).payload == b"green"
            source.done()
        assert broker.statistics()["repeated"] == 1
    with (
        Broker(tmp_path, ANY_PORTS) as broker,
        Consumer("billing", "tea", broker.consumer_port) as source,
    ):
        assert source.get(timeout=limit()).payload == b"black"
        source.refuse("too strong", is_final=True)
        while not (letters := broker.letters()):
            pass
        with pytest.raises(BrokerUnavailable, match="ask again"):
            source.get(timeout=0.01)
        (letter,) = letters
        broker.replay(letter.number)
        assert source.get(timeout=limit()).payload == b"black"
        assert broker.letters() == []


def test_topics_are_listed_looked_into_and_deleted_without_trio():
    with Broker(ports=ANY_PORTS) as broker:
        with Publisher("till", broker.publisher_port) as out:
            out.publish(1, "tea", b"green")
        assert [each.name for each in broker.topics()] == ["dead_letter", "tea"]
        assert broker.topic("tea").messages == 1
        broker.delete_topic("tea")
        assert [each.name for each in broker.topics()] == ["dead_letter"]
        with pytest.raises(Refused, match="there is no topic tea"):
            broker.topic("tea")


def test_a_broker_that_cannot_start_says_why():
    with Broker(ports=ANY_PORTS) as broker:
        taken = Ports(publishers=broker.publisher_port, consumers=0)
        with pytest.raises(AddressInUse):
            Broker(ports=taken)


def test_a_publisher_without_a_broker_gives_up_when_it_is_told_to():
    with Broker(ports=ANY_PORTS) as broker:
        port = broker.publisher_port
    with Publisher("till", port) as out, pytest.raises(BrokerUnavailable, match="ask again"):
        out.publish(1, "tea", b"green", timeout=0.3)
