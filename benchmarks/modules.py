"""The module broker: messages a second through a link, and to a process and back.

Beside them are what Python itself has between two threads and two processes.
"""

from __future__ import annotations

import multiprocessing
import queue
import threading
import time
from typing import Final

from benchmarks.harness import Benchmark, Goal, Variant, alone
from benchmarks.role import Task
from benchmarks.workload import MARKS, Disorder, messages, payloads
from peermesh.brokers.modules import Message, ModuleBroker, ModuleId, Port, ProcessModule


class Sink:
    """Checks what it receives, and tells when it has all of it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.taken = 0
        self.done = threading.Event()

    def receive(self, message: Message) -> None:
        data = message.content
        if len(data) != self.task.size or data[0] != self.taken % MARKS:
            raise Disorder(self.taken, data)
        self.taken += 1
        if self.taken == self.task.count:
            self.done.set()


class Source:
    def receive(self, message: Message) -> None:
        raise AssertionError("nobody is linked to the source")


def through_a_link(task: Task) -> None:
    """Publish from the main thread, receive in the module's."""
    sink = Sink(task)
    made = [Message(payload) for payload in payloads(task.size)]
    with ModuleBroker() as broker:
        source: ModuleId = broker.add_module(Source())
        broker.add_link(source, broker.add_module(sink))
        task.introduce()
        began = time.monotonic_ns()
        for number in range(task.count):
            broker.publish(source, made[number % MARKS])
        assert sink.done.wait(task.seconds_max)
        task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=sink.taken)
        task.dismissed()


def through_a_queue(task: Task) -> None:
    """Put in the main thread, get in another, and make the same checks: no limit, and no lock."""
    _from_thread_to_thread(task, queue.SimpleQueue())


def through_a_bounded_queue(task: Task) -> None:
    """Do that with a queue that has the limit of an inbox."""
    _from_thread_to_thread(task, queue.Queue(1_024))


def _from_thread_to_thread(task: Task, line: queue.SimpleQueue[bytes] | queue.Queue[bytes]) -> None:
    done = threading.Event()

    def take() -> None:
        for number in range(task.count):
            data = line.get()
            if len(data) != task.size or data[0] != number % MARKS:
                raise Disorder(number, data)
        done.set()

    threading.Thread(target=take, daemon=True).start()
    task.introduce()
    began = time.monotonic_ns()
    for payload in messages(task.count, task.size):
        line.put(payload)
    assert done.wait(task.seconds_max)
    task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=task.count)
    task.dismissed()


class Echo:
    """Publishes what it receives; it runs in a process of its own."""

    def attach(self, port: Port) -> None:
        self.port = port

    def receive(self, message: Message) -> None:
        self.port.publish(message)


def through_a_process(task: Task) -> None:
    """Publish to a module in a process, which publishes it back."""
    sink = Sink(task)
    made = [Message(payload) for payload in payloads(task.size)]
    with ModuleBroker() as broker:
        source = broker.add_module(Source())
        ready = Ready()
        echo = broker.add_module(ProcessModule("benchmarks.modules:Echo"))
        broker.add_link(source, echo)
        broker.add_link(echo, broker.add_module(ready, "ready"))
        broker.publish(source, made[0])
        assert ready.is_here.wait(task.seconds_max)
        broker.remove_module("ready")
        broker.add_link(echo, broker.add_module(sink))
        task.introduce()
        began = time.monotonic_ns()
        for number in range(task.count):
            broker.publish(source, made[number % MARKS])
        assert sink.done.wait(task.seconds_max)
        task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=sink.taken)
        task.dismissed()


class Ready:
    """Waits for the first message, with which the process has begun."""

    def __init__(self) -> None:
        self.is_here = threading.Event()

    def receive(self, message: Message) -> None:
        self.is_here.set()


def through_two_queues(task: Task) -> None:
    """Send through a ``multiprocessing.Queue`` to a process, and back through another."""
    context = multiprocessing.get_context("spawn")
    out, back = context.Queue(1_024), context.Queue(1_024)
    process = context.Process(target=_echo, args=(out, back, task.count + 1), daemon=True)
    process.start()
    out.put(b"ready")
    assert back.get(timeout=task.seconds_max) == b"ready"
    task.introduce()
    began = time.monotonic_ns()
    sending = threading.Thread(target=_put_all, args=(out, task.count, task.size))
    sending.start()
    for number in range(task.count):
        data = back.get(timeout=task.seconds_max)
        if len(data) != task.size or data[0] != number % MARKS:
            raise Disorder(number, data)
    task.report(began_ns=began, ended_ns=time.monotonic_ns(), taken=task.count)
    sending.join()
    process.join()
    task.dismissed()


def _put_all(out: multiprocessing.Queue[bytes], count: int, size: int) -> None:
    for payload in messages(count, size):
        out.put(payload)


def _echo(
    out: multiprocessing.Queue[bytes], back: multiprocessing.Queue[bytes], count: int
) -> None:
    for _ in range(count):
        back.put(out.get())


LINK: Final = ("benchmarks.modules:through_a_link",)
QUEUE: Final = ("benchmarks.modules:through_a_queue",)
BOUNDED: Final = ("benchmarks.modules:through_a_bounded_queue",)
PROCESS: Final = ("benchmarks.modules:through_a_process",)
TWO_QUEUES: Final = ("benchmarks.modules:through_two_queues",)

COUNT: Final = 500_000
COUNT_THERE_AND_BACK: Final = 50_000

BENCHMARK: Final = Benchmark(
    "modules",
    "The module broker: one link, 100 bytes, two threads; and to a process and back",
    (
        Variant("queue.SimpleQueue", QUEUE, alone, "messages/s", COUNT, 100),
        Variant("queue.Queue(1024)", BOUNDED, alone, "messages/s", COUNT, 100),
        Variant("a link", LINK, alone, "messages/s", COUNT, 100),
        Variant(
            "two multiprocessing.Queue", TWO_QUEUES, alone, "messages/s", COUNT_THERE_AND_BACK, 100
        ),
        Variant("a process module", PROCESS, alone, "messages/s", COUNT_THERE_AND_BACK, 100),
    ),
    (
        Goal("a link", "queue.Queue(1024)", at_least=1.3),
        Goal("a link", "queue.SimpleQueue"),
        Goal("a process module", "two multiprocessing.Queue", at_least=0.5),
    ),
)
