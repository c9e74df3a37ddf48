"""The registry that brings itself: a tree in a replicated store of the mesh.

The first broker's endpoint holds the store's master; further brokers, peered with it, hold clones.
When the master is lost, the first survivor in order promotes its clone, and removes what was
registered through the lost one. With voters it is a replica group: that elects, and the leader
removes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import trio

from endpoint.endpoint import Endpoint
from endpoint.mesh.status import StatusCode
from endpoint.replicas.attaching import Backend
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.reading import Entry
from endpoint.replicas.stores.store import ReplicaStore, Store as SingleStore
from endpoint.replicas.stores.watching import Commit
from endpoint.shielding import shielded
from peermesh.brokers.edge.access import STORE
from peermesh.brokers.edge.errors import RegistryError
from peermesh.brokers.edge.opened import Opened
from peermesh.brokers.edge.registry import Registry, Watchers
from peermesh.brokers.edge.tree import NULL, parents
from wire.errors import MasterExists, MeshError
from wire.limits import MIB
from wire.logs import logger_of

logger = logger_of("peermesh.brokers.edge")

AGAIN_SECONDS: Final = 0.1
"""The pause before a store that could not be reached is asked again."""

ALIVE_SECONDS: Final = 1.0
"""How long a master may take to answer before it is taken for lost with the endpoint that is."""

END_SECONDS: Final = 1.0
"""How long the end waits for the store, which is in memory and has no disk to wait for."""

RANK_SECONDS: Final = 3.0
"""How long a survivor lets each other one before it in order try first to be the master."""

MEMBERS: Final = "/brokers"
"""One ephemeral node for each endpoint that holds the store: the order of survivors."""

OWN_MAX: Final = 16_384
"""Ephemeral nodes that one session keeps, to write them again: two for each topic there may be."""

OWN_SIZE_MAX: Final = 16 * MIB
"""Bytes of them: a thousand each would be many."""

LOST_MAX: Final = 1_024
"""Endpoints that are lost, of which the next leader removes what the last one did not."""

Result = TypeVar("Result")

Store = SingleStore | ReplicaStore
"""What holds the tree: a master, a clone, or a replica of a group."""


class EmbeddedTree(Opened):
    """The tree, at one broker: ``async with EmbeddedTree(endpoint) as tree``."""

    def __init__(self, endpoint: Endpoint, voters: Sequence[str] = ()) -> None:
        """Keep it in a store of this endpoint's mesh; peer first, to share another's.

        With ``voters``, names of endpoints, that is a group of their replicas.
        """
        self._endpoint = endpoint
        self._voters = tuple(voters)
        self._lost: dict[str, None] = {}
        self._store: Store | None = None
        self._sessions: dict[Session, None] = {}
        self._count = 0
        self.watchers = Watchers()

    async def _live(self) -> AsyncIterator[None]:
        """Attach the store. Let go of it."""
        async with trio.open_nursery() as nursery:
            await self._attach()
            nursery.start_soon(self._heed_events)
            nursery.start_soon(self._follow_forever)
            self._own = self.session()
            await self._own.write(MEMBERS, NULL)
            await self._own.register(f"{MEMBERS}/{self._endpoint.node_id()}", NULL)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()
                store, self._store = self._store, None
                if store is not None:
                    with shielded("the registry's store to be closed", END_SECONDS):
                        await store.close()

    async def _attach(self) -> None:
        """Attach a replica where there are voters; else the master, unless there is one."""
        if self._voters:
            self._store = await self._endpoint.attach_replica(STORE, voters=self._voters)
            return
        try:
            self._store = await self._endpoint.attach_master(STORE, Backend.Memory)
        except MasterExists:
            self._store = await self._endpoint.attach_clone(STORE)

    async def _follow_forever(self) -> None:
        """Wake those who watch, with every change."""
        with self._find().watch() as watch:
            async for item in watch:
                if isinstance(item, Commit):
                    for change in item.changes:
                        self.watchers.push(str(change.key))
                elif not isinstance(item, Entry):
                    self.watchers.push_all()

    def _find(self) -> Store:
        assert self._store is not None
        return self._store

    # Losses.

    async def _heed_events(self) -> None:
        """Remove what belonged to endpoints that are gone, and succeed a master that is."""
        with self._endpoint.subscribe_status() as status:
            async for event in status:
                if event.status is StatusCode.ENDPOINT_UNREACHABLE:
                    await self._succeed(str(event.endpoint))
                elif event.status is StatusCode.ENDPOINT_DISCOVERED:
                    self._lost.pop(str(event.endpoint), None)
                    await self._restore()  # It may have taken us for gone.
                elif event.status is StatusCode.STORE_MASTER_FOUND and event.store == STORE:
                    await self._remove_lost()

    async def _remove_lost(self) -> None:
        """Remove what belonged to lost endpoints, where the replica here leads."""
        store = self._find()
        if isinstance(store, ReplicaStore) and store.is_leader():
            for lost in list(self._lost):
                await self._remove_owned_by(lost)
                self._lost.pop(lost, None)

    async def _succeed(self, lost: str) -> None:
        store = self._find()
        if isinstance(store, ReplicaStore):
            self._lost[lost] = None
            if len(self._lost) > LOST_MAX:
                del self._lost[next(iter(self._lost))]
            await self._remove_lost()
            self.watchers.push_all()
            return
        if not store.is_master():
            await trio.sleep(await self._rank(lost) * RANK_SECONDS)
            if await store.await_idle(timeout=ALIVE_SECONDS):
                return  # The master is there; it removes what has to be removed.
            try:
                # What the lost master had beyond is written again by those whom it belongs to.
                await store.promote(force=True)
            except MeshError as error:
                logger.warning("the registry has no master: %s", error)
                return
            await self._restore()
        await self._remove_owned_by(lost)
        self.watchers.push_all()

    async def _restore(self) -> None:
        for session in list(self._sessions):
            await session.restore()

    async def _rank(self, lost: str) -> int:
        names = [str(key) for key in await self._find().keys()]
        me = f"{MEMBERS}/{self._endpoint.node_id()}"
        members = {me, *(name for name in names if name.startswith(f"{MEMBERS}/"))}
        return sorted(members - {f"{MEMBERS}/{lost}"}).index(me)

    async def _remove_owned_by(self, lost: str) -> None:
        await self.ask(partial(_erase, lambda _, owner: owner.startswith(lost)))

    # Sessions.

    def session(self) -> Session:
        """Give a registry with ephemeral nodes of its own, to be closed."""
        self._count += 1
        session = Session(self, f"{self._endpoint.node_id()}/{self._count}")
        self._sessions[session] = None
        return session

    def forget(self, session: Session) -> None:
        """A session is closed."""
        self._sessions.pop(session, None)

    async def ask(self, work: Callable[[Store], Awaitable[Result]]) -> Result:
        """Do something with the store, again until it is reached."""
        while True:
            store = self._store
            if store is not None:
                try:
                    return await work(store)
                except MeshError as error:
                    logger.debug("the registry's store is asked again: %s", error)
            await trio.sleep(AGAIN_SECONDS)


class Session(Registry):
    """A registry for one client, or for the broker itself."""

    def __init__(self, tree: EmbeddedTree, owner: str) -> None:
        """Use ``EmbeddedTree.session``."""
        super().__init__(tree.watchers)
        self._tree = tree
        self._owner = owner
        self._mine: dict[str, str] = {}
        self._size = 0

    async def ask(self, operation: str, path: str, data: str = "") -> str:
        """Do something, as ``Registry`` says; raises ``RegistryError`` for what cannot be done.

        A session registers up to ``OWN_MAX`` nodes.
        """
        work = _WORK.get(operation)
        if work is None:
            raise RegistryError(f"the registry does not know how to {operation!r}")
        if operation == "register":
            self._keep(path, data)
        elif operation == "unregister" and path in self._mine:
            self._size -= len(path) + len(self._mine.pop(path))
        return await self._tree.ask(partial(work, path, data, self._owner))

    def _keep(self, path: str, data: str) -> None:
        known = self._mine.get(path)
        size = self._size + len(data) + (len(path) if known is None else -len(known))
        if (known is None and len(self._mine) >= OWN_MAX) or size > OWN_SIZE_MAX:
            raise RegistryError(f"up to {OWN_MAX} ephemeral nodes, of {OWN_SIZE_MAX} bytes in all")
        self._mine[path], self._size = data, size

    async def would_pass(self, limit: int, path: str) -> bool:
        """Tell whether there would be more nodes than that with a path and all above it."""

        async def keys(store: Store) -> set[str]:
            if len(store.part.table.keys()) + len(nodes) <= limit:
                return set()
            return {str(key) for key in await store.keys()}

        nodes = {path, *parents(path)}
        return len(nodes | await self._tree.ask(keys)) > limit

    async def restore(self) -> None:
        """Write again what is ours, in a new store."""
        for path, data in list(self._mine.items()):
            await self.register(path, data)

    async def close(self) -> None:
        """Remove all ephemeral nodes of this session."""
        self._tree.forget(self)
        await self._tree.ask(partial(_erase, lambda _, owner: owner == self._owner))


# What is done in the store: a node's value is its data, and its owner if it is ephemeral.


async def _read(path: str, _data: str, _owner: str, store: Store) -> str:
    node = await store.get(path)
    return f"={node[0]}" if isinstance(node, tuple) else ""


async def _children(path: str, _data: str, _owner: str, store: Store) -> str:
    start = path.rstrip("/") + "/"
    keys = map(str, await store.keys())
    below = {key.removeprefix(start).partition("/")[0] for key in keys if key.startswith(start)}
    return "\n".join(sorted(below))


async def _write(path: str, data: str, _owner: str, store: Store) -> str:
    for above in parents(path):
        await store.put_unique(above, (NULL, ""))
    await (await store.put(path, (data, ""))).applied()
    return ""


async def _remove(path: str, _data: str, _owner: str, store: Store) -> str:
    return await _erase(lambda key, _: key == path or key.startswith(path + "/"), store)


async def _register(path: str, data: str, owner: str, store: Store) -> str:
    above = parents(path)
    if not above or await store.get(above[-1]) is not None:
        await (await store.put(path, (data, owner))).applied()
    return ""


async def _unregister(path: str, _data: str, owner: str, store: Store) -> str:
    node = await store.get(path)
    if isinstance(node, tuple) and node[1] == owner:
        await (await store.erase(path)).applied()
    return ""


async def _claim(path: str, data: str, owner: str, store: Store) -> str:
    is_ours = await store.put_unique(path, (data, owner))
    return "=" if is_ours or await _read(path, data, owner, store) == f"={data}" else ""


_WORK: Final = {
    "read": _read,
    "children": _children,
    "write": _write,
    "remove": _remove,
    "register": _register,
    "unregister": _unregister,
    "claim": _claim,
}


async def _erase(is_meant: Callable[[str, str], bool], store: Store) -> str:
    """Erase the nodes of which ``is_meant`` is true, given path and owner."""
    receipts: list[Receipt] = []
    for key, node in await store.items():
        if isinstance(node, tuple) and is_meant(str(key), str(node[1])):
            receipts.append(await store.erase(key))
    for receipt in receipts:
        await receipt.applied()
    return ""
