"""The blocking API when publishers are faster than the mesh: they wait, or are told, never more."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from endpoint.pubsub.mailbox import Mailbox
from peermesh import blocking as broker
from peermesh.testing.time_limits import limit
from wire.errors import EndpointClosed, OutboxFull

LARGE = bytes(1024 * 1024)
TOO_MANY = 64  # of them: several times what may wait anywhere on the way


@pytest.fixture
def publisher() -> Iterator[broker.Endpoint]:
    """An endpoint whose peer has subscribed, and does not read."""
    with broker.Endpoint() as left, broker.Endpoint() as right:
        reader = right.subscribe("/t")
        assert right.peer("127.0.0.1", left.listen(), retry=0)
        assert left.await_peer(right.node_id(), timeout=limit())
        yield left
        left.shutdown(grace=0)
        reader.close()


def test_publish_nowait_says_when_too_much_waits(publisher: broker.Endpoint) -> None:
    def publish() -> None:
        for _ in range(TOO_MANY):
            publisher.publish_nowait("/t", LARGE)

    with pytest.raises(OutboxFull, match="waits for room"):
        publish()


def test_who_waits_for_room_is_told_when_the_endpoint_ends(publisher: broker.Endpoint) -> None:
    ended = threading.Event()

    def publish() -> None:
        with suppress(EndpointClosed):
            while True:
                publisher.publish("/t", LARGE)
        ended.set()

    threading.Thread(target=publish, daemon=True).start()
    outbound = publisher._outbound
    while not outbound._free.waiting and not outbound._room.waiting:
        threading.Event().wait(0.001)
    publisher.shutdown(grace=0)
    assert ended.wait(limit())


@pytest.mark.parametrize(("size", "more_follows"), [(1, False), (1_000_000, True)])
def test_who_waits_is_woken_for_much_or_for_the_last(size: int, *, more_follows: bool) -> None:
    with broker.Endpoint() as endpoint, endpoint.subscribe("/t") as subscriber:
        got: queue.SimpleQueue[object] = queue.SimpleQueue()
        threading.Thread(target=lambda: got.put(subscriber.get()), daemon=True).start()
        while not subscriber._is_waiting:
            threading.Event().wait(0.001)
        mailbox = subscriber._mailbox
        mailbox.put(("/t",), b"\1", b"", [b"x"], 1, False)
        subscriber.wake(more_follows=True)
        assert subscriber._is_waiting
        mailbox.put(("/t",), b"\1", b"", [b"y"], size, False)
        subscriber.wake(more_follows=more_follows)
        assert got.get(timeout=limit()) == ("/t", b"x")


def test_publishers_that_are_held_up_too_late_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may hold them up just after the reader has taken all, and waits for more."""
    release = Mailbox.release
    with broker.Endpoint() as endpoint, endpoint.subscribe("/t") as subscriber:
        reader = threading.Thread(target=list, args=(subscriber,))

        def release_here(mailbox: Mailbox) -> bool:
            """Leave out the loop, whose tick lets them go later."""
            return threading.current_thread() is reader and release(mailbox)

        monkeypatch.setattr(Mailbox, "release", release_here)
        reader.start()
        while not subscriber._is_waiting:
            threading.Event().wait(0.001)
        subscriber._mailbox.is_holding = True
        subscriber.wake(more_follows=False)
        while subscriber._mailbox.is_holding:
            threading.Event().wait(0.001)
    reader.join(limit())
    assert not reader.is_alive()


def test_what_is_there_when_the_time_is_over_is_read() -> None:
    with broker.Endpoint() as endpoint, endpoint.subscribe("/t") as subscriber:
        got: queue.SimpleQueue[object] = queue.SimpleQueue()
        threading.Thread(target=lambda: got.put(subscriber.get(0.5)), daemon=True).start()
        while not subscriber._is_waiting:
            threading.Event().wait(0.001)
        subscriber._mailbox.put(("/t",), b"\1", b"", [b"x"], 1, False)
        subscriber.wake(more_follows=True)
        assert got.get(timeout=limit()) == ("/t", b"x")


def test_room_is_counted_by_bytes_and_given_back() -> None:
    with broker.Endpoint() as left, broker.Endpoint() as right:
        reader = right.subscribe("/t")
        assert right.peer("127.0.0.1", left.listen(), retry=0)
        assert left.await_peer(right.node_id(), timeout=limit())

        def publish() -> None:
            for _ in range(TOO_MANY):
                left.publish("/t", LARGE)
                left.publish("/t", b"small")

        threading.Thread(target=publish, daemon=True).start()
        assert [len(reader.get(limit())[1]) for _ in range(2 * TOO_MANY)] == [
            len(LARGE),
            5,
        ] * TOO_MANY
        outbound = left._outbound
        left.shutdown()
        assert not outbound._large_bytes
        assert not outbound._is_crowded
