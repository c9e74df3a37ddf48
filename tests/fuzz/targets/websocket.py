"""The WebSocket gateway's port, and the dialogue behind it, whatever a client says.

The first byte chooses: bytes from the first one of a connection on; bytes behind a handshake; lines
behind a handshake, each the text of a frame; or one frame for the dialogue alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from endpoint.endpoint import Endpoint
from endpoint.port_access import PortAccess
from handshake.exposure import Protection
from handshake.rules import Rules
from net.acceptor import Arrival
from net.network import Network
from peermesh.gateways.access import Access
from peermesh.gateways.websocket import server
from peermesh.gateways.websocket.mapping import members
from peermesh.gateways.websocket.session import Incoming, Refused, Session, message
from peermesh.testing.scripted import ScriptedStream
from tests.fuzz.wires import blunders_raised, pieces_of, run
from wire.decoding import decode

KINDS = range(4)
BYTES, BEHIND, LINES, FRAME = KINDS
HEAD_SIZE = 2

REQUEST = (
    b"GET /v1/messages/json HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def check(data: bytes) -> None:
    """Say it to a gateway, or to a session, and look at what is left."""
    if len(data) < HEAD_SIZE:
        return
    kind, rest = data[0] % len(KINDS), data[HEAD_SIZE:]
    if kind == FRAME:
        _check_frame(rest.decode("utf-8", "replace"))
        return
    pieces = pieces_of(rest, data[1])
    if kind == LINES:
        pieces = list(map(_frame, rest.split(b"\n")))
    if kind != BYTES:
        pieces = [REQUEST, *pieces]
    stream = ScriptedStream(pieces, seconds=0.01)
    with blunders_raised("peermesh.gateways.websocket"):
        run(lambda: _converse(stream))
    assert stream.socket.is_closed
    assert stream.sent[:9] in (b"", b"HTTP/1.1 ")


def _check_frame(text: str) -> None:
    """Take a frame; what is taken is written, and taken again as the same."""
    session = Session(32, 1_000)
    try:
        found = session.receive(text)
    except Refused as refused:
        json.loads(str(refused))
        return
    assert isinstance(found, Incoming)
    again = session.receive(message(found.topic, members(decode(found.payload))))
    assert again == found


def _frame(text: bytes) -> bytes:
    """Make a frame of a text, masked with zeros, as clients do."""
    size = len(text)
    length = bytes((0x80 | size,)) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return b"\x81" + length + bytes(4) + text


async def _converse(stream: ScriptedStream) -> None:
    async with Endpoint() as endpoint:
        access = Access("127.0.0.1", None, Protection.PLAIN)
        guard = PortAccess(server.PORT, Rules(), None)
        network = Network(None, allow_plain=False)
        gateway = server.WebSocketGateway(endpoint, access, network, guard, frozenset())
        arrival = Arrival(gateway._acceptor, stream, None)  # type: ignore[arg-type]  # as good as a socket's
        gateway._acceptor.arrivals.arrive(arrival, "")
        await gateway._acceptor._run(arrival, gateway._converse)
        assert gateway.statistics().clients == 0


def seeds() -> Iterator[bytes]:
    """Give requests, frames of each kind, and messages with a value of each type."""
    values = ['"none", "data": {}', '"boolean", "data": true', '"count", "data": 7',
              '"integer", "data": -7', '"real", "data": 0.5', '"real", "data": "nan"',
              '"string", "data": "text"', '"address", "data": "10.0.0.1"',
              '"subnet", "data": "10.0.0.0/8"', '"port", "data": "80/tcp"',
              '"timestamp", "data": "2022-04-10T07:00:00.000"', '"timespan", "data": "1500ms"',
              '"enum-value", "data": "foo"',
              '"vector", "data": [{"@data-type": "count", "data": 1}]',
              '"set", "data": [{"@data-type": "count", "data": 1}]',
              '"table", "data": [{"key": {"@data-type": "count", "data": 1},'
              ' "value": {"@data-type": "string", "data": "x"}}]']  # fmt: skip
    for value in values:
        yield bytes((FRAME, 0)) + f'{{"topic": "/t", "@data-type": {value}}}'.encode()
    said = b'["/t"]\n{"topic": "/t", "@data-type": "count", "data": 1}\nnonsense'
    yield bytes((LINES, 0)) + said
    yield bytes((LINES, 0)) + b"[]"
    ending = b"\x88\x82\0\0\0\0\x03\xe8"
    pings = b"\x89\x81\0\0\0\0x" + b"\x8a\x80\0\0\0\0"
    yield bytes((BEHIND, 0)) + _frame(b'["/t"]') + pings + ending
    yield bytes((BEHIND, 1)) + _frame(b'["/t"]') + b"\x01\x81\0\0\0\0{" + b"\x80\x81\0\0\0\0}"
    yield bytes((BEHIND, 0)) + b"\x82\x81\0\0\0\0x"
    yield bytes((BEHIND, 0)) + b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"
    yield bytes((BYTES, 0)) + REQUEST + _frame(b'["/t"]')
    yield bytes((BYTES, 7)) + REQUEST
    yield bytes((BYTES, 0)) + REQUEST.replace(b"/v1", b"/v2")
    yield bytes((BYTES, 0)) + REQUEST.replace(b"Host", b"Origin: http://a\r\nHost")
    yield bytes((BYTES, 0)) + REQUEST.replace(b"13", b"12")
    yield bytes((BYTES, 0)) + b"POST / HTTP/1.1\r\nHost: x\r\n\r\n"
