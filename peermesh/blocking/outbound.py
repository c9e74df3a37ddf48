"""The way from threads into the mesh: a queue that crosses threads in batches."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, cast

import trio

from endpoint.publishing import Publication
from peermesh.blocking.portal import Portal
from wire.encoding import encode
from wire.errors import EncodeError, EndpointClosed, OutboxFull
from wire.identifiers import EndpointId
from wire.limits import PAYLOAD_SIZE_MAX
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

_WAY: Final = itemgetter(0)

Way = tuple[str, PackedType, "EndpointId | None"]

_NOWHERE: Final[Way] = ("<$>", PackedType.BYTES, None)
"""The way of nothing: nobody can publish on a reserved topic."""


class Outbound:
    """What threads have published and the loop has not taken yet."""

    def __init__(self, portal: Portal, publication: Publication) -> None:
        """Feed a publication that lives in the portal's thread."""
        self._portal = portal
        self._publication = publication
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
        self.is_closed = False

    # In any thread.

    def publish(self, topic: str, data: Value, *, to: EndpointId | None = None) -> None:
        """Publish, waiting for room while too much waits already."""
        way = self._last_way
        if type(data) is bytes and topic == way[0] and to is None:
            # The straight way for one more message like the last one.
            if len(data) >= SMALL_SIZE:
                self._count(len(data))
            pending = self._pending
            pending.extend((way, data))
            if not self._is_armed:
                self._is_armed = True
                self._portal.soon(self._wake)
            if len(pending) > PENDING_MAX * 2 or self._is_crowded:
                self._wait_for_room()
            return
        self._put(topic, data, to)
        if self._is_full():
            self._wait_for_room()

    def publish_nowait(self, topic: str, data: Value, *, to: EndpointId | None = None) -> None:
        """Publish, or raise ``OutboxFull``; then nobody got it."""
        if self._is_full():
            raise OutboxFull("too much waits to be sent: publish() waits for room, or publish less")
        self._put(topic, data, to)

    def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in order."""
        for topic, data in batch:
            self._put(topic, data, None)
            if self._is_full():
                self._wait_for_room()

    def _put(self, topic: str, data: Value, to: EndpointId | None) -> None:
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
            self._portal.soon(self._wake)

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

    def _way(self, topic: str, data: Value, to: EndpointId | None) -> tuple[Way, bytes]:
        if type(data) is bytes:
            payload, kind = data, PackedType.BYTES
        else:
            payload, kind = encode(data), PackedType.DATA
        way = self._ways.get((topic, kind, to)) or self._check((topic, kind, to))
        if kind is PackedType.BYTES and to is None:
            self._last_way = way
        return way, payload

    def _check(self, way: Way) -> Way:
        if self.is_closed:
            raise EndpointClosed("the endpoint is closed")
        check_topic(way[0])
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
            raise EndpointClosed("the endpoint was closed while publish() waited for room")

    # In the portal's thread.

    def _wake(self) -> None:
        self._work.unpark_all()

    async def pump(self) -> None:
        """Take what the threads publish, for ever."""
        pending = self._pending
        while True:
            while not pending:
                # The order matters: a thread looks at the flag after it has put a message in.
                self._is_armed = False
                if pending:
                    break
                self._is_idle = True
                await self._work.park()
            self._is_idle = False
            await self._take()
            self._make_room()

    async def _take(self) -> None:
        """Hand over a batch, in runs of the same topic."""
        taken = self._pending[: TAKE_COUNT * 2]
        del self._pending[: len(taken)]
        self._make_room()
        ways = cast("list[Way]", taken[::2])
        payloads = cast("list[bytes]", taken[1::2])
        if ways.count(ways[0]) == len(ways):
            await self._hand_over(ways[0], payloads)
            return
        for way, run in groupby(zip(ways, payloads, strict=True), key=_WAY):
            await self._hand_over(way, [payload for _, payload in run])

    def _make_room(self) -> None:
        """Wake who waits, once it is worth it: they fill up what is being handed over."""
        if self._waiters and len(self._pending) < PENDING_MAX and not self._is_crowded:
            with self._room:
                self._room.notify_all()

    async def _hand_over(self, way: Way, payloads: Sequence[bytes]) -> None:
        topic, kind, to = way
        await self._publication.publish_run(topic, kind, to, payloads)
        if self._large_bytes:  # Else there is no need to look at each of them.
            large = sum([size for size in map(len, payloads) if size >= SMALL_SIZE])
            with self._counting:
                self._large_bytes -= large
                self._is_crowded = self._large_bytes > LARGE_BYTES_MAX

    async def flush(self) -> None:
        """Wait until everything that was published has left for the peers' outboxes."""
        while self._pending or not self._is_idle:
            self._wake()
            await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Take nothing more, and wake who waits."""
        self.is_closed = True
        self._last_way = _NOWHERE
        self._ways.clear()
        with self._room:
            self._room.notify_all()
