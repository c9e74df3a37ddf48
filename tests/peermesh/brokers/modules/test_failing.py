"""Modules that raise anything, block, or lose their worker: it is told, and all else goes on."""

from __future__ import annotations

import ctypes
import linecache
import sys
import threading
import time

import pytest
import trio

from peermesh import blocking
from peermesh.brokers.modules import BrokerError, Message, ModuleBroker, ProcessModule
from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.modules.requirements import requirement

KINDS = ("thread", "task", "process")
ERRORS = (SystemExit, KeyboardInterrupt, GeneratorExit, ValueError)

GATEWAY = """
import builtins, threading
from peermesh.brokers.modules import Message

class Raising:
    def attach(self, port):
        self.port = port
    def receive(self, message):
        if message.content in ERRORS:
            raise getattr(builtins, message.content)(3)
        if message.content == "block":
            threading.Event().wait()
        self.port.publish(message)
"""


class Raising:
    """Raises what a message names, blocks, or passes the message on."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.is_blocked = threading.Event()

    def attach(self, port: object) -> None:
        self.port = port

    def receive(self, message: Message) -> None:
        self.do(message)
        self.port.publish(message)

    def do(self, message: Message) -> None:
        for kind in ERRORS:
            if message.content == kind.__name__:
                raise kind(3)
        if message.content == "block":
            self.is_blocked.set()
            self.release.wait(limit())


class AsyncRaising(Raising):
    """The same in a task."""

    async def attach(self, port: object) -> None:
        self.port = port

    async def receive(self, message: Message) -> None:
        self.do(message)
        await self.port.publish(message)


@pytest.fixture
def make(tmp_path, monkeypatch):
    names = tuple(kind.__name__ for kind in ERRORS)
    (tmp_path / "raising_gateway.py").write_text(f"ERRORS = {names}\n{GATEWAY}")
    monkeypatch.chdir(tmp_path)
    return {
        "thread": Raising,
        "task": AsyncRaising,
        "process": lambda: ProcessModule("raising_gateway:Raising"),
    }


@pytest.fixture
def mesh():
    """Two endpoints of this process that have to go on."""
    with blocking.Endpoint() as one, blocking.Endpoint() as two:
        heard = two.subscribe("t")
        assert two.peer("127.0.0.1", one.listen(), timeout=limit())
        assert one.await_peer(two.node_id(), timeout=limit())

        def works() -> None:
            one.publish("t", time.monotonic_ns())
            assert heard.get(limit())[0] == "t"
            assert one.peers()

        works()
        yield works


def chain(kit, module: object) -> None:
    kit.sink = kit.Collector()
    kit.broker.add_module(kit.Collector(), "source")
    kit.broker.add_module(module, "module")
    kit.broker.add_module(kit.sink, "sink")
    kit.broker.add_link("source", "module")
    kit.broker.add_link("module", "sink")


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_that_raises_anything_is_reported_and_goes_on(kit, make, mesh, kind) -> None:
    chain(kit, make[kind]())
    for error in ERRORS:
        kit.broker.publish("source", Message(error.__name__))
        kit.broker.publish("source", Message(f"after {error.__name__}"))
    assert kit.broker.remove_module("module", timeout=limit())
    mesh()
    assert kit.broker.remove_module("sink")
    assert kit.sink.received == [f"after {error.__name__}" for error in ERRORS]
    told = [failure for failure in kit.failures if failure.method == "receive"]
    assert told == kit.failures
    assert [failure.message.content for failure in told] == [error.__name__ for error in ERRORS]
    for failure, error in zip(told, ERRORS, strict=True):
        is_told = str(failure.error).startswith(f"{error.__name__}: 3")
        assert type(failure.error) is error or (kind == "process" and is_told)


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_that_blocks_holds_up_no_mesh_and_no_other_module(kit, make, mesh, kind) -> None:
    module = make[kind]()
    chain(kit, module)
    other = kit.Collector()
    kit.broker.add_link("source", kit.broker.add_module(other))
    for content in ("before", "block", "behind"):
        kit.broker.publish("source", Message(content))
    if kind == "process":
        kit.until(lambda: module.child and module.child.shared.tolist()[:2] == [2, 1])
    else:
        assert module.is_blocked.wait(limit())
    kit.until(lambda: other.received == ["before", "block", "behind"])
    mesh()
    assert not kit.broker.remove_module("module", drain=False, timeout=0)
    kit.until(lambda: kit.sink.received == ["before"])
    if kind == "process":
        module.child.kill()
    else:
        module.release.set()


def test_what_raises_in_attach_and_close_is_told_whatever_it_is(kit) -> None:
    class Bad(kit.Collector):
        def attach(self, port: object) -> None:
            raise SystemExit("attach")

    class BadEnd(kit.Collector):
        def close(self) -> None:
            raise KeyboardInterrupt

    class AsyncBad:
        async def attach(self, port: object) -> None:
            raise SystemExit("attach")

        async def receive(self, message: Message) -> None:
            """Take it in."""

    for module in (Bad(), AsyncBad()):
        kit.broker.add_module(module, "bad")
        kit.until(lambda: not [each for each in kit.broker.modules() if each.name == "bad"])
    kit.broker.remove_module(kit.broker.add_module(BadEnd()))
    assert [failure.method for failure in kit.failures] == ["attach", "attach", "close"]


def test_messages_that_wait_for_a_module_that_cannot_attach_are_counted(kit) -> None:
    class Bad(kit.Collector):
        def attach(self, port: object) -> None:
            raise OSError("no device")

    broker = kit.broker
    source = broker.add_module(kit.Collector())
    broker.add_link(source, broker.add_module(Bad(), "bad", start=False))
    for number in range(3):
        broker.publish(source, Message(number))
    broker.start()
    kit.until(lambda: len(kit.failures) == 2)
    assert [failure.method for failure in kit.failures] == ["attach", "worker"]
    assert "3 messages went with it" in str(kit.failures[1].error)


@requirement("SRS_BROKER_02_004")
@requirement("SRS_BROKER_17_016")
def test_a_worker_that_ends_otherwise_says_how_many_messages_went_with_it(kit) -> None:
    """An error from outside strikes the worker where none of the module's code runs."""
    broker, idents = kit.broker, []
    source = broker.add_module(kit.Collector())
    broker.add_module(kit.Calling(lambda port, each: idents.append(threading.get_ident())), "cut")
    broker.add_link(source, "cut")
    broker.publish(source, Message("first"))
    kit.until(lambda: idents)

    kit.until(lambda: is_waiting(idents[0]))
    ident, error = ctypes.c_ulong(idents[0]), ctypes.py_object(SystemExit)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, error)
    # It wakes the worker, which is struck before it has more than this one.
    for number in range(4):
        broker.publish(source, Message(number))
    kit.until(lambda: kit.failures)
    (failure,) = kit.failures
    assert (failure.module, failure.method) == ("cut", "worker")
    assert isinstance(failure.error.__cause__, SystemExit)
    assert "messages went with it" in str(failure.error)
    kit.until(lambda: [each.name for each in broker.modules()] == ["module 1"])


def is_waiting(ident: int) -> bool:
    """Whether a worker is in the line in which it waits for a message."""
    frame = sys._current_frames()[ident]
    return "get()" in linecache.getline(frame.f_code.co_filename, frame.f_lineno)


def test_tasks_that_are_cancelled_say_what_went_with_them_and_others_can_be_added(kit) -> None:
    class Cancelling:
        async def receive(self, message: Message) -> None:
            task = trio.lowlevel.current_task()
            task.parent_nursery.cancel_scope.cancel()
            await trio.sleep_forever()

    class Async(kit.Collector):
        async def attach(self, port: object) -> None:
            self.port = port

        async def receive(self, message: Message) -> None:
            self.received.append(message.content)

        async def close(self) -> None:
            self.closed.set()

    broker, after = kit.broker, Async()
    source = broker.add_module(kit.Collector())
    broker.add_link(source, broker.add_module(Cancelling(), "cancelling", start=False))
    for number in range(3):
        broker.publish(source, Message(number))
    broker.start()
    kit.until(lambda: [each.name for each in broker.modules()] == ["module 1"])
    (failure,) = kit.failures
    assert (failure.module, failure.method) == ("cancelling", "worker")
    assert "2 messages went with it" in str(failure.error)
    assert isinstance(failure.error.__cause__, trio.Cancelled)
    kit.until(lambda: not any(t.name == "peermesh async modules" for t in threading.enumerate()))
    broker.add_link(source, broker.add_module(after, "after"))
    broker.publish(source, Message("again"))
    assert broker.remove_module("after")
    assert after.received == ["again"]


def test_two_brokers_have_loops_of_their_own(kit) -> None:
    blocked, quick = AsyncRaising(), AsyncRaising()
    chain(kit, blocked)
    kit.broker.publish("source", Message("block"))
    assert blocked.is_blocked.wait(limit())
    with ModuleBroker() as other:
        sink = kit.Collector()
        for name, module in (("a", kit.Collector()), ("b", quick), ("c", sink)):
            other.add_module(module, name)
        other.add_link("a", "b")
        other.add_link("b", "c")
        other.publish("a", Message("quick"))
        assert sink.entered.wait(limit())
    blocked.release.set()


# Modules that begin when all links are there.


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_what_is_published_in_attach_goes_along_links_that_were_made_before(kit, kind) -> None:
    class First:
        def attach(self, port: object) -> None:
            for number in range(5):
                port.publish(Message(number))

        def receive(self, message: Message) -> None:
            """Take it in."""

    class AsyncFirst:
        async def attach(self, port: object) -> None:
            for number in range(5):
                await port.publish(Message(number))

        async def receive(self, message: Message) -> None:
            """Take it in."""

    broker, sink = kit.broker, kit.Collector()
    broker.add_module(First() if kind == "thread" else AsyncFirst(), "first", start=False)
    broker.add_module(sink, "sink", start=False)
    broker.add_link("first", "sink")
    assert not sink.port
    broker.start()
    broker.start()  # nothing is left to start
    assert broker.remove_module("first")
    assert broker.remove_module("sink")
    assert sink.received == list(range(5))


def test_a_module_that_is_removed_before_it_began_receives_what_waits_or_never_begins(kit) -> None:
    broker = kit.broker
    source, sinks = broker.add_module(kit.Collector()), [kit.Collector() for _ in range(3)]
    for number, sink in enumerate(sinks):
        broker.add_module(sink, f"sink {number}", start=False)
    for name in ("sink 0", "sink 1"):
        broker.add_link(source, name)
    broker.publish(source, Message("waits"))
    assert broker.remove_module("sink 0")
    assert broker.remove_module("sink 1", drain=False)
    assert broker.remove_module("sink 2")
    assert [sink.received for sink in sinks] == [["waits"], [], []]
    assert [sink.port is not None for sink in sinks] == [True, False, False]
    assert [sink.closed.is_set() for sink in sinks] == [True, False, False]


def test_modules_that_find_no_thread_to_begin_in_can_be_started_later(kit, monkeypatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    sink = kit.Collector()
    kit.broker.add_module(sink, "sink", start=False)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(BrokerError, match="can't start new thread"):
            kit.broker.start()
    kit.broker.start()
    kit.until(lambda: sink.port)
