"""The edge broker's ports: what publishers and subscribers say there, on any channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from endpoint.port_access import PortAccess
from handshake.principals import UNPROVEN
from handshake.rules import Rules
from peermesh.brokers.edge import messages
from peermesh.brokers.edge.access import PORT
from peermesh.brokers.edge.guests import Guest
from peermesh.brokers.edge.hall import Consequence, Hall
from peermesh.brokers.edge.lifecycle import ChannelMap, ClosePorts, OpenPorts, PortList
from peermesh.brokers.edge.line import Line
from peermesh.brokers.edge.messages import (
    CLIENT_SIZE,
    TTL,
    Ask,
    Attach,
    Beat,
    Detach,
    Hello,
    Refused,
    Taken,
)
from peermesh.brokers.edge.reception import Badge
from peermesh.brokers.edge.relay import Send
from peermesh.testing.scripted import ScriptedTransport
from tests.fuzz.wires import blunders_raised, pieces_of, run
from wire import framing
from wire.encoding import encode
from wire.messages import Preamble

HEAD_SIZE = 2
PORT_KINDS = range(4)
CLIENT = bytes(CLIENT_SIZE)
TOPIC = "tea"


class Room:
    """A broker's hall with its effects, and one guest."""

    def __init__(self) -> None:
        self.hall = Hall(ChannelMap("room", PortList()))
        self.guests: dict[int, Guest] = {}
        self.now = 0.0

    def apply(self, effects: Sequence[Consequence]) -> None:
        """Do at once whatever is asked."""
        for effect in effects:
            match effect:
                case Send(number, what, principal):
                    self.guests[number].send(what, principal)
                case OpenPorts(topic):
                    self.hall.channels.opened(topic, (1, 2))
                case ClosePorts(topic):
                    self.apply(self.hall.channels.closed(topic))


def check(data: bytes) -> None:
    """Say it at a port as the first byte says: for publishers or not, of a topic or not."""
    if len(data) < HEAD_SIZE:
        return
    kind = data[0] % len(PORT_KINDS)
    transport = ScriptedTransport(pieces_of(data[HEAD_SIZE:], data[1]))
    with blunders_raised("peermesh.brokers.edge"):
        run(lambda: _converse(transport, TOPIC if kind & 2 else "", is_receiver=bool(kind & 1)))
    assert transport.is_closed


async def _converse(transport: ScriptedTransport, here: str, *, is_receiver: bool) -> None:
    room, line = Room(), Line(transport, is_stranger=True)
    badge = Badge(PortAccess(PORT, Rules(), None).access, UNPROVEN)
    welcome = messages.Welcome(bytes(CLIENT_SIZE), "127.0.0.1:1")
    guest = room.guests[line.number] = Guest(
        line, badge, room.hall, room.apply, welcome, here, is_publisher=is_receiver
    )

    def hear(message: framing.NodeFrame | messages.ControlMessage) -> None:
        guest.hear(message)
        room.now += 1
        room.apply(room.hall.tick(room.now))

    await line.serve(hear)
    assert line.error
    room.hall.lost(line.number)
    for step in range(30):
        room.apply(room.hall.tick(room.now + step))
    assert not [topic for topic in room.hall.channels if topic.is_used]


def _data(first: int, *payloads: bytes, topic: str = TOPIC) -> bytes:
    pieces, _ = framing.encode_node(CLIENT, TTL, first, (topic.encode(),), b"", payloads)
    return b"".join(pieces)


def seeds() -> Iterator[bytes]:
    """Give what good clients say at each kind of port, and what they may not say there."""
    ours = framing.encode_preamble(Preamble(framing.VERSION_MIN, framing.VERSION_MAX))
    for here, kinds in (("", (0, 1)), (TOPIC, (2, 3))):
        hello = ours + messages.write(Hello(CLIENT, here))
        attach = Attach(TOPIC, is_known=True)
        subscriber = b"".join(
            map(messages.write, (attach, Beat(), Taken(TOPIC, "room/1", 0), Detach(TOPIC)))
        )
        publisher = _data(1, encode(1)) + _data(2, b"x", b"y") + _data(2, b"x", b"y", b"z")
        for kind, words in zip(kinds, (subscriber, publisher), strict=True):
            yield bytes((kind, 0)) + hello + words
            yield bytes((kind, 9)) + hello + words + messages.write(Refused("no"))
    yield b"\x00\x00" + ours + messages.write(Ask(1, "read", "/a", ""))
    yield b"\x01\x00" + ours + messages.write(Hello(CLIENT, "")) + _data(9, b"far", topic="/bad/")
