"""The registry that brings itself: a tree in a replicated store of the mesh.

The first broker's endpoint holds the store's master; further brokers, peered with it, hold clones.
When the master is lost, the first survivor in order promotes its clone, and removes what was
registered through the lost one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import trio

from endpoint.endpoint import Endpoint
from endpoint.mesh.status import StatusCode
from endpoint.replicas.attaching import Backend
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.reading import Entry
from endpoint.replicas.stores.store import Store
from endpoint.replicas.stores.watching import Commit
from endpoint.shielding import shielded
from peermesh.brokers.edge.access import STORE
from peermesh.brokers.edge.errors import RegistryError
from peermesh.brokers.edge.opened import Opened
from peermesh.brokers.edge.registry import Watch
from peermesh.brokers.edge.tree import NULL, parents
from peermesh.brokers.edge.watching import Watchers
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

Result = TypeVar("Result")


class EmbeddedTree(Opened):
    """The tree, at one broker: ``async with EmbeddedTree(endpoint) as tree``."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Keep it in a store of this endpoint's mesh; peer first, to share another's."""
        self._endpoint = endpoint
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
        """Be the master, unless there is one."""
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
                    await self._restore()  # Whoever it is may have taken us for gone.

    async def _succeed(self, lost: str) -> None:
        store = self._find()
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
        async def remove(store: Store) -> None:
            for key, node in await store.items():
                if isinstance(node, tuple) and str(node[1]).startswith(lost):
                    await (await store.erase(key)).applied()

        await self.ask(remove)

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


async def _count(store: Store) -> int:
    return len(store.part.table.keys())


async def _make(path: str, store: Store) -> bool:
    return await store.put_unique(path, (NULL, ""))


class Session:
    """A registry for one client, or for the broker itself."""

    def __init__(self, tree: EmbeddedTree, owner: str) -> None:
        """Use ``EmbeddedTree.session``."""
        self._tree = tree
        self._owner = owner
        self._mine: dict[str, str] = {}
        self._size = 0

    async def read(self, path: str) -> str | None:
        """Give a node's data; ``None`` if there is no such node."""
        node = await self._tree.ask(lambda store: store.get(path))
        return str(node[0]) if isinstance(node, tuple) else None

    async def children(self, path: str) -> list[str]:
        """Give the names of the nodes right below, sorted."""
        keys = await self._tree.ask(lambda store: store.keys())
        start = path.rstrip("/") + "/"
        below = (str(key).removeprefix(start) for key in keys if str(key).startswith(start))
        return sorted({name.partition("/")[0] for name in below})

    async def would_pass(self, limit: int, path: str) -> bool:
        """Tell whether there would be more nodes than that with a path and all above it."""
        nodes = {path, *parents(path)}
        if await self._tree.ask(_count) + len(nodes) <= limit:
            return False
        keys = await self._tree.ask(lambda store: store.keys())
        return len(nodes.union(map(str, keys))) > limit

    async def write(self, path: str, data: str) -> None:
        """Set a node's data, making it and those above it."""
        for above in parents(path):
            await self._tree.ask(partial(_make, above))
        await self._put(path, data, "")

    async def _put(self, path: str, data: str, owner: str) -> None:
        async def put(store: Store) -> None:
            await (await store.put(path, (data, owner))).applied()

        await self._tree.ask(put)

    async def remove(self, path: str) -> None:
        """Remove a node and all below it, if it is there."""

        async def erase(store: Store) -> None:
            receipts: list[Receipt] = []
            for key in await store.keys():
                if key == path or str(key).startswith(path + "/"):
                    receipts.append(await store.erase(key))  # noqa: PERF401 - it waits
            for receipt in receipts:
                await receipt.applied()

        await self._tree.ask(erase)

    async def register(self, path: str, data: str) -> None:
        """Make an ephemeral node, if the one above is there; it comes back with the next store.

        Raises ``RegistryError`` for more nodes than a session may have.
        """
        known = self._mine.get(path)
        size = self._size + len(data) + (len(path) if known is None else -len(known))
        if (known is None and len(self._mine) >= OWN_MAX) or size > OWN_SIZE_MAX:
            raise RegistryError(f"up to {OWN_MAX} ephemeral nodes, of {OWN_SIZE_MAX} bytes in all")
        self._mine[path], self._size = data, size
        above = parents(path)
        if not above or await self.read(above[-1]) is not None:
            await self._put(path, data, self._owner)

    async def unregister(self, path: str) -> None:
        """Remove an ephemeral node of ours."""
        data = self._mine.pop(path, None)
        if data is not None:
            self._size -= len(path) + len(data)

        async def erase(store: Store) -> None:
            node = await store.get(path)
            if isinstance(node, tuple) and node[1] == self._owner:
                await (await store.erase(path)).applied()

        await self._tree.ask(erase)

    async def claim(self, path: str, data: str) -> bool:
        """Make an ephemeral node if there is none; tell whether it is there as we wanted it."""
        node = (data, self._owner)
        if await self._tree.ask(lambda store: store.put_unique(path, node)):
            return True
        return await self.read(path) == data

    async def clear(self) -> None:
        """Do nothing: all who hold this tree are brokers, and the next one clears it at once."""

    def watch(self, *paths: str) -> Watch:
        """Follow the data of some nodes, from now on."""
        return self._tree.watchers.add(paths)

    def unwatch(self, watch: Watch) -> None:
        """Follow them no longer."""
        self._tree.watchers.remove(watch)

    async def restore(self) -> None:
        """Write again what is ours, in a new store."""
        for path, data in list(self._mine.items()):
            await self.register(path, data)

    async def close(self) -> None:
        """Remove all ephemeral nodes of this session."""
        self._tree.forget(self)
        owner = self._owner

        async def erase(store: Store) -> None:
            for key, node in await store.items():
                if isinstance(node, tuple) and node[1] == owner:
                    await (await store.erase(key)).applied()

        await self._tree.ask(erase)
