"""When a topic gets its ports, and when it loses them."""

from __future__ import annotations

import pytest

from peermesh.brokers.edge import lifecycle
from peermesh.brokers.edge.lifecycle import ChannelMap, ClosePorts, OpenPorts, PortList, State
from peermesh.brokers.edge.messages import Attach, Hello, Refused, expect, read, write
from wire.errors import DecodeError, LimitExceeded, RemoteProtocolError
from wire.framing import VERSION_MAX, VERSION_MIN, FrameDecoder, encode_control, encode_preamble
from wire.messages import Preamble


def test_ports_are_taken_in_pairs_and_the_longest_unused_first():
    ports = PortList([1, 2, 3, 4, 5])
    assert [ports.take(), ports.take(), ports.take()] == [(1, 2), (3, 4), None]
    ports.give_back((3, 4))
    assert ports.free == 3
    assert ports.take() == (5, 3)


def test_without_a_list_the_system_chooses_and_its_choice_is_reused():
    ports = PortList()
    assert ports.take() == (0, 0)
    ports.give_back((40001, 40002))
    assert ports.take() == (40001, 40002)
    ports.give_back((0, 0))
    assert ports.take() == (0, 0)


def test_a_topic_sleeps_until_its_first_message_and_closes_when_nobody_is_left():
    channels = ChannelMap("broker", PortList([1, 2]), idle_seconds=5)
    topic = channels.make("a")
    topic.channel.attach(1, b"s" * 16)
    assert topic.state is State.ASLEEP
    assert channels.message_came(topic) == [OpenPorts("a", (1, 2))]
    assert channels.message_came(topic) == []
    channels.opened("a", (1, 2))
    assert channels.tick(0) == channels.tick(100) == []  # It has a subscriber.
    topic.channel.detach(b"s" * 16)
    topic.publishers = 1
    assert channels.tick(100) == channels.tick(200) == []  # It has a publisher.
    topic.publishers = 0
    assert channels.tick(200) == channels.tick(204.9) == []
    assert channels.tick(205) == [ClosePorts("a")]
    assert channels.tick(300) == []
    assert channels.closed("a") == []
    assert channels.find("a") is None
    assert channels.ports.free == 2


def test_a_message_while_a_channel_closes_opens_it_again_if_somebody_wants_it():
    channels = ChannelMap("broker", PortList([1, 2]), idle_seconds=0)
    topic = channels.make("a")
    channels.message_came(topic)
    channels.opened("a", (1, 2))
    channels.tick(0)
    assert channels.tick(0) == [ClosePorts("a")]
    topic.channel.attach(1, b"s" * 16)
    assert channels.closed("a") == [OpenPorts("a", (1, 2))]


def test_topics_wait_for_ports_in_their_order():
    channels = ChannelMap("broker", PortList([1, 2]), idle_seconds=0)
    for name in "abc":
        channels.message_came(channels.make(name))
        channels.make(name).publishers = 1
    channels.opened("a", (1, 2))
    assert [topic.state for topic in channels][1:] == [State.WAITING, State.WAITING]
    channels.make("a").publishers = 0
    channels.tick(0)
    assert channels.tick(0) == [ClosePorts("a")]
    assert channels.closed("a") == [OpenPorts("b", (1, 2))]


def test_ports_that_somebody_else_has_are_tried_again_after_the_others():
    channels = ChannelMap("broker", PortList([1, 2, 3, 4]))
    topic = channels.make("a")
    assert channels.message_came(topic) == [OpenPorts("a", (1, 2))]
    assert channels.not_opened("a") == [OpenPorts("a", (3, 4))]
    assert channels.not_opened("a") == [OpenPorts("a", (1, 2))]


def test_there_is_an_end_to_topics(monkeypatch):
    monkeypatch.setattr(lifecycle, "TOPICS_MAX", 2)
    channels = ChannelMap("broker", PortList())
    channels.make("a")
    channels.make("b")
    with pytest.raises(LimitExceeded, match="2 topics already"):
        channels.make("c")
    assert channels.make("a")


def frame(data: bytes):
    decoder = FrameDecoder(1000)
    decoder.feed(encode_preamble(Preamble(VERSION_MIN, VERSION_MAX)) + data)
    decoder.next_frame()
    return decoder.next_frame()


def test_messages_come_back_and_others_are_refused():
    hello = Hello(b"c" * 16, "a")
    assert read(frame(write(hello))) == hello
    with pytest.raises(DecodeError, match="an edge broker does not know"):
        read(frame(encode_control(1, b"\x80")))
    with pytest.raises(DecodeError, match="other fields than 2"):
        read(frame(encode_control(67, b"\x80")))
    with pytest.raises(DecodeError, match="whose topic is 1"):
        read(frame(encode_control(67, b"\x82\x01\xf5")))
    with pytest.raises(RemoteProtocolError, match="go away"):
        expect(Refused("go away"), Hello)
    with pytest.raises(RemoteProtocolError, match="where Hello was expected"):
        expect(Attach("a", is_known=False), Hello)
