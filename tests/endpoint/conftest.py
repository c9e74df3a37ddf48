"""A mesh of real sockets in one process, and a peer made of bare bytes that does what it likes."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from endpoint import Endpoint, StatusCode, Subscriber
from handshake.directory import ConnectionId, PeerDirectory
from handshake.effects import Established, Failed, Send
from handshake.machine import Handshake
from wire.clocks import LamportTime, VectorTime
from wire.codec import decode_control, encode_control, encode_header
from wire.framing import (
    ControlFrame,
    FrameDecoder,
    NodeFrame,
    encode_control as frame_control,
    encode_node,
    encode_preamble,
)
from wire.identifiers import EndpointId
from wire.limits import FRAME_SIZE_MAX
from wire.messages import Announcement, NodeHeader, PackedType, Preamble

# Endpoints of other processes that dial again may find that their port is ours now. On Linux each
# process can have a loopback address of its own.
_PID = os.getpid()
_IS_LINUX = sys.platform == "linux"
HOST = f"127.{_PID >> 16 & 127}.{_PID >> 8 & 255}.{_PID & 255 or 1}" if _IS_LINUX else "127.0.0.1"

PATIENCE_SECONDS = 20.0
"""How long a truth may take on a machine that has other things to do. Nothing waits so long."""

SMALL_ID = EndpointId(bytes(15) + b"\x01")
GREAT_ID = EndpointId(b"\xff" * 16)


async def until(is_true: Callable[[], object]) -> None:
    """Let everybody work until something is true, as long as the test may take."""
    while not is_true():
        await trio.lowlevel.checkpoint()


def distances(root: int, links: list[tuple[int, int]]) -> dict[int, int]:
    found, frontier = {root: 0}, deque([root])
    while frontier:
        here = frontier.popleft()
        for pair in links:
            if here in pair:
                there = pair[1] if pair[0] == here else pair[0]
                if there not in found:
                    found[there] = found[here] + 1
                    frontier.append(there)
    return found


async def gather(subscriber: Subscriber, count: int) -> list:
    return [await subscriber.get() for _ in range(count)]


class World:
    """Endpoints that live as long as the test's block."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.closing = trio.Event()
        self.ports: dict[Endpoint, int] = {}

    @property
    def endpoints(self) -> list[Endpoint]:
        return list(self.ports)

    async def add(self, **settings: object) -> Endpoint:
        """Start an endpoint that listens."""
        return await self.adopt(Endpoint(**settings))

    async def adopt(self, endpoint: Endpoint) -> Endpoint:
        """Start an endpoint that was made already, and have it listen."""
        await self._nursery.start(self._live, endpoint)
        self.ports[endpoint] = await endpoint.listen(HOST)
        return endpoint

    async def _live(self, endpoint: Endpoint, task_status: trio.TaskStatus) -> None:
        async with endpoint:
            task_status.started()
            await self.closing.wait()

    async def grow(self, count: int, links: Iterable[tuple[int, int]]) -> list[Endpoint]:
        """Start endpoints, and peer them all at once."""
        fresh = [await self.add() for _ in range(count)]
        async with trio.open_nursery() as nursery:
            for left, right in links:
                nursery.start_soon(self.peer, fresh[left], fresh[right])
        return fresh

    async def peer(self, left: Endpoint, right: Endpoint) -> None:
        assert await left.peer(HOST, self.ports[right])

    async def known(self) -> None:
        """Wait until everybody knows everybody, with all that they want."""
        everybody = self.endpoints
        digests = lambda: {endpoint.loop.core.digest() for endpoint in everybody}  # noqa: E731 - it is asked again and again
        await until(lambda: len(digests()) == 1)


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            world = World(nursery)
            try:
                yield world
            finally:
                world.closing.set()


class RawPeer:
    """A connection under the test's control, byte for byte."""

    def __init__(self, stream: trio.SocketStream, local: EndpointId) -> None:
        self.stream = stream
        self.local = local
        self.remote: EndpointId | None = None
        self.decoder = FrameDecoder()
        self.subscriptions: tuple[str, ...] = ("",)
        self.announcements: tuple[Announcement, ...] = ()
        self.handshake: Handshake | None = None
        self.sequence = 0

    # What the handshake asks for.

    def knowledge(self) -> VectorTime:
        return VectorTime({self.local: LamportTime(1)})

    def news_for(self, knowledge: VectorTime) -> tuple[Announcement, ...]:
        assert self.handshake is not None
        assert self.handshake.peer is not None
        return (self.about(self.local, links=(self.handshake.peer,)), *self.announcements)

    def about(
        self, origin: EndpointId, time: int = 1, links: tuple[EndpointId, ...] = ()
    ) -> Announcement:
        return Announcement(origin, LamportTime(time), links, self.subscriptions, (), True)

    # Bytes.

    async def send(self, *messages: object) -> None:
        await self.stream.send_all(b"".join(map(self.encoded, messages)))

    @staticmethod
    def encoded(message: object) -> bytes:
        if isinstance(message, bytes):
            return message
        if isinstance(message, Preamble):
            return encode_preamble(message)
        kind, body = encode_control(message)
        return frame_control(kind, body)

    def node(
        self,
        topic: str,
        *payloads: bytes,
        sender: EndpointId | None = None,
        to: EndpointId | None = None,
        kind: PackedType = PackedType.BYTES,
        sequence: int | None = None,
    ) -> bytes:
        """Make a node frame, from ourselves unless it is to be spoofed."""
        if sequence is None:
            sequence, self.sequence = self.sequence, self.sequence + 1
        header = encode_header(NodeHeader(kind, sender or self.local, to, topic))
        return b"".join(encode_node(header, 16, sequence, payloads)[0])

    async def receive(self) -> object:
        """Give the next message, or ``None`` at the end of the connection."""
        while (frame := self.decoder.next_frame()) is None:
            try:
                chunk = await self.stream.receive_some(65_536)
            except trio.BrokenResourceError:
                return None
            if not chunk:
                return None
            self.decoder.feed(chunk)
        return decode_control(frame.kind, frame.body) if type(frame) is ControlFrame else frame

    async def receive_some(self, wanted: type) -> object:
        """Give the next message of a class, skipping others; ``None`` at the end."""
        while (message := await self.receive()) is not None:
            if isinstance(message, wanted):
                return message
        return None

    async def greet(self) -> object:
        """Shake hands as a good peer does; give what became of it."""
        self.handshake = Handshake(
            connection=ConnectionId(1),
            dialled=True,
            directory=PeerDirectory(self.local),
            source=self,
        )
        verdict = await self._carry_out(self.handshake.start())
        while verdict is None and (message := await self.receive()) is not None:
            verdict = await self._carry_out(self.handshake.receive(message))
        return verdict

    async def _carry_out(self, effects: Iterable[object]) -> object:
        verdict = None
        for effect in effects:
            if isinstance(effect, Send):
                await self.send(effect.message)
            else:
                verdict = effect
            if isinstance(effect, Established):
                self.remote = effect.peer
                self.decoder.size_max = FRAME_SIZE_MAX
        return verdict


@asynccontextmanager
async def open_raw(
    endpoint: Endpoint,
    port: int,
    local: EndpointId = SMALL_ID,
    *,
    greets: bool = True,
    subscriptions: tuple[str, ...] = ("",),
    announcements: tuple[Announcement, ...] = (),
) -> AsyncIterator[RawPeer]:
    """Connect a raw peer, and shake hands unless it is not to."""
    stream = await trio.open_tcp_stream(HOST, port)
    async with stream:
        raw = RawPeer(stream, local)
        raw.subscriptions, raw.announcements = subscriptions, announcements
        if greets:
            verdict = await raw.greet()
            assert isinstance(verdict, Established), verdict
            await until(lambda: local in endpoint.loop.peerings)
        yield raw


class OwnedClock:
    """The watch of one endpoint in the test's hands: its seconds pass when the test says so."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._now = trio.current_time()
        self._peerings = endpoint.loop.peerings
        self._watch = endpoint.loop.watch
        endpoint.loop.watch = lambda now: None

    async def advance(self, seconds: int, *silent: EndpointId) -> None:
        """Let seconds pass, and in each the answers of all peers that are not silent."""
        for _ in range(seconds):
            connections = {
                each.connection: each.connection.bytes_received
                for each in self._peerings.values()
                if each.peer not in silent
            }
            self._now += 1.0
            self._watch(self._now)
            if silent:
                await trio.testing.wait_all_tasks_blocked()
            for connection, received in connections.items():
                while connection.peer and connection.bytes_received == received:
                    await trio.lowlevel.checkpoint()


async def events_until(status, *codes: StatusCode) -> list:
    """Give all events up to the first one with one of these codes."""
    events = [await status.get()]
    while events[-1].status not in codes:
        events.append(await status.get())
    return events


@pytest.fixture
def kit() -> SimpleNamespace:
    """Give what tests of the real engine share: they cannot import each other."""
    return SimpleNamespace(
        host=HOST,
        small_id=SMALL_ID,
        great_id=GREAT_ID,
        world=open_world,
        raw=open_raw,
        until=until,
        events_until=events_until,
        distances=distances,
        gather=gather,
        clock=OwnedClock,
        patience=PATIENCE_SECONDS,
        is_node=lambda message: isinstance(message, NodeFrame),
        is_refused=lambda verdict: isinstance(verdict, Failed),
    )
