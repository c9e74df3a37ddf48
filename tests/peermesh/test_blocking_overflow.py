"""What a full queue means to a reader in a thread: each ``overflow``, by each way of reading."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator

import pytest

from peermesh import Missed, blocking
from peermesh.testing.time_limits import limit
from wire.errors import EndpointClosed, SubscriberOverflow

COUNT = 100
SIZE = 8


@pytest.fixture
def pair() -> Iterator[tuple[blocking.Endpoint, blocking.Endpoint]]:
    with blocking.Endpoint() as publisher, blocking.Endpoint() as reader:
        assert reader.peer("127.0.0.1", publisher.listen(), retry=0)
        yield publisher, reader


Pair = tuple[blocking.Endpoint, blocking.Endpoint]


def publish(pair: Pair, subscriber: blocking.Subscriber, payload: bytes = b"") -> None:
    """Publish more than the queue takes, and wait until all has come."""
    publisher, reader = pair
    assert publisher.await_subscribed("t", timeout=limit())
    publisher.publish_batch([("t", n.to_bytes(2) + payload) for n in range(COUNT)])
    await_put(reader, subscriber)


def await_put(reader: blocking.Endpoint, subscriber: blocking.Subscriber) -> None:
    mailbox = subscriber._mailbox
    while reader._passage.call_sync(mailbox.statistics).put < COUNT:
        threading.Event().wait(0.001)


def read(subscriber: blocking.Subscriber) -> tuple[list[int], int]:
    """Read what is there: the numbers, and how many are missing."""
    numbers, missed = [], 0
    while subscriber.available() or not missed:
        data = subscriber.get(limit()).data
        if isinstance(data, Missed):
            missed += data.count
        else:
            numbers.append(int.from_bytes(data[:2]))
    return numbers, missed


@pytest.mark.parametrize("queue", [{"queue_size": SIZE}, {"queue_bytes": 200_000}])
def test_drop_oldest_keeps_the_newest(pair: Pair, queue: dict[str, int]) -> None:
    subscriber = pair[1].subscribe("t", overflow="drop_oldest", **queue)
    publish(pair, subscriber, bytes(9_998))
    numbers, missed = read(subscriber)
    assert 0 < len(numbers) <= 20
    assert numbers == list(range(COUNT - len(numbers), COUNT))
    assert missed == subscriber.dropped == COUNT - len(numbers)


@pytest.mark.parametrize("queue", [{"queue_size": SIZE}, {"queue_bytes": 200_000}])
def test_drop_newest_keeps_the_oldest(pair: Pair, queue: dict[str, int]) -> None:
    subscriber = pair[1].subscribe("t", overflow="drop_newest", **queue)
    publish(pair, subscriber, bytes(9_998))
    numbers, missed = read(subscriber)
    assert 0 < len(numbers) <= 20
    assert numbers == list(range(len(numbers)))
    assert missed == subscriber.dropped == COUNT - len(numbers)


def test_wait_drops_nothing(pair: Pair) -> None:
    subscriber = pair[1].subscribe("t", overflow="wait", queue_size=SIZE)
    publish(pair, subscriber)
    numbers = [int.from_bytes(subscriber.get(limit()).data) for _ in range(COUNT)]
    assert numbers == list(range(COUNT))
    assert subscriber.dropped == 0


READS: dict[str, Callable[[blocking.Subscriber], object]] = {
    "get": lambda subscriber: subscriber.get(limit()),
    "get_batch": lambda subscriber: subscriber.get_batch(limit()),
    "poll": lambda subscriber: subscriber.poll(),
    "iteration": list,
}


@pytest.mark.parametrize("way", READS)
def test_error_raises_at_the_next_read_and_ends_the_subscription(pair: Pair, way: str) -> None:
    subscriber = pair[1].subscribe("t", overflow="error", queue_size=SIZE)
    publish(pair, subscriber)
    with pytest.raises(SubscriberOverflow, match=rf"{COUNT} .* queue of {SIZE} was full") as raised:
        READS[way](subscriber)
    assert raised.value.count == COUNT
    await_end(pair[1], subscriber)
    for read_on in READS.values():
        with pytest.raises(SubscriberOverflow):
            read_on(subscriber)
    with pytest.raises(EndpointClosed, match="subscribe anew"):
        subscriber.add_topic("more")


def await_end(reader: blocking.Endpoint, subscriber: blocking.Subscriber) -> None:
    """Wait until nothing is wanted any more."""
    topics_of = reader._endpoint.loop.topics_of
    while reader._passage.call_sync(topics_of, subscriber._mailbox):
        threading.Event().wait(0.001)


def test_error_wakes_a_reader_that_waits_at_a_descriptor(pair: Pair) -> None:
    subscriber = pair[1].subscribe("t", overflow="error", queue_size=SIZE)
    assert not select.select([subscriber], [], [], 0)[0]
    publish(pair, subscriber)
    assert select.select([subscriber], [], [], limit())[0]
    with pytest.raises(SubscriberOverflow):
        subscriber.get(0)
    await_end(pair[1], subscriber)
    assert select.select([subscriber], [], [], limit())[0]
    with pytest.raises(SubscriberOverflow):
        subscriber.get(0)


def test_error_comes_after_what_was_taken_before(pair: Pair) -> None:
    publisher, reader = pair
    subscriber = reader.subscribe("t", overflow="error", queue_size=SIZE)
    assert publisher.await_subscribed("t", timeout=limit())
    while True:
        publisher.publish_batch([("t", 1), ("t", 2)])
        while subscriber.available() < 2:
            threading.Event().wait(0.001)
        assert subscriber.get(limit()).data == 1
        if not subscriber._mailbox.waiting:
            break  # They came in one frame, so that the second was taken with the first.
        subscriber.poll()
    publisher.publish_batch([("t", n) for n in range(COUNT)])
    await_put(reader, subscriber)
    assert [data for _, data in subscriber.poll()] == [2]
    with pytest.raises(SubscriberOverflow):
        subscriber.poll()


def test_what_a_subscription_may_not_say_is_told_at_once(pair: Pair) -> None:
    reader = pair[1]
    for wrong in (
        {"overflow": "explode"},
        {"queue_size": 0},
        {"queue_bytes": 0},
        {"stall_seconds": -1},
        {"name": "a\x1b"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            reader.subscribe("t", **wrong)


def test_what_a_subscription_says_is_what_its_queue_goes_by(pair: Pair) -> None:
    reader = pair[1]
    subscriber = reader.subscribe(
        "t", queue_size=5, queue_bytes=6, overflow="error", stall_seconds=7, name="sleeper"
    )
    queueing = subscriber._mailbox.queueing
    found = (queueing.queue_size, queueing.queue_bytes, queueing.overflow, queueing.stall_seconds)
    assert found == (5, 6, "error", 7)
    assert subscriber._mailbox.label == "sleeper"
    assert reader.subscribe("t", stall_seconds=None)._mailbox.queueing.stall_seconds is None
