"""Carries messages between one WebSocket and the mesh, both ways, until one of them ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection
from wsproto.utilities import ProtocolError

from endpoint.pubsub.gateway_client import GatewayClient
from endpoint.pubsub.messages import Missed
from endpoint.pubsub.queueing import Overflow, Queueing
from peermesh.gateways.websocket.limits import (
    CLOSE_SECONDS,
    PING_SECONDS,
    QUEUE_BYTES,
    QUEUE_SIZE,
    STALL_SECONDS,
    TEXT_SIZE_MAX,
)
from peermesh.gateways.websocket.mapping import members
from peermesh.gateways.websocket.session import (
    Refused,
    Session,
    Told,
    dropped_message,
    message,
)
from wire.errors import EndpointClosed
from wire.logs import logger_of
from wire.values import Value

logger = logger_of("peermesh.gateways.websocket")

QUEUEING = Queueing(Overflow.DROP_OLDEST, QUEUE_SIZE, QUEUE_BYTES)
"""What waits for a connection: no publisher ever does."""

LOOKS: Final = 4
"""Looks in ``STALL_SECONDS``, after which a connection that takes nothing is cut off."""

FAULTS: Final = (
    ConnectionClosed,
    trio.BrokenResourceError,
    ProtocolError,  # of wsproto, such as for a ping while the connection is being closed
    UnicodeError,  # of a Host that is no name; wsproto lets it through
)
"""What the library raises for what the other side does: no mistake of ours."""

NORMAL, LEAVING, MISUSED = 1000, 1001, 1008
"""Codes of closing frames (RFC 6455, 7.4.1)."""


@dataclass(slots=True)
class Counts:
    """What the connections of a gateway or link have done so far."""

    received: int = 0
    """Messages that were published."""
    sent: int = 0
    dropped: int = 0
    """Messages that waited too long for a connection, or were too long for it."""
    refused: Counter[str] = field(default_factory=Counter)
    """Inputs, connections and requests that were refused, by kind."""


class Carrier:
    """One connection at work, after both first frames."""

    def __init__(
        self,
        socket: WebSocketConnection,
        session: Session,
        client: GatewayClient,
        counts: Counts,
        tell: Callable[[str], object] | None = None,
    ) -> None:
        """Carry for ``client``.

        The serving side sends error messages; the dialling side has none to send, and has errors
        told to ``tell``.
        """
        self._socket = socket
        self._session = session
        self._client = client
        self._counts = counts
        self._tell = tell
        self._scope = trio.CancelScope()
        self._ending = NORMAL, ""
        self._sending = 0
        """Messages under way: one of each direction at most, as what was refused is told, too."""
        self._taken = 0
        """Messages that the other side has taken, or its system."""

    def end(self, code: int, reason: str) -> None:
        """Have the connection closed, with a code and a reason."""
        self._ending = code, reason
        self._scope.cancel()

    async def run(self) -> str:
        """Carry until one side ends; say why it did. The caller closes the stream."""
        gone = ""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._ping)
                    nursery.start_soon(self._watch)
                    nursery.start_soon(self._send_all)
                    await self._receive_all()
        except* ConnectionClosed:
            gone = "the other side closed the connection"
        except* trio.TooSlowError:
            self._counts.refused["stalled"] += 1
            gone = f"nothing was taken for {STALL_SECONDS:g} s"
        except* EndpointClosed:
            self._ending = LEAVING, "the endpoint is closed"
        if gone:
            return gone
        code, reason = self._ending
        with trio.move_on_after(CLOSE_SECONDS):
            await self._socket.aclose(code, reason)
        return reason

    async def _receive_all(self) -> None:
        session, may_tell = self._session, self._tell is not None
        while not session.is_over:
            frame = await self._socket.get_message()
            try:
                found = session.receive(frame, may_tell=may_tell)
            except Refused as refused:
                self._counts.refused["input"] += 1
                await self._complain(str(refused))
                continue
            if isinstance(found, Told):
                await self._complain(f"{found.code}: {found.context}")
            else:
                await self._client.publish(*found)
                self._counts.received += 1
        self.end(MISUSED, "too many inputs in a row were refused")

    async def _send_all(self) -> None:
        async for topic, found in self._client.subscriber:
            shown = self._members(found)
            if shown is None:
                count = found.count if isinstance(found, Missed) else 1
                self._counts.dropped += count
                await self._complain(dropped_message(count))
            else:
                await self._send(message(topic, shown))
                self._counts.sent += 1
        self.end(LEAVING, "the endpoint is closed")

    @staticmethod
    def _members(found: Value | Missed) -> str | None:
        """Give a value's members; ``None`` for what is missing, and for what is too long."""
        if isinstance(found, str):
            return found
        if isinstance(found, bytes) and len(found) <= TEXT_SIZE_MAX:
            return members(found)
        return None

    async def _ping(self) -> None:
        """Notice when the other side is gone without a word."""
        while True:
            await trio.sleep(PING_SECONDS)
            with trio.fail_after(STALL_SECONDS):
                await self._socket.ping()

    async def _complain(self, text: str) -> None:
        if self._tell is None:
            await self._send(text)
        else:
            self._tell(text)

    async def _send(self, text: str) -> None:
        self._sending += 1
        await self._socket.send_message(text)
        self._sending -= 1
        self._taken += 1

    async def _watch(self) -> None:
        """Notice that nothing is taken any more; a limit for each message would cost more."""
        taken, since = self._taken, trio.current_time()
        while True:
            await trio.sleep(STALL_SECONDS / LOOKS)
            now = trio.current_time()
            if not self._sending or self._taken != taken:
                taken, since = self._taken, now
            elif now - since >= STALL_SECONDS:
                raise trio.TooSlowError
