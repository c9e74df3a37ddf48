"""Modules in processes of their own: the same bus, and nobody falls with them."""

from __future__ import annotations

import os
import queue
import signal
import sys
from pathlib import Path

import pytest

from peermesh.brokers.modules import BrokerError, Message, ProcessModule
from peermesh.testing.time_limits import limit
from tests.listening import listening

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
        if message.content == "garbage":
            self.port.publish.__closure__[0].cell_contents.send(("publish", 1))
            return
        if message.content == "leave":
            self.port.leave()
            return
        from peermesh.brokers.modules import Message
        self.port.publish(Message((self.name, message.content, os.getpid()), message.properties))

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


def test_a_process_that_always_dies_is_given_up(kit, linked) -> None:
    broker = kit.broker
    broker.add_module(ProcessModule("process_gateway:Dying"), "dying")
    broker.add_link("source", "dying")
    broker.publish("source", Message())
    assert broker.remove_module("dying", timeout=limit())
    assert any("in a row" in str(failure.error) for failure in kit.failures)
    assert all(isinstance(failure.error, BrokerError) for failure in kit.failures)


def test_a_process_may_leave_by_itself(kit, linked) -> None:
    kit.broker.publish("source", Message("leave"))
    while True:
        try:
            kit.broker.add_link("process", "source")
            kit.broker.remove_link("process", "source")
        except BrokerError:
            break
    assert not kit.failures


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
    assert "died" in str(failure.error)
