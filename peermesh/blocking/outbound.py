"""The way from threads into the mesh: a queue that crosses threads in batches."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Final

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

PENDING_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes between the threads above which publishers wait."""

WAYS_MAX: Final = 4_096
"""Topics remembered as checked; they begin anew beyond."""

Way = tuple[str, PackedType, "EndpointId | None"]


class Outbound:
    """What threads have published and the loop has not taken yet."""

    def __init__(self, portal: Portal, publication: Publication) -> None:
        """Feed a publication that lives in the portal's thread."""
        self._portal = portal
        self._publication = publication
        self._pending: deque[tuple[Way, bytes]] = deque()
        self._ways: dict[Way, Way] = {}
        self._is_armed = False
        self._room = threading.Condition()
        self._waiters = 0
        self._work = trio.lowlevel.ParkingLot()
        self._put_bytes = 0
        self._taken_bytes = 0
        self._is_idle = True
        self.is_closed = False

    # In any thread.

    def publish(self, topic: str, data: Value, *, to: EndpointId | None = None) -> None:
        """Publish, waiting for room while too much waits already."""
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
        kind = PackedType.BYTES
        if type(data) is bytes:
            payload = data
        else:
            payload, kind = encode(data), PackedType.DATA
        size = len(payload)
        if size > PAYLOAD_SIZE_MAX:
            raise EncodeError(
                f"{size} bytes in one message; {PAYLOAD_SIZE_MAX} are allowed: publish it in parts"
            )
        way = self._ways.get((topic, kind, to)) or self._check((topic, kind, to))
        self._put_bytes += size
        self._pending.append((way, payload))
        if not self._is_armed:
            self._is_armed = True
            self._portal.soon(self._wake)

    def _check(self, way: Way) -> Way:
        if self.is_closed:
            raise EndpointClosed("the endpoint is closed")
        check_topic(way[0])
        if len(self._ways) >= WAYS_MAX:
            self._ways.clear()
        self._ways[way] = way
        return way

    def _is_full(self) -> bool:
        return (
            len(self._pending) > PENDING_MAX
            or self._put_bytes - self._taken_bytes > PENDING_BYTES_MAX
        )

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
            self._is_armed = False
            while not pending:
                self._is_idle = True
                await self._work.park()
                self._is_armed = False
            self._is_idle = False
            await self._take()
            if self._waiters and len(pending) * 2 < PENDING_MAX:
                with self._room:
                    self._room.notify_all()

    async def _take(self) -> None:
        """Hand over a batch, in runs of the same topic."""
        pending, publication = self._pending, self._publication
        taken = [pending.popleft() for _ in range(min(len(pending), 1024))]
        at = 0
        while at < len(taken):
            way = taken[at][0]
            end = at + 1
            while end < len(taken) and taken[end][0] is way:
                end += 1
            payloads = [payload for _, payload in taken[at:end]]
            await publication.publish_run(*way, payloads)
            self._taken_bytes += sum(map(len, payloads))
            at = end

    async def flush(self) -> None:
        """Wait until everything that was published has left for the peers' outboxes."""
        while self._pending or not self._is_idle:
            self._wake()
            await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Take nothing more, and wake who waits."""
        self.is_closed = True
        self._ways.clear()
        with self._room:
            self._room.notify_all()
