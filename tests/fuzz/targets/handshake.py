"""A hostile peer in the handshake: it ends, nothing but protocol errors come out, all is let go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from handshake.directory import ConnectionId, PeerDirectory, Standing
from handshake.effects import Effect, Established, Failed, Redundant, Send
from handshake.machine import Handshake
from wire import codec, framing
from wire.clocks import VectorTime
from wire.errors import DecodeError
from wire.framing import ControlFrame, FrameDecoder
from wire.identifiers import EndpointId
from wire.limits import FRAME_SIZE_MIN
from wire.messages import (
    Announcement,
    ControlMessage,
    DropConn,
    Hello,
    OriginatorAck,
    OriginatorSyn,
    Preamble,
    ResponderSynAck,
)

LOCAL = EndpointId(bytes(15) + b"\x80")
SMALLER, LARGER = (EndpointId(bytes(15) + last) for last in (b"\x01", b"\xf0"))
NUMBER = ConnectionId(1)
MESSAGES = Preamble | Hello | OriginatorSyn | ResponderSynAck | OriginatorAck | DropConn


class Nobody:
    """An endpoint that has heard of nobody."""

    def knowledge(self) -> VectorTime:
        return VectorTime()

    def news_for(self, knowledge: VectorTime) -> tuple[Announcement, ...]:
        return ()


def check(data: bytes) -> None:
    """Feed a machine, which has dialled if the first byte is odd."""
    dialled, data = bool(data and data[0] & 1), data[1:]
    directory = PeerDirectory(LOCAL)
    machine = Handshake(
        connection=NUMBER, dialled=dialled, directory=directory, source=Nobody()
    )  # fmt: skip
    effects = list(machine.start())
    decoder = FrameDecoder()
    decoder.feed(data)
    try:
        while not machine.is_over and (frame := decoder.next_frame()) is not None:
            message = frame
            if isinstance(frame, ControlFrame):
                message = codec.decode_control(frame.kind, frame.body)
            if not isinstance(message, MESSAGES):
                raise DecodeError("no message of the handshake")
            effects += machine.receive(message)
    except DecodeError as error:
        effects += machine.refuse(error.code, str(error))
        assert machine.is_over
    if not machine.is_over:
        effects += machine.connection_lost()
    _check_end(machine, directory, effects)


def _check_end(machine: Handshake, directory: PeerDirectory, effects: Sequence[Effect]) -> None:
    ends = [each for each in effects if isinstance(each, (Established, Failed, Redundant))]
    assert machine.is_over
    assert len(ends) == 1, ends
    for each in effects:
        if isinstance(each, Send) and not isinstance(each.message, Preamble):
            codec.encode_control(each.message)
    if isinstance(ends[0], Established):
        assert directory.peers() == (ends[0].peer,)
        assert ends[0].frame_size_max >= FRAME_SIZE_MIN
        directory.release(ends[0].peer, NUMBER)
    assert directory.peers() == ()
    if machine.peer is not None:
        assert directory.standing(machine.peer) is Standing.FREE


def seeds() -> Iterator[bytes]:
    """Give the peer's half of each conversation."""
    ours = framing.encode_preamble(Preamble(framing.VERSION_MIN, framing.VERSION_MAX))
    nothing = VectorTime()
    for words in (
        [Hello(LARGER, nothing), ResponderSynAck(())],
        [Hello(SMALLER, nothing), OriginatorSyn(SMALLER, nothing, ()), OriginatorAck()],
        [OriginatorSyn(SMALLER, nothing, ()), OriginatorAck()],
        [Hello(LOCAL, nothing)],
    ):
        for dialled in b"\x00\x01":
            yield bytes((dialled,)) + ours + b"".join(map(_framed, words))
    yield b"\x00" + framing.encode_preamble(Preamble(9, 9))


def _framed(message: ControlMessage) -> bytes:
    return framing.encode_control(*codec.encode_control(message))
