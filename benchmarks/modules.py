"""The module broker: messages a second through a link, beside a bare queue between two threads."""

from __future__ import annotations

import queue
import threading
import time
from typing import Final

from benchmarks.harness import Benchmark, Facts, Figures, Goal, Variant
from benchmarks.role import Task
from benchmarks.workload import MARKS, Disorder, messages, payloads
from peermesh.brokers.modules import Message, ModuleBroker, ModuleId


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
    """The floor: put in the main thread, get in another, and the same checks."""
    line: queue.SimpleQueue[bytes] = queue.SimpleQueue()
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


def _alone(facts: Facts) -> Figures:
    seconds = (facts["ended_ns"] - facts["began_ns"]) / 1e9
    (taken,) = facts["cpu_seconds"]
    return {"per second": facts["taken"] / seconds, "cpu µs out": taken * 1e6 / facts["taken"]}


LINK: Final = ("benchmarks.modules:through_a_link",)
QUEUE: Final = ("benchmarks.modules:through_a_queue",)

BENCHMARK: Final = Benchmark(
    "modules",
    "The module broker: one link, 100 bytes, two threads",
    (
        Variant("queue.SimpleQueue", QUEUE, _alone, "messages/s", 500_000, 100),
        Variant("a link", LINK, _alone, "messages/s", 500_000, 100),
    ),
    (Goal("a link", "queue.SimpleQueue"),),
)
