"""The seed's requirements, call by call, each tried where no other test shows it."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable

import pytest

from peermesh.brokers.modules import (
    AddLinkError,
    BrokerError,
    BrokerResult,
    InboxFull,
    InvalidArgument,
    Message,
    ModuleBroker,
    RemoveLinkError,
)
from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.modules.requirements import requirement

NO_MODULE = (None, [], {}, 1.5, b"a", True, object())


def refused(call: Callable[[], object], kind: type[BrokerError] = InvalidArgument) -> None:
    """See that a call raises an error of this kind, with the code of the seed."""
    with pytest.raises(BrokerError) as caught:
        call()
    assert type(caught.value) is kind
    codes = {
        InvalidArgument: BrokerResult.INVALIDARG,
        BrokerError: BrokerResult.ERROR,
        AddLinkError: BrokerResult.ADD_LINK_ERROR,
        RemoveLinkError: BrokerResult.REMOVE_LINK_ERROR,
    }
    assert caught.value.result is codes[kind]


# Create, retain, release.


@requirement("SRS_BROKER_13_001")
@requirement("SRS_BROKER_13_007")
def test_a_broker_begins_with_no_module_and_no_link() -> None:
    with ModuleBroker() as broker:
        assert broker.modules() == []
        assert broker.links() == []


@requirement("SRS_BROKER_13_003")
@pytest.mark.parametrize("step", ["threading.Lock", "Switchboard"])
def test_what_the_system_refuses_at_the_beginning_is_raised_and_nothing_stays(
    kit, monkeypatch, step: str
) -> None:
    def refuse() -> None:
        raise MemoryError

    def there() -> tuple[int, list[threading.Thread], int]:
        gc.collect()
        brokers = sum(type(each) is ModuleBroker for each in gc.get_objects())
        return brokers, threading.enumerate(), len(os.listdir("/proc/self/fd"))

    before, made = there(), list[ModuleBroker]()
    with monkeypatch.context() as patch:
        patch.setattr(f"peermesh.brokers.modules.broker.{step}", refuse)
        with pytest.raises(MemoryError):
            made.append(ModuleBroker())
    assert made == []
    assert there() == before
    sink = kit.Collector()
    with ModuleBroker() as broker:
        source = broker.add_module(kit.Collector())
        broker.add_link(source, broker.add_module(sink))
        broker.publish(source, Message(1))
    assert sink.received == [1]


@requirement("SRS_BROKER_13_108")
@requirement("SRS_BROKER_13_109")
def test_each_reference_has_to_be_given_back(kit) -> None:
    broker = ModuleBroker()
    assert broker.retain().retain() is broker
    broker.release()
    broker.release()
    broker.add_module(kit.Collector())
    broker.release()
    refused(broker.retain, BrokerError)
    refused(lambda: broker.add_module(kit.Collector()), BrokerError)


@requirement("SRS_BROKER_13_058")
@requirement("SRS_BROKER_13_113")
def test_destroying_is_releasing_and_cannot_be_done_too_often() -> None:
    broker = ModuleBroker().retain()
    broker.destroy()
    broker.release()
    refused(broker.destroy, BrokerError)
    refused(broker.release, BrokerError)


# Publish, and the workers.


@requirement("SRS_BROKER_17_001")
@requirement("SRS_BROKER_17_014")
def test_a_bus_of_threads_has_no_socket(kit) -> None:
    before = len(os.listdir("/proc/self/fd"))
    source, sink = kit.broker.add_module(kit.Collector()), kit.Collector()
    kit.broker.add_link(source, kit.broker.add_module(sink))
    kit.broker.publish(source, Message(1))
    assert sink.entered.wait(limit())
    assert len(os.listdir("/proc/self/fd")) == before


@requirement("SRS_BROKER_13_026")
@requirement("SRS_BROKER_13_107")
def test_a_worker_knows_its_module(kit) -> None:
    first, second = kit.Collector(), kit.Collector()
    numbers = [kit.broker.add_module(first, "first"), kit.broker.add_module(second)]
    kit.until(lambda: first.port and second.port)
    assert [first.port.module, second.port.module] == numbers
    assert [first.port.name, second.port.name] == ["first", f"module {numbers[1]}"]


@requirement("SRS_BROKER_17_005")
def test_a_worker_sleeps_until_there_is_something(kit) -> None:
    idle = threading.Event()

    class Waiting(kit.Collector):
        thread = 0

        def attach(self, port: object) -> None:
            self.thread = threading.get_native_id()
            idle.set()

    sink, source = Waiting(), kit.broker.add_module(kit.Collector())
    kit.broker.add_link(source, kit.broker.add_module(sink))
    assert idle.wait(limit())

    def state() -> str:
        with open(f"/proc/self/task/{sink.thread}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]

    kit.until(lambda: state() == "S")
    kit.broker.publish(source, Message(1))
    assert sink.entered.wait(limit())


@requirement("SRS_BROKER_17_024")
@requirement("SRS_BROKER_17_007")
def test_receivers_get_the_message_itself_with_nothing_in_front_of_it(kit) -> None:
    got: list[Message] = []
    source, message = kit.broker.add_module(kit.Collector()), Message(["a"], {"b": "c"})
    for name in ("first", "second"):
        kit.broker.add_module(kit.Calling(lambda port, each: got.append(each)), name)
        kit.broker.add_link(source, name)
    kit.broker.publish(source, message)
    for name in ("first", "second"):
        kit.broker.remove_module(name)
    assert len(got) == 2
    assert all(each is message for each in got)


@requirement("SRS_BROKER_17_026")
def test_a_link_tells_whose_messages_it_carried(kit) -> None:
    broker = kit.broker
    for name in "abc":
        broker.add_module(kit.Collector(), name)
    for source, count in (("a", 1), ("b", 2)):
        broker.add_link(source, "c")
        for _ in range(count):
            broker.publish(source, Message())
    assert [(each.source, each.delivered) for each in broker.links()] == [("a", 1), ("b", 2)]


def is_freed(thing: weakref.ref[object]) -> bool:
    gc.collect()
    return thing() is None


@requirement("SRS_BROKER_13_093")
@requirement("SRS_BROKER_17_019")
def test_a_message_is_freed_when_it_was_received(kit) -> None:
    class Async:
        async def receive(self, message: Message) -> None:
            """Take it in."""

    broker = kit.broker
    for name, module in (("thread", kit.Calling(lambda port, each: None)), ("task", Async())):
        source = broker.add_module(kit.Collector())
        broker.add_module(module, name)
        broker.add_link(source, name)
        message = Message(b"freed")
        freed = weakref.ref(message)
        broker.publish(source, message)
        del message
        kit.until(lambda freed=freed: is_freed(freed))


@requirement("SRS_BROKER_17_012")
def test_a_broker_keeps_no_message_that_it_has_delivered(kit) -> None:
    broker = kit.broker
    source, gate = broker.add_module(kit.Collector()), threading.Event()
    full = broker.add_module(kit.Collector(gate), inbox_size=1)
    for policy in ("drop_newest", "drop_oldest"):
        broker.add_link(source, full, policy)
        messages = [Message(number) for number in range(4)]
        freed = [weakref.ref(message) for message in messages]
        while messages:
            broker.publish(source, messages.pop(0))
        # One is in the hand of the module, one in its inbox; the others were dropped.
        kit.until(lambda freed=freed: sum(map(is_freed, freed)) >= 2)
        broker.remove_link(source, full)
    gate.set()


@requirement("SRS_BROKER_17_020")
@requirement("SRS_BROKER_17_028")
def test_no_message_is_mistaken_for_the_end(kit) -> None:
    sink, source = kit.Collector(), kit.broker.add_module(kit.Collector())
    kit.broker.add_link(source, kit.broker.add_module(sink, "sink"))
    contents = [None, b"", "quit", False, 0]
    for content in contents:
        kit.broker.publish(source, Message(content))
    assert kit.broker.remove_module("sink")
    assert sink.received == contents


@requirement("SRS_BROKER_13_030")
def test_publish_takes_a_module_and_a_message_alone(kit) -> None:
    module = kit.broker.add_module(kit.Collector())
    for each in NO_MODULE:
        refused(lambda each=each: kit.broker.publish(each, Message()))
    for each in (None, b"bytes", 1, object(), Message):
        refused(lambda each=each: kit.broker.publish(module, each))


@requirement("SRS_BROKER_13_037")
def test_publish_says_that_its_source_is_gone(kit) -> None:
    gone, collector = kit.broker.add_module(kit.Collector()), kit.Collector()
    kit.broker.remove_module(gone)
    for each in (gone, "nothing", 2**70):
        refused(lambda each=each: kit.broker.publish(each, Message()), BrokerError)
    named = kit.broker.add_module(collector)
    kit.until(lambda: collector.port)
    kit.broker.remove_module(named)
    refused(lambda: collector.port.publish(Message()), BrokerError)


# Modules.


@requirement("SRS_BROKER_99_013")
@requirement("SRS_BROKER_99_014")
def test_add_module_takes_a_module_alone(kit) -> None:
    add = kit.broker.add_module
    add(kit.Collector(), "taken")
    for each in (None, object(), 5, "module"):
        refused(lambda each=each: add(each))
    for name in ("taken", "", "x" * 257, 5, b"name", ["name"]):
        refused(lambda name=name: add(kit.Collector(), name))
    for size in (0, -1, 2**20 + 1, "5", 1.5, None, True):
        refused(lambda size=size: add(kit.Collector(), inbox_size=size))
    assert [each.name for each in kit.broker.modules()] == ["taken"]


@requirement("SRS_BROKER_13_045")
@requirement("SRS_BROKER_13_049")
def test_a_module_is_there_when_it_was_added_and_is_found_by_name_or_id(kit) -> None:
    broker = kit.broker
    numbers = [broker.add_module(kit.Collector(), name) for name in "abc"]
    assert [each.name for each in broker.modules()] == ["a", "b", "c"]
    assert broker.remove_module(numbers[1])
    assert broker.remove_module("a")
    assert [each.name for each in broker.modules()] == ["c"]


@requirement("SRS_BROKER_13_048")
def test_remove_module_takes_a_module_alone(kit) -> None:
    kit.broker.add_module(kit.Collector())
    for each in NO_MODULE:
        refused(lambda each=each: kit.broker.remove_module(each))
        refused(lambda each=each: kit.broker.remove_module(each, drain=False, timeout=0))
    assert len(kit.broker.modules()) == 1


@requirement("SRS_BROKER_13_050")
@requirement("SRS_BROKER_13_053")
def test_what_is_not_there_cannot_be_removed_and_what_is_there_can(kit) -> None:
    broker = kit.broker
    module = broker.add_module(kit.Collector(), "a")
    assert broker.remove_module(module) is True
    for each in (module, "a", "nothing", 99):
        refused(lambda each=each: broker.remove_module(each), BrokerError)
    assert broker.remove_module(broker.add_module(kit.Collector(), "a")) is True


@requirement("SRS_BROKER_17_021")
def test_removal_wakes_a_worker_that_sleeps(kit) -> None:
    class Async:
        async def receive(self, message: Message) -> None:
            """Take it in."""

    for module in (kit.Collector(), Async()):
        name = kit.broker.add_module(module)
        assert kit.broker.remove_module(name, timeout=limit())


@requirement("SRS_BROKER_17_015")
def test_what_waits_is_dropped_where_that_is_asked_for(kit) -> None:
    gate, broker = threading.Event(), kit.broker
    slow, source = kit.Collector(gate), broker.add_module(kit.Collector())
    broker.add_link(source, broker.add_module(slow, "slow"))
    for number in range(5):
        broker.publish(source, Message(number))
    assert slow.entered.wait(limit())
    assert not broker.remove_module("slow", drain=False, timeout=0)
    gate.set()
    assert slow.closed.wait(limit())
    assert slow.received == [0]


@requirement("SRS_BROKER_13_057")
def test_nothing_of_a_removed_module_stays(kit) -> None:
    class Async:
        async def attach(self, port: object) -> None:
            self.port = port

        async def receive(self, message: Message) -> None:
            """Take it in."""

    broker = kit.broker
    source = broker.add_module(kit.Collector())
    for kind in (kit.Collector, Async):
        threads, module = threading.active_count(), kind()
        freed = weakref.ref(module)
        name = broker.add_module(module)
        del module
        broker.add_link(source, name)
        broker.publish(source, Message(1))
        assert broker.remove_module(name)
        kit.until(lambda freed=freed: is_freed(freed))
        # The loop of async modules stays until the broker ends.
        assert threading.active_count() <= threads + 1
    assert broker.links() == []


# Links.


@requirement("SRS_BROKER_17_029")
def test_add_link_takes_modules_and_a_policy_alone(kit) -> None:
    module = kit.broker.add_module(kit.Collector())
    for each in NO_MODULE:
        refused(lambda each=each: kit.broker.add_link(each, module))
        refused(lambda each=each: kit.broker.add_link(module, each))
    refused(lambda: kit.broker.add_link(module, module, "no policy"))
    assert kit.broker.links() == []


@requirement("SRS_BROKER_17_031")
@requirement("SRS_BROKER_17_041")
def test_a_link_finds_both_ends_by_name_or_id(kit) -> None:
    broker = kit.broker
    first, second = broker.add_module(kit.Collector(), "a"), broker.add_module(kit.Collector(), "b")
    broker.add_link(first, "b")
    broker.add_link("b", first)
    broker.add_link(second, second)
    assert [(each.source, each.sink) for each in broker.links()] == [
        *(("a", "b"), ("b", "a"), ("b", "b"))
    ]


@requirement("SRS_BROKER_17_032")
def test_a_link_carries_what_is_published_from_then_on(kit) -> None:
    broker, sink = kit.broker, kit.Collector()
    source, module = broker.add_module(kit.Collector()), broker.add_module(sink)
    broker.publish(source, Message("before"))
    broker.add_link(source, module)
    broker.publish(source, Message("after"))
    broker.remove_module(module)
    assert sink.received == ["after"]


@requirement("SRS_BROKER_17_033")
@requirement("SRS_BROKER_17_034")
def test_a_link_that_cannot_be_is_refused_and_others_can_be_made_after(kit) -> None:
    broker = kit.broker
    module, gone = broker.add_module(kit.Collector()), broker.add_module(kit.Collector())
    broker.remove_module(gone)
    broker.add_link(module, module)
    for ends in ((module, gone), (gone, module), (module, module)):
        refused(lambda ends=ends: broker.add_link(*ends), AddLinkError)
    broker.add_link(module, broker.add_module(kit.Collector()))


@requirement("SRS_BROKER_17_035")
def test_remove_link_takes_modules_alone(kit) -> None:
    module = kit.broker.add_module(kit.Collector())
    kit.broker.add_link(module, module)
    for each in NO_MODULE:
        refused(lambda each=each: kit.broker.remove_link(each, module))
        refused(lambda each=each: kit.broker.remove_link(module, each))
    assert len(kit.broker.links()) == 1


@requirement("SRS_BROKER_17_037")
@requirement("SRS_BROKER_17_042")
def test_removing_a_link_finds_both_ends_by_name_or_id(kit) -> None:
    broker = kit.broker
    first, second = broker.add_module(kit.Collector(), "a"), broker.add_module(kit.Collector(), "b")
    for ends in ((first, "b"), ("a", second), (first, second)):
        broker.add_link("a", "b")
        broker.remove_link(*ends)
    assert broker.links() == []


@requirement("SRS_BROKER_17_039")
@requirement("SRS_BROKER_17_040")
def test_a_link_that_is_not_there_cannot_be_removed_and_others_can_after(kit) -> None:
    broker = kit.broker
    module, gone = broker.add_module(kit.Collector()), broker.add_module(kit.Collector())
    broker.remove_module(gone)
    broker.add_link(module, module)
    broker.remove_link(module, module)
    for ends in ((module, gone), (gone, module), (module, module)):
        refused(lambda ends=ends: broker.remove_link(*ends), RemoveLinkError)
    broker.add_link(module, module)
    broker.remove_link(module, module)


@requirement("SRS_BROKER_17_023")
def test_a_full_link_that_refuses_leaves_the_source_free_for_others(kit) -> None:
    gate, broker = threading.Event(), kit.broker
    slow, source = kit.Collector(gate), broker.add_module(kit.Collector())
    broker.add_link(source, broker.add_module(slow, inbox_size=1), "refuse")
    broker.publish(source, Message(0))
    assert slow.entered.wait(limit())
    broker.publish(source, Message(1))
    for _ in range(2):
        with pytest.raises(InboxFull):
            broker.publish(source, Message(2))
    gate.set()
