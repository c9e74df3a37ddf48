"""A subscriber's bounded queue between the endpoint's loop and its reader. Pure, and lock-free.

The loop puts parcels in, each of many topics; one reader takes them out, in the same thread or in
another. Each counter has one writer, and a ``deque`` appends and pops atomically. Each message has
a number, by which the reader finds ``Missed`` exactly where messages were dropped.

With ``wait``, the loop does this for each parcel::

    if mailbox.put(topics, raw, numbers, payloads, size, forced):
        holds.over(...)                                    over its mark: tell the sender
        if mailbox.is_withholding: link.withhold(mailbox)  the reserve is used up

and ``check`` once a second. The reader calls ``release`` after it took something. When that is
true, the loop takes the holds back unless it ``is_holding`` still, and restores links unless it
``is_withholding``: as soon as the reserve has room, since links carry other topics, too. The loop
calls ``release`` once a second as well, for a reader in another thread may be quicker than ``put``.

A queue that is full and was not read for ``stall_seconds`` becomes lossy, as does one that withheld
a link for 30 s: it drops its oldest and makes no publisher wait, until it is read again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from typing import Final

from endpoint.pubsub.messages import (
    MISSED_TOPIC,
    SHAPE_DEFAULT,
    Messages,
    Missed,
    Shape,
    decoder_of,
)
from endpoint.pubsub.queueing import MailboxStatistics, Overflow, Queueing
from endpoint.pubsub.reader_monitor import ReaderMonitor, Trouble
from wire.errors import DecodeError, SubscriberOverflow
from wire.limits import GROUP_COUNT, GROUP_SIZE
from wire.values import Value

DECODE_COUNT: Final = 128
"""Messages decoded at once: the more are alive, the more each costs the collector."""

MESSAGE_CHARGE: Final = GROUP_SIZE // GROUP_COUNT
"""Bytes that a message counts as besides its size, where one number bounds size and count."""

PARTS: Final = 8
"""A queue that drops its oldest drops an eighth of it at once: nearly full, and little work."""

Parcel = tuple[int, Sequence[str], bytes, bytes, Sequence[bytes], int]
"""The number of its first message, then the arguments of ``Mailbox.put``."""


class Mailbox:
    """Parcels of undecoded payloads, waiting for one reader."""

    __slots__ = (
        "_decode_value",
        "_dropped",
        "_dropped_bytes",
        "_exhausted_at",
        "_has_overflowed",
        "_hold_count",
        "_is_dropping",
        "_is_lossy_told",
        "_may_make_wait",
        "_monitor",
        "_parcels",
        "_position",
        "_put",
        "_put_bytes",
        "_rest",
        "_rest_numbers",
        "_rest_raw",
        "_rest_topics",
        "_taken",
        "_taken_bytes",
        "hold_seconds_max",
        "is_holding",
        "is_lossy",
        "is_withholding",
        "label",
        "malformed",
        "queueing",
    )

    def __init__(
        self,
        queueing: Queueing | None = None,
        shape: Shape = SHAPE_DEFAULT,
        *,
        may_hold: bool = True,
        label: str = "",
        decode_value: Callable[[bytes], Value] | None = None,
    ) -> None:
        """Hold values up to a shape; without ``may_hold``, no publisher ever waits.

        The ``label`` is shown to those who wonder whom publishers wait for. ``decode_value`` reads
        the payloads in another way, and raises ``DecodeError``; the shape is then its to check.
        """
        self.queueing = queueing or Queueing()
        self.hold_seconds_max = self.queueing.hold_seconds_max
        self.label = label
        self.is_holding = False
        """True while publishers wait for this mailbox."""
        self.is_withholding = False
        """True while links are withheld for it: other topics wait, too."""
        self.is_lossy = False
        self.malformed = 0
        """Payloads that could not be decoded, and were skipped."""
        size, byte_count = self.queueing.queue_size, self.queueing.queue_bytes
        self._exhausted_at = byte_count + size * MESSAGE_CHARGE + self.queueing.reserve
        self._decode_value = decode_value or decoder_of(shape)
        self.permit_holding(may_hold=may_hold)
        self._has_overflowed = self._is_lossy_told = False
        self._parcels: deque[Parcel] = deque()
        self._put = self._put_bytes = 0
        self._dropped = self._dropped_bytes = 0
        self._taken = self._taken_bytes = 0
        self._position = 0
        """The number of the message that the reader expects next."""
        self._rest: Sequence[bytes] = ()
        """The rest of the parcel in hand; ``take`` keeps its topics and numbers beside it."""
        self._monitor = ReaderMonitor()
        self._hold_count = 0

    # The loop's side.

    def permit_holding(self, *, may_hold: bool) -> None:
        """Have publishers wait for it or not, as its endpoint's role permits from now on."""
        self._may_make_wait = self.queueing.overflow is Overflow.WAIT and may_hold
        self._is_dropping = self.is_lossy or not self._may_make_wait

    def put(
        self,
        topics: Sequence[str],
        raw: bytes,
        numbers: bytes,
        payloads: Sequence[bytes],
        size: int,
        forced: bool,  # noqa: FBT001 - called for each frame: an argument by name costs more
    ) -> bool:
        """Take in messages of ``size`` bytes; tell whether their publishers should wait now.

        ``topics[n]`` is the topic of header n; its payloads are bytes as they are if ``raw[n]`` is
        1, and values to be decoded if it is 0; where all are bytes, ``raw`` may be empty.
        ``numbers`` has the header of each payload; it is empty if there is one header. ``size`` is
        no less than that of all payloads. What was ``forced`` past a hold never enlarges a full
        queue.
        """
        if forced or self._is_dropping:
            return self._put_dropping(topics, raw, numbers, payloads, size, forced=forced)
        first = self._put
        self._parcels.append((first, topics, raw, numbers, payloads, size))
        self._put = first + len(payloads)  # After the parcel: ``take`` looks in the other order.
        self._put_bytes += size
        # ``is_full``, written out: this is done for every frame.
        queueing = self.queueing
        if (
            self._put - self._dropped - self._taken >= queueing.queue_size
            or self._put_bytes - self._dropped_bytes - self._taken_bytes >= queueing.queue_bytes
        ):
            self._hold()
            return True
        return False

    def _hold(self) -> None:
        if not self.is_holding:
            self.is_holding = True
            self._hold_count += 1
        if self.is_exhausted:
            self.is_withholding = True

    def _put_dropping(
        self,
        topics: Sequence[str],
        raw: bytes,
        numbers: bytes,
        payloads: Sequence[bytes],
        size: int,
        *,
        forced: bool,
    ) -> bool:
        """Put what may cost this or older messages their place."""
        queueing, overflow = self.queueing, self.queueing.overflow
        before, before_bytes = self.waiting, self.waiting_bytes
        count = len(payloads)
        if overflow is Overflow.DROP_NEWEST or overflow is Overflow.ERROR:
            step, kept = count, self._fitting(payloads, size)
        else:
            step, kept = max(1, queueing.queue_size // PARTS), count
        left, besides = size, (size - sum(map(len, payloads))) // count
        for at in range(0, kept, step):
            end = min(at + step, kept)
            some = payloads[at:end]
            part = left if end == count else min(left, sum(map(len, some)) + besides * len(some))
            left -= part
            parcel = (self._put, topics, raw, numbers[at:end], some, part)
            self._parcels.append(parcel)
            self._put += len(some)
            self._put_bytes += part
        self._dropped += count - kept
        self._dropped_bytes += left
        self._put_bytes += left
        self._put += count - kept
        if overflow is Overflow.ERROR:
            if kept < count:
                self._has_overflowed = True
                self._drop_all()
        elif self.is_lossy or overflow is Overflow.DROP_OLDEST:
            self._shrink(queueing.queue_size, queueing.queue_bytes)
        elif forced:
            most = max(before, queueing.queue_size)
            self._shrink(most, max(before_bytes, queueing.queue_bytes))
        elif not self._may_make_wait:
            while self._charge > self._exhausted_at and len(self._parcels) > 1:
                self._drop_parcel()
        if self.is_full and not self._is_dropping:
            self._hold()
            return True
        return False

    def _fitting(self, payloads: Sequence[bytes], size: int) -> int:
        """Count how many of these there is room for; an empty queue always takes one."""
        if self._has_overflowed:
            return 0
        waiting, free = self.waiting, self.queueing.queue_bytes - self.waiting_bytes
        count = min(len(payloads), max(0, self.queueing.queue_size - waiting))
        if size > free:
            count = bisect_right(list(accumulate(map(len, payloads[:count]))), free)
        return count if waiting or count else min(1, len(payloads))

    def _shrink(self, count: int, size: int) -> None:
        """Drop the oldest until so much waits at most, or one part."""
        while (self.waiting > count or self.waiting_bytes > size) and len(self._parcels) > 1:
            self._drop_parcel()

    def _drop_all(self) -> None:
        while self._parcels:
            self._drop_parcel()

    def _drop_parcel(self) -> None:
        try:
            *_, payloads, size = self._parcels.popleft()
        except IndexError:  # Taken between the loop's look and its grasp.
            return
        self._dropped += len(payloads)
        self._dropped_bytes += size

    def become_lossy(self) -> None:
        """Drop the oldest and make no publisher wait, until it is read; as a link's ``Place``."""
        self.is_lossy = self._is_dropping = True
        self.is_holding = self.is_withholding = False
        self._shrink(self.queueing.queue_size, self.queueing.queue_bytes)

    def check(self, now: float, ready: int) -> Trouble | None:
        """Notice whether it is read, at ``now`` seconds; to be called once a second.

        ``ready`` is what the reader has taken but not handed out yet: it counts as read when it
        shrinks. On ``LOSSY`` all holds for this mailbox have to go.
        """
        waits = self.is_full or self.is_lossy
        hold = self._hold_count if self.is_holding else 0
        trouble = self._monitor.look(now, self._taken - ready, hold, waits=waits)
        stall, silent = self.queueing.stall_seconds, self._monitor.silent_seconds
        if stall is not None and silent >= stall and self._may_make_wait:
            self.become_lossy()
        is_news = self.is_lossy and not self._is_lossy_told
        self._is_lossy_told = self.is_lossy
        if not silent:
            self.is_lossy = self._is_lossy_told = False
            self._is_dropping = not self._may_make_wait
        return Trouble.LOSSY if is_news else trouble

    def statistics(self) -> MailboxStatistics:
        """Give a snapshot of counts."""
        return MailboxStatistics(
            self._put,
            self.waiting,
            self.waiting_bytes,
            self.queueing.queue_size,
            self._dropped,
            self.is_lossy,
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
    def _charge(self) -> int:
        return self.waiting_bytes + self.waiting * MESSAGE_CHARGE

    @property
    def dropped(self) -> int:
        """Messages dropped since the beginning."""
        return self._dropped

    @property
    def is_full(self) -> bool:
        """Tell whether it has reached a mark."""
        queueing = self.queueing
        return self.waiting >= queueing.queue_size or self.waiting_bytes >= queueing.queue_bytes

    @property
    def is_exhausted(self) -> bool:
        """Tell whether the reserve is used up: the links that feed it have to be withheld."""
        return self._charge >= self._exhausted_at and not self._is_dropping

    @property
    def has_room(self) -> bool:
        """Tell whether publishers that wait may go on: half empty, so that they do not flutter."""
        size, byte_count = self.queueing.queue_size, self.queueing.queue_bytes
        return self.waiting * 2 <= size and self.waiting_bytes * 2 <= byte_count

    # The reader's side.

    def is_empty(self) -> bool:
        """Tell whether there is nothing to take, and no gap to tell."""
        return not self._parcels and not self._rest and self._position == self._put

    def release(self) -> bool:
        """Tell, once each, that links may be restored, and that publishers may go on."""
        is_news = False
        if self.is_withholding and not self.is_exhausted:
            self.is_withholding, is_news = False, True
        if self.is_holding and (self.has_room or self._is_dropping):
            self.is_holding, is_news = False, True
        return is_news

    def take(self, ready: Messages) -> None:
        """Decode the oldest parcel into ``ready``, after ``Missed`` if some were dropped before it.

        Raises ``SubscriberOverflow`` if the queue was too small.
        """
        if self._has_overflowed:
            raise SubscriberOverflow(self._put - self._taken, self.queueing.queue_size)
        if self._rest:
            self._decode_some(ready)
            return
        end = self._put
        try:
            first, topics, raw, numbers, payloads, size = self._parcels.popleft()
        except IndexError:  # Whatever came before ``end`` is taken or dropped.
            self._tell_missed(end, ready)
            return
        self._taken_bytes += size
        if first != self._position:
            self._tell_missed(first, ready)
        self._position = first + len(payloads)
        if raw:
            self._rest, self._rest_topics = payloads, topics
            self._rest_raw, self._rest_numbers = raw, numbers
            self._decode_some(ready)
            return
        self._taken += len(payloads)
        if numbers:
            ready.extend(zip(map(topics.__getitem__, numbers), payloads, strict=False))
        elif len(payloads) == 1:
            ready.append((topics[0], payloads[0]))
        else:
            ready.extend(zip(repeat(topics[0]), payloads))

    def _tell_missed(self, until: int, ready: Messages) -> None:
        if until > self._position:
            ready.append((MISSED_TOPIC, Missed(until - self._position)))
            self._position = until

    def _decode_some(self, ready: Messages) -> None:
        """Take some messages of the parcel in hand, of which some are values."""
        some, self._rest = self._rest[:DECODE_COUNT], self._rest[DECODE_COUNT:]
        numbers = self._rest_numbers[:DECODE_COUNT] or bytes(len(some))
        self._rest_numbers = self._rest_numbers[DECODE_COUNT:]
        self._taken += len(some)
        topics, raw, decode_value = self._rest_topics, self._rest_raw, self._decode_value
        try:
            ready.extend(
                [
                    (topics[number], payload if raw[number] else decode_value(payload))
                    for number, payload in zip(numbers, some, strict=True)
                ]
            )
        except DecodeError:
            for number, payload in zip(numbers, some, strict=True):
                try:
                    value = payload if raw[number] else decode_value(payload)
                except DecodeError:
                    # The publisher's fault, not that of the peer that passed it on: skip and count.
                    self.malformed += 1
                else:
                    ready.append((topics[number], value))
