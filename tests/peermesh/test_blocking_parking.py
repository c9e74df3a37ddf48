"""Threads that publish on several topics: a reader that does not read stops its own topic alone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from endpoint.link.limits import Mark
from endpoint.pubsub.parking import PARKED_MAX
from peermesh import blocking
from peermesh.testing.time_limits import limit
from wire.errors import EndpointClosed, NotAllowed, OutboxFull

COUNT = 20_000


class Mesh:
    """A publisher, a reader of ``slow`` that does not read, and one of ``quick``."""

    def __init__(self, stack: ExitStack) -> None:
        self.filled = 0
        self.publisher, self.other = (stack.enter_context(blocking.Endpoint()) for _ in range(2))
        self.slow = self.other.subscribe("slow", queue_size=64, stall_seconds=None, name="sleeper")
        self.quick = self.other.subscribe("quick")
        assert self.other.peer("127.0.0.1", self.publisher.listen(), retry=0)
        for topic in ("slow", "quick"):
            assert self.publisher.await_subscribed(topic, timeout=limit())

    def fill(self, payload: bytes = b"x") -> threading.Thread:
        """Publish on ``slow`` in a thread until it waits there."""
        thread = threading.Thread(target=self._fill, args=(payload,), daemon=True)
        thread.start()
        while not self.publisher._outbound._free.waiting:
            threading.Event().wait(0.001)
        return thread

    def _fill(self, payload: bytes) -> None:
        try:
            while True:
                self.publisher.publish("slow", payload)
                self.filled += 1
        except (EndpointClosed, NotAllowed):
            pass


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    with ExitStack() as stack:
        mesh = Mesh(stack)
        yield mesh
        mesh.publisher.shutdown(grace=0)


def await_hold(mesh: Mesh) -> None:
    """Publish on ``slow`` until the word of its full reader has come."""
    while not mesh.publisher._pump._parking:
        mesh.publisher.publish("slow", b"x")
        while mesh.publisher._outbound._pending:  # Or too much would be parked at once.
            threading.Event().wait(0.0001)


@pytest.mark.parametrize("size", [1, 10_000])
def test_a_full_topic_stops_no_thread_of_another(mesh: Mesh, size: int) -> None:
    thread = mesh.fill(bytes(size))
    publisher = threading.Thread(
        target=lambda: [mesh.publisher.publish("quick", n) for n in range(COUNT)], daemon=True
    )
    publisher.start()
    assert [mesh.quick.get(limit()).data for _ in range(COUNT)] == list(range(COUNT))
    assert thread.is_alive()


def test_a_thread_that_publishes_on_both_goes_on_until_its_topic_is_full(mesh: Mesh) -> None:
    await_hold(mesh)
    for number in range(1_000):
        mesh.publisher.publish("slow", number)
        mesh.publisher.publish("quick", number)
    assert [mesh.quick.get(limit()).data for _ in range(1_000)] == list(range(1_000))


def test_what_was_parked_comes_in_its_order_when_the_reader_goes_on(mesh: Mesh) -> None:
    payloads = [number if number % 3 else number.to_bytes(4) for number in range(COUNT)]
    thread = threading.Thread(
        target=lambda: [mesh.publisher.publish("slow", each) for each in payloads]
    )
    thread.start()
    while thread.is_alive() and not mesh.publisher._outbound._free.waiting:
        threading.Event().wait(0.001)
    assert mesh.publisher._pump._parking
    assert [mesh.slow.get(limit()).data for _ in range(COUNT)] == payloads
    thread.join(limit())
    assert not mesh.publisher._pump._parking
    assert not mesh.publisher._pump._full


def test_topics_that_wait_for_one_link_keep_the_order_among_them(mesh: Mesh) -> None:
    (peering,) = mesh.publisher._endpoint.loop.peerings.values()
    data = peering.connection.link.data
    data.limits = replace(data.limits, own=Mark(2_000, 1_000))
    messages = [(f"many/{number % 7}", number) for number in range(COUNT)]
    with mesh.other.subscribe("many/", queue_size=2 * COUNT) as many:
        assert mesh.publisher.await_subscribed("many/", timeout=limit())
        thread = threading.Thread(
            target=lambda: [mesh.publisher.publish(*each) for each in messages], daemon=True
        )
        thread.start()
        assert [tuple(many.get(limit())) for _ in messages] == messages
    assert mesh.publisher._pump._parking.parked, "or the link was never full"


def test_publish_nowait_names_the_reader_that_is_full(mesh: Mesh) -> None:
    mesh.fill()
    with pytest.raises(OutboxFull, match=rf"'sleeper' at {mesh.other.node_id()} .* on slow: pub"):
        mesh.publisher.publish_nowait("slow", b"x")
    mesh.publisher.publish_nowait("quick", b"x")
    assert mesh.quick.get(limit()).data == b"x"


def test_so_much_is_parked_and_no_more(mesh: Mesh) -> None:
    mesh.fill()
    parked = len(mesh.publisher._pump._parking)
    assert PARKED_MAX <= parked < 3 * PARKED_MAX
    mesh.fill(bytes(100_000))
    assert len(mesh.publisher._pump._parking) == parked


def test_large_messages_that_are_parked_are_bounded_by_size(mesh: Mesh) -> None:
    mesh.fill(bytes(1_000_000))
    assert len(mesh.publisher._pump._parking) < 64


def test_what_is_parked_leaves_with_the_endpoint(mesh: Mesh) -> None:
    await_hold(mesh)
    for number in range(1_000):
        mesh.publisher.publish("slow", number)
    mesh.publisher.shutdown()
    got: list[object] = []
    while 999 not in got:
        got.append(mesh.slow.get(limit()).data)
    assert got[-1_000:] == list(range(1_000))


def test_a_thread_that_waits_at_its_topic_is_told_of_the_end() -> None:
    ended = threading.Event()
    with blocking.Endpoint() as endpoint:
        endpoint.publish("slow", b"x")
        endpoint._outbound._bytes_ways["slow"].obstacle = "a link that takes nothing"

        def publish() -> None:
            with pytest.raises(EndpointClosed):
                endpoint.publish("slow", b"x")
            ended.set()

        threading.Thread(target=publish, daemon=True).start()
        while not endpoint._outbound._free.waiting:
            threading.Event().wait(0.001)
    assert ended.wait(limit())


def test_a_topic_without_its_reader_goes_on(mesh: Mesh) -> None:
    mesh.fill()
    filled = mesh.filled
    mesh.slow.close()
    while mesh.filled < filled + 3 * PARKED_MAX:
        threading.Event().wait(0.001)


def test_a_message_whose_publisher_is_interrupted_is_not_published(mesh: Mesh) -> None:
    mesh.fill()
    main = threading.main_thread().ident
    assert main == threading.get_ident()

    def interrupt() -> None:
        while mesh.publisher._outbound._free.waiting < 2:
            threading.Event().wait(0.001)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        mesh.publisher.publish("slow", b"interrupted")
    mesh.filled = 0
    while mesh.filled < 3 * PARKED_MAX:
        assert b"interrupted" not in [data for _, data in mesh.slow.poll()]


def test_a_role_that_changes_drops_what_is_parked_and_tells_its_publisher(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mesh.fill()
    authorisation = mesh.publisher._endpoint.loop.core.authorisation

    def refuse(topic: str) -> None:
        raise NotAllowed(f"not on {topic}")

    monkeypatch.setattr(type(authorisation), "check_publish", staticmethod(refuse))
    monkeypatch.setattr(mesh.publisher._outbound, "_allow", refuse)
    publication = mesh.publisher._endpoint.loop.publication
    mesh.publisher._passage.call_sync(publication.invalidate)
    while mesh.publisher._pump._parking:
        threading.Event().wait(0.001)
    with pytest.raises(NotAllowed):
        mesh.publisher.publish("slow", b"x")
    assert "messages were not published: not on slow" in caplog.text


def test_what_waits_longer_than_it_may_goes_out_past_the_hold() -> None:
    with (
        blocking.Endpoint(hold_seconds_max=0.01) as publisher,
        blocking.Endpoint() as other,
        other.subscribe("slow", queue_size=64, stall_seconds=None) as slow,
    ):
        assert other.peer("127.0.0.1", publisher.listen(), retry=0)
        assert publisher.await_subscribed("slow", timeout=limit())
        while not slow.dropped:
            publisher.publish("slow", b"x")
