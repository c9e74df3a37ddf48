"""The way from threads into the mesh: a queue that crosses threads in batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

import trio

from endpoint import arguments
from endpoint.arguments import NodeId
from endpoint.pubsub.publishing import Publication, no_pair
from peermesh.blocking.living import Passage
from wire.encoding import encode
from wire.errors import EncodeError, NotAllowed, OutboxFull
from wire.identifiers import EndpointId
from wire.limits import PAYLOAD_SIZE_MAX
from wire.logs import logger_of
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

TAKE_COUNT: Final = 4_096
"""Messages that the loop takes before it looks after anything else."""

Way = tuple[str, PackedType, "EndpointId | None"]

_NOWHERE: Final[Way] = ("<$>", PackedType.BYTES, None)
"""The way of nothing: no message goes to a reserved topic."""

logger = logger_of("peermesh")


class Outbound:
    """What threads have published and the loop has not taken yet."""

    def __init__(
        self, passage: Passage, publication: Publication, allow: Callable[[str], object]
    ) -> None:
        """Feed a publication that lives in the portal's thread.

        ``allow`` raises ``NotAllowed`` for a topic that this endpoint may not publish on.
        """
        self._passage = passage
        self._soon = passage.soon
        self._wake_up = passage.guarded(self._wake)
        self._publication = publication
        self._allow = allow
        self._pending: list[Way | bytes] = []
        """Ways and payloads in turn. Threads extend it and the loop cuts off its front, each in one
        step of the interpreter: so that neither needs a lock, and nothing is done per message."""
        self._ways: dict[Way, Way] = {}
        self._is_armed = False
        self._room = threading.Condition()
        self._waiters = 0
        self._work = trio.lowlevel.ParkingLot()
        self._last_way = _NOWHERE
        """Where bytes went last: a message that is alike needs no look-up."""
        self._counting = threading.Lock()
        self._large_bytes = 0
        """What waits of large messages; changed under the lock, with the next."""
        self._is_crowded = False
        self._is_idle = True
        self._pumping = trio.CancelScope()
        self.is_closed = False
        passage.hold(self)

    # In any thread.

    def publish(self, topic: str, data: Value, *, to: NodeId | None = None) -> None:
        """Publish, waiting for room while too much waits already; see ``peermesh.Endpoint``."""
        way = self._last_way
        if type(data) is bytes and topic == way[0] and to is None:
            # The straight way for one more message like the last one.
            if len(data) >= SMALL_SIZE:
                self._count(len(data))
            pending = self._pending
            pending.extend((way, data))
            if not self._is_armed:
                self._is_armed = True
                self._soon(self._wake_up)
            if len(pending) > PENDING_MAX * 2 or self._is_crowded:
                self._wait_for_room()
            return
        self._put(topic, data, to)
        if self._is_full():
            self._wait_for_room()

    def publish_nowait(self, topic: str, data: Value, *, to: NodeId | None = None) -> None:
        """Publish without waiting, or raise ``OutboxFull``; then nothing was sent."""
        if self._is_full():
            raise OutboxFull("too much waits to be sent: publish() waits for room, or publish less")
        self._put(topic, data, to)

    def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in order."""
        for pair in batch:
            try:
                topic, data = pair
            except (TypeError, ValueError):
                raise no_pair(pair) from None
            if isinstance(pair, str):  # Two characters are a pair, too.
                raise no_pair(pair)
            self._put(topic, data, None)
            if self._is_full():
                self._wait_for_room()

    def _put(self, topic: str, data: Value, to: NodeId | None) -> None:
        way = self._last_way
        if type(data) is bytes and topic == way[0] and to is None:
            payload = data
        else:
            way, payload = self._way(topic, data, to)
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
        way = self._ways.get((topic, kind, receiver)) or self._check((topic, kind, receiver))
        if kind is PackedType.BYTES and receiver is None:
            self._last_way = way
        return way, payload

    def _check(self, way: Way) -> Way:
        if self.is_closed:
            raise self._passage.error()
        self._allow(check_topic(way[0]))
        if len(self._ways) >= WAYS_MAX:
            self._ways.clear()
        self._ways[way] = way
        return way

    def _is_full(self) -> bool:
        return len(self._pending) > PENDING_MAX * 2 or self._is_crowded

    def _wait_for_room(self) -> None:
        with self._room:
            self._waiters += 1
            try:
                while self._is_full() and not self.is_closed:
                    self._room.wait()
            finally:
                self._waiters -= 1
        if self.is_closed:
            raise self._passage.error()

    # In the portal's thread.

    def _wake(self) -> None:
        self._work.unpark_all()

    async def pump(self) -> None:
        """Take what the threads publish, until it is closed."""
        with self._pumping:
            while True:
                await self._wait_for_work()
                self._is_idle = False
                await self._take()
                self._make_room()

    async def _wait_for_work(self) -> None:
        pending = self._pending
        while not pending:
            # The order matters: a thread looks at the flag after it has put a message in.
            self._is_armed = False
            if pending:
                break
            self._is_idle = True
            await self._work.park()

    async def _take(self) -> None:
        """Hand over a batch."""
        taken = self._pending[: TAKE_COUNT * 2]
        del self._pending[: len(taken)]
        self._make_room()
        await self._hand_over(cast("list[Way]", taken[::2]), cast("list[bytes]", taken[1::2]))

    def _make_room(self) -> None:
        """Wake what waits, once it is worth it: it fills up what is being handed over."""
        if self._waiters and len(self._pending) < PENDING_MAX and not self._is_crowded:
            with self._room:
                self._room.notify_all()

    async def _hand_over(self, ways: Sequence[Way], payloads: Sequence[bytes]) -> None:
        await self._publication.publish_all(ways, payloads, self._refuse)
        if self._large_bytes:  # Else there is no need to look at each of them.
            large = sum([size for size in map(len, payloads) if size >= SMALL_SIZE])
            with self._counting:
                self._large_bytes -= large
                self._is_crowded = self._large_bytes > LARGE_BYTES_MAX

    def _refuse(self, error: NotAllowed, count: int) -> None:
        """Say that messages were not published: it was allowed when they came."""
        logger.warning("%d messages were not published: %s", count, error)
        self._forget_ways()

    async def flush(self) -> None:
        """Wait until everything that was published has left for the peers' outboxes."""
        while self._pending or not self._is_idle:
            self._wake()
            await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Take nothing more, and wake what waits."""
        self.is_closed = True
        self._forget_ways()
        self._pumping.cancel()
        with self._room:
            self._room.notify_all()

    def _forget_ways(self) -> None:
        """Have the next message of each way checked again."""
        self._last_way = _NOWHERE
        self._ways.clear()

    # For the endpoint's life.

    def ended(self) -> None:
        """Take nothing more."""
        self.close()

    def forked(self) -> None:
        """Take nothing in a child process: what waits is sent by the parent."""
        self.is_closed, self._is_crowded = True, False
        self._forget_ways()
        self._pending = []
