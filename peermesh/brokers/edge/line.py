"""A connection between a client and the broker: frames in, frames out, a beat that shows life."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

import trio

from endpoint.surroundings import surroundings
from handshake.credentials import Credentials
from net.network import Network
from net.transport import Transport
from peermesh.brokers.edge import messages
from peermesh.brokers.edge.messages import Beat, ControlMessage, Refused
from peermesh.brokers.unfinished import Unfinished
from wire.errors import ErrorCode, MeshError, RemoteProtocolError
from wire.framing import (
    VERSION_MAX,
    VERSION_MIN,
    ControlFrame,
    FrameDecoder,
    NodeFrame,
    encode_preamble,
)
from wire.limits import FRAME_SIZE_MAX, KIB, MIB
from wire.logs import logger_of
from wire.messages import Preamble

logger = logger_of("peermesh.brokers.edge")

BEAT_SECONDS: Final = 1.0
"""How often something is sent, if only a beat."""

SILENCE_SECONDS: Final = 5.0
"""After so long without a byte the other side is taken for dead."""

LOOKS: Final = 2
"""Waits that this is divided into. A process that was suspended finds the first one over, whatever
the other side sent; before the second one is over it has read what came."""

GREETING_SECONDS: Final = 5.0
"""How long a stranger may take to say who it is: its hello comes in one packet, or from nobody
good. Without this one byte in every silence would hold a connection for ever."""

GREETING_SIZE_MAX: Final = 128 * KIB
"""Bytes of one frame of a stranger: a hello with the longest topic fits twice."""

QUEUE_SIZE_MAX: Final = 256 * MIB
"""Bytes that may wait for a guest to read them: the windows of sixty topics that are all full.
Beyond, it asks without reading the answers, and its connection ends."""

UNFINISHED_SIZE_MAX: Final = 256 * MIB
"""Bytes of all frames that have not come wholly, and of requests that wait at the registry: sixteen
of the largest frames. Thousands of connections with one each would hold gigabytes. Beyond, the
connection that holds most is ended, and its client sends the frame again at the next one."""

FRAMES_AT_ONCE: Final = 256
"""Frames of one connection that are dealt with before others have their turn: some milliseconds.
What is received at once may be five thousand frames."""

UNFINISHED: Final = "too much has begun at this broker and not ended, most of it here: try again"
"""What a client is told that made room for others."""

Handler = Callable[[NodeFrame | ControlMessage], None]
"""What a message is given to; a beat is none."""

BEAT: Final = Beat()

_numbers = count(1)


def make_network(credentials: Credentials | None = None, *, allow_plain: bool = False) -> Network:
    """Make the rules for connections: TLS with credentials, plain TCP on loopback without.

    Plain TCP elsewhere has to be allowed by name.
    """
    return Network(
        credentials,
        allow_plain=allow_plain,
        make_transport=surroundings.get().make_transport,
        stakes="read and write the topics of this broker",
    )


def check_versions(theirs: Preamble) -> None:
    """Raise ``RemoteProtocolError`` if the other side speaks no version that this side speaks."""
    if theirs.version_max < VERSION_MIN or theirs.version_min > VERSION_MAX:
        raise RemoteProtocolError(
            f"no common version of the protocol: one side speaks {theirs.version_min} to"
            f" {theirs.version_max}, the other one {VERSION_MIN} to {VERSION_MAX}; upgrade the"
            " older one",
            ErrorCode.PEER_INCOMPATIBLE,
        )


def _deal_with(frame: NodeFrame | ControlFrame | Preamble, handle: Handler) -> None:
    if isinstance(frame, NodeFrame):
        handle(frame)
    elif isinstance(frame, Preamble):
        check_versions(frame)
    elif (message := messages.read(frame)) != BEAT:
        handle(message)


def next_number() -> int:
    """Give a number that no line has: what the cores know a connection by."""
    return next(_numbers)


def open_budget() -> Unfinished[Line]:
    """Give the budget of one broker, or of one port of the registry."""
    return Unfinished(UNFINISHED_SIZE_MAX)


class Line:
    """One connection. ``serve`` runs it; ``send`` may be called at any time, and never waits."""

    def __init__(
        self,
        transport: Transport,
        *,
        is_stranger: bool = False,
        unfinished: Unfinished[Line] | None = None,
    ) -> None:
        """Own the transport from now on.

        A stranger is short of time, of words and of room until ``welcome``; of room even then. The
        lines of one broker have a budget together for what is ``unfinished``.
        """
        self.number: Final = next_number()
        """What the cores know it by."""
        self.error: str | None = None
        """Why it ended."""
        self.pull: Callable[[], Iterable[bytes | memoryview]] | None = None
        """Asked, whenever the line is free, for what else is to be sent."""
        self._transport = transport
        self._is_stranger = is_stranger
        self._greeted_by = math.inf
        self._decoder = FrameDecoder(GREETING_SIZE_MAX if is_stranger else FRAME_SIZE_MAX)
        self._unfinished = unfinished or open_budget()
        self._waiting_size = 0
        self._queue_size = 0
        self._queue_size_max = QUEUE_SIZE_MAX if is_stranger else math.inf
        self._pieces: list[bytes | memoryview] = [
            encode_preamble(Preamble(VERSION_MIN, VERSION_MAX))
        ]
        self._wake = trio.Event()
        self._wake.set()
        self._scope = trio.CancelScope()
        self._is_ending = False
        self._is_idle = False
        self._flushed = trio.lowlevel.ParkingLot()

    def welcome(self) -> None:
        """The other side has said who it is: from now on it may take its time, and say more."""
        self._is_stranger = False
        self._greeted_by = math.inf
        self._decoder.size_max = FRAME_SIZE_MAX

    def send(self, data: bytes) -> None:
        """Send a frame, after what was sent before."""
        self._queue_size += len(data)
        if self._queue_size > self._queue_size_max:
            self._pieces.clear()
            self._end("it asks without reading the answers")
            return
        self._pieces.append(data)
        self._wake.set()

    def tell(self, message: ControlMessage) -> None:
        """Send a control message."""
        self.send(messages.write(message))

    def wake(self) -> None:
        """Have ``pull`` asked."""
        self._wake.set()

    def refuse(self, reason: str) -> None:
        """Say why, and end the connection."""
        self.error = self.error or reason
        self.tell(Refused(reason))
        self._is_ending = True

    @property
    def is_ending(self) -> bool:
        """Tell whether nothing more is taken in."""
        return self._is_ending

    def note_waiting(self, size: int) -> None:
        """Count so many bytes of requests, which wait to be dealt with, as unfinished."""
        self._waiting_size = size
        self._weigh()

    def _weigh(self) -> None:
        """Count what is unfinished here; end the line that holds most, if it is too much."""
        size = 0 if self._is_ending else self._decoder.held_size + self._waiting_size
        largest = self._unfinished.note(self, size)
        if largest is not None:
            largest.abandon(UNFINISHED)

    def abandon(self, reason: str) -> None:
        """Do as ``refuse``, and free what has come: the client may take long to hear of it."""
        self.refuse(reason)
        self._decoder = FrameDecoder()

    async def drain(self) -> None:
        """Wait until the system has what was sent, or the connection is lost."""
        while self._pieces or not self._is_idle:
            if self.error is not None:
                return
            await self._flushed.park()

    async def serve(self, handle: Handler) -> None:
        """Read and write until the connection ends; then ``error`` says why. Raises nothing."""
        if self._is_stranger:
            self._greeted_by = trio.current_time() + GREETING_SECONDS
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, nursery.cancel_scope)
                    await self._read(handle)
                    await trio.sleep(SILENCE_SECONDS)  # The writer may send a last word.
                    nursery.cancel_scope.cancel()
        except* Exception:
            # One connection must never be the end of all others.
            logger.exception("a connection failed; this is a bug")
        finally:
            self._unfinished.forget(self)
            self.error = self.error or "the connection was closed here"
            self._flushed.unpark_all()
            self._transport.close()

    async def _read(self, handle: Handler) -> None:
        frames = 0
        try:
            while True:
                chunk = await self._receive()
                if not chunk:
                    return self._end("the other side closed the connection, or fell silent")
                self._decoder.feed(chunk)
                while not self._is_ending and (frame := self._decoder.next_frame()) is not None:
                    _deal_with(frame, handle)
                    frames += 1
                    if not frames % FRAMES_AT_ONCE:
                        await trio.lowlevel.checkpoint()
                self._weigh()
                if self._is_ending:
                    return None
        except trio.BrokenResourceError as error:
            self._end(str(error))
        except MeshError as error:
            self.refuse(str(error))

    async def _receive(self) -> bytes:
        """Wait for bytes; give none if the other side is gone, silent, or late with its hello."""
        for _ in range(LOOKS):
            deadline = min(trio.current_time() + SILENCE_SECONDS / LOOKS, self._greeted_by)
            with trio.move_on_at(deadline):
                return await self._transport.receive()
        return b""

    def _end(self, reason: str) -> None:
        self.error = self.error or reason
        self._scope.cancel()

    async def _write(self, scope: trio.CancelScope) -> None:
        try:
            while True:
                with trio.move_on_after(BEAT_SECONDS):
                    await self._wake.wait()
                self._wake = trio.Event()
                if not await self._flush() and not self._is_ending:
                    await self._transport.send_pieces([messages.write(BEAT)])
                if self._is_ending and not self._pieces:
                    scope.cancel()
        except trio.BrokenResourceError as error:
            self._end(str(error))

    async def _flush(self) -> bool:
        has_sent = False
        self._is_idle = False
        while True:
            pieces, self._pieces = self._pieces, []
            if self.pull is not None:
                pieces += self.pull()
            if not pieces:
                self._is_idle = True
                self._flushed.unpark_all()
                return has_sent
            size = self._queue_size
            await self._transport.send_pieces(pieces)
            self._queue_size -= size
            has_sent = True
