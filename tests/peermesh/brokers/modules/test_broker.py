"""The module broker with real threads, tasks and closes: serial, lossless, and never stuck."""

from __future__ import annotations

import contextlib
import queue
import random
import threading
from collections import Counter

import pytest
import trio

from peermesh import blocking
from peermesh.brokers.modules import (
    AddLinkError,
    BrokerError,
    BrokerResult,
    InboxFull,
    InvalidArgument,
    LinkPolicy,
    Message,
    ModuleBroker,
    RemoveLinkError,
)
from peermesh.testing.time_limits import limit
from wire.encoding import encode
from wire.errors import DecodeError


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


def test_bad_arguments_name_their_code(kit) -> None:
    broker = kit.broker
    module = broker.add_module(kit.Collector(), "a")
    for call in (
        lambda: broker.add_module(None),
        lambda: broker.add_module(object()),
        lambda: broker.add_module(kit.Collector(), "a"),
        lambda: broker.add_module(kit.Collector(), ""),
        lambda: broker.add_module(kit.Collector(), inbox_size=0),
        lambda: broker.publish(None, Message()),
        lambda: broker.publish(module, None),
        lambda: broker.publish(module, b"bytes"),
        lambda: broker.add_link(None, module),
        lambda: broker.add_link(module, None),
        lambda: broker.add_link(module, module, "no policy"),
        lambda: broker.remove_link(None, module),
        lambda: broker.remove_link(module, None),
        lambda: Message(b"", {"number": 1}),
    ):
        with pytest.raises(InvalidArgument) as caught:
            call()
        assert caught.value.result is BrokerResult.INVALIDARG


def test_what_is_not_there_names_its_code(kit) -> None:
    broker = kit.broker
    module, gone = broker.add_module(kit.Collector()), broker.add_module(kit.Collector())
    assert broker.remove_module(gone)
    for call in (lambda: broker.remove_module(gone), lambda: broker.publish(gone, Message())):
        with pytest.raises(BrokerError) as caught:
            call()
        assert caught.value.result is BrokerResult.ERROR
    broker.add_link(module, module)
    for call in (
        lambda: broker.add_link(module, gone),
        lambda: broker.add_link(gone, module),
        lambda: broker.add_link(module, module),
    ):
        with pytest.raises(AddLinkError) as caught:
            call()
        assert caught.value.result is BrokerResult.ADD_LINK_ERROR
    broker.remove_link(module, module)
    for call in (
        lambda: broker.remove_link(module, gone),
        lambda: broker.remove_link(gone, module),
        lambda: broker.remove_link(module, module),
    ):
        with pytest.raises(RemoveLinkError) as caught:
            call()
        assert caught.value.result is BrokerResult.REMOVE_LINK_ERROR


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


THREADS = 32
SINKS = 6


def disturb(kit, name: str, chance: random.Random) -> None:
    """Do something to a source that must not touch what it publishes to its own sink."""
    broker = kit.broker
    match chance.randrange(6):
        case 0:
            own = broker.add_module(kit.Collector(), inbox_size=2)
            broker.add_link(name, own, chance.choice(["drop_oldest", "drop_newest"]))
            broker.publish(name, Message((name, None)))
            assert broker.remove_module(own, drain=chance.random() < 0.5)
        case 1:
            broker.retain()
            broker.release()
        case 2:
            broker.modules()
            broker.links()
        case 3:
            other = f"sink {chance.randrange(SINKS)}"
            with contextlib.suppress(AddLinkError):
                broker.add_link(name, other, LinkPolicy.DROP_NEWEST)
                broker.remove_link(name, other)


def test_thirty_two_threads_of_random_operations_lose_nothing_and_never_stop(kit) -> None:
    broker = kit.broker
    sinks = [kit.Collector() for _ in range(SINKS)]
    for number, sink in enumerate(sinks):
        broker.add_module(sink, f"sink {number}", inbox_size=8)
    for thread in range(THREADS):
        broker.add_module(kit.Collector(), f"source {thread}")
        broker.add_link(f"source {thread}", f"sink {thread % SINKS}")

    def operate(thread: int) -> None:
        chance, name = random.Random(thread), f"source {thread}"
        for number in range(150):
            broker.publish(name, Message((name, number)))
            disturb(kit, name, chance)

    kit.in_threads(*[lambda thread=thread: operate(thread) for thread in range(THREADS)])
    for number in range(SINKS):
        assert broker.remove_module(f"sink {number}")
    for thread in range(THREADS):
        sink, name = sinks[thread % SINKS], f"source {thread}"
        assert not sink.was_concurrent
        numbers = [number for source, number in sink.received if source == name]
        assert [number for number in numbers if number is not None] == list(range(150))
    assert not kit.failures


def test_two_brokers_share_nothing(kit) -> None:
    with ModuleBroker() as other:
        module = kit.broker.add_module(kit.Collector(), "a")
        assert other.modules() == []
        with pytest.raises(BrokerError):
            other.publish(module, Message())
        other.add_module(kit.Collector(), "a")


def test_a_message_is_immutable_and_goes_through_bytes_unchanged() -> None:
    parts, properties = [1, b"2", ["3"]], {"unit": "celsius"}
    message = Message(parts, properties)
    parts.append(4)
    properties["unit"] = "kelvin"
    assert message == Message((1, b"2", ("3",)), {"unit": "celsius"})
    assert Message.decode(message.encode()) == message
    for attribute in ("content", "properties"):
        with pytest.raises(AttributeError):
            setattr(message, attribute, None)
    for encoded in (encode(1), encode((1, 2)), encode(({"n": 1}, b"")), b"\xff"):
        with pytest.raises(DecodeError):
            Message.decode(encoded)


def test_a_module_without_a_worker_is_not_added(kit, monkeypatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(BrokerError, match="can't start new thread"):
            kit.broker.add_module(kit.Collector(), "a")
    assert kit.broker.modules() == []
    kit.broker.add_module(kit.Collector(), "a")


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])
def test_a_module_that_wants_the_process_to_end_gets_its_own_end(kit, is_async: bool) -> None:
    def leave(port: object, message: Message) -> None:
        raise SystemExit(3)

    class Leaving:
        async def receive(self, message: Message) -> None:
            raise SystemExit(3)

    collector, broker = kit.Collector(), kit.broker
    source, other = broker.add_module(kit.Collector()), broker.add_module(collector, "other")
    sink = broker.add_module(Leaving() if is_async else kit.Calling(leave), "s")
    with blocking.Endpoint() as neighbour:
        broker.add_link(source, sink)
        broker.add_link(source, other)
        broker.publish(source, Message(0))
        while [each for each in broker.modules() if each.name == "s"]:
            threading.Event().wait(0.01)
        broker.publish(source, Message(1))
        broker.remove_module(other)
        assert collector.received == [0, 1]
        assert neighbour.listen() > 0
    (failure,) = kit.failures
    assert (failure.module, failure.method, type(failure.error)) == ("s", "receive", SystemExit)
