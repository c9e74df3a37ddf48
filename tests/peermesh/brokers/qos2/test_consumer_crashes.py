"""Broker, link and consumer, with a crash of each at every step: nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from peermesh.brokers.qos2.consumer_session import ConsumerSession
from peermesh.brokers.qos2.limits import Pace
from peermesh.brokers.qos2.receiver import Deal, Declined, Receiver, Released
from peermesh.brokers.qos2.steps import (
    Bury,
    Close,
    Commit,
    Delivery,
    Enter,
    Fetch,
    Open,
    Send,
    Wait,
)  # fmt: skip
from tests.peermesh.brokers.qos2.dialogues import Dialogue, Step, explore

MESSAGES = 2
PAYLOAD = b"the same\nEND\n"
"""Of all messages: the MD5 does not tell them apart."""


class Consuming(Dialogue):
    """A consumer of a topic with two messages."""

    faults_left = 2
    refusals_left = 0
    is_fenced = True
    marks_burials = True
    commits_late = False

    def __init__(self) -> None:
        self.dealing: tuple[int, bool] | None = None
        super().__init__()
        self.cursor = 0  # on the broker's disk, with all until the empty line
        self.owner = 0
        self.mark: int | None = None
        self.letters: list[int] = []

        self.handled: list[int] = []  # on the consumer's disk

        self.released = 0
        self.asked: list[tuple[int, str, object]] = []
        """What connections wait for: their number, what, and for which message."""

    def _cut(self) -> None:
        super()._cut()
        self.dealing = None

    # What may happen.

    def has_work(self) -> bool:
        return self.cursor < MESSAGES

    def doings(self) -> Iterator[Step]:
        if self.dealing is not None:
            yield "consumer_deals", ()
            if self.refusals_left and not self.dealing[1]:
                yield "consumer_refuses", ()
        for at, (_, what, _) in enumerate(self.asked):
            if what != "fetch" or self.cursor < MESSAGES:
                yield "broker_does", (at,)

    def connect(self) -> None:
        self.connections += 1
        last = {"orders": max([*self.handled, 0])}
        self.client = Receiver("billing", ("orders",), last)
        self.session = ConsumerSession(Pace(resends_max=0))
        self.session.start()
        self._of_client(self.client.start())

    def lose_link(self) -> None:
        """What the broker has begun to write goes on."""
        self.asked = [each for each in self.asked if each[1] not in ("fetch", "resume")]

    def lose_broker(self) -> None:
        self.asked = []

    def _client_reads(self) -> None:
        while self.client is not None and not self.client.is_busy:
            data = self.heard.take(self.client.body_size)
            if data is None:
                return
            if data.startswith(b"PUBREL"):
                self.released = int(data.rpartition(b"/")[2])
            elif data.startswith(b"BEGIN"):
                number = int(data.split()[2].rpartition(b"/")[2])
                assert number > self.released, "it came again after PUBREL"
            self._of_client(self.client.receive(data))

    def consumer_deals(self) -> None:
        """Deal with it on disk first, and then say so: a crash may come between."""
        number, is_done = self.dealing
        if not is_done:
            self.handled.append(number)
            self.dealing = (number, True)
            return
        self.dealing = None
        self._of_client(self.client.handled())
        self._client_reads()

    def consumer_refuses(self) -> None:
        self.refusals_left -= 1
        self.dealing = None
        self._of_client(self.client.failed("not today"))
        self._client_reads()

    # What the broker's driver does, one write to disk at a time.

    def broker_does(self, at: int) -> None:
        connection, what, number = self.asked.pop(at)
        if what in ("enter", "open", "fetch"):
            getattr(self, f"_{what}")(connection, number)
        elif self.is_fenced and connection != self.owner:
            self._report(connection, "lost", "TAKEN OVER")
        else:
            getattr(self, f"_{what}")(connection, number)

    def _then(self, connection: int, what: str, number: object) -> None:
        self.asked.append((connection, what, number))

    def _enter(self, connection: int, _: object) -> None:
        self.owner = max(self.owner, connection)
        self._report(connection, "entered")

    def _open(self, connection: int, _: object) -> None:
        self._report(connection, "opened")

    def _fetch(self, connection: int, number: object) -> None:
        offset = self.cursor
        if self.mark == offset:
            self._then(connection, "resume", (offset, number))
        else:
            self._report(connection, "fetched", number, Delivery("orders", offset, PAYLOAD))

    def _resume(self, connection: int, where: tuple[int, int]) -> None:
        """Go on with a burial that a crash has interrupted."""
        offset, number = where
        if offset not in self.letters:
            self.letters.append(offset)
            self._then(connection, "resume", where)
        elif self.mark == offset:
            self.cursor, self.mark = offset + 1, None
            self._then(connection, "resume", where)
        else:
            self._then(connection, "fetch", number)

    def _commit(self, connection: int, offset: int) -> None:
        self.cursor = offset + 1
        self._then(connection, "tell_committed", None)

    def _tell_committed(self, connection: int, _: object) -> None:
        if not self.commits_late:
            self._report(connection, "committed")

    def _bury(self, connection: int, offset: int) -> None:
        if self.marks_burials:
            self.mark = offset
        self._then(connection, "letter", offset)

    def _letter(self, connection: int, offset: int) -> None:
        if offset not in self.letters:
            self.letters.append(offset)
        self._then(connection, "bury_cursor", offset)

    def _bury_cursor(self, connection: int, offset: int) -> None:
        if self.cursor <= offset:
            self.cursor, self.mark = offset + 1, None
        self._then(connection, "tell_buried", None)

    def _tell_buried(self, connection: int, _: object) -> None:
        self._report(connection, "buried")

    def _report(self, connection: int, event: str, *arguments: object) -> None:
        if connection != self.connections or self.session is None:
            return
        self._of_session(getattr(self.session, event)(*arguments))
        self._broker_reads()

    def _of_session(self, steps) -> None:  # noqa: C901 - one case for each kind of step
        for step in steps:
            match step:
                case Send(data):
                    self.to_client.append(data)
                case Enter():
                    self._then(self.connections, "enter", None)
                case Open():
                    self._then(self.connections, "open", None)
                case Fetch(number, topics):
                    self.asked = [each for each in self.asked if each[1] != "fetch"]
                    if topics:
                        self._then(self.connections, "fetch", number)
                case Commit(delivery):
                    self._then(self.connections, "commit", delivery.offset)
                    if self.commits_late:
                        self._of_session(self.session.committed())
                case Bury(delivery):
                    self._then(self.connections, "bury", delivery.offset)
                case Wait():
                    pass
                case Close():
                    self._cut()
                    return

    def _of_client(self, steps) -> None:
        for step in steps:
            match step:
                case Send(data):
                    self.to_broker.append(data)
                case Deal(message):
                    assert (message.topic, message.payload) == ("orders", PAYLOAD)
                    self.dealing = (message.number, False)
                case Released():
                    pass
                case Declined() | Close():
                    self._cut()
                    return

    # What has to hold.

    def check(self) -> None:
        dealt = sorted([*self.handled, *(offset + 1 for offset in self.letters)])
        assert dealt == list(range(1, len(dealt) + 1)), "lost, doubled, or in another order"
        assert self.cursor <= len(dealt), "the broker forgot what nobody has dealt with"

    def check_end(self) -> None:
        assert self.cursor == MESSAGES
        assert len(self.handled) + len(self.letters) == MESSAGES


class Refusing(Consuming):
    """The consumer refuses a message, which is a dead letter then."""

    faults_left = 2
    refusals_left = 1


@pytest.mark.parametrize("kind", [Consuming, Refusing])
def test_every_crash_leaves_each_message_dealt_with_once(kind):
    result = explore(kind())
    assert result.states > 500
    assert result.ends > 0


@pytest.mark.parametrize(
    ("kind", "mistake"),
    [(Consuming, "commits_late"), (Consuming, "is_fenced"), (Refusing, "marks_burials")],
)
def test_the_enumeration_sees_a_broker_that_does_wrong(monkeypatch, kind, mistake):
    monkeypatch.setattr(Consuming, mistake, not getattr(Consuming, mistake))
    with pytest.raises(AssertionError):
        explore(kind())
