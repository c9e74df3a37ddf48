"""Frames: the same bytes make the same frames, however they are cut, and no more is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wire.codec import ControlKind
from wire.errors import DecodeError
from wire.framing import (
    VERSION_MAX,
    VERSION_MIN,
    ControlFrame,
    Frame,
    FrameDecoder,
    NodeFrame,
    encode_control,
    encode_node,
    encode_preamble,
)
from wire.messages import Preamble

SIZE_MAX = 512
EARLY_SIZE = 40  # a preamble, a front, and the beginning of a body
Told = tuple[object, ...]


def check(data: bytes) -> None:
    """Cut the bytes by their first one, and compare with the whole."""
    step, data = (data[0] % 32 + 1 if data else 1), data[1:]
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    whole, whole_error = _read([data])
    cut, cut_error = _read(pieces)
    assert (whole, whole_error) == (cut, cut_error)
    assert (whole, whole_error) == _read(pieces, is_late=True)


def _read(pieces: Sequence[bytes], *, is_late: bool = False) -> tuple[list[Told], str]:
    """Read after each piece; or after the first ones, and then only after all of them."""
    decoder = FrameDecoder(SIZE_MAX)
    told: list[Told] = []
    fed = 0
    for number, piece in enumerate(pieces, start=1):
        decoder.feed(piece)
        fed += len(piece)
        if is_late and fed > EARLY_SIZE and number < len(pieces):
            continue
        try:
            while (frame := decoder.next_frame()) is not None:
                told.append(_tell(frame))
        except DecodeError as error:
            # A wrong beginning is noticed, and quoted, as soon as its first byte is there.
            return told, str(error).partition(", its first")[0]
        kept = len(decoder._buffer) - decoder._offset + sum(map(len, decoder._chunks))
        assert decoder.held_size == kept
        assert kept <= SIZE_MAX + 20, "at most one frame that is not whole is kept"
    return told, ""


def _tell(frame: Frame) -> Told:
    if isinstance(frame, NodeFrame):
        assert 0 < frame.size <= SIZE_MAX + 20
        payloads = frame.payloads()
        assert tuple(map(len, payloads)) == frame.lengths
        if frame.ttl > 1:
            _check_forwarded(frame)
        return frame.header, frame.ttl, frame.sequence, payloads
    if isinstance(frame, ControlFrame):
        assert len(frame.body) <= SIZE_MAX
        return frame.kind, frame.body
    return (frame,)


def _check_forwarded(frame: NodeFrame) -> None:
    again = FrameDecoder(SIZE_MAX)
    again.feed(encode_preamble(Preamble(1, 1)) + b"".join(frame.forwarded()))
    again.next_frame()
    found = again.next_frame()
    assert isinstance(found, NodeFrame)
    assert (found.header, found.sequence) == (frame.header, frame.sequence)
    assert found.payloads() == frame.payloads()
    assert found.ttl == frame.ttl - 1


def seeds() -> Iterator[bytes]:
    """Give a connection of each kind of frame, in pieces of different sizes."""
    preamble = encode_preamble(Preamble(VERSION_MIN, VERSION_MAX))
    single = b"".join(encode_node(b"header", 16, 7, [b"payload"])[0])
    group = b"".join(encode_node(b"h", 2, 8, [b"a", b"bb", b"", b"cc"])[0])
    control = encode_control(ControlKind.PING, b"\x82\x01\x02")
    for step in b"\x00\x03\x1f":
        yield bytes((step,)) + preamble + single + control + group
    yield b"\x08" + preamble + encode_control(ControlKind.PING, bytes(2 * SIZE_MAX))
    yield b"\x04" + encode_preamble(Preamble(0, 65_535)) + control * 3
