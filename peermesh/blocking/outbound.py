"""The way from threads into the mesh: a queue that crosses threads in batches.

Threads append messages to it, and wait only while it is full, or while too much is parked for their
own topic. The pump takes them into the journal, and waits for no link and no reader.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Final, cast

from endpoint import arguments
from endpoint.arguments import NodeId
from endpoint.pubsub.publishing import no_pair
from peermesh.blocking.gate import Gate
from peermesh.blocking.living import Passage
from wire.encoding import encode
from wire.errors import EncodeError, OutboxFull
from wire.identifiers import EndpointId
from wire.limits import GROUP_SIZE, PAYLOAD_SIZE_MAX
from wire.messages import PackedType
from wire.topics import check_topic
from wire.values import Value

PENDING_MAX: Final = 8_192
"""Messages between the threads above which publishers wait: some milliseconds at full speed."""

SMALL_SIZE: Final = 1_024
"""Bytes below which a message is not counted by size: their number bounds them to 8 MiB."""

LARGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of larger messages between the threads above which publishers wait."""

WAYS_MAX: Final = 4_096
"""Topics remembered as checked; they begin anew beyond."""

TAKE_COUNT: Final = 1_024
"""Messages that the pump takes in one step: one frame of small ones, which a link writes next."""

TAKE_SIZE: Final = GROUP_SIZE
"""Bytes of large messages that it takes in one step, but one of any size: one frame again."""

_FULL: Final = "{}: publish() waits for room, or publish less"


class Way:
    """Where messages of one topic, type and receiver go, once that was checked."""

    __slots__ = ("kind", "lane", "obstacle", "receiver", "topic")

    def __init__(self, topic: str, kind: PackedType, receiver: EndpointId | None) -> None:
        self.topic, self.kind, self.receiver = topic, kind, receiver
        self.lane = topic, receiver
        """Values and bytes on one topic keep their order."""
        self.obstacle: str | None = None
        """What its publishers have to wait for: so much is parked in its lane."""


class Outbound:
    """What threads have published and the loop has not taken yet."""

    def __init__(self, passage: Passage, allow: Callable[[str], object]) -> None:
        """Have a ``Pump`` take what is published.

        ``allow`` raises ``NotAllowed`` for a topic that this endpoint may not publish on.
        """
        self._passage = passage
        self._soon = passage.soon
        self._wake_up = passage.guarded(lambda: self.wake())
        self._allow = allow
        self._pending: list[Way | bytes] = []
        """Ways and payloads in turn. Threads extend it and the loop cuts off its front, each in one
        step of the interpreter: so that neither needs a lock, and nothing is done per message."""
        self._ways: dict[tuple[str, PackedType, EndpointId | None], Way] = {}
        self._bytes_ways: dict[str, Way] = {}
        """Those to which the topic of bytes leads."""
        self._is_armed = False
        self._room, self._free = Gate(), Gate()
        """For the whole queue, and for ways of which too much is parked."""
        self._counting = threading.Lock()
        self._large_bytes = 0
        """What waits of large messages; changed under the lock, with the next."""
        self._is_crowded = False
        self.wake: Callable[[], object] = bool
        """Set by the pump: there is something to take."""
        self.is_closed = False
        passage.hold(self)

    # In any thread.

    def publish(self, topic: str, data: Value, *, to: NodeId | None = None) -> None:
        """Publish, waiting for room while too much waits already; see ``peermesh.Endpoint``.

        A slow reader makes only those wait that publish on its topics. Order is kept over each
        topic, and over several unless a reader of one of them is slow. Interrupted while it waits,
        it has published nothing.
        """
        way, payload = None, b""
        if type(data) is bytes and to is None:
            payload = data
            try:
                way = self._bytes_ways.get(topic)
            except TypeError:  # It has no hash: a mistake that is told below.
                way = None
        if way is None:
            way, payload = self._way(topic, data, to)
        pending = self._pending
        if len(pending) >= PENDING_MAX * 2 or way.obstacle is not None or self._is_crowded:
            self._wait_for_room(way)
        if len(payload) >= SMALL_SIZE:
            self._count(len(payload))
        pending.extend((way, payload))
        if not self._is_armed:
            self._is_armed = True
            self._soon(self._wake_up)

    def publish_nowait(self, topic: str, data: Value, *, to: NodeId | None = None) -> None:
        """Publish without waiting, or raise ``OutboxFull``; then nothing was sent."""
        way, payload = self._way(topic, data, to)
        if way.obstacle is not None or self._is_full():
            raise OutboxFull(_FULL.format(way.obstacle or "too much waits to be sent"))
        self._put(way, payload)

    def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in the order that ``publish`` keeps."""
        for pair in arguments.several("batch", batch):
            try:
                topic, data = pair
            except (TypeError, ValueError):
                raise no_pair(pair) from None
            if isinstance(pair, str):  # Two characters are a pair, too.
                raise no_pair(pair)
            self.publish(topic, data)

    def _put(self, way: Way, payload: bytes) -> None:
        if len(payload) >= SMALL_SIZE:
            self._count(len(payload))
        self._pending.extend((way, payload))
        if not self._is_armed:
            self._is_armed = True
            self._soon(self._wake_up)

    def _count(self, size: int) -> None:
        """Count a large message that is about to be put in; raises ``EncodeError``."""
        if size > PAYLOAD_SIZE_MAX:
            raise EncodeError(
                f"{size} bytes in one message; {PAYLOAD_SIZE_MAX} are allowed: publish it in parts"
            )
        with self._counting:
            large = self._large_bytes = self._large_bytes + size
            if large > LARGE_BYTES_MAX:
                self._is_crowded = True

    def _way(self, topic: str, data: Value, to: NodeId | None) -> tuple[Way, bytes]:
        receiver = to if to is None or type(to) is EndpointId else arguments.receiver("to", to)
        if type(data) is bytes:
            payload, kind = data, PackedType.BYTES
        else:
            payload, kind = encode(data), PackedType.DATA
        if type(topic) is not str:
            check_topic(topic)  # Before it is looked up: it may have no hash.
        way = self._ways.get((topic, kind, receiver)) or self._check(topic, kind, receiver)
        return way, payload

    def _check(self, topic: str, kind: PackedType, receiver: EndpointId | None) -> Way:
        if self.is_closed:
            raise self._passage.error()
        self._allow(check_topic(topic))
        if len(self._ways) >= WAYS_MAX:
            self.forget_ways()
        way = self._ways[topic, kind, receiver] = Way(topic, kind, receiver)
        if kind is PackedType.BYTES and receiver is None:
            self._bytes_ways[topic] = way
        return way

    def _is_full(self) -> bool:
        return len(self._pending) >= PENDING_MAX * 2 or self._is_crowded

    def _wait_for_room(self, way: Way) -> None:
        """Wait until a message of a way may be put in: nothing of it is published before."""
        while not self.is_closed:
            if way.obstacle is not None:
                self._free.wait_while(lambda: way.obstacle is not None and not self.is_closed)
            elif self._is_full():
                self._room.wait_while(lambda: self._is_full() and not self.is_closed)
            else:
                return
        raise self._passage.error()

    # For the pump, in the portal's thread.

    def is_empty(self) -> bool:
        """Tell whether nothing waits; then the next message wakes the pump."""
        if self._pending:
            return False
        # The order matters: a thread looks at the flag after it has put a message in.
        self._is_armed = False
        return not self._pending

    def take(self) -> tuple[list[Way], list[bytes]]:
        """Take what was published first, as much as one step may."""
        pending = self._pending
        # If none is large, there is no need to look at each of them.
        end = 2 * (self._count_of_step() if self._large_bytes else TAKE_COUNT)
        payloads = cast("list[bytes]", pending[1:end:2])
        if self._large_bytes:
            large = sum([size for size in map(len, payloads) if size >= SMALL_SIZE])
            with self._counting:
                self._large_bytes -= large
                self._is_crowded = self._large_bytes > LARGE_BYTES_MAX
        end = len(payloads) * 2
        ways = cast("list[Way]", pending[:end:2])
        del pending[:end]
        return ways, payloads

    def _count_of_step(self) -> int:
        """Count the messages of one step by their sizes."""
        count = 16
        while True:
            sizes = list(
                accumulate(map(len, cast("list[bytes]", self._pending[1 : 2 * count : 2])))
            )
            fitting = bisect_right(sizes, TAKE_SIZE)
            if fitting < count or count >= TAKE_COUNT:
                return max(1, fitting)
            count *= 4

    def make_room(self) -> None:
        """Wake what waits once all is taken: in turns, two threads hinder each other least."""
        if not self._pending and not self._is_crowded:
            self._room.open()

    def let_go(self, ways: Iterable[Way]) -> None:
        """Have threads publish on ways again that had an obstacle."""
        for way in ways:
            way.obstacle = None
        self._free.open()

    def close(self) -> None:
        """Take nothing more, and wake what waits."""
        self.is_closed = True
        self.forget_ways()
        self._room.open()
        self._free.open()

    def forget_ways(self) -> None:
        """Have the next message of each way checked again."""
        self._bytes_ways.clear()
        self._ways.clear()

    # For the endpoint's life.

    def ended(self) -> None:
        """Take nothing more."""
        self.close()

    def forked(self) -> None:
        """Take nothing in a child process: what waits is sent by the parent."""
        self.is_closed, self._is_crowded = True, False
        self.forget_ways()
        self._pending = []
