"""One connection: a task that reads it and one that writes it. Decides nothing.

The connection knows bytes, frames and queues; what the frames mean is its loop's affair. Nothing
here waits for anything but the network, so that a slow peer holds up nobody else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Hashable
from functools import partial
from math import inf
from time import perf_counter, thread_time
from typing import Final, Protocol

import trio

from endpoint.link.busy_poll import CONVERSATION_SIZE, BusyPoll
from endpoint.link.data_queue import Outgoing, OverflowPolicy
from endpoint.link.limits import LinkLimits
from endpoint.link.link import Link
from endpoint.link.rates import PeerRates
from net.transport import Transport
from net.wakeup import Wakeup
from wire.codec import encode_control
from wire.errors import PeerNotTrusted, RemoteProtocolError
from wire.framing import (
    Frame,
    FrameDecoder,
    NodeFrame,
    encode_control as frame_control,
)
from wire.identifiers import EndpointId
from wire.limits import FRAME_SIZE_MIN
from wire.messages import ControlMessage

LAST_WORDS_SECONDS: Final = 1.0
"""How long a connection that we end may take to write what is queued, above all the reason."""


BURST_SIZE: Final = 4096
"""Bytes of one write that show that somebody publishes without a pause: the next is no reply."""


FRAMES_AT_ONCE: Final = 256
"""Frames of one connection that are taken in before other tasks have their turn: some milliseconds.
What is received at once may be five thousand frames."""


LONE_SECONDS: Final = 50e-6
"""A frame that is sent so long after the last one goes at once: it belongs to no burst, which would
be joined. A write costs a tenth of that."""


def framed(message: ControlMessage) -> bytes:
    """Encode a control message as a frame."""
    return frame_control(*encode_control(message))


class Host(Protocol):
    """What a connection needs of the loop that it belongs to."""

    turn: int
    """Grows whenever a task of the endpoint wakes up, so that a burst can be told from a reply."""
    busy_poll_seconds: float
    """How long a connection may look for an answer before it sleeps."""
    is_polling: bool
    """Whether one of the connections does: each look of another would make its looks rarer."""

    def receive_node(self, connection: Connection, frame: NodeFrame) -> None:
        """Take in a peer's messages; raises ``RemoteProtocolError`` if they break the protocol."""

    def receive(self, connection: Connection, frame: Frame) -> None:
        """Take in any other frame; raises ``RemoteProtocolError`` likewise."""

    def accuse(self, connection: Connection, error: RemoteProtocolError) -> None:
        """The peer broke the protocol: end the connection, and say why."""

    def settle(self, connection: Connection) -> float:
        """Everything that had come was taken in: answer, and grant credit.

        Gives the seconds for which nothing more should be read.
        """

    def rest(self) -> None:
        """Nothing more has come for now."""

    def relieve(self, connection: Connection) -> None:
        """What passes through to this peer has room again."""


class Connection:
    """The network side of one peering, or of one handshake."""

    def __init__(
        self,
        transport: Transport,
        host: Host,
        *,
        address: tuple[str, int] | None,
        dialled: bool,
        policy: OverflowPolicy,
        limits: LinkLimits,
    ) -> None:
        """Own the transport; ``dialled`` tells whether this side opened it."""
        self.transport = transport
        self.address = address
        self.certificate_name = transport.peer_name
        """What the other side's certificate calls it; ``None`` without TLS."""
        self.frame_size_max = FRAME_SIZE_MIN
        """Bytes of the largest frame that the other side takes; it says so in the handshake."""
        self.dialled = dialled
        self.decoder = FrameDecoder()
        self.link = Link(policy, limits)
        self.peer: EndpointId | None = None
        """The peer's id while the peering stands."""
        self.room = trio.lowlevel.ParkingLot()
        """Publishers that wait for the outbox."""
        self.ended = trio.Event()
        self.refusal: PeerNotTrusted | None = None
        """Why TLS ended it, if it did: a dialler hears of it only after TLS's handshake."""
        self.is_open = True
        self.bytes_received = 0
        self.messages_received = 0
        self.commands_received = 0
        """Bytes of store commands, which come without credit."""
        self.rates: PeerRates | None = None
        """Holds the peer to a limit of what it sends, if there is one; set by the host."""
        self.owner: object = None
        """The handshake or the peering that the connection serves now; set by the host."""
        self._host = host
        self._now = trio.lowlevel.current_clock().current_time
        self._work = Wakeup()
        self._is_ending = False
        self._is_mute = False
        self._alone_at = -inf
        """When something was sent last; unless the other side has sent messages since."""
        self._said = 0
        """Bytes sent at once since the other side spoke last: a request, or an answer."""
        self.busy_poll = BusyPoll(host.busy_poll_seconds if transport.polls else 0.0)
        self._scope = trio.CancelScope()

    @property
    def bytes_sent(self) -> int:
        """What the system has taken so far."""
        return self.transport.bytes_sent

    @property
    def acknowledged(self) -> int:
        """How much of it the peer's system has acknowledged."""
        return self.transport.bytes_sent - self.transport.unacknowledged()

    async def run(self) -> None:
        """Read and write until either side ends it."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    # The reader is what others wait for: nothing stands above it in its task.
                    nursery.start_soon(self._read_all, nursery.cancel_scope)
                    await self._write_all()
        except* trio.BrokenResourceError as broken:
            causes = [error.__cause__ for error in broken.exceptions]
            self.refusal = next((each for each in causes if isinstance(each, PeerNotTrusted)), None)
        finally:
            self.is_open = False
            self.transport.close()
            self._host.rest()
            self.room.unpark_all()
            self.ended.set()

    def end(self) -> None:
        """Take in nothing more; the last words are still written, for as long as that may take."""
        if not self.is_open:
            return
        self.is_open = False
        self._is_ending = True
        self._scope.deadline = trio.current_time() + LAST_WORDS_SECONDS
        if self._is_mute:
            self._scope.cancel()
        self.room.unpark_all()
        self.wake()

    @trio.lowlevel.enable_ki_protection  # As the task that it belongs to.
    async def _read_all(self, scope: trio.CancelScope) -> None:
        """Read to the end, which is that of the connection, too, once last words are written."""
        await self._read()
        if self._is_mute or not self._is_ending:
            scope.cancel()

    async def _read(self) -> None:
        host, decoder, frames = self._host, self.decoder, 0
        while chunk := await self._receive():
            host.turn += 1
            self._said = 0
            self.bytes_received += len(chunk)
            decoder.feed(chunk)
            try:
                while self.is_open and (frame := decoder.next_frame()) is not None:
                    if self.peer is not None and type(frame) is NodeFrame:
                        self._alone_at = -inf
                        host.receive_node(self, frame)
                    else:
                        host.receive(self, frame)
                    frames += 1
                    if frames == FRAMES_AT_ONCE:
                        frames = 0
                        await trio.lowlevel.checkpoint()
            except RemoteProtocolError as error:
                host.accuse(self, error)
            pause = host.settle(self)
            if not self.is_open:
                return
            if pause:
                await trio.sleep(pause)

    def _receive(self) -> Awaitable[bytes]:
        """Receive what comes next. Who never stays awake is not even asked whether that pays."""
        if self.transport.has_more:
            return self._receive_more()
        return self._receive_next() if self.busy_poll.seconds else self.transport.receive()

    async def _receive_more(self) -> bytes:
        """Receive what is there already, most likely; let others run before."""
        await trio.lowlevel.checkpoint()
        chunk = self.transport.receive_now()
        if chunk is None:
            self._host.rest()
            chunk = await self._receive()
        return chunk

    async def _receive_next(self) -> bytes:
        """Receive what is still to come: stay awake for it if that pays, or sleep."""
        host, busy_poll, transport = self._host, self.busy_poll, self.transport
        if not busy_poll.begin(perf_counter()) or host.is_polling:
            chunk = await transport.receive()
            busy_poll.slept(perf_counter(), self._said)
            return chunk
        host.is_polling, worked = True, thread_time()
        try:
            while busy_poll.may_look(perf_counter(), self._said):
                await trio.lowlevel.checkpoint()
                found = transport.receive_now()
                if found is not None:
                    busy_poll.found(perf_counter(), self._said, thread_time() - worked)
                    return found
        finally:
            host.is_polling = False
        return await transport.receive()

    async def _write_all(self) -> None:
        """Write until that fails: why, the reader finds out, who hears the other's last words."""
        try:
            await self._write()
        except trio.BrokenResourceError:
            self._is_mute = True
            if self._is_ending:
                self._scope.cancel()

    async def _write(self) -> None:
        link = self.link
        while True:
            while not link.is_sendable:
                if self._is_ending:
                    self._scope.cancel()
                await self._work.wait()
            link.is_writing = True
            sent_before = self.transport.bytes_sent
            await self.transport.send_pieces(link.take())
            link.is_writing = False
            if self.transport.bytes_sent - sent_before < BURST_SIZE:
                self._host.turn += 1
            else:
                self._said = CONVERSATION_SIZE  # Who streams does not wait for an answer.
                self._alone_at = self._now()
            if link.has_room:
                self.room.unpark_all()
            self._host.relieve(self)
            if link.is_sendable:
                await trio.lowlevel.checkpoint()

    # Sending.

    def say(self, message: ControlMessage, *key: Hashable) -> None:
        """Say a control message, ahead of all else; the latest of a kind and key is what counts.

        It is encoded when it is sent.
        """
        self.link.say((type(message), *key), partial(framed, message))
        self.wake()

    def answer(self, message: ControlMessage, *key: Hashable) -> None:
        """Say a message that others make us say: how many of them wait is limited."""
        self.link.pass_on((type(message), *key), framed(message))
        self.wake()

    def send_first(self, data: bytes) -> None:
        """Send bytes ahead of everything else."""
        self.link.put_rest(data)
        self.wake()

    def send_data(self, frame: Outgoing, *, forced: bool = False) -> None:
        """Queue a frame of messages."""
        self._alone_at = self._now()
        self.link.put(frame, forced=forced)
        self.wake()

    def send_command(self, frame: Outgoing) -> None:
        """Send store commands at once if nothing is before them, or queue them."""
        if self.may_send_now():
            self._send_now(b"".join(frame.pieces))
        else:
            self.link.command(frame)
            self.wake()

    def send_last(self, message: ControlMessage) -> None:
        """Queue a control message behind all data that was published before."""
        self.link.put(Outgoing([framed(message)], 0, 0, 0, own=True))
        self.wake()

    def wake(self) -> None:
        """There is something to write."""
        self._work.wake()

    def may_send_now(self) -> bool:
        """Tell whether a frame may skip the queue and the writer's task, to save a task switch.

        Only the first frame of a burst goes this way: the others are joined.
        """
        return (
            not self.link.is_writing
            and not self.link.has_backlog
            and self.transport.sends_now
            and self.is_open
            # A reply need not look at the clock, which is below zero until something was sent.
            and (self._alone_at < 0.0 or self._now() - self._alone_at >= LONE_SECONDS)
        )

    def send_single(self, frame: bytes) -> None:
        """Send a message at once; the caller has seen that it ``may_send_single``."""
        self.link.sent_alone(len(frame))
        self._send_now(frame)

    def may_send_single(self) -> bool:
        """Tell whether a message may be sent at once: there is credit for it, too."""
        return (
            self.link.is_free()
            and self.transport.sends_now
            and self.is_open
            and (self._alone_at < 0.0 or self._now() - self._alone_at >= LONE_SECONDS)
        )

    def _send_now(self, frame: bytes) -> None:
        self._said += len(frame)
        try:
            sent = self.transport.send_now(frame)
        except trio.BrokenResourceError:
            return  # The reader finds out; the message is lost with the connection.
        now = self._now  # A method of another object is found at half the cost by itself.
        self._alone_at = now()  # To send may take longer than LONE_SECONDS.
        if sent < len(frame):
            self.link.put_rest(frame[sent:])
            self.wake()
