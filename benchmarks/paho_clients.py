"""Pairs of clients of paho-mqtt, which comes with the extra ``bench``, at an MQTT broker."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import paho.mqtt.client as mqtt

from benchmarks.role import Task
from benchmarks.workload import MARKS, Disorder, payloads

START_SECONDS = 20.0
RUN_SECONDS = 90.0
EXACTLY_ONCE = 2


def connect(task: Task, name: str) -> mqtt.Client:
    """Give a client with a thread of its own, with as many messages in flight as the task says."""
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, clean_session=True)
    client.max_inflight_messages_set(task.options["window"])
    client.max_queued_messages_set(0)
    client.connect("127.0.0.1", task.last_met["port"])
    client.loop_start()
    return client


def leave(client: mqtt.Client) -> None:
    """End a client with its thread."""
    client.disconnect()
    client.loop_stop()


class Sink:
    """A subscriber of one topic, that checks what comes."""

    def __init__(self, task: Task, number: int, count: int) -> None:
        """Subscribe, and wait for ``count`` messages."""
        self.taken, self._count, self._size = 0, count, task.size
        self._is_over, self._wrong = threading.Event(), list[Disorder]()
        self.client = connect(task, f"consumer-{number}")
        is_subscribed = threading.Event()
        self.client.on_subscribe = lambda *_: is_subscribed.set()
        self.client.on_message = lambda _client, _data, message: self._take(message.payload)
        self.client.subscribe(f"topic-{number}", EXACTLY_ONCE)
        assert is_subscribed.wait(START_SECONDS), "no subscription"

    def _take(self, data: bytes) -> None:
        if len(data) != self._size or data[0] != self.taken % MARKS:
            self._wrong.append(Disorder(self.taken, data))
        self.taken += 1
        if self.taken == self._count or self._wrong:
            self._is_over.set()

    def wait(self) -> None:
        """Wait for the last message; raises ``Disorder``."""
        assert self._is_over.wait(RUN_SECONDS), f"{self.taken} of {self._count} came"
        if self._wrong:
            raise self._wrong[0]


def pairs_of_clients(task: Task) -> None:
    """Publish and consume with quality of service 2, each pair on a topic of its own."""
    pairs = task.options["pairs"]
    each, made = task.count // pairs, payloads(task.size)
    with ExitStack() as stack:
        sinks = [Sink(task, number, each) for number in range(pairs)]
        sources = [connect(task, f"publisher-{number}") for number in range(pairs)]
        for client in (*sources, *(sink.client for sink in sinks)):
            stack.callback(leave, client)
        task.introduce()
        began = time.monotonic_ns()
        for message in range(each):
            for number, source in enumerate(sources):
                source.publish(f"topic-{number}", made[message % MARKS], EXACTLY_ONCE)
        for sink in sinks:
            sink.wait()
        ended = time.monotonic_ns()
        task.report(began_ns=began, ended_ns=ended, taken=sum(sink.taken for sink in sinks))
        task.dismissed()
