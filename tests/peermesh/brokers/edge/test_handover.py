"""The hand-over between connections, in the cores alone: every order of events Hypothesis finds.

A connection is two queues. Clients move between connections, connections are cut with whatever is
in them, and what was sent comes out in any interleaving of the connections.
"""

from __future__ import annotations

import itertools
from collections import deque

import pytest
from hypothesis import given, strategies as st

from peermesh.brokers.edge import channel as channel_module
from peermesh.brokers.edge.channel import Acknowledge, Channel, Disconnect, Send
from peermesh.brokers.edge.incoming import Incoming
from peermesh.brokers.edge.messages import Attached, read, read_data
from peermesh.brokers.edge.outgoing import Outgoing
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
        self.channel = Channel("T", "one")
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
            match effect:
                case Send(_, data, _):
                    pipe.down.append(data)
                case Acknowledge(_, accepted):
                    pipe.down.append(accepted)
                case Disconnect():
                    raise AssertionError(effect)

    def move(self, name: bytes) -> None:
        """A client goes on by a new connection; the old one still has what was in it."""
        pipe = self.current[name] = Pipe()
        self.pipes[pipe.number] = pipe
        self.owner[pipe.number] = name
        if name in self.outgoing:
            self.outgoing[name].switch(pipe.number)
        else:
            self.apply(self.channel.attach(pipe.number, name))

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

    def arrive(self, name: bytes, pipe: Pipe, data: bytes) -> None:
        incoming = self.incoming[name]
        for frame in frames(data):
            if isinstance(frame, NodeFrame):
                publisher = read_data(frame)[1]
                count = frame.count
                skip = incoming.receive(pipe.number, publisher, frame.first, count)
                new = [(publisher, payload) for payload in frame.payloads()[skip:]]
                self.received[name] += new
            else:
                message = read(frame)
                assert isinstance(message, Attached)
                assert incoming.attached(pipe.number, message) == 0

    def read(self, name: bytes) -> None:
        incoming = self.incoming[name]
        while incoming.waiting:
            incoming.take()
            taken = incoming.report()
            if taken is not None:
                self.apply(self.channel.take(name, taken.incarnation, taken.position))

    def settle(self) -> None:
        """Let everything arrive."""
        while True:
            for name in PUBLISHERS:
                self.pull(name)
            busy = [pipe for pipe in self.pipes.values() if pipe.up or pipe.down]
            if not busy and not any(each.waiting for each in self.incoming.values()):
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
        patch.setattr(channel_module, "WINDOW", window)
        patch.setattr("peermesh.brokers.edge.outgoing.WINDOW", window)
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


def test_a_gap_is_refused():
    channel = Channel("T", "one")
    outgoing = Outgoing("T", PUBLISHERS[0])
    for _ in range(3):
        outgoing.add(b"x")
        outgoing.switch(1)
    (frame,) = frames(b"".join(outgoing.take()))
    channel.offer(1, PUBLISHERS[0], frame)
    outgoing.accept(3)
    outgoing.add(b"lost")
    outgoing.take()
    outgoing.add(b"x")
    (frame,) = frames(b"".join(outgoing.take()))
    with pytest.raises(RemoteProtocolError, match="message 5 came after 3"):
        channel.offer(1, PUBLISHERS[0], frame)


def test_a_publisher_that_exceeds_its_window_is_refused():
    channel = Channel("T", "one")
    channel.attach(1, SUBSCRIBERS[0])
    outgoing = Outgoing("T", PUBLISHERS[0], capacity=10**6)

    def fill():
        for _ in range(channel_module.WINDOW):
            outgoing.add(b"x")
        for frame in frames(b"".join(outgoing.take())):
            channel.offer(1, PUBLISHERS[0], frame)
        outgoing.accept(outgoing.last)  # As if it had been acknowledged.

    fill()  # The subscription's window.
    fill()  # The publisher's own.
    with pytest.raises(RemoteProtocolError, match="more than its window"):
        fill()


def test_a_subscriber_that_takes_nothing_is_dropped_and_the_others_go_on():
    channel = Channel("T", "one")
    channel.attach(1, SUBSCRIBERS[0])
    channel.attach(2, SUBSCRIBERS[1])
    outgoing = Outgoing("T", PUBLISHERS[0])
    for _ in range(channel_module.WINDOW):
        outgoing.add(b"x")
    for frame in frames(b"".join(outgoing.take())):
        channel.offer(3, PUBLISHERS[0], frame)
    channel.take(SUBSCRIBERS[1], "one", channel.position)
    outgoing.accept(outgoing.last)
    outgoing.add(b"late")
    (frame,) = frames(b"".join(outgoing.take()))
    assert channel.offer(3, PUBLISHERS[0], frame) == []  # It waits for the first.
    assert channel.tick(0.0) == []
    assert channel.tick(channel_module.STALL_SECONDS - 0.1) == []
    effects = channel.tick(channel_module.STALL_SECONDS)
    assert [type(effect) for effect in effects] == [Disconnect, Send, Acknowledge]
    assert effects[0].line == 1
    assert effects[1].line == 2
    assert channel.dropped == channel_module.WINDOW
    again = channel.attach(4, SUBSCRIBERS[0])
    (frame,) = frames(again[0].data)
    incoming = Incoming("T")
    incoming.attached(1, Attached("T", "one", 1))
    assert incoming.attached(4, read(frame)) == channel_module.WINDOW + 1  # It is told.


def test_a_subscription_without_a_connection_waits_for_the_next_one_for_a_while():
    channel = Channel("T", "one")
    channel.attach(1, SUBSCRIBERS[0])
    channel.lose(1)
    channel.tick(0.0)
    channel.tick(channel_module.RESUME_SECONDS - 0.1)
    assert channel.has_subscribers
    channel.tick(channel_module.RESUME_SECONDS)
    assert not channel.has_subscribers


def test_what_an_older_broker_brought_is_not_given_twice():
    """The next broker knows neither positions nor publishers: their own numbers tell."""
    first, second = Channel("T", "one"), Channel("T", "two")
    incoming, outgoing = Incoming("T"), Outgoing("T", PUBLISHERS[0])
    received = []
    for number, channel in enumerate((first, second), 1):
        outgoing.add(str(number).encode())
        outgoing.switch(number)
        effects = channel.attach(number, SUBSCRIBERS[0])
        for frame in frames(b"".join(outgoing.take())):
            effects += channel.offer(number, PUBLISHERS[0], frame)  # Never acknowledged.
        for effect in effects:
            if not isinstance(effect, Send):
                continue
            for frame in frames(effect.data):
                if isinstance(frame, NodeFrame):
                    count = frame.count
                    skip = incoming.receive(number, PUBLISHERS[0], frame.first, count)
                    received += frame.payloads()[skip:]
                else:
                    incoming.attached(number, read(frame))
    assert received == [b"1", b"2"]
