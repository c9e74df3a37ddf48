"""Lets clients in at the ports of a broker, and tells them what their roles do not permit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import trio

from endpoint.port_access import PortAccess
from handshake.access import Access, Port, Thing
from handshake.principals import Principal
from net.acceptor import Acceptor, Arrival
from net.network import Network
from peermesh.brokers.edge.access import ENTER
from peermesh.brokers.edge.line import Line, open_budget
from peermesh.brokers.edge.messages import ControlMessage, Denied, Hello, Welcome, expect
from wire.errors import MeshError, NotAllowed
from wire.framing import NodeFrame
from wire.logs import logger_of

logger = logger_of("peermesh.brokers.edge")


class Badge:
    """Who is at a port, by proof, and what its role permits there."""

    def __init__(self, access: Access, principal: Principal) -> None:
        self._access = access
        self.principal = principal

    def objection(self, verb: str, thing: Thing) -> str | None:
        """Say why something is not permitted; ``None`` if it is."""
        try:
            self._access.check(self.principal, verb, thing)
        except NotAllowed as error:
            return str(error)
        return None


class Visitor(ABC):
    """A client at a port: it says first who it is, and whether it is at the right place."""

    def __init__(self, line: Line, badge: Badge, entrance: Thing) -> None:
        """Serve the client at the other end of a line, if its role lets it in to ``entrance``."""
        self.line: Final = line
        self.badge: Final = badge
        self._entrance = entrance
        self.prove: Callable[[], object] = bool
        """Called when it has said what it came for."""
        self._is_known = False

    @abstractmethod
    def greet(self, hello: Hello) -> Welcome:
        """Answer its first message; raises ``RemoteProtocolError`` if it is wrong here."""

    @abstractmethod
    def heed(self, message: NodeFrame | ControlMessage) -> None:
        """Do as any other message says; raises ``MeshError``, which ends the connection."""

    @abstractmethod
    def review(self) -> None:
        """End what the roles no longer permit, other than to be here."""

    def hear(self, message: NodeFrame | ControlMessage) -> None:
        """Let it in or refuse it by its first message, and heed the others."""
        if self._is_known:
            self.heed(message)
            return
        welcome = self.greet(expect(message, Hello))
        if (why := self.badge.objection(ENTER, self._entrance)) is not None:
            self.line.tell(Denied("", 0, 0, why))
            raise NotAllowed(why)
        self._is_known = True
        self.line.welcome()
        self.prove()
        self.line.tell(welcome)

    def recheck(self) -> None:
        """The roles have changed: end what they no longer permit."""
        if not self._is_known:
            return
        if (why := self.badge.objection(ENTER, self._entrance)) is None:
            self.review()
            return
        self.line.tell(Denied("", 0, 0, why))
        self.line.refuse(why)


Receive = Callable[[Line, Badge, Arrival], AbstractAsyncContextManager[Visitor]]


class Reception:
    """Serves the clients of some ports: a broker's, or the one of its registry."""

    def __init__(
        self,
        network: Network,
        guard: PortAccess,
        port: Port,
        *,
        members_max: int,
        is_open: Callable[[], bool] = lambda: True,
    ) -> None:
        """Let up to ``members_max`` clients in, by the roles of ``guard``.

        Those that come while it is not open are cut off.
        """
        self.visitors: dict[int, Visitor] = {}
        """By the numbers of their lines."""
        self._is_open = is_open
        self._network = network
        self._guard = guard
        self._access = guard.access_of(port)
        self._acceptor = Acceptor(network, members_max=members_max)
        self._unfinished = open_budget()
        guard.on_change.append(self._recheck)

    def _recheck(self) -> None:
        for visitor in list(self.visitors.values()):
            visitor.recheck()

    async def serve(
        self, listeners: list[trio.SocketListener], receive: Receive, nursery: trio.Nursery
    ) -> None:
        """Serve a port until cancelled: each client in the block that ``receive`` gives."""

        async def handle(arrival: Arrival) -> None:
            if self._is_open():
                await self._serve_one(arrival, receive)

        await self._acceptor.serve(listeners, handle, nursery.start_soon)

    async def _serve_one(self, arrival: Arrival, receive: Receive) -> None:
        try:
            transport = await arrival.transport()
            badge = Badge(self._access, self._network.principal(transport))
            line = Line(transport, is_stranger=True, unfinished=self._unfinished)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, MeshError) as error:
            logger.info("a client at %s was refused: %s", arrival.address, error)
            return
        self._guard.refresh()
        arrival.farewell = line.refuse
        try:
            async with receive(line, badge, arrival) as visitor:
                visitor.prove = arrival.prove
                self.visitors[line.number] = visitor
                try:
                    await line.serve(visitor.hear)
                finally:
                    del self.visitors[line.number]
        except Exception:
            logger.exception("a client at %s failed; all others go on", arrival.address)
