"""Publisher, link and broker, with a crash of each at every step: nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from peermesh.brokers.qos2.limits import Pace
from peermesh.brokers.qos2.lines import LineDecoder
from peermesh.brokers.qos2.publisher_session import PublisherSession
from peermesh.brokers.qos2.sender import Completed, Outgoing, Rejected, Sender
from peermesh.brokers.qos2.steps import Close, Send, Store, Wait

MESSAGES = 2
FAULTS = 3
PAYLOADS = {1: b"same\nEND\n", 2: b"same\nEND\n"}


class World:
    """All there is, the disks included."""

    recognises_repetitions = True
    completes_early = False

    def __init__(self) -> None:
        self.next_id = 1  # on the publisher's disk
        self.log: list[int] = []  # on the broker's
        self.faults_left = FAULTS
        self.connections = 0
        self.stores: list[tuple[int, int]] = []  # asked: connection, id
        self.written: list[tuple[int, int]] = []  # on disk, and the session does not know yet
        self._cut()

    def _cut(self) -> None:
        self.sender: Sender | None = None
        self.session: PublisherSession | None = None
        self.decoder = LineDecoder()
        self.answers = LineDecoder()
        self.to_broker: list[bytes] = []
        self.to_sender: list[bytes] = []

    def moves(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        if self.sender is None and self.next_id <= MESSAGES:
            yield "connect", ()
        if self.to_broker:
            yield "broker_hears", ()
        if self.to_sender:
            yield "sender_hears", ()
        for at in range(len(self.stores)):
            yield "disk_writes", (at,)
        for at in range(len(self.written)):
            yield "disk_reports", (at,)

    def faults(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        if self.faults_left and self.sender is not None:
            yield "link_breaks", ()  # and the publisher's crash: his disk holds all he needs
            yield "broker_crashes", ()

    def connect(self) -> None:
        self.connections += 1
        self.sender, self.session = Sender("till"), PublisherSession(Pace())
        self.session.start()
        self._of_sender(self.sender.start())

    def link_breaks(self) -> None:
        self.faults_left -= 1
        self._cut()  # what the broker has begun to write goes on

    def broker_crashes(self) -> None:
        self.faults_left -= 1
        self.stores, self.written = [], []
        self._cut()

    def broker_hears(self) -> None:
        self.decoder.feed(self.to_broker.pop(0))
        self._broker_reads()

    def _broker_reads(self) -> None:
        while self.session is not None and not self.session.is_busy:
            data = self.decoder.take(self.session.body_size)
            if data is None:
                return
            self._of_session(self.session.receive(data))

    def sender_hears(self) -> None:
        self.answers.feed(self.to_sender.pop(0))
        while self.sender is not None and (line := self.answers.take(None)) is not None:
            self._of_sender(self.sender.receive(line))

    def disk_writes(self, at: int) -> None:
        connection, number = self.stores.pop(at)
        if number not in self.log or not self.recognises_repetitions:
            self.log.append(number)
        self.written.append((connection, number))

    def disk_reports(self, at: int) -> None:
        connection, _ = self.written.pop(at)
        if connection == self.connections and self.session is not None and self.session.is_busy:
            self._of_session(self.session.stored())
            self._broker_reads()

    def _of_session(self, steps) -> None:
        for step in steps:
            match step:
                case Send(data):
                    self.to_sender.append(data)
                case Store(publisher, number, topics, payload):
                    assert (publisher, topics) == ("till", ("orders",))
                    assert payload == PAYLOADS[number]
                    self.stores.append((self.connections, number))
                    if self.completes_early:
                        self._of_session(self.session.stored())
                case Wait():
                    pass
                case Close(reason):
                    raise AssertionError(reason)

    def _of_sender(self, steps) -> None:
        for step in steps:
            match step:
                case Send(data):
                    self.to_broker.append(data)
                case Completed(number):
                    assert number in self.log, "it was promised, and is not on disk"
                    self.next_id = number + 1
                case Rejected() | Close():
                    raise AssertionError(step)
        if self.sender is not None and self.sender.is_idle and self.next_id <= MESSAGES:
            number = self.next_id
            self._of_sender(self.sender.publish(Outgoing(number, ("orders",), PAYLOADS[number])))

    def check(self) -> None:
        assert self.log == [1, 2][: len(self.log)], "lost, doubled, or in another order"

    def check_end(self) -> None:
        assert self.log == [1, 2]
        assert self.next_id == MESSAGES + 1


def test_every_crash_leaves_each_message_in_the_log_once(explorer):
    result = explorer(World())
    assert result.states > 1_000
    assert result.ends > 0


@pytest.mark.parametrize("mistake", ["completes_early", "recognises_repetitions"])
def test_the_enumeration_sees_a_broker_that_does_wrong(explorer, monkeypatch, mistake):
    monkeypatch.setattr(World, mistake, not getattr(World, mistake))
    with pytest.raises(AssertionError):
        explorer(World())
