"""Bytes to frames and back: the preamble, control frames, and node frames of many payloads.

A connection is, in either direction, one preamble and then frames::

    preamble   magic "PMSH" | u16 version_min | u16 version_max
    frame      front (20 bytes) | header | u32 length of each payload | payloads
    front      u32 size after the front | u8 kind | u8 ttl | u16 header size
               | u32 count | u64 sequence

What changes from message to message stands in the front, at a fixed width. The header of a node
frame repeats byte for byte, so that a receiver can look it up undecoded. A frame carries up to
``GROUP_COUNT`` payloads that share one header: the cost of a frame is paid once for all of them,
and a relay passes them on without looking inside. A control frame has no header and one payload.

The last payload of a frame whose sender signs is the signature over all that a relay does not
change: of the front header size, count and sequence, and everything between front and signature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final

from wire import limits
from wire.errors import DecodeError, ErrorCode
from wire.messages import Preamble

MAGIC: Final = b"PMSH"
VERSION_MIN: Final = 1
VERSION_MAX: Final = 1

NODE_KIND: Final = 0
"""The kind of a node frame; control frames have the numbers of ``wire.codec.ControlKind``."""

CHUNK_SIZE_MIN: Final = 512
"""Bytes below which a chunk is joined to the one before it: each costs sixty bytes of its own, so
that a large frame that comes in crumbs would take thirty times its size."""

FRONT: Final = Struct("!IBBHIQ")
FRONT_SIZE: Final = FRONT.size
PREAMBLE: Final = Struct("!4sHH")

SIGNED_FRONT: Final = Struct("!HIQ")
"""What a signature covers of the front: header size, count, sequence."""

SCATTERED_SIZE_MIN: Final = 64 * limits.KIB
"""Bytes of a frame from which on it may stay in several chunks: half of what is read at once."""

_TTL_OFFSET: Final = 5
TLS_RECORDS: Final = (b"\x15", b"\x16")
"""How TLS begins: with an alert, or with a handshake."""

_LENGTHS: Final = tuple(Struct(f"!{count}I") for count in range(limits.GROUP_COUNT + 1))


Sign = Callable[[Sequence[bytes | memoryview]], bytes]
"""Gives the signature over these pieces, one after the other."""

_NO_SIGNATURE: Final = bytes(limits.SIGNATURE_SIZE)


def encode_preamble(preamble: Preamble) -> bytes:
    """Write the first bytes of a connection."""
    return PREAMBLE.pack(MAGIC, preamble.version_min, preamble.version_max)


def encode_control(kind: int, body: bytes) -> bytes:
    """Frame one encoded control message."""
    return FRONT.pack(len(body), kind, 0, 0, 0, 0) + body


def encode_node(
    header: bytes,
    ttl: int,
    sequence: int,
    payloads: Sequence[bytes],
    lengths: Sequence[int] = (),
) -> tuple[list[bytes | memoryview], int]:
    """Frame payloads that share a header: pieces to be joined with others, and their size.

    A caller that has counted the payloads' ``lengths`` saves counting them again.
    """
    lengths = lengths or list(map(len, payloads))
    length, count = lengths[0], len(lengths)
    if lengths.count(length) == count:
        packed, size = _LENGTHS[1].pack(length) * count, length * count
    else:
        packed, size = _LENGTHS[count].pack(*lengths), sum(lengths)
    size += len(header) + 4 * count
    front = FRONT.pack(size, NODE_KIND, ttl, len(header), count, sequence)
    return [front, header, packed, *payloads], FRONT_SIZE + size


def encode_single(header: bytes, ttl: int, sequence: int, payload: bytes) -> bytes:
    """Frame one payload, ready to be sent."""
    length, header_size = len(payload), len(header)
    front = FRONT.pack(header_size + 4 + length, NODE_KIND, ttl, header_size, 1, sequence)
    return b"".join((front, header, _LENGTHS[1].pack(length), payload))


def encode_signed(
    header: bytes, ttl: int, sequence: int, payloads: Sequence[bytes], sign: Sign
) -> tuple[list[bytes | memoryview], int]:
    """Frame payloads with the signature that ``sign`` gives over them."""
    pieces, size = encode_node(header, ttl, sequence, [*payloads, _NO_SIGNATURE])
    body = b"".join(pieces[1:-1])
    signature = sign((SIGNED_FRONT.pack(len(header), len(payloads) + 1, sequence), body))
    return [pieces[0], body, signature], size


@lru_cache(maxsize=64)
def _cutter(length: int, count: int) -> Struct:
    """Cut payloads of one length in one call: six times as fast as slices."""
    return Struct(f"{length}s" * count)


def _repeats(lengths: bytes, count: int) -> bool:
    """Tell whether packed lengths are ``count`` times the first."""
    return lengths == lengths[: _LENGTHS[1].size] * count


class ControlFrame:
    """One control message, not decoded yet."""

    __slots__ = ("body", "kind")

    def __init__(self, buffer: bytes, start: int, end: int, front: tuple[int, ...]) -> None:
        """Read the frame whose front begins at ``start``; raises ``DecodeError``."""
        _, self.kind, _, header_size, count, _ = front
        if header_size or count:
            raise DecodeError(f"a control frame of kind {self.kind} with the front of a node frame")
        self.body = buffer[start + FRONT_SIZE : end]


class NodeFrame:
    """Payloads with one header, still in the bytes that they came in.

    Slotted and mutable, because a receiver makes one for each frame.
    """

    __slots__ = (
        "_buffer",
        "_end",
        "_first",
        "_is_even",
        "_rest",
        "_start",
        "header",
        "lengths",
        "sequence",
        "size",
        "ttl",
    )

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
        _, _, self.ttl, header_size, count, self.sequence = front
        lengths_start = start + FRONT_SIZE + header_size
        if not 1 <= count <= limits.GROUP_COUNT:
            raise DecodeError(f"a node frame of {count} payloads; 1 to {limits.GROUP_COUNT} fit")
        if not header_size or lengths_start + 4 * count > end or not self.ttl:
            raise DecodeError("a node frame without header, without life, or shorter than it says")
        first = lengths_start + 4 * count
        lengths: tuple[int, ...] = _LENGTHS[1].unpack_from(buffer, lengths_start)
        # Most are even: to find that out costs less than to unpack all lengths and add them up.
        self._is_even = count == 1 or _repeats(buffer[lengths_start:first], count)
        if self._is_even:
            self.lengths, size = lengths * count, lengths[0] * count
        else:
            self.lengths = _LENGTHS[count].unpack_from(buffer, lengths_start)
            size = sum(self.lengths)
        if first + size != end:
            raise DecodeError("the payloads of a node frame do not add up to its size")
        self.header = buffer[start + FRONT_SIZE : lengths_start]
        self._buffer = buffer
        self._start = start
        self._first = first
        self._end = end
        self._rest = rest
        self.size = end - start
        """Bytes on the wire, for flow control."""

    def payloads(self) -> tuple[bytes, ...]:
        """Cut the payloads out, in order."""
        if self._rest:
            self._join()
        buffer, lengths = self._buffer, self.lengths
        length, count = lengths[0], len(lengths)
        if count == 1:
            return (buffer[self._end - length : self._end],)
        if self._is_even:
            return _cutter(length, count).unpack_from(buffer, self._first)
        ends = pairwise(accumulate(lengths, initial=self._first))
        return tuple([buffer[at:end] for at, end in ends])

    def _join(self) -> None:
        """Put the chunks together, because a reader looks inside."""
        self._buffer = b"".join((memoryview(self._buffer)[self._start :], *self._rest))
        self._first -= self._start
        self._start, self._end, self._rest = 0, self.size, ()

    def signed(self) -> tuple[tuple[bytes, memoryview], bytes | None]:
        """Give what the signature is over, and the signature if there is one."""
        if self._rest:
            self._join()
        start, end = self._start + FRONT_SIZE, self._end
        front = SIGNED_FRONT.pack(len(self.header), len(self.lengths), self.sequence)
        if len(self.lengths) < 2 or self.lengths[-1] != limits.SIGNATURE_SIZE:
            return (front, memoryview(b"")), None
        middle = end - limits.SIGNATURE_SIZE
        return (front, memoryview(self._buffer)[start:middle]), self._buffer[middle:end]

    def forwarded(self) -> list[bytes | memoryview]:
        """Write the frame once more with one hop less to live; the payloads are not even copied."""
        buffer, at = self._buffer, self._start + _TTL_OFFSET
        rest = memoryview(buffer)[at + 1 : self._end]
        return [buffer[self._start : at], bytes((self.ttl - 1,)), rest, *self._rest]


Frame = Preamble | ControlFrame | NodeFrame


def _frame(buffer: bytes, start: int, end: int, front: tuple[int, ...]) -> Frame:
    if front[1] == NODE_KIND:
        return NodeFrame(buffer, start, end, front)
    return ControlFrame(buffer, start, end, front)


def _may_stay_scattered(front: tuple[int, ...], begun: int) -> bool:
    """Tell whether a frame may be left in the chunks that it came in, of which one has ``begun``.

    A relay then passes it on without a copy. Small ones are joined: they would keep the whole
    chunks in memory.
    """
    size, kind, _, header_size, count, _ = front
    if kind != NODE_KIND or size < SCATTERED_SIZE_MIN:
        return False
    return FRONT_SIZE + header_size + _LENGTHS[1].size * count <= begun


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
        "size_max",
    )

    def __init__(self, size_max: int = limits.HANDSHAKE_FRAME_SIZE_MAX) -> None:
        """Expect a preamble first; refuse frames of more than ``size_max`` bytes (settable)."""
        self.size_max = size_max
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
        if len(self._buffer) - self._offset < FRONT_SIZE:
            self._merge()
        buffer, start = self._buffer, self._offset
        if len(buffer) - start < FRONT_SIZE:
            return None
        front = FRONT.unpack_from(buffer, start)
        size = front[0]
        if size > self.size_max:
            raise DecodeError(
                f"a frame of {size} bytes; {self.size_max} are allowed here",
                ErrorCode.LIMIT_EXCEEDED,
            )
        end = start + FRONT_SIZE + size
        if end > len(buffer):
            self._missing = end - len(buffer) - self._chunks_size
            if self._missing > 0:
                return None
            return self._gathered(front, end)
        self._offset = end
        if end == len(buffer) and not self._chunks:
            self._missing = 1  # There is no use in looking before more is fed.
        return _frame(buffer, start, end, front)

    def _gathered(self, front: tuple[int, ...], end: int) -> Frame:
        """Give a frame that began in the buffer and ends in a later chunk."""
        buffer, start = self._buffer, self._offset
        rest = self._gather(end - len(buffer))
        if _may_stay_scattered(front, len(buffer) - start):
            return NodeFrame(buffer, start, end, front, rest)
        return _frame(b"".join((memoryview(buffer)[start:], *rest)), 0, end - start, front)

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
