"""Bytes to frames and back: the preamble, control frames, and node frames of many messages.

A connection is, in either direction, one preamble and then frames::

    preamble   magic "PMSH" | u16 version_min | u16 version_max
    frame      front (20 bytes) | body
    front      u32 size after the front | u8 kind | u8 ttl | u16 flags and number of headers
               | u32 count | u64 first message number
    node body  sender (16 bytes) | u16 length of each header | headers
               | u8 header number of each message (if there are several headers)
               | bitmap of 128 bytes (if SPARSE) | u32 length of each payload (one if EVEN)
               | payloads | signature (64 bytes, if SIGNED)

A node frame carries up to ``GROUP_COUNT`` messages of one sender, on up to ``HEADERS_MAX`` topics:
the cost of a frame is paid once for all of them. It needs nothing but itself to be read, so that a
relay passes it on without looking inside, and a peer that reconnects has nothing to learn anew. Its
messages have the numbers from the first one on, without gaps; or, if it is SPARSE, those whose bit
is set in the bitmap, so that any part of a frame can travel on its own. All integers are in network
order; bit ``i`` of the bitmap is bit ``i % 8`` of its byte ``i // 8``.

A control frame has neither flags nor headers, count nor number: its body is one control message.

The signature is over all that a relay does not change: everything but size and time to live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate, compress, pairwise, repeat
from struct import Struct
from typing import Final

from wire import limits
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import ENDPOINT_ID_SIZE
from wire.messages import Preamble

MAGIC: Final = b"PMSH"
VERSION_MIN: Final = 2
VERSION_MAX: Final = 2

NODE_KIND: Final = 0
"""The kind of a node frame; control frames have the numbers of ``wire.codec.ControlKind``."""


class Flag(IntEnum):
    """The upper bits of the field that also holds the number of headers."""

    EVEN = 0x8000
    """All payloads have one length, which stands there once."""
    SPARSE = 0x4000
    """A bitmap says which numbers the messages have."""
    SIGNED = 0x2000
    """The frame ends with a signature."""
    FORCED = 0x1000
    """The sender waited for a slow reader as long as it is set to, and waits no longer."""


# As plain numbers, which are several times as fast: they are asked for in each frame.
EVEN: Final = Flag.EVEN.value
SPARSE: Final = Flag.SPARSE.value
SIGNED: Final = Flag.SIGNED.value
FORCED: Final = Flag.FORCED.value
HEADERS: Final = 0x01FF  # The bits of the number of headers; the three between are not used.

CHUNK_SIZE_MIN: Final = 512
"""Bytes below which a chunk is joined to the one before it: each costs sixty bytes of its own, so
that a large frame that comes in crumbs would take thirty times its size."""

FRONT: Final = Struct("!IBBHIQ")
FRONT_SIZE: Final = FRONT.size
PREAMBLE: Final = Struct("!4sHH")

BITMAP_SIZE: Final = limits.GROUP_COUNT // 8
SIGNED_START: Final = 6  # A signature covers the front behind size, kind and time to live.

SCATTERED_SIZE_MIN: Final = 64 * limits.KIB
"""Bytes of a frame from which on it may stay in several chunks: half of what is read at once."""

_TTL_OFFSET: Final = 5
_UNUSED: Final = 0xFFFF & ~(EVEN | SPARSE | SIGNED | FORCED | HEADERS)
TLS_RECORDS: Final = (b"\x15", b"\x16")
"""How TLS begins: with an alert, or with a handshake."""

_SINGLE: Final = Struct(f"{FRONT.format}{ENDPOINT_ID_SIZE}sH")
"""All of a frame of one message up to its header."""

_SINGLE_SIZE: Final = ENDPOINT_ID_SIZE + 2 + 4
"""Bytes after the front of a frame of one message, beside header and payload."""

_ONE_HEADER: Final = EVEN | 1
_FIRST: Final = Struct("!H")  # The length of the first header.
_HEADERS_START: Final = FRONT_SIZE + ENDPOINT_ID_SIZE
_COUNT_MAX: Final = limits.GROUP_COUNT
_HEADERS_MAX: Final = limits.HEADERS_MAX
_FIRST_SAFE: Final = limits.SEQUENCE_MAX - limits.GROUP_COUNT  # No frame goes beyond 64 bits.

_LENGTH: Final = Struct("!I")
_LENGTHS: Final = tuple(Struct(f"!{count}I") for count in range(limits.GROUP_COUNT + 1))
_HEADER_LENGTHS: Final = tuple(Struct(f"!{count}H") for count in range(limits.HEADERS_MAX + 1))
_NUMBERS: Final = tuple(bytes(range(count)) for count in range(limits.HEADERS_MAX + 1))
_CODES: Final = tuple(f"{length}s" for length in range(1024))
"""How ``struct`` writes payloads of these lengths: looked up in half the time of formatting."""

UNLIKE: Final = -1  # In place of the one length of payloads that differ in it.

_TO_BITS: Final = bytes.maketrans(b"01", b"\0\1")
_TO_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")

Sign = Callable[[Sequence[bytes | memoryview]], bytes]
"""Gives the signature over these pieces, one after the other."""


def encode_preamble(preamble: Preamble) -> bytes:
    """Write the first bytes of a connection."""
    return PREAMBLE.pack(MAGIC, preamble.version_min, preamble.version_max)


def encode_control(kind: int, body: bytes) -> bytes:
    """Frame one encoded control message."""
    return FRONT.pack(len(body), kind, 0, 0, 0, 0) + body


def encode_node(  # noqa: PLR0913 - a column each
    sender: bytes,
    ttl: int,
    first: int,
    headers: Sequence[bytes],
    numbers: bytes,
    payloads: Sequence[bytes],
    *,
    length: int = UNLIKE,
    mask: int | None = None,
    forced: bool = False,
    sign: Sign | None = None,
) -> tuple[list[bytes | memoryview], int]:
    """Frame messages of one sender: pieces to be joined with others, and their size.

    ``numbers`` is the header number of each payload, ``b""`` when there is one header. Bit ``i`` of
    the ``mask`` says that message ``first + i`` is here; without it all are, from ``first`` on. A
    caller that knows the one ``length`` of all payloads saves looking at each.
    """
    count, flags = len(payloads), len(headers)
    assert count <= _COUNT_MAX, "the frame was to be closed before"
    assert flags <= _HEADERS_MAX, "the frame was to be closed before"
    names = _HEADER_LENGTHS[flags].pack(*map(len, headers)) + b"".join((*headers, numbers))
    lengths: Sequence[int] = ()
    if length == UNLIKE:
        lengths = list(map(len, payloads))
        if lengths.count(lengths[0]) == count:
            length = lengths[0]
    if length == UNLIKE:
        columns, size = _LENGTHS[count].pack(*lengths), sum(lengths)
    else:
        flags |= EVEN
        columns, size = _LENGTH.pack(length), length * count
    if mask is not None:
        flags |= SPARSE
        columns = mask.to_bytes(BITMAP_SIZE, "little") + columns
    if forced:
        flags |= FORCED
    size += ENDPOINT_ID_SIZE + len(names) + len(columns)
    if sign is None:
        front = FRONT.pack(size, NODE_KIND, ttl, flags, count, first)
        return [b"".join((front, sender, names, columns)), *payloads], FRONT_SIZE + size
    size += limits.SIGNATURE_SIZE
    front = FRONT.pack(size, NODE_KIND, ttl, flags | SIGNED, count, first)
    body = b"".join((sender, names, columns, *payloads))
    return [front, body, sign((front[SIGNED_START:], body))], FRONT_SIZE + size


def encode_single(sender: bytes, header: bytes, ttl: int, first: int, payload: bytes) -> bytes:
    """Frame one message, ready to be sent: the way of a message that waits for no others."""
    length, header_size = len(payload), len(header)
    size = _SINGLE_SIZE + header_size + length
    begin = _SINGLE.pack(size, NODE_KIND, ttl, _ONE_HEADER, 1, first, sender, header_size)
    return b"".join((begin, header, _LENGTH.pack(length), payload))


# Which messages of a frame are meant: sets of numbers as masks, and of payloads as bytes of 0 and 1
# for ``itertools.compress``.


def _bits(mask: int, count: int) -> bytes:
    """Give the lowest bits of a mask as bytes of 0 and 1, the first bit first."""
    return f"{mask:0{count}b}".encode().translate(_TO_BITS)[::-1]


def chosen(mask: int | None, new: int, count: int) -> bytes:
    """Say which of the ``count`` payloads of a frame with this ``mask`` have their bit in ``new``.

    ``new`` is a part of the mask; or of all of ``count`` bits, without a mask.
    """
    if mask is None:
        return _bits(new, count)
    span = mask.bit_length()
    return bytes(compress(_bits(new, span), _bits(mask, span)))


def offsets(mask: int | None, selection: bytes) -> int:
    """Give the mask, relative to the first number of the frame, of a selection of its payloads."""
    if mask is not None:
        # Each set bit of the mask takes the next payload's; each other one a zero.
        takes = (repeat(0), iter(selection))
        selection = bytes(map(next, map(takes.__getitem__, _bits(mask, mask.bit_length()))))
    return int(selection.translate(_TO_DIGITS)[::-1], 2)


def trimmed(first: int, mask: int) -> tuple[int, int | None]:
    """Give what a frame says of its numbers: from the lowest set bit on; no mask without gaps."""
    shift = (mask & -mask).bit_length() - 1
    mask >>= shift
    return first + shift, mask if mask & (mask + 1) else None


def halves(selection: bytes) -> tuple[bytes, bytes]:
    """Divide a selection of two payloads or more into its first half and its rest."""
    places = [place for place, is_taken in enumerate(selection) if is_taken]
    middle = places[len(places) // 2]
    count = len(selection)
    return selection[:middle].ljust(count, b"\0"), selection[middle:].rjust(count, b"\0")


def selected(
    headers: Sequence[bytes], numbers: bytes, selection: bytes
) -> tuple[Sequence[bytes], bytes]:
    """Give the headers that a selection of payloads needs, and the new numbers of these payloads.

    ``numbers`` are those of all payloads; ``b""`` when there is one header, before and after.
    """
    if not numbers:
        return headers, numbers
    left = bytes(compress(numbers, selection))
    unused = _NUMBERS[len(headers)].translate(None, left)
    used = _NUMBERS[len(headers)].translate(None, unused)
    if len(used) == 1:
        return (headers[used[0]],), b""
    table = bytes.maketrans(used, _NUMBERS[len(used)])
    return [headers[number] for number in used], left.translate(table)


@lru_cache(maxsize=64)
def _cutter(length: int, count: int) -> Struct:
    """Cut payloads of one length in one call: six times as fast as slices."""
    return Struct(f"{length}s" * count)


def _codes(lengths: Sequence[int]) -> str:
    """Give the format of payloads of these lengths."""
    try:
        return "".join(map(_CODES.__getitem__, lengths))
    except IndexError:
        return "%ds" * len(lengths) % tuple(lengths)


class ControlFrame:
    """One control message, not decoded yet."""

    __slots__ = ("body", "kind")

    def __init__(self, buffer: bytes, start: int, end: int, front: tuple[int, ...]) -> None:
        """Read the frame whose front begins at ``start``; raises ``DecodeError``."""
        _, self.kind, _, flags, count, _ = front
        if flags or count:
            raise DecodeError(f"a control frame of kind {self.kind} with the front of a node frame")
        self.body = buffer[start + FRONT_SIZE : end]


class NodeFrame:
    """Messages of one sender, still in the bytes that they came in.

    Slotted and mutable, because a receiver makes one for each frame.
    """

    __slots__ = (
        "_buffer", "_flags", "_lengths", "_payloads", "_rest", "_start",
        "count", "first", "head", "kind", "mask", "numbers", "size", "ttl",
    )  # fmt: skip

    def __init__(
        self,
        buffer: bytes,
        start: int,
        end: int,
        front: tuple[int, ...],
        rest: tuple[bytes | memoryview, ...] = (),
    ) -> None:
        """Read the frame whose front begins at ``start``; raises ``DecodeError``.

        Its last payloads may be in the ``rest``, counted in ``end`` as if they followed the buffer.
        """
        _, _, self.ttl, flags, count, self.first = front
        number, at = flags & HEADERS, start + _HEADERS_START
        headers = at + 2 * number
        if not 0 < count <= _COUNT_MAX or flags & _UNUSED:
            raise DecodeError(f"a node frame of {count} messages with the flags {flags:#06x}")
        if not self.ttl or headers >= end:
            raise _too_short()
        self.count = count
        self.kind = buffer[headers]
        """The type of the first header: its first byte."""
        if number == 1:
            at = headers + _FIRST.unpack_from(buffer, at)[0]
            self.head = buffer[start + FRONT_SIZE : at]
            """Sender and headers as they came: a publisher repeats them from frame to frame."""
            self.numbers = b""
        else:
            at = self._read_headers(buffer, at, end, number)
        self.mask: int | None = None
        if flags & SPARSE:
            at = self._read_mask(buffer, at, end)
        columns = 1 if flags & EVEN else count
        payloads = at + 4 * columns
        if payloads > end or at == headers:
            raise _too_short()
        self._lengths = lengths = _LENGTHS[columns].unpack_from(buffer, at)
        size = lengths[0] * count if columns == 1 else sum(lengths)
        if flags & SIGNED:
            size += limits.SIGNATURE_SIZE
        if payloads + size != end:
            raise DecodeError("the payloads of a node frame do not add up to its size")
        if self.first > _FIRST_SAFE:
            self._check_numbers()
        self._flags = flags
        self._buffer = buffer
        self._start = start
        self._payloads = payloads
        self._rest = rest
        self.size = end - start
        """Bytes on the wire, for flow control."""

    def _read_headers(self, buffer: bytes, at: int, end: int, number: int) -> int:
        """Read several headers and the numbers of the payloads; give where the next column is."""
        if not 0 < number <= _HEADERS_MAX:
            raise DecodeError(f"a node frame of {number} headers")
        lengths: tuple[int, ...] = _HEADER_LENGTHS[number].unpack_from(buffer, at)
        numbers = at + 2 * number + sum(lengths)
        after = numbers + self.count
        if after > end or 0 in lengths:
            raise _too_short()
        self.head = buffer[at - ENDPOINT_ID_SIZE : numbers]
        self.numbers = buffer[numbers:after]
        if self.numbers.translate(None, _NUMBERS[number]):
            raise DecodeError("a message with the number of a header that is not there")
        return after

    def _read_mask(self, buffer: bytes, at: int, end: int) -> int:
        """Read the bitmap; give where the next column is."""
        after = at + BITMAP_SIZE
        if after > end:
            raise _too_short()
        mask = self.mask = int.from_bytes(buffer[at:after], "little")
        if not mask & 1 or mask.bit_count() != self.count:
            raise DecodeError("the bitmap of a node frame does not fit its messages")
        return after

    def _check_numbers(self) -> None:
        """Refuse what has no number that fits into the front of a frame."""
        span = self.count if self.mask is None else self.mask.bit_length()
        if self.first + span - 1 > limits.SEQUENCE_MAX:
            raise DecodeError("a node frame with message numbers beyond 64 bits")

    @property
    def sender(self) -> bytes:
        """Give the id of the endpoint that has published the messages."""
        return self.head[:ENDPOINT_ID_SIZE]

    @property
    def headers(self) -> Sequence[bytes]:
        """Cut the headers apart."""
        head, number = self.head, self._flags & HEADERS
        lengths = _HEADER_LENGTHS[number].unpack_from(head, ENDPOINT_ID_SIZE)
        edges = accumulate(lengths, initial=ENDPOINT_ID_SIZE + 2 * number)
        return tuple([head[left:right] for left, right in pairwise(edges)])

    @property
    def is_forced(self) -> bool:
        """Tell whether the sender waits for slow readers of these messages no longer."""
        return self._flags & FORCED != 0

    @property
    def is_signed(self) -> bool:
        """Tell whether there is a signature, true or false."""
        return self._flags & SIGNED != 0

    @property
    def payloads_size(self) -> int:
        """Bytes of all payloads together."""
        size = self._start + self.size - self._payloads
        return size - limits.SIGNATURE_SIZE if self._flags & SIGNED else size

    def payloads(self) -> Sequence[bytes]:
        """Cut the payloads out, in order, without the signature."""
        if self._rest:
            self._join()
        buffer, at, lengths = self._buffer, self._payloads, self._lengths
        if self.count == 1:
            return (buffer[at : at + lengths[0]],)
        if self._flags & EVEN:
            return _cutter(lengths[0], self.count).unpack_from(buffer, at)
        return Struct(_codes(lengths)).unpack_from(buffer, at)

    def _join(self) -> None:
        """Put the chunks together, because a reader looks inside."""
        self._buffer = b"".join((memoryview(self._buffer)[self._start :], *self._rest))
        self._payloads -= self._start
        self._start, self._rest = 0, ()

    def signed(self) -> tuple[tuple[memoryview, ...], bytes | None]:
        """Give what the signature is over, and the signature; nothing and ``None`` without one."""
        if not self._flags & SIGNED:
            return (), None
        if self._rest:
            self._join()
        end = self._start + self.size
        middle = end - limits.SIGNATURE_SIZE
        covered = memoryview(self._buffer)[self._start + SIGNED_START : middle]
        return (covered,), self._buffer[middle:end]

    def forwarded(self) -> list[bytes | memoryview]:
        """Write the frame once more with one hop less to live; the payloads are not even copied."""
        buffer, at = self._buffer, self._start + _TTL_OFFSET
        rest = memoryview(buffer)[at + 1 : self._start + self.size]
        return [buffer[self._start : at], bytes((self.ttl - 1,)), rest, *self._rest]

    def part(self, selection: bytes) -> tuple[list[bytes | memoryview], int]:
        """Write the selected messages as a frame of their own, with one hop less to live.

        They keep their numbers. What is signed cannot be divided.
        """
        assert not self.is_signed, "the signature is over the whole"
        headers, numbers = selected(self.headers, self.numbers, selection)
        first, mask = trimmed(self.first, offsets(self.mask, selection))
        some = list(compress(self.payloads(), selection))
        return encode_node(
            self.sender, self.ttl - 1, first, headers, numbers, some,
            mask=mask, forced=self.is_forced,
        )  # fmt: skip


def _too_short() -> DecodeError:
    return DecodeError("a node frame without life, with an empty header, or shorter than it says")


Frame = Preamble | ControlFrame | NodeFrame


def _may_stay_scattered(front: tuple[int, ...], buffer: bytes, start: int) -> bool:
    """Tell whether a frame that begins in the buffer may be left in the chunks that it came in.

    A relay then passes it on without a copy. All but the payloads has to be in the first chunk.
    Small frames are joined: they would keep the whole chunks in memory.
    """
    size, kind, _, flags, count, _ = front
    number, at = flags & HEADERS, start + _HEADERS_START
    if kind != NODE_KIND or size < SCATTERED_SIZE_MIN or number > limits.HEADERS_MAX:
        return False
    headers = at + 2 * number
    if headers > len(buffer):
        return False
    lengths: tuple[int, ...] = _HEADER_LENGTHS[number].unpack_from(buffer, at)
    return headers + sum(lengths) + count * (1 + 4) + BITMAP_SIZE <= len(buffer)


class FrameDecoder:
    """Bytes in, in any chunks; frames out, one at a time. Buffers at most one frame and one chunk.

    The decoder belongs to the connection, not to the handshake: frames that came in one chunk with
    the last message of the handshake are still inside when the peering takes over.
    """

    __slots__ = (
        "_buffer",
        "_chunks",
        "_chunks_size",
        "_missing",
        "_offset",
        "_opened",
        "control_size_max",
        "size_max",
    )

    def __init__(self, size_max: int = limits.HANDSHAKE_FRAME_SIZE_MAX) -> None:
        """Expect a preamble first; refuse frames of more than ``size_max`` bytes (settable)."""
        self.size_max = size_max
        self.control_size_max = 0
        """Bytes of a control frame that are taken even if they are more than ``size_max``."""
        self._buffer = b""
        self._offset = 0
        self._chunks: list[bytes] = []
        self._chunks_size = 0
        self._missing = 0
        self._opened = False

    @property
    def held_size(self) -> int:
        """How many bytes are kept that are not given out yet."""
        return len(self._buffer) - self._offset + self._chunks_size

    def feed(self, chunk: bytes) -> None:
        """Take bytes in, as they came."""
        if self._offset == len(self._buffer) and not self._chunks:
            self._buffer, self._offset, self._missing = chunk, 0, 0
        else:
            self._missing -= len(chunk)
            self._chunks_size += len(chunk)
            if self._chunks and len(self._chunks[-1]) < CHUNK_SIZE_MIN:
                self._chunks[-1] += chunk
            else:
                self._chunks.append(chunk)

    def next_frame(self) -> Frame | None:
        """Give the next whole frame, or ``None`` until more bytes come; raises ``DecodeError``."""
        if self._missing > 0:
            return None
        if not self._opened:
            return self._open()
        if self._chunks and len(self._buffer) - self._offset < FRONT_SIZE:
            self._merge()
        buffer, start = self._buffer, self._offset
        held = len(buffer)
        if held - start < FRONT_SIZE:
            return None
        front = FRONT.unpack_from(buffer, start)
        size = front[0]
        if size > self.size_max and (front[1] == NODE_KIND or size > self.control_size_max):
            raise DecodeError(
                f"a frame of {size} bytes; {self.size_max} are allowed here",
                ErrorCode.LIMIT_EXCEEDED,
            )
        end = start + FRONT_SIZE + size
        if end > held:
            self._missing = end - held - self._chunks_size
            if self._missing > 0:
                return None
            return self._gathered(front, end)
        self._offset = end
        if end == held and not self._chunks:
            self._missing = 1  # There is no use in looking before more is fed.
        return (NodeFrame if front[1] == NODE_KIND else ControlFrame)(buffer, start, end, front)

    def _gathered(self, front: tuple[int, ...], end: int) -> Frame:
        """Give a frame that began in the buffer and ends in a later chunk."""
        buffer, start = self._buffer, self._offset
        rest = self._gather(end - len(buffer))
        if _may_stay_scattered(front, buffer, start):
            return NodeFrame(buffer, start, end, front, rest)
        whole, size = b"".join((memoryview(buffer)[start:], *rest)), end - start
        return (NodeFrame if front[1] == NODE_KIND else ControlFrame)(whole, 0, size, front)

    def _open(self) -> Preamble | None:
        """Read the preamble; other protocols are told apart by their very first byte."""
        self._merge()
        if self._buffer[:4] != MAGIC[: len(self._buffer)]:
            is_tls = self._buffer[:1] in TLS_RECORDS
            hint = (
                "it speaks TLS: give this endpoint credentials too" if is_tls else "check the port"
            )
            raise DecodeError(
                f"this is no peermesh peer, its first bytes are {self._buffer[:8]!r}: {hint}",
                ErrorCode.WRONG_MAGIC_NUMBER,
            )
        if len(self._buffer) < PREAMBLE.size:
            return None
        _, version_min, version_max = PREAMBLE.unpack_from(self._buffer)
        if version_min > version_max:
            raise DecodeError(f"a version range from {version_min} down to {version_max}")
        self._opened = True
        self._offset = PREAMBLE.size
        return Preamble(version_min, version_max)

    def _gather(self, size: int) -> tuple[bytes | memoryview, ...]:
        """Take so many bytes out of the chunks, and go on in the chunk that they end in.

        Chunks wait until the whole frame is there, and nothing but the frame is copied: joining
        each chunk to what came before would copy a large frame hundreds of times.
        """
        chunks, used = self._chunks, 0
        while size > len(chunks[used]):
            size -= len(chunks[used])
            used += 1
        self._buffer, self._offset = chunks[used], size
        pieces: tuple[bytes | memoryview, ...]
        pieces = (*chunks[:used], memoryview(self._buffer)[:size])
        self._chunks_size -= sum(map(len, chunks[: used + 1]))
        del chunks[: used + 1]
        return pieces

    def _merge(self) -> None:
        if self._chunks:
            rest = memoryview(self._buffer)[self._offset :]
            self._buffer, self._offset = b"".join((rest, *self._chunks)), 0
            self._chunks_size = 0
            self._chunks.clear()
