"""The same work on pyzmq and eclipse-zenoh, which come with the extra ``bench``.

Both are set up to lose nothing, as we are: PUB/SUB waits at its high-water mark instead of
dropping, and Zenoh is reliable and blocks. Messages are checked one by one as everywhere.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import closing
from typing import Any

import zenoh
import zmq

from benchmarks.role import Task
from benchmarks.workload import MARKS, TOPIC, Disorder, messages

TOPIC_BYTES = TOPIC.encode()


def bind(task: Task, kind: int, topic: str = TOPIC) -> zmq.Socket[bytes]:
    """Listen with a socket of this kind, and say where; a subscriber wants this topic."""
    sock = zmq.Context.instance().socket(kind)
    if kind == zmq.SUB:
        sock.setsockopt(zmq.SUBSCRIBE, topic.encode())
    port = sock.bind_to_random_port("tcp://127.0.0.1")
    task.introduce(port=port)
    return sock


def connect(task: Task, kind: int) -> zmq.Socket[bytes]:
    """Connect a socket of this kind; a publisher waits for a subscription."""
    sock = zmq.Context.instance().socket(kind)
    if kind == zmq.XPUB:
        sock.setsockopt(zmq.XPUB_NODROP, 1)
    sock.connect(f"tcp://127.0.0.1:{task.last_met['port']}")
    if kind == zmq.XPUB:
        sock.recv()  # The subscription has come.
    task.introduce()
    return sock


# ZeroMQ in one frame: PUSH/PULL, which has no topics, and PUB/SUB with the topic as a prefix of the
# message. That is faster than the usual two frames, and leaves it to the reader to take them apart.


def push(task: Task) -> None:
    """Send all messages to one puller."""
    with closing(connect(task, zmq.PUSH)) as sock:
        began = time.monotonic_ns()
        for payload in messages(task.count, task.size):
            sock.send(payload)
        task.report(began_ns=began)
        task.dismissed()


def pull(task: Task) -> None:
    """Take all messages from one pusher."""
    with closing(bind(task, zmq.PULL)) as sock:
        size = task.size
        for taken in range(task.count):
            data = sock.recv()
            if data[0] != taken % MARKS or len(data) != size:
                raise Disorder(taken, data)
        task.report(ended_ns=time.monotonic_ns(), taken=task.count)
        task.dismissed()


def publish_one_frame(task: Task) -> None:
    """Publish with the topic in front of each message."""
    with closing(connect(task, zmq.XPUB)) as sock:
        began = time.monotonic_ns()
        for payload in messages(task.count, task.size):
            sock.send(TOPIC_BYTES + payload)
        task.report(began_ns=began)
        task.dismissed()


def subscribe_one_frame(task: Task) -> None:
    """Take the messages, and the topic off them."""
    with closing(bind(task, zmq.SUB)) as sock:
        size, prefix = task.size, len(TOPIC_BYTES)
        for taken in range(task.count):
            data = sock.recv()[prefix:]
            if data[0] != taken % MARKS or len(data) != size:
                raise Disorder(taken, data)
        task.report(ended_ns=time.monotonic_ns(), taken=task.count)
        task.dismissed()


def publish_two_frames(task: Task) -> None:
    """Publish in the usual form: a frame with the topic, and one with the message."""
    with closing(connect(task, zmq.XPUB)) as sock:
        began = time.monotonic_ns()
        for payload in messages(task.count, task.size):
            sock.send_multipart((TOPIC_BYTES, payload))
        task.report(began_ns=began)
        task.dismissed()


def subscribe_two_frames(task: Task) -> None:
    """Take the messages with their topics."""
    with closing(bind(task, zmq.SUB)) as sock:
        size = task.size
        for taken in range(task.count):
            _, data = sock.recv_multipart()
            if data[0] != taken % MARKS or len(data) != size:
                raise Disorder(taken, data)
        task.report(ended_ns=time.monotonic_ns(), taken=task.count)
        task.dismissed()


def reply_zmq(task: Task) -> None:
    """Answer each request with itself."""
    with closing(bind(task, zmq.REP)) as sock:
        for _ in range(task.count):
            sock.send(sock.recv())
        task.report()
        task.dismissed()


def request_zmq(task: Task) -> None:
    """Time each round trip."""
    with closing(connect(task, zmq.REQ)) as sock:
        trips = []
        for payload in messages(task.count, task.size):
            began = time.monotonic_ns()
            sock.send(payload)
            data = sock.recv()
            trips.append(time.monotonic_ns() - began)
            if data != payload:
                raise Disorder(len(trips) - 1, data)
        task.report(trips_ns=trips)
        task.dismissed()


# Zenoh, peer to peer.


def open_zenoh(**settings: Any) -> zenoh.Session:
    """Open a peer that listens or connects where ``listen=`` or ``connect=`` says, only."""
    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("scouting/multicast/enabled", "false")
    for key, value in settings.items():
        config.insert_json5(f"{key}/endpoints", json.dumps([value]))
    return zenoh.open(config)


def listen_zenoh() -> tuple[zenoh.Session, int]:
    """Open a peer that listens; gives its port, too."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return open_zenoh(listen=f"tcp/127.0.0.1:{port}"), port


def declare(session: zenoh.Session, topic: str) -> zenoh.Publisher:
    """Give a publisher that has a subscriber already."""
    publisher = session.declare_publisher(
        topic,
        congestion_control=zenoh.CongestionControl.BLOCK,
        reliability=zenoh.Reliability.RELIABLE,
    )
    while not publisher.matching_status.matching:
        time.sleep(0.01)
    return publisher


def publish_zenoh(task: Task) -> None:
    """Publish all messages."""
    with open_zenoh(connect=f"tcp/127.0.0.1:{task.last_met['port']}") as session:
        publisher = declare(session, TOPIC)
        task.introduce()
        began = time.monotonic_ns()
        for payload in messages(task.count, task.size):
            publisher.put(payload)
        task.report(began_ns=began)
        task.dismissed()


def subscribe_zenoh(task: Task) -> None:
    """Take all messages, in a callback: that is its fastest form."""
    session, port = listen_zenoh()
    with session:
        size, taken, done = task.size, 0, threading.Event()
        wrong: list[Disorder] = []

        def take(sample: zenoh.Sample) -> None:
            nonlocal taken
            data = sample.payload.to_bytes()
            if data[0] != taken % MARKS or len(data) != size:
                wrong.append(Disorder(taken, data))
                done.set()
            taken += 1
            if taken == task.count:
                done.set()

        session.declare_subscriber(TOPIC, take)
        task.introduce(port=port)
        done.wait()
        ended = time.monotonic_ns()
        if wrong:
            raise wrong[0]
        task.report(ended_ns=ended, taken=taken)
        task.dismissed()


def reply_zenoh(task: Task) -> None:
    """Answer each request with itself."""
    session, port = listen_zenoh()
    with session:
        requests = session.declare_subscriber(f"{TOPIC}/request")
        task.introduce(port=port)
        replies = declare(session, f"{TOPIC}/reply")
        for _ in range(task.count):
            replies.put(requests.recv().payload)
        task.report()
        task.dismissed()


def request_zenoh(task: Task) -> None:
    """Time each round trip."""
    with open_zenoh(connect=f"tcp/127.0.0.1:{task.last_met['port']}") as session:
        replies = session.declare_subscriber(f"{TOPIC}/reply")
        requests = declare(session, f"{TOPIC}/request")
        task.introduce()
        trips = []
        for payload in messages(task.count, task.size):
            began = time.monotonic_ns()
            requests.put(payload)
            data = replies.recv().payload.to_bytes()
            trips.append(time.monotonic_ns() - began)
            if data != payload:
                raise Disorder(len(trips) - 1, data)
        task.report(trips_ns=trips)
        task.dismissed()
