"""The module broker with real threads, tasks and closes: serial, lossless, and never stuck."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import Counter

import pytest
import trio

from peermesh.brokers.modules import (
    AddLinkError,
    BrokerError,
    InboxFull,
    InvalidArgument,
    LinkPolicy,
    Message,
    ModuleBroker,
)
from peermesh.brokers.modules.loop import ModuleLoop
from peermesh.brokers.modules.worker import AsyncInbox
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
    for end, received in (
        (lambda broker, source, sink: broker.remove_link(source, sink), [0, 1]),
        (lambda broker, source, sink: broker.remove_module(sink, drain=False, timeout=0), [0]),
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
        broker.publish(source, Message(3))
        gate.set()
        with contextlib.suppress(BrokerError):  # Where it is gone already.
            broker.remove_module(sink)
        assert slow.closed.wait(limit())
        assert slow.received == received


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


def test_a_task_goes_on_when_its_only_message_is_dropped_before_it_takes_it(kit) -> None:
    """As a link does that drops the oldest, in another thread, at this very moment."""

    class Dropping(AsyncInbox):
        is_first = True

        def get_nowait(self) -> Message | None:
            if self.is_first and self.qsize():
                self.is_first = False
                self.take()
            return super().get_nowait()

    loop, got = ModuleLoop(), queue.SimpleQueue()
    inbox = Dropping(loop)

    async def receive() -> None:
        while (message := await inbox.next()) is not None:
            got.put(message.content)
        got.put(None)

    inbox.put(Message("old"))
    loop.start(receive)
    kit.until(lambda: not inbox.is_first)
    inbox.put(Message("newest"))
    inbox.put(None)
    assert [got.get(timeout=limit()) for _ in range(2)] == ["newest", None]
    loop.end()


def test_a_task_that_gives_up_waiting_for_room_leaves_nothing_behind(held) -> None:
    class Impatient:
        async def attach(self, port: object) -> None:
            self.port = port

        async def receive(self, message: Message) -> None:
            with trio.move_on_after(0.01) as scope:
                await self.port.publish(message)
            held.notes.append(scope.cancelled_caught)

    broker = held.broker
    module = broker.add_module(Impatient(), "impatient")
    broker.add_link("impatient", "held")
    broker.add_link("source", "impatient")
    broker.remove_link("source", "held")
    for content in ("full", "late"):
        broker.publish("source", Message(content))
    held.until(lambda: held.notes[-1] is True)
    assert broker._core.seat(module).awaited is None
    assert not broker._workers[broker._core.seat("held").number].waiting
    held.gate.set()
    assert broker.remove_module(module)
    assert broker.remove_module("held")
    assert ("old", "full") in held.notes
    assert ("old", "late") not in held.notes


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


# Modules that take another one's place.


class Following:
    """Notes what it does, beside what others do."""

    def __init__(self, name: str, notes: list[object], gate: threading.Event | None = None) -> None:
        self._name = name
        self._notes = notes
        self._gate = gate
        self.entered = threading.Event()

    def attach(self, port: object) -> None:
        self._notes.append(f"{self._name} begins")
        self._port = port

    def receive(self, message: Message) -> None:
        self.entered.set()
        if self._gate is not None:
            assert self._gate.wait(limit())
        self._notes.append((self._name, message.content))
        self._port.publish(message)

    def close(self) -> None:
        self._notes.append(f"{self._name} ends")


@pytest.fixture
def held(kit):
    """A module that is in the middle of its first message, with two more in its inbox."""
    kit.notes, kit.gate, kit.sink = [], threading.Event(), kit.Collector()
    old = Following("old", kit.notes, kit.gate)
    for name, module in (("source", kit.Collector()), ("held", old), ("sink", kit.sink)):
        kit.broker.add_module(module, name, inbox_size=3)
    kit.broker.add_link("source", "held")
    kit.broker.add_link("held", "sink")
    kit.broker.publish("source", Message(0))
    assert old.entered.wait(limit())
    for number in (1, 2):
        kit.broker.publish("source", Message(number))
    yield kit
    kit.gate.set()


OLD = ["old begins", ("old", 0), ("old", 1), ("old", 2)]


def test_a_module_in_the_place_of_another_gets_what_comes_and_begins_when_that_has_ended(
    held,
) -> None:
    broker, before = held.broker, held.broker.modules()
    new = broker.replace_module("held", Following("new", held.notes), inbox_size=3)
    assert [each.name for each in broker.modules()] == ["source", "sink", "held"]
    assert {(each.source, each.sink) for each in broker.links()} == {
        ("source", "held"),
        ("held", "sink"),
    }
    for number in (3, 4):
        broker.publish("source", Message(number))
    assert held.notes == OLD[:1]
    assert [each.delivered for each in broker.links() if each.source == "source"] == [5]
    held.gate.set()
    assert broker.remove_module(new)
    assert held.notes == [*(*OLD, "old ends", "new begins", ("new", 3), ("new", 4), "new ends")]
    assert broker.remove_module("sink")
    assert held.sink.received == [0, 1, 2, 3, 4]
    assert len(before) == 3


def test_a_publisher_that_waits_for_room_goes_on_at_the_module_that_takes_the_place(held) -> None:
    broker = held.broker
    broker.publish("source", Message("last in the old one"))

    def publish() -> None:
        broker.publish("source", Message("waited"))

    def replace() -> None:
        held.until(lambda: broker._core.seat("held").limit == 0)
        broker.replace_module("held", Following("new", held.notes))

    held.in_threads(publish, replace)
    held.gate.set()
    assert broker.remove_module("held")
    assert held.notes == [
        *(*OLD, ("old", "last in the old one"), "old ends"),
        *("new begins", ("new", "waited"), "new ends"),
    ]


def test_a_module_that_is_replaced_before_it_began_never_begins_unless_messages_wait(held) -> None:
    broker, notes = held.broker, held.notes
    for name in ("second", "third", "fourth"):
        broker.replace_module("held", Following(name, notes), start=name != "third")
        if name == "third":
            broker.publish("source", Message(3))
    assert not broker.remove_module("held", timeout=0)
    held.gate.set()
    held.until(lambda: notes[-1] == "third ends")
    assert notes == [*OLD, "old ends", "third begins", ("third", 3), "third ends"]
    held.until(lambda: [each.name for each in broker.modules()] == ["source", "sink"])
    assert not broker._workers.keys() - {each.number for each in broker._core.seats()}


def test_a_module_without_start_waits_for_the_one_before_it_and_for_start(held) -> None:
    broker, notes = held.broker, held.notes
    broker.replace_module("held", Following("new", notes), start=False)
    broker.start()
    assert notes == OLD[:1]
    held.gate.set()
    held.until(lambda: notes[-1] == "new begins")
    broker.replace_module("held", Following("next", notes), start=False)
    held.until(lambda: notes[-1] == "new ends")
    broker.start()
    held.until(lambda: notes[-1] == "next begins")


def test_an_old_module_does_not_wait_for_one_that_waits_for_the_new_one(held) -> None:
    """The new one makes no room before the old one has ended."""
    broker, new = held.broker, held.Collector()
    broker.add_module(held.Calling(lambda port, message: port.publish(message)), "b", inbox_size=1)
    broker.add_module(held.Collector(), "other")
    for ends in (("held", "b"), ("b", "held"), ("other", "b")):
        broker.add_link(*ends)
    broker.replace_module("held", new, inbox_size=1)
    for content in ("in the inbox", "in the hand of b", "in the inbox of b"):
        broker.publish("other", Message(content))
    held.until(lambda: broker._core.seat("b").awaited is broker._core.seat("held"))
    held.gate.set()
    held.until(lambda: len(new.received) == 6)
    assert set(new.received) == {0, 1, 2, "in the inbox", "in the hand of b", "in the inbox of b"}


def test_what_is_published_in_the_name_of_a_module_that_is_replaced_arrives(kit) -> None:
    """Also what waits for room meanwhile, and what finds that the old one has just ended."""
    broker, sink, over, count = kit.broker, kit.Collector(), threading.Event(), 0
    broker.add_module(kit.Collector(), "source")
    broker.add_module(sink, "sink", inbox_size=1)
    broker.add_link("source", "sink")

    def publish() -> None:
        nonlocal count
        while not over.is_set():
            broker.publish("source", Message(count))
            count += 1

    def replace() -> None:
        try:
            for _ in range(50):
                broker.replace_module("source", kit.Collector())
                kit.until(lambda seen=count: count > seen)
        finally:
            over.set()

    kit.in_threads(publish, replace)
    assert broker.remove_module("sink")
    assert sink.received == list(range(count))


def test_a_source_that_is_replaced_and_ends_while_it_is_looked_up_publishes_by_the_new_one(
    kit, monkeypatch
) -> None:
    broker, sink = kit.broker, kit.Collector()
    broker.add_module(kit.Collector(), "source")
    broker.add_module(sink, "sink")
    broker.add_link("source", "sink")
    old, seat = broker._core.seat("source"), broker._core.seat
    broker.replace_module("source", kit.Collector())
    kit.until(lambda: old.is_gone)
    found = iter([old])
    monkeypatch.setattr(broker._core, "seat", lambda module: next(found, None) or seat(module))
    broker.publish("source", Message(1))
    assert broker.remove_module("sink")
    assert sink.received == [1]


def test_a_message_that_waits_for_room_goes_along_the_links_of_the_new_source(held) -> None:
    broker, notes = held.broker, held.notes
    broker.publish("source", Message(3))

    def replace() -> None:
        held.until(lambda: broker._core.seat("held").limit == 0)
        broker.replace_module("source", Following("new source", notes))
        held.until(lambda: "new source begins" in notes)  # the links of the old one have ended
        held.gate.set()

    held.in_threads(lambda: broker.publish("source", Message("waited")), replace)
    assert broker.remove_module("held")
    assert ("old", "waited") in notes


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_a_module_that_is_linked_to_itself_can_be_replaced(kit, kind) -> None:
    class Counting(kit.Collector):
        def receive(self, message: Message) -> None:
            super().receive(message)
            if message.content:
                self.port.publish(Message(message.content - 1))

    class AsyncCounting:
        received = ()

        async def attach(self, port: object) -> None:
            self.port, self.received = port, []

        async def receive(self, message: Message) -> None:
            self.received.append(message.content)
            if message.content:
                await self.port.publish(Message(message.content - 1))

    broker, make = kit.broker, Counting if kind == "thread" else AsyncCounting
    modules = [make() for _ in range(4)]
    broker.add_module(kit.Collector(), "source")
    broker.add_module(modules[0], "loop", inbox_size=2)
    broker.add_link("source", "loop")
    broker.add_link("loop", "loop")
    broker.publish("source", Message(300))
    for module in modules[1:]:
        broker.replace_module("loop", module, inbox_size=2)
    kit.until(lambda: sum(len(each.received) for each in modules) == 301)
    assert sorted(each for module in modules for each in module.received) == list(range(301))
    assert len(broker.links()) == 2


def test_replace_module_takes_modules_alone(kit) -> None:
    broker = kit.broker
    broker.add_module(kit.Collector(), "a")
    for arguments in ((None, kit.Collector()), ("a", object()), ("a", None)):
        with pytest.raises(InvalidArgument):
            broker.replace_module(*arguments)
    with pytest.raises(InvalidArgument):
        broker.replace_module("a", kit.Collector(), inbox_size=0)
    with pytest.raises(BrokerError, match="no module 'b'"):
        broker.replace_module("b", kit.Collector())
    assert [each.name for each in broker.modules()] == ["a"]


def test_a_link_with_another_policy_keeps_its_numbers_and_lets_those_go_on_that_wait(held) -> None:
    broker = held.broker
    broker.publish("source", Message(3))

    def change() -> None:
        held.until(lambda: broker._core.seat("held").limit == 0)
        broker.change_link("source", "held", "drop_newest")

    held.in_threads(lambda: broker.publish("source", Message("dropped")), change)
    (link,) = (each for each in broker.links() if each.source == "source")
    assert (link.delivered, link.dropped, link.policy) == (4, 1, LinkPolicy.DROP_NEWEST)
    broker.change_link("source", "held", "refuse")
    with pytest.raises(InboxFull):
        broker.publish("source", Message("refused"))
    with pytest.raises(AddLinkError, match="is not linked"):
        broker.change_link("source", "sink", "wait")
    with pytest.raises(InvalidArgument):
        broker.change_link("source", "held", "best")
