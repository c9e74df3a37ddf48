"""Frames: any chunking gives the same ones, and bad bytes give ``DecodeError`` and nothing else."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from struct import Struct

import pytest
from hypothesis import given, strategies as st

from wire import limits
from wire.codec import decode_header, encode_header
from wire.errors import DecodeError, ErrorCode
from wire.framing import (
    EVEN,
    FRONT,
    FRONT_SIZE,
    SCATTERED_SIZE_MIN,
    SIGNED,
    SPARSE,
    ControlFrame,
    FrameDecoder,
    NodeFrame,
    chosen,
    encode_control,
    encode_node,
    encode_preamble,
    encode_single,
    offsets,
    selected,
    trimmed,
)
from wire.identifiers import EndpointId
from wire.limits import SEQUENCE_MAX
from wire.messages import NodeHeader, PackedType, Preamble

PREAMBLE = encode_preamble(Preamble(1, 3))
SENDER = b"sender of 16 by."

Shown = tuple[object, ...]

controls = st.builds(encode_control, st.integers(1, 255), st.binary(max_size=40))


def node(
    payloads: list[bytes],
    headers: tuple[bytes, ...] = (b"header",),
    numbers: bytes = b"",
    *,
    ttl: int = 1,
    first: int = 0,
    mask: int | None = None,
) -> bytes:
    return b"".join(encode_node(SENDER, ttl, first, headers, numbers, payloads, mask=mask)[0])


@dataclass(frozen=True)
class Said:
    """What goes into a node frame."""

    sender: bytes
    ttl: int
    first: int
    headers: tuple[bytes, ...]
    numbers: bytes
    payloads: tuple[bytes, ...]
    mask: int | None
    forced: bool
    signature: bytes | None

    def encode(self) -> bytes:
        pieces, size = encode_node(
            *(self.sender, self.ttl, self.first, self.headers, self.numbers, self.payloads),
            mask=self.mask,
            forced=self.forced,
            sign=None if self.signature is None else lambda _: self.signature,
        )
        frame = b"".join(pieces)
        assert len(frame) == size
        return frame

    @property
    def places(self) -> list[int]:
        """The numbers of its messages, relative to the first."""
        mask = (1 << len(self.payloads)) - 1 if self.mask is None else self.mask
        return [place for place in range(mask.bit_length()) if mask >> place & 1]

    @property
    def messages(self) -> list[tuple[int, bytes, bytes]]:
        """Number, header and payload of each message."""
        names = self.numbers or bytes(len(self.payloads))
        named = [self.headers[name] for name in names]
        numbers = [self.first + place for place in self.places]
        return list(zip(numbers, named, self.payloads, strict=True))


lengths = st.integers(0, 20) | st.just(300)
payload_lists = st.one_of(
    st.lists(st.binary(max_size=20), min_size=1, max_size=9),
    st.tuples(lengths, st.integers(1, 9)).map(lambda even: [bytes(even[0])] * even[1]),
    st.builds(
        lambda few, times: (few * times)[: limits.GROUP_COUNT],
        st.lists(st.binary(max_size=4), min_size=1, max_size=9),
        st.integers(1, limits.GROUP_COUNT),
    ),
)


@st.composite
def saids(draw: st.DrawFn) -> Said:
    payloads = tuple(draw(payload_lists))
    count, mask = len(payloads), None
    headers = draw(st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=5))
    headers *= draw(st.sampled_from([1, 1, 1, limits.HEADERS_MAX // len(headers)]))
    numbers = b""
    if len(headers) > 1:
        some = draw(st.binary(min_size=1, max_size=count))
        numbers = bytes(name % len(headers) for name in (some * count)[:count])
    if draw(st.booleans()):
        room = limits.GROUP_COUNT - count
        gaps = draw(st.lists(st.integers(0, room), max_size=min(count, 4)))
        taken, mask = 0, 0
        for place in range(count):
            gap = min(gaps[place % len(gaps)] if place and gaps else 0, room - taken)
            taken += gap
            mask |= 1 << (place + taken)
    span = count if mask is None else mask.bit_length()
    return Said(
        sender=draw(st.binary(min_size=16, max_size=16)),
        ttl=draw(st.integers(1, 255)),
        first=draw(st.integers(0, 2**40) | st.just(SEQUENCE_MAX - span + 1)),
        headers=tuple(headers),
        numbers=numbers,
        payloads=payloads,
        mask=mask,
        forced=draw(st.booleans()),
        signature=draw(st.none() | st.binary(min_size=64, max_size=64)),
    )


nodes = saids().map(Said.encode)
streams = st.lists(controls | nodes, max_size=8).map(lambda frames: PREAMBLE + b"".join(frames))


def show(frame: object) -> Shown:
    match frame:
        case ControlFrame():
            return ("control", frame.kind, frame.body)
        case NodeFrame():
            shown = (frame.sender, frame.ttl, frame.first, tuple(frame.headers), frame.numbers)
            return (*shown, tuple(frame.payloads()), frame.mask, frame.is_forced, frame.signed()[1])
        case _:
            return ("preamble", frame)


def read(frame: bytes) -> NodeFrame:
    decoder = FrameDecoder(limits.FRAME_SIZE_MAX)
    decoder.feed(PREAMBLE + frame)
    decoder.next_frame()
    found = decoder.next_frame()
    assert isinstance(found, NodeFrame)
    assert decoder.next_frame() is None
    return found


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


@given(saids())
def test_a_node_frame_comes_out_as_it_went_in(said: Said) -> None:
    encoded = said.encode()
    frame = read(encoded)
    assert show(frame) == (
        *(said.sender, said.ttl, said.first, said.headers, said.numbers, said.payloads),
        *(said.mask, said.forced, said.signature),
    )
    assert frame.count == len(said.payloads)
    assert frame.size == len(encoded)
    assert frame.is_signed == (said.signature is not None)


@given(saids())
def test_a_node_frame_passes_on_with_one_hop_less(said: Said) -> None:
    encoded = said.encode()
    frame = read(encoded)
    passed_on = b"".join(frame.forwarded())
    assert passed_on == encoded[:5] + bytes((said.ttl - 1,)) + encoded[6:]
    if said.ttl > 1:
        assert show(read(passed_on)) == show(read(replace(said, ttl=said.ttl - 1).encode()))


@given(saids())
def test_a_signature_is_over_all_but_size_and_life(said: Said) -> None:
    given: list[bytes] = []

    def sign(pieces: Sequence[bytes | memoryview]) -> bytes:
        given.append(b"".join(pieces))
        return bytes(64)

    frame = b"".join(
        encode_node(
            *(said.sender, said.ttl, said.first, said.headers, said.numbers, said.payloads),
            mask=said.mask,
            forced=said.forced,
            sign=sign,
        )[0]
    )
    covered, signature = read(frame).signed()
    assert b"".join(covered) == given[0] == frame[6:-64]
    assert signature == bytes(64)
    assert read(replace(said, signature=None).encode()).signed() == ((), None)


@given(st.binary(min_size=1, max_size=60), st.binary(max_size=60), st.integers(0, SEQUENCE_MAX))
def test_a_single_message_is_framed_as_any_other(header: bytes, payload: bytes, first: int) -> None:
    assert encode_single(SENDER, header, 3, first, payload) == node(
        [payload], (header,), ttl=3, first=first
    )


@given(saids(), st.binary(min_size=1, max_size=40))
def test_two_parts_of_a_frame_are_the_whole(said: Said, pattern: bytes) -> None:
    count = len(said.payloads)
    one = bytes(byte & 1 for byte in (pattern * count)[:count])
    other = bytes(1 - bit for bit in one)
    found = []
    for selection in (one, other):
        if not any(selection):
            continue
        headers, numbers = selected(said.headers, said.numbers, selection)
        first, mask = trimmed(said.first, offsets(said.mask, selection))
        payloads = tuple(compress(said.payloads, selection))
        part = replace(
            said, first=first, mask=mask, headers=headers, numbers=numbers, payloads=payloads
        )
        read(part.encode())
        whole = read(said.encode())
        if said.signature is None:
            pieces, size = whole.part(selection)
            assert b"".join(pieces) == replace(part, ttl=said.ttl - 1).encode()
            assert size == len(b"".join(pieces))
        else:
            with pytest.raises(AssertionError, match="over the whole"):
                whole.part(selection)
        found += part.messages
        assert len(headers) == 1 or {*headers} == {header for _, header, _ in part.messages}
        assert mask is None or mask & 1
        assert mask is None or mask & (mask + 1), "a frame without gaps has no mask"
    assert sorted(found) == said.messages


@given(saids(), st.integers(0, 2**1024))
def test_the_chosen_payloads_are_those_whose_bit_is_new(said: Said, new: int) -> None:
    mask = (1 << len(said.payloads)) - 1 if said.mask is None else said.mask
    new &= mask
    selection = chosen(said.mask, new, len(said.payloads))
    assert selection == bytes(new >> place & 1 for place in said.places)
    if new:
        assert offsets(said.mask, selection) == new


def test_the_headers_of_no_payload_stay_behind() -> None:
    headers = (b"a", b"b", b"c")
    assert selected(headers, bytes((2, 0, 1, 2)), b"\1\0\0\1") == ((b"c",), b"")
    kept, numbers = selected(headers, bytes((2, 0, 1, 2)), b"\1\0\1\1")
    assert (list(kept), numbers) == ([b"b", b"c"], bytes((1, 0, 1)))
    assert selected((b"a",), b"", b"\1\0") == ((b"a",), b"")


@given(st.binary(max_size=300), st.integers(0, 0xFFFF), st.integers(0, 20))
def test_random_bytes_give_frames_or_decode_error(data: bytes, flags: int, count: int) -> None:
    for stream in (
        data,
        PREAMBLE + data,
        PREAMBLE + FRONT.pack(len(data), 0, 1, 3, 2, 0) + data,
        PREAMBLE + FRONT.pack(len(data), 0, 1, flags, count, 0) + data,
    ):
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


def test_a_preamble_names_the_protocol_and_both_versions() -> None:
    assert encode_preamble(Preamble(1, 3)) == b"PMSH\0\1\0\3"
    for oldest, newest in ((0x102, 0x304), (2, 2)):
        preamble = Preamble(oldest, newest)
        assert decode([encode_preamble(preamble)]) == [("preamble", preamble)]
    with pytest.raises(DecodeError, match="from 3 down to 2"):
        decode([encode_preamble(Preamble(3, 2))])


@pytest.mark.parametrize(
    ("first", "hint"),
    [
        (b"G", "check the port"),
        (b"GET / HTTP/1.1\r\n", "check the port"),
        (b"PMSX\0\1\0\1", "check the port"),
        (b"\x16\x03\x01", "speaks TLS"),
        (b"\x15", "speaks TLS"),
    ],
)
def test_another_protocol_is_told_apart_by_its_first_byte(first: bytes, hint: str) -> None:
    decoder = FrameDecoder()
    decoder.feed(first)
    with pytest.raises(DecodeError) as caught:
        decoder.next_frame()
    assert caught.value.code is ErrorCode.WRONG_MAGIC_NUMBER
    assert hint in str(caught.value)


ONE = FRONT.pack(30, 0, 1, EVEN | 1, 1, 0) + SENDER + b"\0\1h" + b"\0\0\0\7" + b"payload"
"""A frame as it has to be: those below differ from it in one thing."""


def test_the_frame_that_the_next_test_changes_is_good() -> None:
    assert read(ONE).payloads() == (b"payload",)


@pytest.mark.parametrize(
    ("front", "reason"),
    [
        ((0, 1, EVEN | 1, 0, 0), "0 messages"),
        ((0, 1, EVEN | 1, limits.GROUP_COUNT + 1, 0), "1025 messages"),
        ((0, 1, EVEN, 1, 0), "of 0 headers"),
        ((0, 1, EVEN | 257, 1, 0), "shorter than it says"),
        ((0, 1, EVEN | 0x200 | 1, 1, 0), "the flags 0x8201"),
        ((0, 1, EVEN | 0x400 | 1, 1, 0), "the flags 0x8401"),
        ((0, 1, EVEN | 0x800 | 1, 1, 0), "the flags 0x8801"),
        ((0, 0, EVEN | 1, 1, 0), "without life"),
        ((0, 1, EVEN | 9, 1, 0), "shorter than it says"),
        ((0, 1, 1, 9, 0), "shorter than it says"),
        ((0, 1, EVEN | SPARSE | 1, 1, 0), "shorter than it says"),
        ((0, 1, EVEN | SIGNED | 1, 1, 0), "add up"),
        ((0, 1, EVEN | 1, 2, 0), "add up"),
        ((5, 0, EVEN | 1, 0, 0), "front of a node frame"),
        ((5, 0, 0, 1, 0), "front of a node frame"),
    ],
)
def test_a_front_that_contradicts_itself_is_refused(front: tuple[int, ...], reason: str) -> None:
    bad = FRONT.pack(len(ONE) - FRONT_SIZE, *front) + ONE[FRONT_SIZE:]
    with pytest.raises(DecodeError, match=reason):
        decode([PREAMBLE + bad])


@pytest.mark.parametrize("number", [0, 257, 511])
def test_more_headers_than_a_frame_may_have_are_refused(number: int) -> None:
    bad = FRONT.pack(4_000, 0, 1, EVEN | number, 1, 0) + b"\1" * 4_000
    with pytest.raises(DecodeError, match=f"of {number} headers"):
        decode([PREAMBLE + bad])


@pytest.mark.parametrize("size", range(30))
def test_a_frame_that_ends_too_early_is_refused(size: int) -> None:
    shorter = FRONT.pack(size, *FRONT.unpack_from(ONE)[1:]) + ONE[FRONT_SIZE : FRONT_SIZE + size]
    for follows in (b"", encode_control(4, bytes(40))):
        with pytest.raises(DecodeError):
            decode([PREAMBLE + shorter + follows])


@pytest.mark.parametrize("mask", [None, 0b101])
def test_a_frame_is_judged_without_what_comes_after_it(mask: int | None) -> None:
    good = node([b"x", b"yy"], (b"a", b"b"), b"\0\1", mask=mask)
    for at in range(FRONT_SIZE + 16, len(good)):
        bad = bytearray(good)
        bad[at] ^= 0x80
        reasons = set()
        for follows in (b"", bytes(300), b"\xff" * 300):
            decoder = FrameDecoder()
            decoder.feed(PREAMBLE + bad + follows)
            decoder.next_frame()
            try:
                reasons.add(show(decoder.next_frame()))
            except DecodeError as error:
                reasons.add((str(error),))
        assert len(reasons) == 1, at


def test_payloads_of_all_lengths_are_cut_apart() -> None:
    payloads = [bytes((length % 251,)) * length for length in (1022, 1023, 1024, 1025, 0, 70_000)]
    assert list(read(node(payloads)).payloads()) == payloads


def test_an_empty_header_is_refused() -> None:
    for headers, numbers in (((b"",), b""), ((b"a", b""), b"\0"), ((b"", b"a"), b"\1")):
        with pytest.raises(DecodeError, match="empty header"):
            read(node([b"x"], headers, numbers))


@pytest.mark.parametrize("numbers", [b"\0\2", b"\2\0", b"\xff\xff"])
def test_a_header_number_beyond_the_headers_is_refused(numbers: bytes) -> None:
    read(node([b"x", b"yy"], (b"a", b"b"), b"\0\1"))
    with pytest.raises(DecodeError, match="not there"):
        read(node([b"x", b"yy"], (b"a", b"b"), numbers))


@pytest.mark.parametrize("mask", [0b110, 0b1, 0b111, 0, 0b1 << 1023, (0b1 << 1023) + 0b11])
def test_a_bitmap_that_does_not_fit_is_refused(mask: int) -> None:
    read(node([b"x", b"y"], mask=(1 << 1023) + 1))
    with pytest.raises(DecodeError, match="bitmap"):
        read(node([b"x", b"y"], mask=mask))


@pytest.mark.parametrize(
    ("first", "mask"),
    [(SEQUENCE_MAX - 1, None), (SEQUENCE_MAX, None), (SEQUENCE_MAX - 8, 0b1000000011)],
)
def test_message_numbers_beyond_64_bits_are_refused(first: int, mask: int | None) -> None:
    payloads = [b"x"] * 3
    read(node(payloads, first=first - (2 if mask is None else 1), mask=mask))
    with pytest.raises(DecodeError, match="64 bits"):
        read(node(payloads, first=first, mask=mask))


@pytest.mark.parametrize("lengths", [(2, 2), (3, 2), (1, 1), (4,), (2**32 - 1, 2**32 - 1)])
def test_lengths_that_do_not_add_up_are_refused(lengths: tuple[int, ...]) -> None:
    said = Struct(f"!{len(lengths)}I").pack(*lengths)
    body = SENDER + b"\0\1h" + said + b"abc"
    with pytest.raises(DecodeError, match="add up"):
        decode([PREAMBLE + FRONT.pack(len(body), 0, 1, 1, len(lengths), 0) + body])


def test_a_control_frame_may_be_larger_than_a_node_frame_if_the_decoder_is_told_so() -> None:
    decoder = FrameDecoder(100)
    decoder.control_size_max = 200
    for frame in (encode_control(4, bytes(200)), node([bytes(50)])):
        decoder.feed((PREAMBLE if frame[4] else b"") + frame)
    decoder.next_frame()
    assert show(decoder.next_frame()) == ("control", 4, bytes(200))
    assert isinstance(decoder.next_frame(), NodeFrame)
    for frame in (encode_control(4, bytes(201)), node([bytes(101)])):
        decoder = FrameDecoder(100)
        decoder.control_size_max = 200
        decoder.feed(PREAMBLE + frame)
        decoder.next_frame()
        with pytest.raises(DecodeError) as caught:
            decoder.next_frame()
        assert caught.value.code is ErrorCode.LIMIT_EXCEEDED


def test_the_largest_payload_with_the_largest_header_fits_in_a_frame() -> None:
    header, payload = bytes(limits.HEADER_SIZE_MAX), bytes(limits.PAYLOAD_SIZE_MAX)
    pieces, size = encode_node(
        SENDER, 1, 0, [header], b"", [payload], mask=1, sign=lambda _: bytes(64)
    )
    assert size - FRONT_SIZE <= limits.FRAME_SIZE_MAX
    assert read(b"".join(pieces)).payloads() == (payload,)


def test_the_smallest_limit_has_room_for_the_largest_header_and_all_columns() -> None:
    assert limits.HEADER_SIZE_MAX + limits.COLUMNS_SIZE_MAX < limits.FRAME_SIZE_MIN // 1.8
    headers = tuple(bytes((number, 1)) for number in range(limits.HEADERS_MAX))
    count = limits.GROUP_COUNT
    payloads = [b"x"] + [b""] * (count - 1)
    mask = (1 << count) - 1
    _, size = encode_node(
        SENDER, 1, 0, headers, bytes(count), payloads, mask=mask, sign=lambda _: bytes(64)
    )
    assert size - FRONT_SIZE - 1 - 2 * limits.HEADERS_MAX == limits.COLUMNS_SIZE_MAX


def test_a_large_frame_in_small_chunks_is_copied_once_and_buffered_once() -> None:
    size = 8 * limits.MIB
    frame = node([bytes(size)])
    chunks = [PREAMBLE] + [frame[at : at + 4096] for at in range(0, len(frame), 4096)]
    tracemalloc.start()
    decoder = FrameDecoder(limits.FRAME_SIZE_MAX)
    for chunk in chunks:
        decoder.feed(chunk)
        found = decoder.next_frame()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(found, NodeFrame)
    assert found.size == len(frame)
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
    frame = node(payloads, (b"a", b"b"), bytes(mark % 2 for mark in range(11)), ttl=3, first=7)
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
    for each in found:
        assert isinstance(each, NodeFrame)
        passed_on = b"".join(each.forwarded())
        assert list(each.payloads()) == payloads
        assert passed_on == b"".join(each.forwarded()) == frame[:5] + b"\x02" + frame[6:]


@pytest.mark.parametrize("mask", [None, (1 << 1023) | (1 << 600) - 1])
def test_a_large_frame_may_be_cut_within_any_of_its_columns(mask: int | None) -> None:
    headers = (b"a" * 2_000, b"b" * 1_000)
    payloads = [bytes((number % 251,)) * (100 + number % 2) for number in range(601)]
    numbers = bytes(number % 2 for number in range(len(payloads)))
    frame = node(payloads, headers, numbers, ttl=3, mask=mask)
    whole = show(read(frame))
    for at in (*range(1, 60), *range(60, 7_000, 37), len(frame) - 1):
        decoder = FrameDecoder(len(frame))
        decoder.feed(PREAMBLE + frame[:at])
        decoder.next_frame()
        assert decoder.next_frame() is None
        decoder.feed(frame[at:])
        found = decoder.next_frame()
        assert isinstance(found, NodeFrame)
        assert b"".join(found.forwarded()) == frame[:5] + b"\2" + frame[6:]
        assert show(found) == whole


def test_a_large_frame_is_not_copied_to_be_passed_on() -> None:
    frame = node([bytes(SCATTERED_SIZE_MIN)], ttl=3)
    decoder = FrameDecoder(size_max=len(frame))
    decoder.feed(PREAMBLE + frame[:1000])
    decoder.next_frame()
    decoder.feed(rest := frame[1000:])
    found = decoder.next_frame()
    assert isinstance(found, NodeFrame)
    last = found.forwarded()[-1]
    assert isinstance(last, memoryview)
    assert last.obj is rest


def test_a_new_decoder_holds_nothing_and_gives_nothing() -> None:
    decoder = FrameDecoder()
    assert decoder.held_size == 0
    assert decoder.next_frame() is None


def test_a_frame_may_be_just_as_large_as_is_allowed() -> None:
    frame = node([bytes(50)])
    size = len(frame) - FRONT_SIZE
    for size_max in (size, size - 1):
        decoder = FrameDecoder(size_max)
        decoder.feed(PREAMBLE + frame)
        decoder.next_frame()
        if size_max == size:
            assert isinstance(decoder.next_frame(), NodeFrame)
    with pytest.raises(DecodeError, match=f"a frame of {size} bytes; {size - 1} are allowed here"):
        decoder.next_frame()


def test_frames_that_came_in_a_chunk_each_are_given_one_after_the_other() -> None:
    decoder = FrameDecoder()
    decoder.feed(PREAMBLE)
    decoder.next_frame()
    for body in (b"a", b"b", b"c"):
        decoder.feed(encode_control(1, body))
    assert [show(decoder.next_frame())[2] for _ in range(3)] == [b"a", b"b", b"c"]
    assert decoder.next_frame() is None


def test_the_first_bytes_of_another_protocol_are_shown() -> None:
    decoder = FrameDecoder()
    decoder.feed(b"GET / HTTP/1.1")
    with pytest.raises(DecodeError, match="its first bytes are b'GET / HT': check the port"):
        decoder.next_frame()


def test_what_came_with_the_last_frame_stays_inside() -> None:
    decoder = FrameDecoder()
    decoder.feed(PREAMBLE + encode_control(1, b"a") + encode_control(2, b"b"))
    decoder.next_frame()
    assert show(decoder.next_frame()) == ("control", 1, b"a")
    assert show(decoder.next_frame()) == ("control", 2, b"b")
    assert decoder.next_frame() is None


def test_a_small_frame_keeps_no_chunk_in_memory() -> None:
    frame = node([bytes(1_000)], ttl=3)
    decoder = FrameDecoder(size_max=len(frame))
    decoder.feed(PREAMBLE + frame[:900])
    decoder.next_frame()
    decoder.feed(rest := frame[900:])
    found = decoder.next_frame()
    assert isinstance(found, NodeFrame)
    assert all(piece.obj is not rest for piece in found.forwarded() if type(piece) is memoryview)


def test_the_head_of_a_frame_is_its_sender_and_its_headers_and_nothing_else() -> None:
    for headers, numbers in (((b"\3a",), b""), ((b"\1a", b"\2bc"), b"\0\1")):
        one = read(node([b"x", b"yy"], headers, numbers, first=1, ttl=3))
        other = read(node([b"z", b"z"], headers, numbers[::-1], first=7, mask=0b101))
        assert one.head == other.head
        assert one.head.startswith(SENDER)
        assert one.head.endswith(b"".join(headers))
        assert (one.sender, one.headers, one.kind) == (SENDER, headers, headers[0][0])


def test_a_control_frame_has_nothing_but_its_kind_and_its_body() -> None:
    assert encode_control(7, b"body") == FRONT.pack(4, 7, 0, 0, 0, 0) + b"body"


def test_the_longest_topic_fits_in_a_frame() -> None:
    sender, receiver = EndpointId(bytes(16)), EndpointId(bytes([1]) * 16)
    topic = "t" * limits.TOPIC_SIZE_MAX
    header = NodeHeader(PackedType.DATA, sender, receiver, topic)
    (found,) = read(node([b"x"], (encode_header(header),))).headers
    assert decode_header(sender, found) == header
