"""Frames: the same bytes make the same frames, however they are cut, and no more is kept.

What is read is written as it was meant; and the parts of a frame are together the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, cycle, islice

from tests.fuzz.seeds import golden
from wire.codec import ControlKind
from wire.errors import DecodeError
from wire.framing import (
    VERSION_MAX,
    VERSION_MIN,
    ControlFrame,
    Frame,
    FrameDecoder,
    NodeFrame,
    chosen,
    encode_control,
    encode_node,
    encode_preamble,
    offsets,
    selected,
    trimmed,
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
        assert sum(map(len, payloads)) == frame.payloads_size
        assert len(payloads) == frame.count == len(frame.numbers or payloads)
        if frame.ttl > 1:
            passed_on = _read_one(b"".join(frame.forwarded()))
            assert passed_on.ttl == frame.ttl - 1
            assert _content(passed_on) == _content(frame)
        assert _content(_read_one(_written(frame, frame.first, frame.mask))) == _content(frame)
        _check_parts(frame)
        return frame.ttl, *_content(frame)
    if isinstance(frame, ControlFrame):
        assert len(frame.body) <= SIZE_MAX
        return frame.kind, frame.body
    return (frame,)


def _content(frame: NodeFrame) -> Told:
    said = (frame.sender, frame.first, frame.mask, frame.is_forced, frame.signed()[1])
    return *said, tuple(frame.headers), frame.numbers, tuple(frame.payloads())


def _read_one(data: bytes) -> NodeFrame:
    decoder = FrameDecoder()
    decoder.feed(encode_preamble(Preamble(2, 2)) + data)
    decoder.next_frame()
    frame = decoder.next_frame()
    assert isinstance(frame, NodeFrame)
    assert decoder.held_size == 0
    return frame


def _written(
    frame: NodeFrame, first: int, mask: int | None, selection: bytes | None = None
) -> bytes:
    """Write a frame once more, or a selection of its messages."""
    headers, numbers, payloads = frame.headers, frame.numbers, frame.payloads()
    if selection is not None:
        headers, numbers = selected(headers, numbers, selection)
        payloads = tuple(compress(payloads, selection))
    signature = frame.signed()[1]
    pieces, size = encode_node(
        *(frame.sender, frame.ttl, first, headers, numbers, payloads),
        mask=mask,
        forced=frame.is_forced,
        sign=None if signature is None else lambda _: signature,
    )
    data = b"".join(pieces)
    assert len(data) == size
    return data


def _messages(frame: NodeFrame) -> list[Told]:
    """Give the number, header and payload of each message, one by one."""
    mask = (1 << frame.count) - 1 if frame.mask is None else frame.mask
    places = [place for place in range(mask.bit_length()) if mask >> place & 1]
    headers = [frame.headers[number] for number in frame.numbers or bytes(frame.count)]
    told = zip(places, headers, frame.payloads(), strict=True)
    return [(frame.first + place, header, payload) for place, header, payload in told]


def _check_parts(frame: NodeFrame) -> None:
    """Take every second message and every third one of the others out, and look at each part."""
    some = bytes(islice(cycle((1, 0, 0, 0, 1, 0)), frame.count))
    parts: list[Told] = []
    for selection in (some, bytes(1 - bit for bit in some)):
        if not any(selection):
            continue
        new = offsets(frame.mask, selection)
        assert chosen(frame.mask, new, frame.count) == selection
        part = _read_one(_written(frame, *trimmed(frame.first, new), selection))
        assert part.count == sum(selection)
        parts += _messages(part)
    assert sorted(parts) == _messages(frame)


def seeds() -> Iterator[bytes]:
    """Give a connection of each kind of frame, in pieces of different sizes."""
    preamble = encode_preamble(Preamble(VERSION_MIN, VERSION_MAX))
    vectors = [bytes.fromhex(vector["hex"]) for vector in golden("frames")]
    control = encode_control(ControlKind.PING, b"\x82\x01\x02")
    for step in b"\x00\x03\x1f":
        yield bytes((step,)) + preamble + vectors[0] + control + vectors[2]
    for vector in vectors:
        yield b"\x1f" + preamble + vector
    yield b"\x08" + preamble + encode_control(ControlKind.PING, bytes(2 * SIZE_MAX))
    yield b"\x04" + encode_preamble(Preamble(0, 65_535)) + control * 3
