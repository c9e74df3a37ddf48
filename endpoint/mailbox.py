"""A subscriber's bounded queue between the endpoint's loop and whoever reads. Pure, and lock-free.

The loop puts groups in, one reader takes them out, in the same thread or in another: each counter
has one writer, and a ``deque`` appends and pops atomically. A full mailbox makes its endpoint
withhold credit, so that publishers slow down to the speed of the reader. One that nobody reads for
the stall time holds nobody up any longer: it drops its oldest messages, and the reader finds
``Missed`` in their place (design section 7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Final, NamedTuple, Protocol

from wire.decoding import decode
from wire.errors import DecodeError
from wire.limits import MIB, VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX
from wire.public import public
from wire.shape import check_shape
from wire.values import Value

QUEUE_SIZE_DEFAULT: Final = 4_096
"""Messages that wait for a reader before its publishers do: some milliseconds at full speed."""

QUEUE_BYTES_MAX: Final = 4 * MIB
"""Bytes that wait for a reader before its publishers do, for subscribers to large messages."""

DECODE_COUNT: Final = 128
"""Messages decoded at once: the more of them are alive, the more each costs the collector."""

STALL_SECONDS: Final = 5.0
"""How long a mailbox may hold up its publishers without being read at all."""

MISSED_TOPIC: Final = "<$>/local/missed"
"""The topic under which a reader finds ``Missed``: reserved, so that nobody can publish on it."""


@public
@dataclass(frozen=True, slots=True)
class Missed:
    """So many messages were dropped: the subscriber was not read for the stall time."""

    count: int


Pair = tuple[str, "Value | Missed"]
"""Topic and data of a message, as iteration, ``get_batch`` and ``poll`` give it."""


@public
class Message(NamedTuple):
    """One message, as ``get`` gives it: a pair that has names."""

    topic: str
    data: Value | Missed
    """The value; or ``Missed``, under a reserved topic, where messages were dropped."""


Messages = deque[Pair] | list[Pair]
"""Where a reader takes them to."""
Parcel = tuple[Sequence[str], bytes, bytes, Sequence[bytes], int]
"""Topics by number, whether each has bytes as they are, the number of each payload (nothing where
there is one topic), payloads, and the bytes that they count as."""


Shape = tuple[int, int]
"""How deep a value may be that is handed out, and how many values it may hold."""

SHAPE_DEFAULT: Final = (VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX)
"""What decoding holds everybody to."""


def _decode_within(shape: Shape, payload: bytes) -> Value:
    check_shape(payload, *shape)
    return decode(payload)


class Reader(Protocol):
    """Who reads a mailbox."""

    def wake(self, *, more_follows: bool) -> None:
        """There is something to read. If ``more_follows`` at once, this is said again soon."""

    def ready_count(self) -> int:
        """Count what was taken from the mailbox and not handed out yet."""

    def end(self) -> None:
        """The endpoint ends."""


@dataclass(frozen=True, slots=True)
class MailboxStatistics:
    """A mailbox at one moment; counts are totals since its beginning."""

    put: int
    """Messages that came in."""
    waiting: int
    waiting_bytes: int
    capacity: int
    dropped: int
    is_stalled: bool
    """Whether it drops its oldest messages, since it was full for the stall time and not read."""


class Mailbox:
    """Groups of undecoded payloads, waiting for one reader."""

    __slots__ = (
        "_decode_value",
        "_dropped",
        "_dropped_bytes",
        "_parcels",
        "_put",
        "_put_bytes",
        "_read_mark",
        "_rest",
        "_rest_numbers",
        "_rest_raw",
        "_rest_topics",
        "_silent_since",
        "_taken",
        "_taken_bytes",
        "_told_dropped",
        "capacity",
        "is_holding",
        "is_stalled",
        "malformed",
    )

    def __init__(self, capacity: int = QUEUE_SIZE_DEFAULT, shape: Shape = SHAPE_DEFAULT) -> None:
        """Hold up to ``capacity`` messages, of values up to a shape, before anybody has to wait."""
        if capacity < 1:
            raise ValueError(f"a queue of {capacity} messages; it needs room for at least one")
        self.capacity = capacity
        self._decode_value = decode if shape == SHAPE_DEFAULT else partial(_decode_within, shape)
        self.is_holding = False
        """True while publishers wait for this mailbox; written by the loop."""
        self.is_stalled = False
        self.malformed = 0
        """Payloads that could not be decoded, and were skipped."""
        self._parcels: deque[Parcel] = deque()
        self._put = self._put_bytes = 0
        self._dropped = self._dropped_bytes = 0
        self._taken = self._taken_bytes = 0
        self._told_dropped = 0
        self._read_mark = -1
        self._rest: Sequence[bytes] = ()
        self._rest_topics: Sequence[str] = ()
        self._rest_raw = self._rest_numbers = b""
        self._silent_since: float | None = None

    # The loop's side.

    def put(
        self,
        topics: Sequence[str],
        raw: bytes,
        numbers: bytes,
        payloads: Sequence[bytes],
        size: int,
    ) -> bool:
        """Take in messages of ``size`` bytes; tell whether their publishers should wait now.

        ``numbers`` has the place in ``topics`` of each one's topic, or nothing where there is one;
        ``raw`` tells of each topic, 1 or 0, whether its payloads are bytes as they are. A stalled
        mailbox drops its oldest messages, and no publisher waits.
        """
        self._parcels.append((topics, raw, numbers, payloads, size))
        self._put += len(payloads)
        self._put_bytes += size
        if self.is_stalled:
            self._drop_oldest()
            return False
        # ``is_full``, written out: this is done for every group.
        return (
            self._put - self._dropped - self._taken >= self.capacity
            or self._put_bytes - self._dropped_bytes - self._taken_bytes >= QUEUE_BYTES_MAX
        )

    def check(self, now: float, ready: int) -> bool:
        """Notice whether anybody reads, at ``now`` seconds; true when the mailbox stalls just now.

        ``ready`` is what the reader has taken but not handed out yet: it counts as read when it
        shrinks.
        """
        mark = self._taken - ready
        if mark != self._read_mark or not (self.is_full or self.is_stalled):
            self._read_mark = mark
            self._silent_since = now
            self.is_stalled = False
            return False
        if self.is_stalled or self._silent_since is None:
            return False
        if now - self._silent_since < STALL_SECONDS:
            return False
        self.is_stalled = True
        self._drop_oldest()
        return True

    def _drop_oldest(self) -> None:
        while self.is_full and len(self._parcels) > 1:
            _, _, _, payloads, size = self._parcels.popleft()
            self._dropped += len(payloads)
            self._dropped_bytes += size

    def statistics(self) -> MailboxStatistics:
        """Give a snapshot of counts."""
        return MailboxStatistics(
            self._put,
            self.waiting,
            self.waiting_bytes,
            self.capacity,
            self._dropped,
            self.is_stalled,
        )

    @property
    def waiting(self) -> int:
        """Messages that wait to be taken."""
        return self._put - self._dropped - self._taken

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait to be taken."""
        return self._put_bytes - self._dropped_bytes - self._taken_bytes

    @property
    def dropped(self) -> int:
        """Messages dropped since the beginning."""
        return self._dropped

    @property
    def is_full(self) -> bool:
        """Tell whether publishers should wait."""
        return self.waiting >= self.capacity or self.waiting_bytes >= QUEUE_BYTES_MAX

    @property
    def has_room(self) -> bool:
        """Tell whether publishers that wait may go on: half empty, so that they do not flutter."""
        return self.waiting * 2 <= self.capacity and self.waiting_bytes * 2 <= QUEUE_BYTES_MAX

    # The reader's side.

    def is_empty(self) -> bool:
        """Tell whether there is nothing to take."""
        return not self._parcels and not self._rest

    def take(self, ready: Messages) -> None:
        """Decode the oldest group into ``ready``, after ``Missed`` if some were dropped."""
        if self._rest:
            self._decode_some(ready)
            return
        try:
            topics, raw, numbers, payloads, size = self._parcels.popleft()
        except IndexError:  # Dropped between the reader's look and its grasp.
            return
        self._taken_bytes += size
        if self._dropped != self._told_dropped:
            dropped = self._dropped
            ready.append((MISSED_TOPIC, Missed(dropped - self._told_dropped)))
            self._told_dropped = dropped
        if 0 in raw:
            self._rest_topics, self._rest_raw, self._rest_numbers = topics, raw, numbers
            self._rest = payloads
            self._decode_some(ready)
            return
        self._taken += len(payloads)
        if numbers:
            ready.extend(zip(map(topics.__getitem__, numbers), payloads, strict=False))
        elif len(payloads) == 1:
            ready.append((topics[0], payloads[0]))
        else:
            ready.extend(zip(repeat(topics[0]), payloads))

    def _decode_some(self, ready: Messages) -> None:
        some, self._rest = self._rest[:DECODE_COUNT], self._rest[DECODE_COUNT:]
        numbers = self._rest_numbers[:DECODE_COUNT] or bytes(len(some))
        self._rest_numbers = self._rest_numbers[DECODE_COUNT:]
        self._taken += len(some)
        topics, raw, decode_value = self._rest_topics, self._rest_raw, self._decode_value
        decoders = [bytes if is_raw else decode_value for is_raw in raw]
        numbered = zip(numbers, some, strict=True)
        try:
            ready.extend([(topics[each], decoders[each](payload)) for each, payload in numbered])
        except DecodeError:
            for each, payload in zip(numbers, some, strict=True):
                try:
                    ready.append((topics[each], decoders[each](payload)))
                except DecodeError:
                    # The publisher's fault, not that of the peer that passed it on: skip and count.
                    self.malformed += 1
