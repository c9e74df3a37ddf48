"""Modules in processes of their own: the same bus, and nobody falls with them."""

from __future__ import annotations

import gc
import os
import queue
import signal
import socket
import sys
import threading
import weakref
from collections import Counter
from pathlib import Path
from struct import Struct

import pytest

from peermesh.brokers.modules import BrokerError, Message, ProcessModule
from peermesh.brokers.modules.process_worker import DEATHS_MAX, FLIGHT_COUNT, WRITE_COUNT
from peermesh.brokers.modules.switchboard import INBOX_SIZE
from peermesh.testing.time_limits import limit
from tests.listening import listening
from tests.peermesh.brokers.modules.requirements import requirement
from wire.decoding import decode

LENGTH = Struct("!I")
"""In front of each value that goes to a process."""

GATEWAY = """
import os, threading

class Answering:
    def __init__(self, name):
        self.name = name
    def attach(self, port):
        self.port = port
    def receive(self, message):
        if message.content == "raise":
            raise ValueError("as told")
        if message.content == "die":
            os._exit(7)
        if message.content == "wait":
            open("waiting", "w").close()
            while not os.path.exists("go"):
                threading.Event().wait(0.005)
        if message.content == "garbage":
            self.port.publish.__closure__[0].cell_contents.send(("publish", 1))
            return
        if message.content == "leave":
            self.port.leave()
            return
        from peermesh.brokers.modules import Message
        self.port.publish(Message((self.name, message.content, os.getpid()), message.properties))

class Parting:
    def attach(self, port):
        self.port = port
    def receive(self, message):
        pass
    def close(self):
        from peermesh.brokers.modules import Message
        for number in range(100):
            self.port.publish(Message(number))

class Dying:
    def __init__(self):
        os._exit(3)
    def receive(self, message):
        pass
"""


class Answers:
    """Puts what it receives where the test waits for it."""

    def __init__(self) -> None:
        self.messages: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def receive(self, message: Message) -> None:
        self.messages.put(message)


@pytest.fixture
def linked(kit, tmp_path, monkeypatch):
    (tmp_path / "process_gateway.py").write_text(GATEWAY)
    monkeypatch.chdir(tmp_path)
    answers, process = Answers(), ProcessModule("process_gateway:Answering", name="there")
    broker = kit.broker
    broker.add_module(kit.Collector(), "source")
    broker.add_module(process, "process")
    broker.add_module(answers, "answers")
    broker.add_link("source", "process")
    broker.add_link("process", "answers")
    return answers.messages, process


@requirement("SRS_BROKER_17_017")
@requirement("SRS_BROKER_17_008")
def test_messages_go_to_another_process_and_come_back_in_order(kit, linked) -> None:
    messages, process = linked
    for number in range(50):
        kit.broker.publish("source", Message(number, {"n": str(number)}))
    for number in range(50):
        message = messages.get(timeout=limit())
        assert message == Message(("there", number, process.pid), {"n": str(number)})
    assert process.pid != os.getpid()
    assert kit.broker.remove_module("process")
    assert not kit.failures


def received_by(written: bytes) -> int:
    """Count the messages in what is written to a process."""
    count = 0
    while written:
        end = LENGTH.size + LENGTH.unpack_from(written)[0]
        match decode(written[LENGTH.size : end]):
            case ("receive", _):
                count += 1
        written = written[end:]
    return count


def test_messages_go_over_in_writes_of_many(kit, tmp_path, monkeypatch) -> None:
    (tmp_path / "process_gateway.py").write_text(GATEWAY)
    monkeypatch.chdir(tmp_path)
    writes: list[int] = []
    sendall = socket.socket.sendall

    def counting(sock: socket.socket, data: bytes) -> None:
        writes.append(received_by(data))
        sendall(sock, data)

    broker = kit.broker
    broker.add_module(kit.Collector(), "source")
    broker.add_module(
        ProcessModule("process_gateway:Answering", name="there"), "process", start=False
    )
    broker.add_link("source", "process")
    for number in range(3 * WRITE_COUNT):
        broker.publish("source", Message(number))
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "sendall", counting)
        broker.start()
        assert broker.remove_module("process")
    assert [count for count in writes if count] == [WRITE_COUNT] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_process_listens_to_nothing_and_shows_no_arguments(kit, linked) -> None:
    messages, process = linked
    kit.broker.publish("source", Message(1))
    assert messages.get(timeout=limit()).content[0] == "there"
    assert not listening(process.pid)
    command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert b"process_gateway:Answering" in command
    for word in (b"there", b"there".hex().encode()):
        assert word not in command


def test_what_it_raises_is_reported_here_and_it_goes_on(kit, linked) -> None:
    messages, _ = linked
    for content in ("raise", "after"):
        kit.broker.publish("source", Message(content))
    assert messages.get(timeout=limit()).content[1] == "after"
    (failure,) = kit.failures
    assert "ValueError: as told" in str(failure.error)


def test_a_process_that_dies_is_started_again(kit, linked) -> None:
    messages, process = linked
    kit.broker.publish("source", Message("first"))
    first = messages.get(timeout=limit()).content[2]
    for content in ("die", "second"):
        kit.broker.publish("source", Message(content))
    second = messages.get(timeout=limit()).content[2]
    assert second != first
    os.kill(process.pid, signal.SIGKILL)
    kit.broker.publish("source", Message("third"))
    # What was in its hand when it was killed, if anything was, has failed and was reported.
    kit.broker.publish("source", Message("fourth"))
    contents = []
    while "fourth" not in contents:
        contents.append(messages.get(timeout=limit()).content[1])
    assert {str(failure.error)[-1] for failure in kit.failures} <= {"7", "9"}
    assert "died with code 7" in str(kit.failures[0].error)


@requirement("SRS_BROKER_17_006")
def test_a_process_that_always_dies_is_given_up(kit, linked) -> None:
    broker = kit.broker
    broker.add_module(ProcessModule("process_gateway:Dying"), "dying")
    broker.add_link("source", "dying")
    broker.publish("source", Message())
    assert broker.remove_module("dying", timeout=limit())
    assert any("in a row" in str(failure.error) for failure in kit.failures)
    assert all(isinstance(failure.error, BrokerError) for failure in kit.failures)


def test_what_the_last_process_left_fails_when_no_other_is_started(kit, linked) -> None:
    for content in (*["die"] * DEATHS_MAX, 1, 2, 3):
        kit.broker.publish("source", Message(content))
    kit.until(lambda: len(kit.failures) == DEATHS_MAX + 3)
    *deaths, one, two, three = kit.failures
    assert all("died with code 7" in str(failure.error) for failure in deaths)
    for number, failure in enumerate((one, two, three), 1):
        assert "in a row" in str(failure.error)
        assert failure.message == Message(number)


def test_a_process_may_leave_by_itself(kit, linked) -> None:
    kit.broker.publish("source", Message("leave"))
    while True:
        try:
            kit.broker.add_link("process", "source")
            kit.broker.remove_link("process", "source")
        except BrokerError:
            break
    assert not kit.failures


@requirement("SRS_BROKER_17_018")
def test_what_is_no_message_is_refused_and_the_next_one_is_received(kit, linked) -> None:
    messages, _ = linked
    for content in ("garbage", "after"):
        kit.broker.publish("source", Message(content))
    assert messages.get(timeout=limit()).content[1] == "after"
    assert not kit.failures


def test_a_process_that_cannot_be_started_fails_its_messages(kit, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("peermesh.brokers.modules.process.socket.socketpair", refuse)
    broker = kit.broker
    source = broker.add_module(kit.Collector())
    broker.add_module(ProcessModule("some.module:Class"), "s")
    broker.add_link(source, "s")
    broker.publish(source, Message(0))
    assert broker.remove_module("s", timeout=limit())
    (failure,) = kit.failures
    assert "cannot be run" in str(failure.error)


def test_what_a_process_that_dies_had_not_begun_is_given_to_the_next_one_once(kit, linked) -> None:
    """Also what is under way: each message is answered once, but for those that killed it."""
    messages, process = linked
    contents = ["wait", *range(70), "die", *range(100, 170), "die", *range(200, 400)]
    for content in contents:
        kit.broker.publish("source", Message(content))
    kit.until(lambda: process.child and process.child.shared.tolist()[:2] == [1, 0])
    Path("go").touch()
    answered = [messages.get(timeout=limit()).content[1] for _ in range(len(contents) - 2)]
    assert answered == [content for content in contents if content != "die"]
    assert [failure.message.content for failure in kit.failures] == ["die", "die"]
    assert {str(failure.error)[-1] for failure in kit.failures} == {"7"}
    assert kit.broker.remove_module("process")
    assert messages.empty()


def test_a_process_has_so_many_messages_and_the_others_wait_here(kit, linked) -> None:
    _, process = linked
    count = FLIGHT_COUNT + WRITE_COUNT + INBOX_SIZE + 100
    kit.broker.publish("source", Message("wait"))
    kit.until(lambda: Path("waiting").exists())

    def publish() -> None:
        for number in range(count):
            kit.broker.publish("source", Message(number))

    publisher = threading.Thread(target=publish)
    publisher.start()
    looks: list[bool] = []

    def is_held() -> bool:
        """Whether the inbox stays full: one that is emptied is so for some milliseconds only."""
        (waiting,) = (each.waiting for each in kit.broker.modules() if each.name == "process")
        looks.append(waiting > INBOX_SIZE // 2)
        return len(looks) > 50 and all(looks[-50:])

    try:
        kit.until(is_held)
        assert publisher.is_alive()
    finally:
        Path("go").touch()
    publisher.join()
    assert kit.broker.remove_module("process")
    assert process.child.settled == count + 1


def test_what_a_process_publishes_at_its_end_still_goes_along_its_links(kit, linked) -> None:
    messages, _ = linked
    kit.broker.add_module(ProcessModule("process_gateway:Parting"), "parting")
    kit.broker.add_link("parting", "answers")
    assert kit.broker.remove_module("parting")
    assert [messages.get(timeout=limit()).content for _ in range(100)] == list(range(100))


def test_what_is_dropped_is_not_received_by_the_process_either(kit, linked) -> None:
    messages, process = linked
    kit.broker.publish("source", Message("wait"))
    kit.until(lambda: Path("waiting").exists())
    for number in range(500):
        kit.broker.publish("source", Message(number))
    assert not kit.broker.remove_module("process", drain=False, timeout=0)
    Path("go").touch()
    assert messages.get(timeout=limit()).content[1] == "wait"
    kit.until(lambda: process.child.reaped)
    assert messages.empty()
    assert not kit.failures


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT], ids=["SIGHUP", "SIGINT"])
def test_what_a_terminal_sends_to_its_group_ends_no_process(kit, linked, number) -> None:
    messages, process = linked
    kit.until(lambda: process.pid)
    first = process.pid
    os.kill(first, number)  # while it starts, as well
    kit.broker.publish("source", Message(1))
    assert messages.get(timeout=limit()).content[2] == first
    os.kill(first, number)
    kit.broker.publish("source", Message(2))
    assert messages.get(timeout=limit()).content[2] == first
    assert not kit.failures


def test_what_was_raised_in_the_process_has_its_traceback(kit, linked) -> None:
    kit.broker.publish("source", Message("raise"))
    assert kit.broker.remove_module("process")
    (failure,) = kit.failures
    (note,) = failure.error.__notes__
    assert 'process_gateway.py", line' in note
    assert "raise ValueError" in note


def test_a_circle_through_a_process_does_not_stop(kit, linked) -> None:
    """More is on its way than inboxes and the pipe together hold."""
    messages, _ = linked
    broker, count = kit.broker, FLIGHT_COUNT + 500

    def echo(port: object, message: Message) -> None:
        left = message.content[1]
        if left:
            port.publish(Message(left - 1))

    broker.add_module(ProcessModule("process_gateway:Answering", name="x"), "small", inbox_size=1)
    broker.add_module(kit.Calling(echo), "echo", inbox_size=1)
    for ends in (("source", "small"), ("small", "echo"), ("echo", "small"), ("small", "answers")):
        broker.add_link(*ends)
    broker.remove_link("source", "process")
    for _ in range(count):
        broker.publish("source", Message(1))
    answered = Counter(messages.get(timeout=limit()).content[1] for _ in range(2 * count))
    assert answered == {1: count, 0: count}


@requirement("SRS_BROKER_17_011")
def test_a_message_for_a_process_is_freed_when_it_was_received_there(kit, linked) -> None:
    messages, _ = linked
    message = Message("freed")
    freed = weakref.ref(message)
    kit.broker.publish("source", message)
    del message
    messages.get(timeout=limit())
    kit.until(lambda: gc.collect() is not None and freed() is None)
