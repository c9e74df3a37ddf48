"""A peer that says whatever a test likes: raw frames over a real socket, after a handshake or not.

An endpoint of ours cannot lie, so that nobody would know how the others take it. This one shakes
hands as a good peer does, if it is to, and from then on nothing holds it back::

    async with open_hostile(("127.0.0.1", port)) as peer:
        await peer.send(peer.node("/topic", encode(1), sender=somebody_else))
        assert await peer.receive_some(DropConn) is not None
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

from handshake.credentials import Credentials
from handshake.directory import ConnectionId, PeerDirectory
from handshake.effects import Effect, Established, Failed, Redundant, Send
from handshake.machine import Handshake
from wire.clocks import LamportTime, VectorTime
from wire.codec import decode_control, encode_control, encode_header
from wire.errors import PeerUnavailable
from wire.framing import (
    ControlFrame,
    FrameDecoder,
    NodeFrame,
    encode_control as frame_control,
    encode_node,
    encode_preamble,
)
from wire.identifiers import EndpointId
from wire.limits import FRAME_SIZE_MAX, TTL_DEFAULT
from wire.messages import (
    Announcement,
    ControlMessage,
    DropConn,
    Hello,
    NodeHeader,
    OriginatorAck,
    OriginatorSyn,
    PackedType,
    Preamble,
    ResponderSynAck,
)

__all__ = ["SMALL_ID", "DropConn", "HostilePeer", "encoded", "open_hostile"]

SMALL_ID: Final = EndpointId(bytes(15) + b"\x01")
"""An id that originates with everybody else's."""

RECEIVE_SIZE: Final = 65_536

Said = bytes | Preamble | ControlMessage
"""What can be sent: bytes as they are, and messages, which are framed."""

Heard = Preamble | ControlMessage | NodeFrame
"""What is received."""

Verdict = Established | Redundant | Failed
"""What becomes of a handshake."""

_HANDSHAKE_MESSAGES = Preamble | Hello | OriginatorSyn | ResponderSynAck | OriginatorAck | DropConn
_HeardT = TypeVar("_HeardT")


class HostilePeer:
    """One connection to an endpoint, byte for byte in the hands of a test. See ``open_hostile``."""

    def __init__(self, stream: trio.abc.Stream, local: EndpointId) -> None:
        """Own the stream, and call oneself ``local``."""
        self.stream = stream
        self.local = local
        self.remote: EndpointId | None = None
        """Whom the handshake found."""
        self.subscriptions: tuple[str, ...] = ("",)
        """What it announces to want, in a handshake and by ``about``."""
        self.announcements: tuple[Announcement, ...] = ()
        """What else it says of the mesh in a handshake."""
        self.sequence = 0
        """The number of the next frame from ``node``, unless that is told another one."""
        self._decoder = FrameDecoder()
        self._machine: Handshake | None = None

    # What the handshake asks for.

    def knowledge(self) -> VectorTime:
        """Say that one knows oneself."""
        return VectorTime({self.local: LamportTime(1)})

    def news_for(self, knowledge: VectorTime) -> tuple[Announcement, ...]:
        """Announce oneself as linked with the peer, and whatever else a test made up."""
        assert self._machine is not None
        assert self._machine.peer is not None
        return (self.about(self.local, links=(self._machine.peer,)), *self.announcements)

    def about(
        self,
        origin: EndpointId,
        time: int = 1,
        links: tuple[EndpointId, ...] = (),
        stores: tuple[str, ...] = (),
    ) -> Announcement:
        """Make an announcement in the name of anybody."""
        return Announcement(
            origin, LamportTime(time), links, self.subscriptions, stores, forwarding=True
        )

    # Saying.

    async def send(self, *said: Said) -> None:
        """Send all of this; raises ``trio.BrokenResourceError`` when the other side has had it."""
        await self.stream.send_all(b"".join(map(encoded, said)))

    async def drip(self, said: Said, size: int = 1) -> None:
        """Send this in pieces of so many bytes, each in a packet of its own."""
        data = encoded(said)
        for at in range(0, len(data), size):
            await self.stream.send_all(data[at : at + size])
            await trio.lowlevel.checkpoint()

    def node(
        self,
        topic: str,
        *payloads: bytes,
        sender: EndpointId | None = None,
        to: EndpointId | None = None,
        kind: PackedType = PackedType.BYTES,
        sequence: int | None = None,
        ttl: int = TTL_DEFAULT,
    ) -> bytes:
        """Make a frame of messages, in the name of anybody, with any number."""
        if sequence is None:
            sequence, self.sequence = self.sequence, self.sequence + len(payloads)
        sender = sender or self.local
        headers = (encode_header(NodeHeader(kind, sender, to, topic)),)
        return b"".join(encode_node(sender, ttl, sequence, headers, b"", payloads)[0])

    # Hearing.

    async def receive(self) -> Heard | None:
        """Give the next message, or ``None`` at the end of the connection."""
        while (frame := self._decoder.next_frame()) is None:
            try:
                chunk = await self.stream.receive_some(RECEIVE_SIZE)
            except trio.BrokenResourceError:
                return None
            if not chunk:
                return None
            self._decoder.feed(bytes(chunk))
        if isinstance(frame, ControlFrame):
            return decode_control(frame.kind, frame.body)
        return frame

    async def receive_some(self, wanted: type[_HeardT]) -> _HeardT | None:
        """Give the next message of a class, skipping others; ``None`` at the end."""
        while (message := await self.receive()) is not None:
            if isinstance(message, wanted):
                return message
        return None

    async def greet(self) -> Verdict | None:
        """Shake hands as a good peer does; ``None`` if the connection ended in the middle."""
        self._machine = machine = Handshake(
            connection=ConnectionId(1),
            dialled=True,
            directory=PeerDirectory(self.local),
            source=self,
        )
        verdict = await self._carry_out(machine.start())
        while verdict is None and (message := await self.receive()) is not None:
            assert isinstance(message, _HANDSHAKE_MESSAGES), message
            verdict = await self._carry_out(machine.receive(message))
        return verdict

    async def _carry_out(self, effects: Iterable[Effect]) -> Verdict | None:
        verdict: Verdict | None = None
        for effect in effects:
            if isinstance(effect, Send):
                await self.send(effect.message)
            elif isinstance(effect, Verdict):
                verdict = effect
            if isinstance(effect, Established):
                self.remote = effect.peer
                self._decoder.size_max = FRAME_SIZE_MAX
        return verdict


def encoded(said: Said) -> bytes:
    """Give the bytes that a peer sends for this."""
    if isinstance(said, bytes):
        return said
    if isinstance(said, Preamble):
        return encode_preamble(said)
    return frame_control(*encode_control(said))


@asynccontextmanager
async def open_hostile(
    address: tuple[str, int],
    local: EndpointId = SMALL_ID,
    *,
    greets: bool = True,
    subscriptions: tuple[str, ...] = ("",),
    announcements: tuple[Announcement, ...] = (),
    credentials: Credentials | None = None,
) -> AsyncIterator[HostilePeer]:
    """Dial an endpoint as ``local``, by TLS with ``credentials``, and shake hands unless told not.

    Raises ``OSError``, and ``PeerUnavailable`` where the handshake came to nothing.
    """
    stream: trio.abc.Stream = await trio.open_tcp_stream(*address)
    if credentials is not None:
        context = credentials.client_context()
        stream = trio.SSLStream(stream, context, https_compatible=True)
    async with stream:
        peer = HostilePeer(stream, local)
        peer.subscriptions, peer.announcements = subscriptions, announcements
        if greets:
            verdict = await peer.greet()
            if not isinstance(verdict, Established):
                raise PeerUnavailable(f"{address} did not shake hands: {verdict}")
        yield peer
