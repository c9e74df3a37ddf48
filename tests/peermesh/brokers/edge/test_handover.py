"""The hand-over between connections, in the cores alone: every order of events Hypothesis finds.

A connection is two queues. Clients move between connections, connections are cut with whatever is
in them, and what was sent comes out in any interleaving of the connections.
"""

from __future__ import annotations

import itertools
from collections import deque

import pytest
from hypothesis import given, strategies as st

from peermesh.brokers.edge import incoming as incoming_module, outgoing, relay, subscription
from peermesh.brokers.edge.incoming import Incoming
from peermesh.brokers.edge.messages import Accepted, Attached, Refused, Void, read, read_data
from peermesh.brokers.edge.outgoing import Outgoing
from peermesh.brokers.edge.relay import Relay
from wire.errors import RemoteProtocolError
from wire.framing import (
    VERSION_MAX,
    VERSION_MIN,
    FrameDecoder,
    NodeFrame,
    encode_preamble,
)
from wire.limits import FRAME_SIZE_MAX
from wire.messages import Preamble

PUBLISHERS = [bytes([number]) * 16 for number in (1, 2)]
SUBSCRIBERS = [bytes([number]) * 16 for number in (8, 9)]


def frames(data: bytes):
    decoder = FrameDecoder(FRAME_SIZE_MAX)
    decoder.feed(encode_preamble(Preamble(VERSION_MIN, VERSION_MAX)) + data)
    found = []
    while (frame := decoder.next_frame()) is not None:
        found.append(frame)
    return found[1:]


class Pipe:
    """A connection between one client and the channel."""

    numbers = itertools.count(1)

    def __init__(self) -> None:
        self.number = next(self.numbers)
        self.up: deque = deque()
        self.down: deque = deque()


class Network:
    """The cores, and the connections between them."""

    def __init__(self) -> None:
        self.channel = Relay("T", "one")
        self.outgoing = {name: Outgoing("T", name) for name in PUBLISHERS}
        self.incoming = {name: Incoming("T") for name in SUBSCRIBERS}
        self.received: dict[bytes, list] = {name: [] for name in SUBSCRIBERS}
        self.pipes: dict[int, Pipe] = {}
        self.current: dict[bytes, Pipe] = {}
        self.owner: dict[int, bytes] = {}
        self.sent = dict.fromkeys(PUBLISHERS, 0)
        for name in (*SUBSCRIBERS, *PUBLISHERS):
            self.move(name)

    def apply(self, effects) -> None:
        for effect in effects:
            pipe = self.pipes.get(effect.line)
            if pipe is None:
                continue
            assert not isinstance(effect.what, Refused)
            pipe.down.append(effect.what)

    def move(self, name: bytes) -> None:
        """A client goes on by a new connection; the old one still has what was in it."""
        pipe = self.current[name] = Pipe()
        self.pipes[pipe.number] = pipe
        self.owner[pipe.number] = name
        if name in self.outgoing:
            self.outgoing[name].switch(pipe.number)
        else:
            self.apply(
                self.channel.attach(pipe.number, name, is_known=self.incoming[name].is_known)
            )

    def cut(self, name: bytes) -> None:
        """The current connection is lost, with all that is in it; then there is another."""
        pipe = self.current[name]
        del self.pipes[pipe.number]
        self.channel.lose(pipe.number)
        if name in self.incoming:
            self.incoming[name].lose(pipe.number)
        self.move(name)

    def send(self, name: bytes) -> None:
        outgoing = self.outgoing[name]
        if outgoing.has_room:
            self.sent[name] += 1
            outgoing.add(self.sent[name].to_bytes(4, "big"))

    def pull(self, name: bytes) -> None:
        pieces = self.outgoing[name].take()
        self.current[name].up.extend(frames(b"".join(pieces)))

    def carry(self, pipe: Pipe) -> None:
        """Let the oldest of either direction of a connection arrive."""
        name = self.owner[pipe.number]
        if pipe.up:
            self.apply(self.channel.offer(pipe.number, name, pipe.up.popleft()))
        if pipe.down:
            item = pipe.down.popleft()
            if name in self.outgoing:
                self.outgoing[name].accept(item.sequence)
            else:
                self.arrive(name, pipe, item)

    def arrive(self, name: bytes, pipe: Pipe, said: bytes | Attached) -> None:
        incoming = self.incoming[name]
        if isinstance(said, Attached):
            assert incoming.attached(pipe.number, said) == 0
            return
        for frame in frames(said):
            assert isinstance(frame, NodeFrame)
            publisher = read_data(frame)[1]
            count = frame.count
            skip, missed = incoming.receive(pipe.number, publisher, frame.first, count)
            assert missed == 0
            new = [(publisher, payload) for payload in frame.payloads()[skip:]]
            incoming.keep(len(new), 4 * len(new))
            self.received[name] += new

    def read(self, name: bytes) -> None:
        incoming = self.incoming[name]
        while incoming.waiting:
            incoming.take(4)
            self.tell(name)
        self.tell(name)

    def tell(self, name: bytes) -> None:
        taken = self.incoming[name].report()
        if taken is not None:
            self.apply(self.channel.take(name, taken.incarnation, taken.position))

    def settle(self) -> None:
        """Let everything arrive."""
        while True:
            for name in PUBLISHERS:
                self.pull(name)
            busy = [pipe for pipe in self.pipes.values() if pipe.up or pipe.down]
            if not busy and not any(each.waiting for each in self.incoming.values()):
                assert not any(each.waiting for each in self.outgoing.values())
                return
            for pipe in busy:
                self.carry(pipe)
            for name in SUBSCRIBERS:
                self.read(name)

    def check(self) -> None:
        for name in SUBSCRIBERS:
            for publisher in PUBLISHERS:
                got = [
                    int.from_bytes(data, "big")
                    for who, data in self.received[name]
                    if who == publisher
                ]
                assert got == list(range(1, self.sent[publisher] + 1))


CLIENTS = st.sampled_from([*PUBLISHERS, *SUBSCRIBERS])
EVENTS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(PUBLISHERS)),
    st.tuples(st.just("pull"), st.sampled_from(PUBLISHERS)),
    st.tuples(st.just("read"), st.sampled_from(SUBSCRIBERS)),
    st.tuples(st.just("move"), CLIENTS),
    st.tuples(st.just("cut"), CLIENTS),
    st.tuples(st.just("carry"), st.integers(0, 30)),
    st.tuples(st.just("tick"), st.just(0)),
)


@pytest.mark.parametrize("window", [3, 4096])
@given(events=st.lists(EVENTS, max_size=120))
def test_however_connections_change_nothing_is_lost_doubled_or_reordered(window, events):
    with pytest.MonkeyPatch.context() as patch:
        for module in (incoming_module, outgoing, relay, subscription):
            patch.setattr(module, "WINDOW", window)
        network = Network()
        for what, argument in events:
            if what == "carry":
                pipes = list(network.pipes.values())
                network.carry(pipes[argument % len(pipes)])
            elif what == "tick":
                network.apply(network.channel.tick(0.0))
            else:
                getattr(network, what)(argument)
        network.settle()
        network.check()


def offered(channel: Relay, publisher: Outgoing, *payloads: bytes, line: int = 3) -> list:
    """What a channel does when a publisher has sent messages."""
    for payload in payloads:
        publisher.add(payload)
    effects = []
    for frame in frames(b"".join(publisher.take())):
        if isinstance(frame, NodeFrame):
            effects += channel.offer(line, frame.sender, frame)
        else:
            void = read(frame)
            effects += channel.void(line, void.publisher, void.sequence)
    return effects


def arrived(incoming: Incoming, line: int, effects: list) -> list:
    """What a subscriber gets of that: payloads, and how many were missed."""
    found: list = []
    for effect in effects:
        if effect.line != line or isinstance(effect.what, Accepted):
            continue
        if isinstance(effect.what, Attached):
            missed = incoming.attached(line, effect.what)
            found += [missed] * bool(missed)
            continue
        for frame in frames(effect.what):
            if isinstance(frame, NodeFrame):
                name, first, count = read_data(frame)[1], frame.first, frame.count
                skip, missed = incoming.receive(line, name, first, count)
                found += [missed] * bool(missed) + [*frame.payloads()[skip:]]
            else:
                void = read(frame)
                assert isinstance(void, Void)
                incoming.void(line, void.publisher, void.sequence)
    return found


def kinds(effects: list) -> list:
    return [(type(effect.what), effect.line) for effect in effects]


def test_a_gap_is_refused():
    channel, publisher = Relay("T", "one"), Outgoing("T", PUBLISHERS[0])
    offered(channel, publisher, b"x", b"x", b"x")
    publisher.accept(3)
    publisher.add(b"lost")
    publisher.take()
    with pytest.raises(RemoteProtocolError, match="message 5 came after 3"):
        offered(channel, publisher, b"x")


def test_a_publisher_that_exceeds_its_window_is_refused():
    channel = Relay("T", "one")
    channel.attach(1, SUBSCRIBERS[0])
    publisher = Outgoing("T", PUBLISHERS[0], capacity=10**6)
    window = [b"x"] * subscription.WINDOW
    offered(channel, publisher, *window)
    publisher.accept(publisher.last)  # As if it had been acknowledged.
    with pytest.raises(RemoteProtocolError, match="more than its window"):
        offered(channel, publisher, *window)


def test_a_message_is_acknowledged_when_every_known_subscriber_has_taken_it():
    channel, publisher = Relay("T", "one"), Outgoing("T", PUBLISHERS[0])
    assert kinds(offered(channel, publisher, b"x")) == [(Accepted, 3)]  # There are none.
    channel.attach(1, SUBSCRIBERS[0])
    channel.attach(2, SUBSCRIBERS[1])
    channel.expect(b"far")
    assert kinds(offered(channel, publisher, b"y")) == [(bytes, 1), (bytes, 2)]
    assert channel.take(SUBSCRIBERS[0], "one", 2) == []
    assert channel.detach(b"far") == []
    (told,) = channel.take(SUBSCRIBERS[1], "one", 2)
    assert (told.line, told.what.sequence) == (3, 2)
    assert channel.is_taken


def test_an_acknowledgement_goes_to_where_the_publisher_is_now():
    channel, publisher = Relay("T", "one"), Outgoing("T", PUBLISHERS[0])
    channel.attach(1, SUBSCRIBERS[0])
    offered(channel, publisher, b"x", line=3)
    publisher.switch(4)
    offered(channel, publisher, line=4)
    assert kinds(channel.take(SUBSCRIBERS[0], "one", 1)) == [(Accepted, 4)]


def test_a_channel_that_is_held_acknowledges_nothing_and_gives_all_to_those_who_resume():
    channel, publisher = Relay("T", "two", is_held=True), Outgoing("T", PUBLISHERS[0])
    assert offered(channel, publisher, b"x", b"y") == []
    new, known = Incoming("T"), Incoming("T")
    assert arrived(new, 1, channel.attach(1, SUBSCRIBERS[0])) == []
    assert arrived(known, 2, channel.attach(2, SUBSCRIBERS[1], is_known=True)) == [b"x", b"y"]
    assert channel.take(SUBSCRIBERS[1], "two", 2) == []
    assert kinds(channel.release()) == [(Accepted, 3)]


def test_a_gap_in_a_publishers_numbers_is_told_at_once():
    publisher, incoming = Outgoing("T", PUBLISHERS[0]), Incoming("T")
    one = Relay("T", "one")
    effects = one.attach(1, SUBSCRIBERS[0]) + offered(one, publisher, b"a", b"b", line=9)
    assert arrived(incoming, 1, effects) == [b"a", b"b"]
    two = Relay("T", "two")  # It does not know of the subscriber in time.
    publisher.switch(8)
    offered(two, publisher, b"c", b"d", line=8)
    publisher.accept(4)
    assert arrived(incoming, 2, two.attach(2, SUBSCRIBERS[0], is_known=True)) == [2]
    three = Relay("T", "three")
    effects = three.attach(3, SUBSCRIBERS[0], is_known=True)
    for _ in range(3):  # Acknowledged by none that this one knows.
        publisher.add(b"e")
    publisher.take()
    publisher.accept(7)
    assert arrived(incoming, 3, effects + offered(three, publisher, b"f")) == [3, b"f"]
    assert incoming.missed == 5


def test_a_gap_is_told_though_the_first_answer_of_the_reign_was_lost():
    publisher, incoming = Outgoing("T", PUBLISHERS[0]), Incoming("T")
    one = Relay("T", "one")
    effects = one.attach(1, SUBSCRIBERS[0]) + offered(one, publisher, b"a", line=9)
    assert arrived(incoming, 1, effects) == [b"a"]
    two = Relay("T", "two")  # It does not know of the subscriber in time.
    publisher.switch(8)
    offered(two, publisher, b"b", b"c", line=8)
    two.attach(2, SUBSCRIBERS[0], is_known=True)  # What this answers is lost with its connection.
    again = two.attach(3, SUBSCRIBERS[0], is_known=True)
    assert arrived(incoming, 3, again) == [2]


def test_a_gap_is_told_though_the_publisher_came_after_the_first_answer():
    """The second answer names it, at the same position: its next message tells what lies before."""
    publisher, incoming = Outgoing("T", PUBLISHERS[0]), Incoming("T")
    one = Relay("T", "one")
    effects = one.attach(1, SUBSCRIBERS[0]) + offered(one, publisher, b"a", line=9)
    assert arrived(incoming, 1, effects) == [b"a"]
    for _ in range(2):  # Acknowledged by a broker that does not know of the subscriber.
        publisher.add(b"b")
    publisher.take()
    publisher.accept(3)
    three = Relay("T", "three")
    assert arrived(incoming, 2, three.attach(2, SUBSCRIBERS[0], is_known=True)) == []
    three.lose(2)
    publisher.switch(8)
    offered(three, publisher, b"c", line=8)
    again = three.attach(3, SUBSCRIBERS[0], is_known=True)
    assert arrived(incoming, 3, again) == [2, b"c"]
    assert incoming.missed == 2


def test_of_a_publisher_or_subscriber_that_is_new_nothing_is_missed():
    publisher, incoming = Outgoing("T", PUBLISHERS[0], last=70), Incoming("T")
    channel = Relay("T", "one")
    effects = channel.attach(1, SUBSCRIBERS[0]) + offered(channel, publisher, b"a")
    assert arrived(incoming, 1, effects) == [b"a"]


def test_messages_that_were_refused_are_not_missed_and_take_nothing_with_them():
    publisher, incoming = Outgoing("T", PUBLISHERS[0]), Incoming("T")
    one = Relay("T", "one")
    effects = one.attach(1, SUBSCRIBERS[0]) + offered(one, publisher, b"a")
    assert arrived(incoming, 1, effects) == [b"a"]
    for payload in (b"b", b"c"):
        publisher.add(payload)
    publisher.take()
    one.forget(PUBLISHERS[0])
    publisher.refuse(3, 2, "not allowed")
    assert publisher.waiting == 3  # The first one is not acknowledged yet.
    assert arrived(incoming, 1, offered(one, publisher, b"d")) == [b"d"]
    two = Relay("T", "two")
    publisher.switch(4)
    effects = two.attach(2, SUBSCRIBERS[0], is_known=True) + two.attach(3, SUBSCRIBERS[1])
    effects += offered(two, publisher, b"e")
    assert arrived(incoming, 2, effects) == [b"e"]
    assert arrived(Incoming("T"), 3, effects) == [b"a", b"d", b"e"]
    publisher.accept(5)
    assert publisher.waiting == 0


def test_a_subscriber_that_takes_nothing_is_dropped_and_the_others_go_on():
    channel, publisher = Relay("T", "one"), Outgoing("T", PUBLISHERS[0])
    slow = Incoming("T")
    assert arrived(slow, 1, channel.attach(1, SUBSCRIBERS[0])) == []
    channel.attach(2, SUBSCRIBERS[1])
    assert arrived(slow, 1, offered(channel, publisher, b"a")) == [b"a"]
    channel.take(SUBSCRIBERS[0], "one", 1)
    offered(channel, publisher, *[b"x"] * 9)
    assert channel.take(SUBSCRIBERS[1], "one", channel.position) != []  # The first message.
    assert channel.tick(0.0) == []
    assert channel.tick(0.1) == []
    assert channel.tick(subscription.STALL_SECONDS) == []
    effects = channel.tick(0.1 + subscription.STALL_SECONDS)
    assert kinds(effects) == [(Refused, 1), (Accepted, 3)]
    assert channel.dropped == 9
    assert arrived(slow, 4, channel.attach(4, SUBSCRIBERS[0], is_known=True)) == [9]


def test_a_subscription_without_a_connection_waits_for_the_next_one_for_a_while():
    channel = Relay("T", "one")
    channel.attach(1, SUBSCRIBERS[0])
    channel.lose(1)
    channel.tick(0.0)
    channel.tick(subscription.RESUME_SECONDS - 0.1)
    assert channel.has_subscribers
    channel.tick(subscription.RESUME_SECONDS)
    assert not channel.has_subscribers


def test_what_an_older_broker_brought_is_not_given_twice():
    """The next broker knows neither positions nor publishers: their own numbers tell."""
    incoming, publisher, received = Incoming("T"), Outgoing("T", PUBLISHERS[0]), []
    for number, channel in enumerate((Relay("T", "one"), Relay("T", "two")), 1):
        publisher.switch(number)
        effects = channel.attach(number, SUBSCRIBERS[0], is_known=incoming.is_known)
        effects += offered(channel, publisher, str(number).encode())  # Never acknowledged.
        received += arrived(incoming, number, effects)
    assert received == [b"1", b"2"]


def test_a_reader_that_takes_nothing_has_a_window_of_its_own(monkeypatch):
    monkeypatch.setattr(incoming_module, "WINDOW", 3)
    incoming = Incoming("T")
    incoming.attached(1, Attached("T", "one", 1, numbers=b""))
    incoming.receive(1, PUBLISHERS[0], 1, 3)
    incoming.keep(3, 3)
    assert incoming.report().position == 3  # They are here, whatever becomes of the broker.
    incoming.receive(1, PUBLISHERS[0], 4, 2)
    incoming.keep(2, 2)
    assert incoming.is_full
    assert incoming.report() is None
    incoming.take(1)
    incoming.take(1)
    assert incoming.report().position == 5
    by_reading = Incoming("T", is_read=True)
    by_reading.attached(1, Attached("T", "one", 1, numbers=b""))
    by_reading.receive(1, PUBLISHERS[0], 1, 1)
    by_reading.keep(1, 1)
    assert by_reading.report() is None
    by_reading.take(1)
    assert by_reading.report().position == 1
