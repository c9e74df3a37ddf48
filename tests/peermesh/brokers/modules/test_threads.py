"""Calls from many threads, which another one interrupts at every line of the broker's code."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable

import pytest

from peermesh.brokers.modules import (
    AddLinkError,
    BrokerError,
    LinkPolicy,
    Message,
    RemoveLinkError,
)
from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.modules.requirements import requirement
from tests.peermesh.brokers.modules.switching import RUNS, switching

THREADS = 32
SINKS = 6
SEEDS = range(6)

PATIENCE_SECONDS = 0.005
"""Longer than where many threads run: few wait for a lock, and a slow one is waited for."""


class Receiving:
    """Receives in a task."""

    async def receive(self, message: Message) -> None:
        """Take it in."""


class Operating:
    """What one thread does in the name of its own source."""

    def __init__(self, kit, thread: int, seed: int) -> None:
        self.name = f"source {thread}"
        self.delivered = 0
        """What went along the links of the modules that were the source before."""
        self._kit = kit
        self._broker = kit.broker
        self._own_sink = f"sink {thread % SINKS}"
        self._chance = random.Random(THREADS * seed + thread)

    def run(self, sinks: list, count: int) -> None:
        """Publish so many numbers; between them, do what must not touch those."""
        others = [
            self._modules, self._late, self._leave, self._references, self._link, self._change,
            self._replace_source, self._replace_sink, self._numbers,
        ]  # fmt: skip
        self._sinks = sinks
        for number in range(count):
            self._broker.publish(self.name, Message((self.name, number)))
            self._chance.choice(others)()

    def _publish(self) -> None:
        self._broker.publish(self.name, Message((self.name, None)))

    def _policy(self) -> LinkPolicy:
        return self._chance.choice([LinkPolicy.DROP_OLDEST, LinkPolicy.DROP_NEWEST])

    def _remove(self, module: int) -> None:
        assert self._broker.remove_module(module, drain=self._chance.random() < 0.5)

    def _modules(self) -> None:
        module = self._chance.choice([self._kit.Collector, Receiving])()
        own = self._broker.add_module(module, inbox_size=2)
        self._broker.add_link(self.name, own, self._policy())
        self._broker.change_link(self.name, own, self._policy())
        self._publish()
        self._remove(own)

    def _late(self) -> None:
        own = self._broker.add_module(self._kit.Collector(), start=False)
        self._broker.add_link(self.name, own)
        self._publish()
        self._broker.start()
        self._remove(own)

    def _leave(self) -> None:
        own = self._broker.add_module(self._kit.Calling(lambda port, message: port.leave()))
        self._broker.add_link(self.name, own)
        self._publish()
        with contextlib.suppress(BrokerError):
            self._broker.remove_module(own)

    def _references(self) -> None:
        self._broker.retain()
        self._broker.release()

    def _link(self) -> None:
        other = f"sink {self._chance.randrange(SINKS)}"
        with contextlib.suppress(AddLinkError):
            self._broker.add_link(self.name, other, LinkPolicy.DROP_NEWEST)
            self._broker.remove_link(self.name, other)

    def _change(self) -> None:
        for policy in (self._policy(), LinkPolicy.REFUSE, LinkPolicy.WAIT):
            self._broker.change_link(self.name, self._own_sink, policy)

    def _replace_source(self) -> None:
        self.delivered += delivered(self._broker)[self.name]
        self._broker.replace_module(self.name, self._kit.Collector())

    def _replace_sink(self) -> None:
        """It is the same again: so its messages are in one list, and it would see two workers."""
        number = self._chance.randrange(SINKS)
        self._broker.replace_module(f"sink {number}", self._sinks[number], inbox_size=8)

    def _numbers(self) -> None:
        self._broker.modules()
        self._broker.links()


def delivered(broker) -> dict[str, int]:
    """Count what went from each source to its own sink, while it is linked to no other."""
    return {link.source: link.delivered for link in broker.links()}


def operate(kit, count: int, seed: int = 0) -> None:
    """Do random operations in 32 threads, and see that nothing was lost, doubled or out of turn."""
    broker = kit.broker
    sinks = [kit.Collector() for _ in range(SINKS)]
    for number, sink in enumerate(sinks):
        broker.add_module(sink, f"sink {number}", inbox_size=8)
    operating = [Operating(kit, thread, seed) for thread in range(THREADS)]
    for thread, each in enumerate(operating):
        broker.add_module(kit.Collector(), each.name)
        broker.add_link(each.name, f"sink {thread % SINKS}")
    kit.in_threads(*[lambda each=each: each.run(sinks, count) for each in operating])
    last = delivered(broker)
    for number in range(SINKS):
        assert broker.remove_module(f"sink {number}")
    for thread, each in enumerate(operating):
        sink = sinks[thread % SINKS]
        assert not sink.was_concurrent
        numbers = [number for source, number in sink.received if source == each.name]
        assert [number for number in numbers if number is not None] == list(range(count))
        assert each.delivered + last[each.name] == len(numbers)
    assert not kit.failures


def test_thirty_two_threads_of_random_operations_lose_nothing_and_never_stop(kit) -> None:
    operate(kit, 150)


@pytest.mark.parametrize("seed", range(3))
def test_thirty_two_threads_that_are_switched_at_every_line_do_neither(kit, seed: int) -> None:
    with switching(seed) as scheduler:
        operate(kit, 8, seed)
    assert scheduler.switches > 3_000


def at_once(kit, seed: int, *calls: Callable[[], object]) -> None:
    """Make calls in threads that are switched at every line."""
    with switching(seed, PATIENCE_SECONDS) as scheduler:
        kit.in_threads(*scheduler.run_together(calls))


def counted(calls: int, call: Callable[[], object], error: type[Exception]) -> list[Callable]:
    """Give calls, and a list of those that succeeded, which gets one entry each."""
    succeeded: list[object] = []

    def run() -> None:
        with contextlib.suppress(error):
            succeeded.append(call())

    return [*[run] * calls, succeeded]


@pytest.mark.parametrize("seed", SEEDS)
@requirement("SRS_BROKER_13_023")
@requirement("SRS_BROKER_13_039")
def test_modules_that_are_added_at_once_are_all_there(kit, seed: int) -> None:
    numbers: list[int] = []
    add = kit.broker.add_module
    at_once(kit, seed, *[lambda: numbers.append(add(kit.Collector()))] * 6)
    assert len(set(numbers)) == len(kit.broker.modules()) == 6
    *calls, succeeded = counted(4, lambda: add(kit.Collector(), "one"), BrokerError)
    at_once(kit, seed, *calls)
    assert len(succeeded) == 1


@pytest.mark.parametrize("seed", SEEDS)
@requirement("SRS_BROKER_17_030")
def test_a_link_that_is_added_at_once_is_added_once(kit, seed: int) -> None:
    broker, sink = kit.broker, kit.Collector()
    broker.add_module(kit.Collector(), "a")
    broker.add_module(sink, "b")
    *calls, succeeded = counted(4, lambda: broker.add_link("a", "b"), AddLinkError)
    at_once(kit, seed, *calls)
    assert len(succeeded) == len(broker.links()) == 1
    broker.publish("a", Message(1))
    broker.remove_module("b")
    assert sink.received == [1]


@pytest.mark.parametrize("seed", SEEDS)
def test_links_of_one_source_that_are_added_at_once_are_all_there(kit, seed: int) -> None:
    broker, names = kit.broker, [f"sink {number}" for number in range(6)]
    broker.add_module(kit.Collector(), "a")
    for name in names:
        broker.add_module(kit.Collector(), name)
    at_once(kit, seed, *[lambda name=name: broker.add_link("a", name) for name in names])
    assert sorted(link.sink for link in broker.links()) == names
    at_once(kit, seed, *[lambda name=name: broker.remove_link("a", name) for name in names[1:]])
    assert [link.sink for link in broker.links()] == names[:1]


@pytest.mark.parametrize("seed", SEEDS)
@requirement("SRS_BROKER_17_036")
def test_a_link_that_is_removed_at_once_is_removed_once(kit, seed: int) -> None:
    broker = kit.broker
    for name in "ab":
        broker.add_module(kit.Collector(), name)
    broker.add_link("a", "b")
    *calls, succeeded = counted(4, lambda: broker.remove_link("a", "b"), RemoveLinkError)
    at_once(kit, seed, *calls)
    assert len(succeeded) == 1
    assert broker.links() == []


@pytest.mark.parametrize("seed", SEEDS)
@requirement("SRS_BROKER_13_088")
def test_a_module_that_is_removed_at_once_is_removed_once(kit, seed: int) -> None:
    broker = kit.broker
    broker.add_module(kit.Collector(), "a")
    *calls, succeeded = counted(4, lambda: broker.remove_module("a"), BrokerError)
    at_once(kit, seed, *calls)
    assert succeeded == [True]
    assert broker.modules() == []


class Publishing:
    """Publishes in a task, from its first message on until it is told that it is over."""

    def __init__(self, started: threading.Event, over: list[bool]) -> None:
        self._started = started
        self._over = over

    async def attach(self, port: object) -> None:
        self._port = port

    async def receive(self, message: Message) -> None:
        self._started.set()
        while not self._over:
            await self._port.publish(Message("first"))


IN_A_ROW = 6
"""The longer the row, the more likely a message that is late lands in it."""


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])
@pytest.mark.parametrize("seed", range(RUNS - 1, 14 * RUNS, RUNS))  # whose turns are the longest
@requirement("SRS_BROKER_17_022")
def test_nothing_comes_by_a_link_after_it_was_removed(kit, seed: int, is_async: bool) -> None:
    """What removes it publishes by another way, in a row: nothing comes in between."""
    broker, sink, started, over = kit.broker, kit.Collector(), threading.Event(), []

    with switching(seed, PATIENCE_SECONDS) as scheduler:
        source = broker.add_module(Publishing(started, over) if is_async else kit.Collector())
        way, other = broker.add_module(sink, inbox_size=100_000), broker.add_module(kit.Collector())
        broker.add_link(source, way)
        broker.add_link(other, way)
        driver = broker.add_module(kit.Collector())
        broker.add_link(driver, source)

        def publish() -> None:
            if is_async:
                broker.publish(driver, Message())
                return
            started.set()
            while not over:
                broker.publish(source, Message("first"))

        def remove() -> None:
            assert started.wait(limit())
            for number in range(10):
                broker.remove_link(source, way)
                for _ in range(IN_A_ROW):
                    broker.publish(other, Message(number))
                broker.add_link(source, way)
            over.append(True)

        kit.in_threads(*scheduler.run_together([publish, remove]))
        broker.remove_module(source)
        broker.remove_module(way)
    for number in range(10):
        place = sink.received.index(number)
        assert sink.received[place : place + IN_A_ROW] == [number] * IN_A_ROW


@pytest.mark.parametrize("seed", SEEDS)
@requirement("SRS_BROKER_13_089")
@requirement("SRS_BROKER_13_099")
def test_an_inbox_that_many_fill_at_once_loses_nothing_and_receives_in_turn(kit, seed) -> None:
    broker, sink = kit.broker, kit.Collector()
    with switching(seed):
        broker.add_module(sink, "sink", inbox_size=1)
        for name in "abcd":
            broker.add_module(kit.Collector(), name)
            broker.add_link(name, "sink")

        def publish(name: str) -> None:
            for number in range(5):
                broker.publish(name, Message((name, number)))

        kit.in_threads(*[lambda name=name: publish(name) for name in "abcd"])
        assert broker.remove_module("sink")
    assert not sink.was_concurrent
    for name in "abcd":
        assert [number for source, number in sink.received if source == name] == list(range(5))


@pytest.mark.parametrize("seed", SEEDS)
@requirement("SRS_BROKER_02_001")
@requirement("SRS_BROKER_02_003")
def test_what_was_delivered_before_a_removal_is_received_and_nothing_behind_it(kit, seed) -> None:
    broker, sink, taken = kit.broker, kit.Collector(), []
    with switching(seed):
        source = broker.add_module(kit.Collector())
        broker.add_link(source, broker.add_module(sink, "sink"))

        def publish() -> None:
            for number in range(8):
                broker.publish(source, Message(number))
                taken.append(number)

        kit.in_threads(publish, lambda: broker.remove_module("sink"))
    assert sink.received == list(range(len(sink.received)))
    assert sink.closed.is_set()
