"""Subscribers that are waited for with ``select``: readable while messages wait, and only then."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterator

import pytest

from peermesh import blocking
from peermesh.testing.time_limits import limit
from wire.errors import EndpointClosed

pytestmark = pytest.mark.skipif(not hasattr(os, "eventfd"), reason="Linux alone has eventfd")


@pytest.fixture
def endpoint() -> Iterator[blocking.Endpoint]:
    with blocking.Endpoint() as endpoint:
        yield endpoint


def is_readable(
    subscriber: blocking.Subscriber | blocking.StatusSubscriber, timeout: float = 0
) -> bool:
    return bool(select.select([subscriber], [], [], timeout)[0])


@pytest.mark.parametrize("take", [lambda s: s.get(), lambda s: s.poll(), lambda s: next(s)])
def test_it_is_readable_while_messages_wait(
    endpoint: blocking.Endpoint, take: Callable[[blocking.Subscriber], object]
) -> None:
    subscriber = endpoint.subscribe("/t", local=True)
    assert not is_readable(subscriber)
    for number in range(3):
        endpoint.publish("/t", number)
    assert is_readable(subscriber, limit())
    while subscriber.available() < 3:
        threading.Event().wait(0.001)
    while subscriber.available():
        assert is_readable(subscriber)
        take(subscriber)
    assert not is_readable(subscriber)
    endpoint.publish("/t", 3)
    assert is_readable(subscriber, limit())
    assert subscriber.fileno() == subscriber.fileno()


def test_it_is_not_cleared_for_a_moment_while_messages_wait(
    endpoint: blocking.Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriber, cleared = endpoint.subscribe("/t", local=True), []
    clear = os.eventfd_read

    def note(descriptor: int) -> int:
        cleared.append(subscriber.available())
        return clear(descriptor)

    monkeypatch.setattr(os, "eventfd_read", note)
    assert not is_readable(subscriber)
    for number in range(3):
        endpoint.publish("/t", number)
    while subscriber.available() < 3:
        threading.Event().wait(0.001)
    for _ in range(3):
        subscriber.get(limit())
    assert not is_readable(subscriber)
    assert cleared
    assert not any(cleared)


def test_what_came_before_the_first_use_is_seen(endpoint: blocking.Endpoint) -> None:
    subscriber = endpoint.subscribe("/t", local=True)
    for number in range(3):
        endpoint.publish("/t", number)
    assert subscriber.get(limit()).data == 0
    while subscriber.available() < 2:
        threading.Event().wait(0.001)
    assert is_readable(subscriber)
    assert [data for _, data in subscriber.poll()] == [1, 2]
    assert not is_readable(subscriber)


def test_nothing_is_lost_between_a_reader_that_selects_and_a_fast_publisher(
    endpoint: blocking.Endpoint,
) -> None:
    subscriber = endpoint.subscribe("/t", local=True, queue_size=64)
    count = 5_000

    def publish() -> None:
        for number in range(count):
            endpoint.publish("/t", number)

    publisher = threading.Thread(target=publish)
    publisher.start()
    seen: list[object] = []
    while len(seen) < count:
        assert is_readable(subscriber, limit())
        # What is readable does not wait.
        seen.append(subscriber.get(0).data)
    publisher.join(limit())
    assert seen == list(range(count))
    assert not is_readable(subscriber)


def test_the_end_is_readable_and_closing_closes_it(endpoint: blocking.Endpoint) -> None:
    ended, closed = endpoint.subscribe("/t"), endpoint.subscribe("/t")
    descriptor = closed.fileno()
    assert not is_readable(ended)
    closed.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(EndpointClosed):
        closed.fileno()
    endpoint.shutdown()
    assert is_readable(ended, limit())
    with pytest.raises(EndpointClosed):
        ended.get()
    ended.close()


# Status events.


def test_it_is_readable_while_events_wait(endpoint: blocking.Endpoint) -> None:
    early, late = endpoint.subscribe_status(), endpoint.subscribe_status()
    descriptor = early.fileno()
    assert not is_readable(early)
    endpoint.unpeer("127.0.0.1", 1)
    endpoint.unpeer("127.0.0.1", 2)
    assert is_readable(early, limit())
    early.get(limit())
    assert is_readable(early, limit())
    assert len(early.poll()) == 1
    assert not is_readable(early)
    assert is_readable(late)
    early.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    late.poll()
    assert not is_readable(late)
    endpoint.shutdown()
    assert is_readable(late, limit())
    late.close()
