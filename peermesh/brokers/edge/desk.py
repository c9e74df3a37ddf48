"""The registry's own port: the tree of ``embedded`` for clients that are not in the mesh."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from endpoint.port_access import PortAccess
from endpoint.shielding import shielded
from handshake.access import StoreOf, Thing
from net.acceptor import Acceptor, Arrival
from net.network import Network
from peermesh.brokers.edge.access import ENTER, REGISTRY, STORE, demand
from peermesh.brokers.edge.embedded import EmbeddedTree, Session
from peermesh.brokers.edge.errors import RegistryError
from peermesh.brokers.edge.line import SILENCE_SECONDS, Line, open_budget
from peermesh.brokers.edge.messages import (
    Answer,
    Ask,
    Beat,
    Changed,
    ControlMessage,
    Denied,
    Hello,
    Welcome,
    expect,
)
from peermesh.brokers.edge.registry import Watch
from peermesh.brokers.edge.request_queue import RequestQueue
from wire.errors import MeshError, NotAllowed, RemoteProtocolError
from wire.framing import NodeFrame
from wire.limits import KIB
from wire.logs import logger_of

logger = logger_of("peermesh.brokers.edge")

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

Check = Callable[[str, Thing], object]

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
    unfinished = open_budget()
    access, desks = guard.access_of(REGISTRY), set[Desk]()

    async def handle(arrival: Arrival) -> None:
        try:
            transport = await arrival.transport()
            principal = network.principal(transport)
            line = Line(transport, is_stranger=True, unfinished=unfinished)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, MeshError) as error:
            logger.info("a client of the registry was refused: %s", error)
            return
        arrival.farewell = line.refuse
        guard.refresh()
        desk = Desk(tree.session(), line, arrival.prove, partial(access.check, principal))
        desks.add(desk)
        try:
            await desk.serve()
        except Exception:
            logger.exception("a client of the registry failed; all others go on")
        finally:
            desks.discard(desk)

    def recheck() -> None:
        for desk in list(desks):
            desk.recheck()

    task_status.started(listeners[0].socket.getsockname()[1])
    guard.on_change.append(recheck)
    acceptor = Acceptor(network, members_max=CLIENTS_MAX)
    async with trio.open_nursery() as nursery:
        await acceptor.serve(listeners, handle, nursery.start_soon)


class Desk:
    """One client at the registry's port. Its ephemeral nodes go with its connection."""

    def __init__(
        self, session: Session, line: Line, prove: Callable[[], object], check: Check
    ) -> None:
        """Serve a connection; call ``prove`` when the client has said what it came for.

        ``check`` raises ``NotAllowed`` for a verb and an object that its role does not permit.
        """
        self._prove = prove
        self._check_right = check
        self._session = session
        self._line = line
        self._requests = RequestQueue()
        self._nursery: trio.Nursery | None = None
        self._watches: dict[str, tuple[Watch, trio.CancelScope]] = {}
        self._is_known = False

    async def serve(self) -> None:
        """Do what is asked until the connection ends."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self._line.serve(self._hear)
                nursery.cancel_scope.cancel()
        finally:
            with shielded("the nodes of a lost client to be removed", SILENCE_SECONDS):
                await self._session.close()

    def _hear(self, message: NodeFrame | ControlMessage) -> None:
        if isinstance(message, Beat):
            return
        if not self._is_known:
            if expect(message, Hello).topic != HERE:
                raise RemoteProtocolError("this is the port of a registry: ask it for the channels")
            try:
                self._check_right(ENTER, StoreOf(STORE))
            except NotAllowed as error:
                self._line.tell(Denied("", 0, 0, str(error)))
                raise
            self._is_known = True
            self._line.welcome()
            self._prove()
            self._line.tell(Welcome(b"", "null"))
            return
        self._requests.add(expect(message, Ask))
        self._line.note_waiting(self._requests.size)
        self._begin()

    def recheck(self) -> None:
        """End what the roles no longer permit: watches, or the connection and all of its nodes."""
        if not self._is_known:
            return
        try:
            self._check_right(ENTER, StoreOf(STORE))
        except NotAllowed as error:
            self._line.tell(Denied("", 0, 0, str(error)))
            self._line.refuse(str(error))
            return
        for path in list(self._watches):
            try:
                self._check_right(*demand("watch", path))
            except NotAllowed:
                self._unfollow(path)

    def _begin(self) -> None:
        """Start every request whose turn it is."""
        assert self._nursery is not None
        while (ask := self._requests.next()) is not None:
            self._nursery.start_soon(self._answer, ask, self._nursery)

    async def _answer(self, ask: Ask, nursery: trio.Nursery) -> None:
        if not self._line.is_ending:  # There is someone to answer to.
            try:
                await self._check(ask)
                answer = Answer(ask.number, "", is_denied=False, lines=await self._do(ask, nursery))
                self._line.tell(answer)
            except MeshError as error:  # which may be the size of the answer
                is_denied = isinstance(error, NotAllowed)
                self._line.tell(Answer(ask.number, str(error), is_denied=is_denied, lines=""))
        self._requests.end(ask)
        self._line.note_waiting(self._requests.size)
        self._begin()

    async def _check(self, ask: Ask) -> None:
        if max(len(ask.path), len(ask.data)) > NODE_SIZE_MAX:
            raise RegistryError(f"a path and its data have up to {NODE_SIZE_MAX} bytes each")
        if ask.path.count("/") > PATH_DEPTH_MAX:
            raise RegistryError(f"a path has up to {PATH_DEPTH_MAX} names")
        self._check_right(*demand(ask.operation, ask.path))
        if ask.operation in _MAKING and await self._session.would_pass(NODES_MAX, ask.path):
            raise RegistryError(f"the tree has {NODES_MAX} nodes already: remove some")

    async def _do(self, ask: Ask, nursery: trio.Nursery) -> str:
        session, path, data = self._session, ask.path, ask.data
        match ask.operation:
            case "read":
                found = await session.read(path)
                return "" if found is None else "=" + found
            case "children":
                return "\n".join(await session.children(path))
            case "write":
                await session.write(path, data)
            case "remove":
                await session.remove(path)
            case "register":
                await session.register(path, data)
            case "unregister":
                await session.unregister(path)
            case "claim":
                return "=" if await session.claim(path, data) else ""
            case "watch":
                self._follow(path, nursery)
            case "unwatch":
                self._unfollow(path)
            case other:
                raise RegistryError(f"the registry does not know how to {other!r}")
        return ""

    def _follow(self, path: str, nursery: trio.Nursery) -> None:
        if path in self._watches:
            return
        if len(self._watches) >= WATCHES_MAX:
            raise RegistryError(f"{WATCHES_MAX} nodes are watched already")
        watch, scope = self._session.watch(path), trio.CancelScope()
        self._watches[path] = (watch, scope)
        nursery.start_soon(self._tell_changes, path, watch, scope)

    async def _tell_changes(self, path: str, watch: Watch, scope: trio.CancelScope) -> None:
        try:
            with scope:
                while True:
                    await watch.wait()
                    self._line.tell(Changed(path))
        finally:
            self._session.unwatch(watch)

    def _unfollow(self, path: str) -> None:
        if path in self._watches:
            self._watches.pop(path)[1].cancel()
