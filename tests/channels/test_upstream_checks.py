"""The eleven checks that Broker's own channel test makes, in its order."""

from __future__ import annotations

from random import Random

import pytest

from channels import (
    ChannelConfig,
    Consumer,
    CumulativeAck,
    Event,
    Handshake,
    HandshakeRequest,
    Nack,
    Producer,
    RetransmitFailed,
)
from wire.errors import ErrorCode


def test_adding_consumers_triggers_handshakes(producer_backend):
    producer = Producer(producer_backend, epoch=1)
    producer.add("A")
    producer.produce("a")
    producer.produce("b")
    producer.add("B")
    producer.produce("c")
    assert producer_backend.sent == [
        ("A", Handshake(1, 1, 5)),
        (None, Event(1, 2, ("a",))),
        (None, Event(1, 3, ("b",))),
        ("B", Handshake(1, 3, 5)),
        (None, Event(1, 4, ("c",))),
    ]


def test_acks_delete_elements_from_the_buffer_down_to_the_slowest_consumer(producer_backend):
    producer = Producer(producer_backend, epoch=1)
    for handle in "ABC":
        producer.add(handle)
    for payload in "abcde":
        producer.produce(payload)
    left = []
    for handle, sequence in [("A", 6), ("B", 4), ("C", 3), ("C", 5), ("B", 6), ("C", 6)]:
        producer.receive(handle, CumulativeAck(1, sequence))
        left.append(producer.unacknowledged)
    assert left == [5, 5, 3, 2, 1, 0]


def test_nacks_make_the_producer_send_again(producer_backend):
    producer = Producer(producer_backend, epoch=1)
    producer.add("A")
    for payload in "abcd":
        producer.produce(payload)
    producer_backend.take()

    producer.receive("A", HandshakeRequest(None))
    assert producer_backend.take() == [("A", Handshake(1, 1, 5))]

    producer.receive("A", Nack(1, (3, 5)))
    assert producer_backend.take() == [("A", Event(1, 3, ["b"])), ("A", Event(1, 5, ["d"]))]

    producer.receive("A", Nack(1, (1, 2, 4)))
    assert producer_backend.take() == [
        ("A", RetransmitFailed(1, 1)),
        ("A", RetransmitFailed(1, 2)),
        ("A", Event(1, 4, ["c"])),
    ]


def test_consumers_process_events_in_order(consumer_backend):
    consumer = Consumer(consumer_backend)
    consumer.receive(Handshake(1, 1, 5))
    events = [Event(1, sequence, (payload,)) for sequence, payload in enumerate("abcdefg", 2)]
    shuffled = events * 3
    Random(1).shuffle(shuffled)
    for event in shuffled:
        consumer.receive(event)
    assert "".join(consumer_backend.consumed) == "abcdefg"


def test_consumers_process_nil_events_if_retransmits_fail(consumer_backend):
    consumer = Consumer(consumer_backend)
    consumer.receive(Handshake(1, 1, 5))
    for sequence, payload in [(2, "a"), (3, "b"), (5, "d"), (4, "c"), (7, "f"), (8, "g")]:
        consumer.receive(Event(1, sequence, (payload,)))
    consumer.receive(RetransmitFailed(1, 9))
    consumer.receive(RetransmitFailed(1, 6))
    assert "".join(consumer_backend.consumed) == "abcd?fg?"

    consumer_backend.nil_error = ErrorCode.BROKEN_CLONE
    consumer.receive(RetransmitFailed(1, 10))
    assert consumer_backend.closed == [ErrorCode.BROKEN_CLONE]


def test_consumers_buffer_events_until_the_handshake_arrives(consumer_backend):
    consumer = Consumer(consumer_backend)
    for sequence, payload in [(3, "c"), (4, "d"), (1, "a"), (2, "b")]:
        consumer.receive(Event(1, sequence, (payload,)))
    assert consumer_backend.consumed == []
    consumer.receive(Handshake(1, 1, 5))
    assert "".join(consumer_backend.consumed) == "bcd"
    assert consumer_backend.sent == [CumulativeAck(1, 4)]


def test_consumers_send_cumulative_acks(consumer_backend):
    consumer = Consumer(consumer_backend)
    consumer.receive(Handshake(1, 1, 1))
    for sequence, payload in [(2, "a"), (3, "b"), (5, "d")]:
        consumer.receive(Event(1, sequence, (payload,)))
    consumer_backend.take()
    consumer.tick()
    assert consumer_backend.take() == [CumulativeAck(1, 3)]
    consumer.receive(Event(1, 4, ("c",)))
    consumer.tick()
    assert consumer_backend.take() == [CumulativeAck(1, 5)]
    consumer.tick()
    assert consumer_backend.take() == [CumulativeAck(1, 5)]


def test_consumers_nack_incomplete_data(consumer_backend):
    consumer = Consumer(consumer_backend, config=ChannelConfig(nack_timeout_ticks=3))
    consumer.receive(Handshake(1, 1, 5))
    for sequence in (3, 5, 8):
        consumer.receive(Event(1, sequence, (sequence,)))
    consumer_backend.take()
    sent_by_tick = []
    for _ in range(5):
        consumer.tick()
        sent_by_tick.append(consumer_backend.take())
    assert sent_by_tick == [[], [], [], [Nack(1, (2, 4, 6, 7))], [CumulativeAck(1, 1)]]


def test_producers_become_idle_after_all_consumers_acked_everything(world_type):
    world = world_type()
    for _ in range(3):
        world.join(producer_first=True)
    for _ in range(5):
        world.produce(1)
    assert not world.producer.is_idle
    random = Random(2)
    for _ in range(20):
        random.shuffle(world.in_flight)
        world.deliver_all()
        world.tick()
    world.check_all_equal()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("loss", "connection_timeout_factor", "rounds_max"), [(0.33, 12, 100), (0.66, 24, 500)]
)
def test_messages_arrive_eventually_although_many_get_lost(
    world_type, seed, loss, connection_timeout_factor, rounds_max
):
    random = Random(seed)
    config = ChannelConfig(connection_timeout_factor=connection_timeout_factor)
    world = world_type(config)
    handles = [world.join(producer_first=True) for _ in range(4)]
    for count in (1, 3, 1, 7, 1):
        world.produce(count)
    rounds = 0
    while not _has_everything(world):
        rounds += 1
        assert rounds <= rounds_max
        world.in_flight = [message for message in world.in_flight if random.random() >= loss]
        random.shuffle(world.in_flight)
        world.deliver_all()
        world.tick()
        world.check()
    assert list(world.members) == handles
    for member in world.members.values():
        assert [sequence for sequence, _ in member.consumed] == list(range(2, 15))


def _has_everything(world):
    return world.producer.is_idle and all(
        member.consumer.is_idle for member in world.members.values()
    )
