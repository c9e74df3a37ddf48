"""The same mixes of topics on pyzmq and eclipse-zenoh, set up to lose nothing as ever."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import zenoh
import zmq

from benchmarks.mixes import PREFIX, Reader, mixed, order
from benchmarks.peers import bind, connect, declare, listen_zenoh, open_zenoh
from benchmarks.role import Task
from benchmarks.workload import Disorder


def publish_zmq(task: Task) -> None:
    """Publish in one frame: the topic, a zero, and the message."""
    mix = task.options["mix"]
    names = {topic: topic.encode() + b"\0" for topic in order(mix)}
    with closing(connect(task, zmq.XPUB)) as sock:
        began = time.monotonic_ns()
        for topic, payload in mixed(mix, task.count, task.size):
            sock.send(names[topic] + payload)
        task.report(began_ns=began)
        task.dismissed()


def subscribe_zmq(task: Task) -> None:
    """Take the messages, and the topics off them."""
    reader = Reader(task)
    with closing(bind(task, zmq.SUB, PREFIX)) as sock:
        is_over = False
        while not is_over:
            topic, _, data = sock.recv().partition(b"\0")
            is_over = reader.take(topic.decode(), data)
        task.report(ended_ns=time.monotonic_ns(), taken=reader.taken)
        task.dismissed()


def publish_zenoh(task: Task) -> None:
    """Publish with a publisher for each topic: that is its fastest form."""
    mix = task.options["mix"]
    with open_zenoh(connect=f"tcp/127.0.0.1:{task.last_met['port']}") as session:
        publishers = {topic: declare(session, topic) for topic in dict.fromkeys(order(mix))}
        task.introduce()
        began = time.monotonic_ns()
        for topic, payload in mixed(mix, task.count, task.size):
            publishers[topic].put(payload)
        task.report(began_ns=began)
        task.dismissed()


def subscribe_zenoh(task: Task) -> None:
    """Take all messages, in a callback: that is its fastest form."""
    reader, done = Reader(task), threading.Event()
    wrong: list[Disorder] = []
    session, port = listen_zenoh()
    with session:

        def take(sample: zenoh.Sample) -> None:
            try:
                is_over = reader.take(str(sample.key_expr), sample.payload.to_bytes())
            except Disorder as error:
                wrong.append(error)
                is_over = True
            if is_over:
                done.set()

        session.declare_subscriber(f"{PREFIX}**", take)
        task.introduce(port=port)
        done.wait()
        ended = time.monotonic_ns()
        if wrong:
            raise wrong[0]
        task.report(ended_ns=ended, taken=reader.taken)
        task.dismissed()
