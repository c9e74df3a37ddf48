"""Frames: any chunking gives the same ones, and bad bytes give ``DecodeError`` and nothing else."""

import tracemalloc
from itertools import pairwise
from struct import Struct

import pytest
from hypothesis import given, strategies as st

from wire import limits
from wire.codec import encode_header
from wire.errors import DecodeError, ErrorCode
from wire.framing import (
    FRONT,
    SCATTERED_SIZE_MIN,
    ControlFrame,
    FrameDecoder,
    NodeFrame,
    encode_control,
    encode_node,
    encode_preamble,
)
from wire.identifiers import EndpointId
from wire.messages import NodeHeader, PackedType, Preamble

PREAMBLE = encode_preamble(Preamble(1, 3))

Shown = tuple[object, ...]

controls = st.builds(encode_control, st.integers(1, 255), st.binary(max_size=40))
nodes = st.builds(
    lambda header, ttl, sequence, payloads: b"".join(
        encode_node(header, ttl, sequence, payloads)[0]
    ),
    st.binary(min_size=1, max_size=30),
    st.integers(1, 255),
    st.integers(0, 2**64 - 1),
    st.lists(st.binary(max_size=20), min_size=1, max_size=9),
)
streams = st.lists(controls | nodes, max_size=8).map(lambda frames: PREAMBLE + b"".join(frames))


def show(frame: object) -> Shown:
    match frame:
        case ControlFrame():
            return ("control", frame.kind, frame.body)
        case NodeFrame():
            return (frame.ttl, frame.sequence, frame.header, tuple(frame.payloads()))
        case _:
            return ("preamble", frame)


def decode(chunks: list[bytes], *, eagerly: bool = True) -> list[Shown]:
    decoder, shown = FrameDecoder(), []
    for chunk in chunks:
        decoder.feed(chunk)
        while eagerly and (frame := decoder.next_frame()) is not None:
            shown.append(show(frame))
        kept = len(decoder._buffer) - decoder._offset + sum(map(len, decoder._chunks))
        assert decoder.held_size == kept
    while (frame := decoder.next_frame()) is not None:
        shown.append(show(frame))
    return shown


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(edge % (len(stream) + 1) for edge in at)})
    return [stream[left:right] for left, right in pairwise(edges)]


@given(streams, st.lists(st.integers(0, 10_000), max_size=12), st.booleans())
def test_any_chunking_gives_the_same_frames(stream: bytes, at: list[int], eagerly: bool) -> None:
    whole = decode([stream])
    assert decode(cut(stream, at), eagerly=eagerly) == whole
    assert decode([stream[i : i + 1] for i in range(len(stream))]) == whole


@given(nodes)
def test_a_node_frame_comes_out_as_it_went_in_and_passes_on_with_one_hop_less(frame: bytes) -> None:
    (before,) = decode([PREAMBLE + frame])[1:]
    decoder = FrameDecoder()
    decoder.feed(PREAMBLE + frame)
    assert decoder.next_frame() == Preamble(1, 3)
    node = decoder.next_frame()
    assert isinstance(node, NodeFrame)
    assert node.size == len(frame)
    if node.ttl > 1:
        (after,) = decode([PREAMBLE + b"".join(node.forwarded())])[1:]
        assert after == (before[0] - 1, *before[1:])


@given(st.binary(max_size=300))
def test_random_bytes_give_frames_or_decode_error(data: bytes) -> None:
    for stream in (data, PREAMBLE + data, PREAMBLE + FRONT.pack(len(data), 0, 1, 3, 2, 0) + data):
        try:
            decode([stream])
        except DecodeError:
            pass


@given(streams, st.integers(0, 10_000), st.integers(0, 255))
def test_mutated_bytes_give_frames_or_decode_error(stream: bytes, at: int, byte: int) -> None:
    mutated = bytearray(stream)
    mutated[at % len(mutated)] = byte
    try:
        decode([bytes(mutated)])
    except DecodeError:
        pass


def test_frames_before_a_bad_one_still_come() -> None:
    decoder = FrameDecoder()
    decoder.feed(PREAMBLE + encode_control(4, b"good") + FRONT.pack(2**31, 4, 0, 0, 0, 0))
    decoder.next_frame()
    assert show(decoder.next_frame()) == ("control", 4, b"good")
    with pytest.raises(DecodeError) as caught:
        decoder.next_frame()
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED


@pytest.mark.parametrize("first", [b"G", b"GET / HTTP/1.1\r\n", b"PMSX\0\1\0\1", b"\x16\x03\x01"])
def test_another_protocol_is_told_apart_by_its_first_byte(first: bytes) -> None:
    decoder = FrameDecoder()
    decoder.feed(first)
    with pytest.raises(DecodeError) as caught:
        decoder.next_frame()
    assert caught.value.code is ErrorCode.WRONG_MAGIC_NUMBER


@pytest.mark.parametrize(
    "front",
    [
        FRONT.pack(8, 0, 1, 1, 0, 0),  # no payload
        FRONT.pack(8, 0, 1, 0, 1, 0),  # no header
        FRONT.pack(8, 0, 0, 1, 1, 0),  # no life
        FRONT.pack(8, 0, 1, 1, limits.GROUP_COUNT + 1, 0),  # too many payloads
        FRONT.pack(8, 0, 1, 9, 1, 0),  # a header beyond the frame
        FRONT.pack(8, 0, 1, 1, 9, 0),  # lengths beyond the frame
        FRONT.pack(8, 5, 0, 1, 0, 0),  # a control frame with a header
        FRONT.pack(8, 5, 0, 0, 1, 0),  # a control frame with a count
    ],
)
def test_a_front_that_contradicts_itself_is_refused(front: bytes) -> None:
    with pytest.raises(DecodeError):
        decode([PREAMBLE + front + bytes(8)])


@pytest.mark.parametrize("lengths", [(2, 2), (3, 2), (1, 1), (4,), (2**32 - 1, 2**32 - 1)])
def test_lengths_that_do_not_add_up_are_refused(lengths: tuple[int, ...]) -> None:
    said = Struct(f"!{len(lengths)}I").pack(*lengths)
    body = b"h" + said + b"abc"
    with pytest.raises(DecodeError, match="add up"):
        decode([PREAMBLE + FRONT.pack(len(body), 0, 1, 1, len(lengths), 0) + body])


def test_a_large_frame_in_small_chunks_is_copied_once_and_buffered_once() -> None:
    size = 8 * limits.MIB
    frame = b"".join(encode_node(b"header", 1, 0, [bytes(size)])[0])
    chunks = [PREAMBLE] + [frame[at : at + 4096] for at in range(0, len(frame), 4096)]
    tracemalloc.start()
    decoder = FrameDecoder(limits.FRAME_SIZE_MAX)
    for chunk in chunks:
        decoder.feed(chunk)
        node = decoder.next_frame()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(node, NodeFrame)
    assert node.lengths == (size,)
    assert peak < 1.5 * size


def test_a_large_frame_in_crumbs_takes_little_more_than_its_size() -> None:
    size = 256 * 1024
    decoder = FrameDecoder(limits.FRAME_SIZE_MAX)
    stream = PREAMBLE + encode_control(8, bytes(range(256)) * (size // 256))
    decoder.feed(stream[:40])
    decoder.next_frame()
    tracemalloc.start()
    for at in range(40, len(stream) - 2, 2):
        decoder.feed(stream[at : at + 2])
        assert decoder.next_frame() is None
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 2 * size
    decoder.feed(stream[-2:])
    assert decoder.next_frame().body == stream[28:]


@given(st.lists(st.integers(1, 200_000), max_size=6), st.booleans())
def test_large_frames_pass_on_whole_from_the_chunks_that_they_came_in(
    at: list[int], eagerly: bool
) -> None:
    payloads = [bytes((mark,)) * 9_000 for mark in range(11)]
    frame = b"".join(encode_node(b"header", 3, 7, payloads)[0])
    stream = frame + frame
    decoder, found = FrameDecoder(size_max=len(frame)), []
    decoder.feed(PREAMBLE)
    decoder.next_frame()
    for begin, end in pairwise(sorted({0, *at, len(stream)})):
        decoder.feed(stream[begin:end])
        while eagerly and (decoded := decoder.next_frame()) is not None:
            found.append(decoded)
    found += iter(decoder.next_frame, None)
    assert len(found) == 2
    for node in found:
        assert isinstance(node, NodeFrame)
        passed_on = b"".join(node.forwarded())
        assert list(node.payloads()) == payloads
        assert passed_on == b"".join(node.forwarded()) == frame[:5] + b"\x02" + frame[6:]


def test_a_large_frame_is_not_copied_to_be_passed_on() -> None:
    frame = b"".join(encode_node(b"header", 3, 7, [bytes(SCATTERED_SIZE_MIN)])[0])
    decoder = FrameDecoder(size_max=len(frame))
    decoder.feed(PREAMBLE + frame[:1000])
    decoder.next_frame()
    decoder.feed(rest := frame[1000:])
    node = decoder.next_frame()
    assert isinstance(node, NodeFrame)
    last = node.forwarded()[-1]
    assert isinstance(last, memoryview)
    assert last.obj is rest


def test_what_came_with_the_last_frame_stays_inside() -> None:
    decoder = FrameDecoder()
    decoder.feed(PREAMBLE + encode_control(1, b"a") + encode_control(2, b"b"))
    decoder.next_frame()
    assert show(decoder.next_frame()) == ("control", 1, b"a")
    assert show(decoder.next_frame()) == ("control", 2, b"b")
    assert decoder.next_frame() is None


def test_the_longest_topic_fits_in_a_frame() -> None:
    sender, receiver = EndpointId(bytes(16)), EndpointId(bytes([1]) * 16)
    topic = "t" * limits.TOPIC_SIZE_MAX
    header = encode_header(NodeHeader(PackedType.DATA, sender, receiver, topic))
    frame = b"".join(encode_node(header, 1, 0, [b"x"])[0])
    assert decode([PREAMBLE + frame])[1:] == [(1, 0, header, (b"x",))]
