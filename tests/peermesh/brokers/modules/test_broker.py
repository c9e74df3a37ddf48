"""The module broker with real threads, tasks and closes: serial, lossless, and never stuck."""

from __future__ import annotations

import queue
import threading
from collections import Counter

import pytest
import trio

from peermesh.brokers.modules import (
    BrokerError,
    InboxFull,
    LinkPolicy,
    Message,
    ModuleBroker,
)
from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.modules.requirements import requirement


@requirement("SRS_BROKER_13_092")
@requirement("SRS_BROKER_17_010")
def test_what_a_source_publishes_reaches_its_sinks_in_order_and_nobody_else(kit) -> None:
    first, second, other = kit.Collector(), kit.Collector(), kit.Collector()
    broker = kit.broker
    source = broker.add_module(kit.Collector(), "source")
    for name, module in (("first", first), ("second", second), ("other", other)):
        broker.add_module(module, name)
    broker.add_link(source, "first")
    broker.add_link("source", "second")
    broker.add_link("other", "first")
    for number in range(500):
        broker.publish(source, Message(number))
    for name in ("first", "second", "other"):
        assert broker.remove_module(name)
    assert first.received == second.received == list(range(500))
    assert other.received == []
    assert first.closed.is_set()
    assert not kit.failures


@requirement("SRS_BROKER_13_111")
@requirement("SRS_BROKER_13_112")
def test_the_last_reference_ends_the_broker_and_its_modules(kit) -> None:
    broker, module = ModuleBroker(), kit.Collector()
    source = broker.add_module(kit.Collector())
    broker.add_link(source, broker.add_module(module))
    assert broker.retain() is broker
    broker.publish(source, Message(1))
    broker.release()
    broker.publish(source, Message(2))
    broker.destroy()
    assert module.received == [1, 2]
    assert module.closed.is_set()
    for call in (broker.retain, broker.release, lambda: broker.add_module(kit.Collector())):
        with pytest.raises(BrokerError, match="destroyed"):
            call()


def test_a_module_that_raises_is_reported_and_goes_on(kit) -> None:
    taken: list[object] = []

    def receive(port: object, message: Message) -> None:
        if message.content == 2:
            raise ValueError("two")
        taken.append(message.content)

    broker = kit.broker
    source, sink = broker.add_module(kit.Collector()), broker.add_module(kit.Calling(receive), "s")
    broker.add_link(source, sink)
    for number in range(5):
        broker.publish(source, Message(number))
    broker.remove_module(sink)
    assert taken == [0, 1, 3, 4]
    (failure,) = kit.failures
    assert (failure.module, failure.method, str(failure.error)) == ("s", "receive", "two")
    assert failure.message == Message(2)


def test_a_module_that_cannot_attach_is_reported_and_removed(kit) -> None:
    class Broken(kit.Collector):
        def attach(self, port: object) -> None:
            raise OSError("no device")

    removed = threading.Event()
    kit.broker.report = lambda failure: (kit.failures.append(failure), removed.set())
    kit.broker.add_module(Broken(), "broken")
    assert removed.wait(limit())
    with kit.broker as broker:
        broker.retain()
    assert [failure.method for failure in kit.failures] == ["attach"]


@pytest.mark.parametrize(
    ("policy", "kept", "dropped"),
    [(LinkPolicy.DROP_NEWEST, [0, 1, 2, 3], 6), (LinkPolicy.DROP_OLDEST, [0, 7, 8, 9], 6)],
)
def test_a_full_inbox_drops_what_its_link_says_and_counts_it(kit, policy, kept, dropped) -> None:
    gate, broker = threading.Event(), kit.broker
    slow = kit.Collector(gate)
    source, sink = broker.add_module(kit.Collector(), "a"), broker.add_module(slow, inbox_size=3)
    broker.add_link(source, sink, policy)
    broker.publish(source, Message(0))
    assert slow.entered.wait(limit())
    for number in range(1, 10):
        broker.publish(source, Message(number))
    (link,) = broker.links()
    assert (link.dropped, link.policy) == (dropped, policy)
    gate.set()
    broker.remove_module(sink)
    assert slow.received == kept


@requirement("SRS_BROKER_17_023")
def test_a_link_that_refuses_tells_the_publisher_and_nobody_gets_the_message(kit) -> None:
    gate, broker = threading.Event(), kit.broker
    slow, quick = kit.Collector(gate), kit.Collector()
    source = broker.add_module(kit.Collector())
    fast, sink = broker.add_module(quick), broker.add_module(slow, inbox_size=1)
    broker.add_link(source, fast)
    broker.add_link(source, sink, LinkPolicy.REFUSE)
    broker.publish(source, Message(0))
    assert slow.entered.wait(limit())
    broker.publish(source, Message(1))
    with pytest.raises(InboxFull):
        broker.publish(source, Message(2))
    gate.set()
    broker.remove_module(sink)
    broker.remove_module(fast)
    assert slow.received == quick.received == [0, 1]


@requirement("SRS_BROKER_17_013")
def test_a_publisher_waits_for_room_and_nothing_is_lost(kit) -> None:
    gate, broker = threading.Event(), kit.broker
    slow = kit.Collector(gate)
    source, sink = broker.add_module(kit.Collector()), broker.add_module(slow, inbox_size=2)
    broker.add_link(source, sink)
    published: list[int] = []

    def publish() -> None:
        for number in range(50):
            broker.publish(source, Message(number))
            published.append(number)

    def open_gate() -> None:
        assert slow.entered.wait(limit())
        assert len(published) < 50
        gate.set()

    kit.in_threads(publish, open_gate)
    broker.remove_module(sink)
    assert slow.received == list(range(50))


@requirement("SRS_BROKER_17_038")
def test_a_waiting_publisher_goes_on_when_its_link_or_its_sink_goes(kit) -> None:
    for end in (
        lambda broker, source, sink: broker.remove_link(source, sink),
        lambda broker, source, sink: broker.remove_module(sink, drain=False, timeout=0),
    ):
        gate, broker = threading.Event(), kit.broker
        slow = kit.Collector(gate)
        source, sink = broker.add_module(kit.Collector()), broker.add_module(slow, inbox_size=1)
        broker.add_link(source, sink)
        broker.publish(source, Message(0))
        assert slow.entered.wait(limit())
        broker.publish(source, Message(1))
        kit.in_threads(
            lambda broker=broker, source=source: broker.publish(source, Message(2)),
            lambda broker=broker, source=source, sink=sink, end=end: end(broker, source, sink),
        )
        gate.set()


@requirement("SRS_BROKER_13_091")
@requirement("SRS_BROKER_13_054")
def test_a_module_may_remove_itself_from_inside_of_a_callback(kit) -> None:
    results: list[object] = []
    removed = threading.Event()

    def receive(port: object, message: Message) -> None:
        results.append(message.content)
        if message.content == 1:
            results.append(kit.broker.remove_module(port.module))
            removed.set()

    broker = kit.broker
    source, sink = broker.add_module(kit.Collector()), broker.add_module(kit.Calling(receive))
    broker.add_link(source, sink)
    for number in range(3):
        broker.publish(source, Message(number))
    assert removed.wait(limit())
    broker.release()
    assert results == [0, 1, False, 2]


@requirement("SRS_BROKER_13_104")
def test_two_modules_may_remove_each_other_at_once(kit) -> None:
    broker, both = kit.broker, threading.Barrier(2)
    results: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def remove(name: str):
        def receive(port: object, message: Message) -> None:
            both.wait(limit())
            results.put(broker.remove_module(name))

        return kit.Calling(receive)

    source = broker.add_module(kit.Collector())
    for name, other in (("a", "b"), ("b", "a")):
        broker.add_module(remove(other), name)
        broker.add_link(source, name)
    broker.publish(source, Message())
    # One of them waits for the other, which must not wait for it.
    assert sorted(results.get(timeout=limit()) for _ in range(2)) == [False, True]
    broker.release()
    assert not kit.failures


@requirement("SRS_BROKER_13_068")
def test_removal_waits_for_a_callback_that_blocks_unless_told_how_long(kit) -> None:
    gate, broker = threading.Event(), kit.broker
    slow = kit.Collector(gate)
    source, sink = broker.add_module(kit.Collector()), broker.add_module(slow)
    broker.add_link(source, sink)
    for number in range(3):
        broker.publish(source, Message(number))
    assert slow.entered.wait(limit())
    assert not broker.remove_module(sink, timeout=0)
    with pytest.raises(BrokerError):
        broker.remove_module(sink)
    gate.set()
    assert slow.closed.wait(limit())
    assert slow.received == [0, 1, 2]


def test_a_circle_of_full_inboxes_does_not_stop(kit) -> None:
    broker, done = kit.broker, threading.Event()
    counts: Counter[str] = Counter()

    def receive(port: object, message: Message) -> None:
        counts[port.name] += 1
        if message.content:
            port.publish(Message(message.content - 1))
        elif sum(counts.values()) >= 40 * 101:
            done.set()

    source = broker.add_module(kit.Collector())
    for name in "abc":
        broker.add_module(kit.Calling(receive), name, inbox_size=1)
    for begin, end in ("ab", "bc", "ca"):
        broker.add_link(begin, end)
    broker.add_link(source, "a")
    for _ in range(40):
        broker.publish(source, Message(100))
    assert done.wait(limit())
    assert sum(counts.values()) == 40 * 101


@requirement("SRS_BROKER_13_102")
def test_async_modules_are_tasks_that_receive_in_turn_and_publish(kit) -> None:
    class Doubler:
        def __init__(self) -> None:
            self.inside = 0
            self.is_closed = False

        async def attach(self, port: object) -> None:
            self.port = port

        async def receive(self, message: Message) -> None:
            self.inside += 1
            assert self.inside == 1
            await trio.lowlevel.checkpoint()
            await self.port.publish(Message(message.content * 2))
            self.inside -= 1

        async def close(self) -> None:
            self.is_closed = True

    broker, doubler, sink = kit.broker, Doubler(), kit.Collector()
    source = broker.add_module(kit.Collector())
    broker.add_module(doubler, "doubler", inbox_size=2)
    broker.add_module(sink, "sink", inbox_size=2)
    broker.add_link(source, "doubler")
    broker.add_link("doubler", "sink")
    for number in range(100):
        broker.publish(source, Message(number))
    assert broker.remove_module("doubler")
    assert broker.remove_module("sink")
    assert sink.received == [2 * number for number in range(100)]
    assert doubler.is_closed
    assert not kit.failures


def test_an_async_module_that_blocks_its_loop_with_publish_is_told_to_await(kit) -> None:
    class Blocking:
        async def receive(self, message: Message) -> None:
            kit.broker.publish("source", message)

    broker = kit.broker
    source, sink = broker.add_module(kit.Collector(), "source"), broker.add_module(Blocking())
    broker.add_link(source, sink)
    broker.publish(source, Message())
    broker.remove_module(sink)
    (failure,) = kit.failures
    assert "await" in str(failure.error)


def test_an_async_module_may_leave_and_may_end_the_broker(kit) -> None:
    class Leaving:
        async def attach(self, port: object) -> None:
            self.port = port

        async def receive(self, message: Message) -> None:
            self.port.leave()
            kit.broker.release()

    broker = kit.broker
    source, sink = broker.add_module(kit.Collector()), broker.add_module(Leaving())
    broker.add_link(source, sink)
    broker.publish(source, Message())

    def use() -> None:
        while True:
            broker.retain().release()

    with pytest.raises(BrokerError, match="destroyed"):
        use()
    assert not kit.failures


@requirement("SRS_BROKER_13_067")
def test_two_brokers_share_nothing(kit) -> None:
    with ModuleBroker() as other:
        module = kit.broker.add_module(kit.Collector(), "a")
        assert other.modules() == []
        with pytest.raises(BrokerError):
            other.publish(module, Message())
        other.add_module(kit.Collector(), "a")


@requirement("SRS_BROKER_13_046")
@requirement("SRS_BROKER_13_047")
def test_a_module_without_a_worker_is_not_added(kit, monkeypatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(BrokerError, match="can't start new thread"):
            kit.broker.add_module(kit.Collector(), "a")
    assert kit.broker.modules() == []
    kit.broker.add_module(kit.Collector(), "a")
