"""The mesh's port, in plain TCP: the first bytes of anybody, and all that a peer may say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import trio

from endpoint.loop import EndpointLoop
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.routing import ROUTES_MAX
from endpoint.pubsub.mailbox import Mailbox
from endpoint.settings import Settings
from peermesh.testing.scripted import ScriptedTransport
from tests.fuzz.seeds import golden
from tests.fuzz.wires import blunders_raised, pieces_of, run
from wire import codec, framing
from wire.clocks import LamportTime, VectorTime
from wire.encoding import encode
from wire.identifiers import EndpointId
from wire.messages import (
    Announcement,
    ControlMessage,
    Hello,
    OriginatorAck,
    OriginatorSyn,
    Preamble,
)

LOCAL = EndpointId(bytes(15) + b"\x80")
PEER = EndpointId(bytes(15) + b"\x01")
HEAD_SIZE = 2
IS_PEER = 1


class Ear:
    """Reads nothing: a mailbox of its own is all there is."""

    def wake(self, more_follows: bool) -> None:
        """Nobody sleeps."""

    def ready_count(self) -> int:
        return 0

    def end(self) -> None:
        """Nobody waits."""


def check(data: bytes) -> None:
    """Say it to an endpoint, as a peer if the first byte is odd, in pieces as the second says."""
    if len(data) < HEAD_SIZE:
        return
    is_peer, size, said = data[0] & IS_PEER, data[1], data[HEAD_SIZE:]
    pieces = [*([INTRODUCTION] if is_peer else []), *pieces_of(said, size)]
    with blunders_raised("peermesh.endpoint"):
        run(lambda: _converse(ScriptedTransport(pieces)))


async def _converse(transport: ScriptedTransport) -> None:
    core = EndpointCore(LOCAL)
    loop = EndpointLoop(core, Settings(), first_sequence=1)
    mailbox = Mailbox()
    loop.add_reader(mailbox, Ear(), [""])
    with trio.move_on_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(loop.tick_forever)
            await loop.run(loop.prepare(transport, ("127.0.0.1", 1), dialled=False))
            nursery.cancel_scope.cancel()
    assert transport.is_closed
    assert (loop.peerings, loop._connections, len(loop.greeter)) == ({}, {}, 0)
    assert core.routing.remembered()[0] <= ROUTES_MAX
    while not mailbox.is_empty():
        mailbox.take([])


def _framed(message: ControlMessage) -> bytes:
    return framing.encode_control(*codec.encode_control(message))


def _introduction() -> bytes:
    news = Announcement(PEER, LamportTime(1), (LOCAL,), ("",), (), True)
    words = (
        Hello(PEER, VectorTime()),
        OriginatorSyn(PEER, VectorTime(), (news,)),
        OriginatorAck(),
    )
    ours = framing.encode_preamble(Preamble(framing.VERSION_MIN, framing.VERSION_MAX))
    return ours + b"".join(map(_framed, words))


def _header(kind: int, topic: bytes, receiver: bytes = b"\0") -> bytes:
    return bytes((kind,)) + receiver + topic


def _node(sender: bytes, headers: tuple[bytes, ...], numbers: bytes, **said: Any) -> bytes:
    payloads = [encode(1), encode("x")]
    return b"".join(framing.encode_node(sender, 3, 9, headers, numbers, payloads, **said)[0])


INTRODUCTION = _introduction()


def seeds() -> Iterator[bytes]:
    """Give an introduction as its bytes, and everything that a peer may say."""
    yield b"\x00\x00" + INTRODUCTION
    yield b"\x00\x07" + INTRODUCTION + b"\xff"
    for vector in golden("control"):
        frame = framing.encode_control(vector["kind"], bytes.fromhex(vector["hex"]))
        yield b"\x01\x00" + frame
        yield b"\x01\x0b" + frame + frame
    for kind, topic in ((1, b"/t"), (3, b"/t"), (2, b"/t"), (2, b"s/<$>/data/master")):
        for sender in (PEER, LOCAL):
            yield b"\x01\x00" + _node(sender, (_header(kind, topic),), b"")
    mixed = tuple(_header(kind, topic) for kind, topic in ((1, b"/t"), (3, b"/u"), (1, b"/v")))
    yield b"\x01\x00" + _node(PEER, mixed, b"\2\0") + _node(PEER, mixed, b"\1\2", mask=0b101)
    yield b"\x01\x00" + _node(PEER, mixed, b"\0\1", forced=True) * 2
    yield b"\x01\x00" + _node(PEER, (*mixed, _header(2, b"s/<$>/data/master")), b"\0\3")
    to_us = _header(1, b"/t", b"\1" + LOCAL)
    yield b"\x01\x00" + _node(PEER, (to_us,), b"", sign=lambda _: bytes(64))
    yield b"\x00\x00\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
