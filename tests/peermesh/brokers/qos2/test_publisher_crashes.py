"""Publisher, link and broker, with a crash of each at every step: nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from peermesh.brokers.qos2.limits import Pace
from peermesh.brokers.qos2.publisher_session import PublisherSession
from peermesh.brokers.qos2.sender import Completed, Outgoing, Rejected, Sender
from peermesh.brokers.qos2.steps import Close, Send, Store, Wait
from tests.peermesh.brokers.qos2.dialogues import Dialogue, Step, explore

MESSAGES = 2
FAULTS = 3
PAYLOADS = {1: b"same\nEND\n", 2: b"same\nEND\n"}


class Publishing(Dialogue):
    """A publisher with two messages."""

    faults_left = FAULTS
    recognises_repetitions = True
    completes_early = False

    def __init__(self) -> None:
        super().__init__()
        self.next_id = 1  # on the publisher's disk
        self.log: list[int] = []  # on the broker's
        self.stores: list[tuple[int, int]] = []  # asked: connection, id
        self.written: list[tuple[int, int]] = []  # on disk, and the session does not know yet

    def has_work(self) -> bool:
        return self.next_id <= MESSAGES

    def doings(self) -> Iterator[Step]:
        for at in range(len(self.stores)):
            yield "disk_writes", (at,)
        for at in range(len(self.written)):
            yield "disk_reports", (at,)

    def connect(self) -> None:
        self.connections += 1
        self.client, self.session = Sender("till"), PublisherSession(Pace())
        self.session.start()
        self._of_client(self.client.start())

    def lose_broker(self) -> None:
        self.stores, self.written = [], []

    def _client_reads(self) -> None:
        while self.client is not None and (line := self.heard.take(None)) is not None:
            self._of_client(self.client.receive(line))

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
                    self.to_client.append(data)
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

    def _of_client(self, steps) -> None:
        for step in steps:
            match step:
                case Send(data):
                    self.to_broker.append(data)
                case Completed(number):
                    assert number in self.log, "it was promised, and is not on disk"
                    self.next_id = number + 1
                case Rejected() | Close():
                    raise AssertionError(step)
        if self.client is not None and self.client.is_idle and self.next_id <= MESSAGES:
            number = self.next_id
            self._of_client(self.client.publish(Outgoing(number, ("orders",), PAYLOADS[number])))

    def check(self) -> None:
        assert self.log == [1, 2][: len(self.log)], "lost, doubled, or in another order"

    def check_end(self) -> None:
        assert self.log == [1, 2]
        assert self.next_id == MESSAGES + 1


def test_every_crash_leaves_each_message_in_the_log_once():
    result = explore(Publishing())
    assert result.states > 1_000
    assert result.ends > 0


@pytest.mark.parametrize("mistake", ["completes_early", "recognises_repetitions"])
def test_the_enumeration_sees_a_broker_that_does_wrong(monkeypatch, mistake):
    monkeypatch.setattr(Publishing, mistake, not getattr(Publishing, mistake))
    with pytest.raises(AssertionError):
        explore(Publishing())
