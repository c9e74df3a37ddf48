"""A TCP link with faults: a proxy in front of any TCP service."""

from __future__ import annotations

import random
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from math import inf
from typing import Final

import trio

from handshake.exposure import check_plain
from peermesh.testing.conditions import HEALTHY, Conditions
from peermesh.testing.faults import (
    Direction,
    Duplication,
    LinkFault,
    Reordering,
    Reset,
    Unsupported,
    check,
)
from peermesh.testing.links.connection import Connection, break_off
from peermesh.testing.links.events import (
    ConnectionEnded,
    ConnectionJoined,
    ConnectionOpened,
    ConnectionRefused,
    ConnectionReset,
    FaultApplied,
    LinkEvent,
    LinkHealed,
    LinkStatistics,
)
from peermesh.testing.links.pipe import Pipe
from peermesh.testing.nurseries import open_serving_nursery

CONNECTIONS_MAX: Final = 400
"""Connections that stand at once; more are reset. Each takes two of the 1,024 files that a process
may open, as a rule, and up to twice the size of a pipe."""

BACKLOG: Final = 128
"""Connections that the system accepts ahead of us: tests like to dial all at once."""

WORLD: Final = "the link proxy"

_NO_PACKETS: Final = (
    "it passes on a stream of bytes, in which TCP has undone this already; network namespaces do"
    " it to real packets, the simulation to virtual ones"
)

Notice = Callable[[LinkEvent], None]
"""Hears of each event at once; it must not wait."""

_WAYS: Final = {
    Direction.FORTH: (Direction.FORTH,),
    Direction.BACK: (Direction.BACK,),
    Direction.BOTH: (Direction.FORTH, Direction.BACK),
}


class _Passage:
    """A connection from its acceptance on: waiting for its target, or standing."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.accepted_at = trio.current_time()
        self.scope = trio.CancelScope()
        self.connection: Connection | None = None


class Link:
    """The proxy: who connects to ``host`` and ``port`` reaches the target, through the faults.

    ``Direction.FORTH`` is from who dialled to the target. While a partition stands in either
    direction, new connections are accepted by the system, as a proxy cannot help, and reach the
    target only when it is healed, as the SYN that TCP sends again would.
    """

    target: tuple[str, int]
    """Where new connections lead to. May be changed: a service may restart elsewhere."""
    host: str
    """Where it listens."""
    port: int
    """Where it listens."""

    def __init__(self, target: tuple[str, int], *, seed: int, notice: Notice) -> None:
        """Lead to the target; ``open_link`` makes links."""
        self.target = target
        self.host = ""
        self.port = 0
        self._notice = notice
        self._nursery: trio.Nursery
        self._listeners: Sequence[socket.socket] = ()
        self._chance = random.Random(seed).random
        self._conditions = {Direction.FORTH: HEALTHY, Direction.BACK: HEALTHY}
        self._lifetime = inf
        self._passages: dict[int, _Passage] = {}
        self._passable = trio.Event()
        self._passable.set()
        self._accepted = self._refused = self._reset = 0
        self._past = {Direction.FORTH: (0, 0), Direction.BACK: (0, 0)}

    # What users do.

    async def apply(self, fault: LinkFault, *, direction: Direction = Direction.BOTH) -> None:
        """Have a fault stand from now on, in place of one of its kind; ``Reset`` strikes at once.

        Raises ``ValueError`` for a fault without sense, and ``Unsupported``.
        """
        check(fault)
        match fault:
            case Reset():
                if direction is not Direction.BOTH:
                    reason = "a connection breaks as a whole: Direction.BOTH"
                    raise Unsupported(WORLD, fault, reason)
                self._strike(fault)
            case Duplication() | Reordering():
                raise Unsupported(WORLD, fault, _NO_PACKETS)
            case _:
                for way in _WAYS[direction]:
                    self._change(way, self._conditions[way].with_fault(fault))
        self._notice(FaultApplied(fault, direction))
        await trio.lowlevel.checkpoint()

    async def heal(self, *, direction: Direction = Direction.BOTH) -> None:
        """Let no fault stand. What is on its way arrives at once."""
        if direction is Direction.BOTH:
            self._set_lifetime(inf)
        for way in _WAYS[direction]:
            self._change(way, HEALTHY)
        self._notice(LinkHealed(direction))
        await trio.lowlevel.checkpoint()

    def faults(self, direction: Direction) -> tuple[LinkFault, ...]:
        """Give what stands in a direction; of ``BOTH``, what stands in both."""
        first, *more = (self._conditions[way].faults() for way in _WAYS[direction])
        standing = tuple(fault for fault in first if all(fault in others for others in more))
        is_limited = direction is Direction.BOTH and self._lifetime < inf
        return (*standing, Reset(self._lifetime)) if is_limited else standing

    def statistics(self) -> LinkStatistics:
        """Count what happened so far."""
        forth, back = self._totals(Direction.FORTH), self._totals(Direction.BACK)
        return LinkStatistics(
            accepted=self._accepted,
            standing=len(self._passages),
            refused=self._refused,
            reset=self._reset,
            bytes_forth=forth[0],
            bytes_back=back[0],
            resends=forth[1] + back[1],
        )

    def _totals(self, way: Direction) -> tuple[int, int]:
        """Sum up the bytes and the resends of a direction, past connections and present ones."""
        size, resends = self._past[way]
        for passage in self._passages.values():
            if passage.connection is not None:
                lane = passage.connection.lane(way)
                size, resends = size + lane.bytes_passed, resends + lane.pipe.resends
        return size, resends

    # Conditions.

    def _change(self, way: Direction, conditions: Conditions) -> None:
        self._conditions[way] = conditions
        for passage in self._passages.values():
            if passage.connection is not None:
                passage.connection.lane(way).change(conditions)
        if not any(each.is_held for each in self._conditions.values()):
            self._passable.set()
        elif self._passable.is_set():
            self._passable = trio.Event()

    def _strike(self, fault: Reset) -> None:
        if fault.after_seconds is not None:
            self._set_lifetime(fault.after_seconds)
        else:
            self._accept_waiting()  # They stand already, for whoever has dialled.
            for passage in self._passages.values():
                passage.scope.cancel()

    def _set_lifetime(self, seconds: float) -> None:
        self._lifetime = seconds
        for passage in self._passages.values():
            passage.scope.deadline = passage.accepted_at + seconds

    # Connections.

    def start(self, listeners: Sequence[socket.socket], nursery: trio.Nursery) -> None:
        """Take in connections from now on, as tasks of this nursery."""
        self.host, self.port = listeners[0].getsockname()[:2]
        self._listeners = listeners
        self._nursery = nursery
        for listener in listeners:
            nursery.start_soon(self._accept_from, listener)

    async def _accept_from(self, listener: socket.socket) -> None:
        while True:
            await trio.lowlevel.wait_readable(listener)
            self._accept_waiting()

    def _accept_waiting(self) -> None:
        """Take in all connections that the system has accepted for us."""
        for listener in self._listeners:
            with suppress(BlockingIOError):
                while True:
                    sock, _ = listener.accept()
                    sock.settimeout(0)
                    self._admit(trio.socket.from_stdlib_socket(sock))

    def _admit(self, near: trio.socket.SocketType) -> None:
        if len(self._passages) >= CONNECTIONS_MAX:
            break_off(near)
            return
        self._accepted += 1
        passage = _Passage(self._accepted)
        passage.scope.deadline = passage.accepted_at + self._lifetime
        self._passages[passage.number] = passage
        self._notice(ConnectionOpened(passage.number))
        self._nursery.start_soon(self._serve, passage, near)

    async def _serve(self, passage: _Passage, near: trio.socket.SocketType) -> None:
        """Carry one connection from its acceptance to its end."""
        try:
            with passage.scope:
                if await self._carry(passage, near):
                    self._notice(ConnectionEnded(passage.number))
                    return
        finally:
            self._forget(passage)
            break_off(near)
        self._reset += 1
        self._notice(ConnectionReset(passage.number))

    async def _carry(self, passage: _Passage, near: trio.socket.SocketType) -> bool:
        far = await self._dial(passage)
        if far is None:
            return False
        pipes = [Pipe(each, self._chance) for each in self._conditions.values()]
        passage.connection = Connection(near, far.socket, (pipes[0], pipes[1]))
        self._notice(ConnectionJoined(passage.number))
        return await passage.connection.run()

    async def _dial(self, passage: _Passage) -> trio.SocketStream | None:
        await self._passable.wait()
        try:
            return await trio.open_tcp_stream(*self.target)
        except OSError as error:
            self._refused += 1
            self._notice(ConnectionRefused(passage.number, str(error)))
            return None

    def _forget(self, passage: _Passage) -> None:
        del self._passages[passage.number]
        for way, (size, resends) in self._past.items():
            if passage.connection is not None:
                lane = passage.connection.lane(way)
                self._past[way] = (size + lane.bytes_passed, resends + lane.pipe.resends)


def ignore(_: LinkEvent) -> None:
    """Keep no record."""


@asynccontextmanager
async def open_link(  # noqa: PLR0913 - five of them can be left out
    target_host: str,
    target_port: int,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    seed: int = 0,
    notice: Notice = ignore,
    allow_plain: bool = False,
) -> AsyncIterator[Link]:
    """Open a link to a TCP service: dial the link's ``host`` and ``port`` instead of the service's.

    ``port`` 0 lets the system choose. ``seed`` is that of jitter and losses. ``notice`` hears of
    each event. Leaving the block breaks the connections that stand. A link beyond loopback would
    let the network reach what may trust its own machine: that needs ``allow_plain``, and otherwise
    raises ``InsecureAddress``. Raises ``OSError`` if it cannot listen.
    """
    check_plain(host, allow_plain=allow_plain, stakes="reach the service behind the link")
    link = Link((target_host, target_port), seed=seed, notice=notice)
    with ExitStack() as stack:
        listeners = [stack.enter_context(each) for each in await _listen(host, port)]
        async with open_serving_nursery() as nursery:
            link.start(listeners, nursery)
            yield link


async def _listen(host: str, port: int) -> list[socket.socket]:
    """Listen at all addresses of a host, with sockets that can be asked without waiting."""
    listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    sockets = [socket.socket(fileno=each.socket.detach()) for each in listeners]
    for each in sockets:
        each.settimeout(0)
    return sockets
