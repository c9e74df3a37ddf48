"""The registry's own port: the tree of ``embedded`` for clients that are not in the mesh."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from endpoint.port_access import PortAccess
from endpoint.shielding import shielded
from handshake.access import StoreOf
from net.acceptor import Arrival
from net.network import Network
from peermesh.brokers.edge.access import REGISTRY, STORE, demand
from peermesh.brokers.edge.embedded import EmbeddedTree, Session
from peermesh.brokers.edge.errors import RegistryError
from peermesh.brokers.edge.line import SILENCE_SECONDS, Line
from peermesh.brokers.edge.messages import (
    Answer,
    Ask,
    Changed,
    ControlMessage,
    Hello,
    Welcome,
    expect,
)
from peermesh.brokers.edge.reception import Badge, Reception, Visitor
from peermesh.brokers.edge.registry import Push
from peermesh.brokers.edge.request_queue import RequestQueue
from wire.errors import MeshError, NotAllowed, RemoteProtocolError
from wire.framing import NodeFrame
from wire.limits import KIB

CLIENTS_MAX: Final = 4096
"""Clients of one registry port, as far as files allow. Beyond, they are refused."""

NODE_SIZE_MAX: Final = 16 * KIB
"""Bytes of a node's path, and of its data: far more than a topic, escaped, and an address take. The
store would refuse much longer keys, and be asked again for ever."""

PATH_DEPTH_MAX: Final = 16
"""Names in a path: four times those of the deepest node of the tree. Each makes a node of its own,
so that a path of slashes alone would be thousands of them."""

NODES_MAX: Final = 32_768
"""Nodes of the tree beyond which no client makes another: four for each topic there may be. As many
more as are made at the same moment, 256 for each client at most, pass with the last one."""

WATCHES_MAX: Final = 16_384
"""Nodes that one client may watch: two for each topic there may be."""

_MAKING: Final = ("write", "register", "claim")
"""Operations that may make nodes."""

HERE: Final = "registry"
"""What a client's ``Hello`` asks for at this port, where others name a topic; no path has it."""


async def serve_registry(
    tree: EmbeddedTree,
    address: str,
    port: int,
    network: Network,
    guard: PortAccess,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the tree until cancelled, by the roles of ``guard``; starts with the port."""
    listeners = await network.listen(address, port)
    reception = Reception(network, guard, REGISTRY, members_max=CLIENTS_MAX)
    task_status.started(listeners[0].socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        await reception.serve(listeners, partial(open_desk, tree.session), nursery)


@asynccontextmanager
async def open_desk(
    session_of: Callable[[], Session], line: Line, badge: Badge, _arrival: Arrival | None = None
) -> AsyncIterator[Desk]:
    """Give a client a session of its own, whose nodes go with it."""
    session = session_of()
    try:
        async with trio.open_nursery() as nursery:
            desk = Desk(line, badge, session, nursery)
            try:
                yield desk
            finally:
                desk.leave()
                nursery.cancel_scope.cancel()
    finally:
        with shielded("the nodes of a lost client to be removed", SILENCE_SECONDS):
            await session.close()


class Desk(Visitor):
    """One client at the registry's port. Its ephemeral nodes go with its connection."""

    def __init__(self, line: Line, badge: Badge, session: Session, nursery: trio.Nursery) -> None:
        """Do in a session what the client asks for, by tasks of a nursery."""
        super().__init__(line, badge, StoreOf(STORE))
        self._session = session
        self._nursery = nursery
        self._requests = RequestQueue()
        self._watches: dict[str, Push] = {}

    def greet(self, hello: Hello) -> Welcome:
        """See whether it wants a registry."""
        if hello.topic != HERE:
            raise RemoteProtocolError("this is the port of a registry: ask it for the channels")
        return Welcome(b"", "null")

    def heed(self, message: NodeFrame | ControlMessage) -> None:
        """Take a request in."""
        self._requests.add(expect(message, Ask))
        self.line.note_waiting(self._requests.size)
        self._begin()

    def review(self) -> None:
        """End watches whose right was withdrawn."""
        for path in list(self._watches):
            if self.badge.objection(*demand("watch", path)) is not None:
                self._unfollow(path)

    def _begin(self) -> None:
        """Start every request whose turn it is."""
        while (ask := self._requests.next()) is not None:
            self._nursery.start_soon(self._answer, ask)

    async def _answer(self, ask: Ask) -> None:
        if not self.line.is_ending:  # There is someone to answer to.
            try:
                answer = Answer(ask.number, "", is_denied=False, lines=await self._do(ask))
                self.line.tell(answer)
            except MeshError as error:  # which may be the size of the answer
                is_denied = isinstance(error, NotAllowed)
                self.line.tell(Answer(ask.number, str(error), is_denied=is_denied, lines=""))
        self._requests.end(ask)
        self.line.note_waiting(self._requests.size)
        self._begin()

    async def _do(self, ask: Ask) -> str:
        if max(len(ask.path), len(ask.data)) > NODE_SIZE_MAX:
            raise RegistryError(f"a path and its data have up to {NODE_SIZE_MAX} bytes each")
        if ask.path.count("/") > PATH_DEPTH_MAX:
            raise RegistryError(f"a path has up to {PATH_DEPTH_MAX} names")
        if (why := self.badge.objection(*demand(ask.operation, ask.path))) is not None:
            raise NotAllowed(why)
        if ask.operation in _MAKING and await self._session.would_pass(NODES_MAX, ask.path):
            raise RegistryError(f"the tree has {NODES_MAX} nodes already: remove some")
        if ask.operation == "watch":
            self._follow(ask.path)
        elif ask.operation == "unwatch":
            self._unfollow(ask.path)
        else:
            return await self._session.ask(ask.operation, ask.path, ask.data)
        return ""

    def _follow(self, path: str) -> None:
        if path in self._watches:
            return
        if len(self._watches) >= WATCHES_MAX:
            raise RegistryError(f"{WATCHES_MAX} nodes are watched already")
        tell = self._watches[path] = partial(self.line.tell, Changed(path))
        self._session.follow(path, tell)
        tell()  # The first read is due.

    def _unfollow(self, path: str) -> None:
        if path in self._watches:
            self._session.unfollow(path, self._watches.pop(path))

    def leave(self) -> None:
        """Follow nothing any more."""
        for path in list(self._watches):
            self._unfollow(path)
