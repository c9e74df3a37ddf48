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
                    await self._heed_loss(str(event.endpoint))
                elif event.status is StatusCode.ENDPOINT_DISCOVERED:
                    self._lost.pop(str(event.endpoint), None)
                    await self._restore()  # It may have taken us for gone.
                elif event.status is StatusCode.STORE_MASTER_FOUND and event.store == STORE:
                    await self._remove_lost()

    async def _heed_loss(self, lost: str) -> None:
        self._lost[lost] = None
        if len(self._lost) > LOST_MAX:
            del self._lost[next(iter(self._lost))]
        store = self._find()
        if isinstance(store, SingleStore) and not store.is_master():
            await self._succeed(store, lost)
        await self._remove_lost()
        self.watchers.push_all()

    async def _remove_lost(self) -> None:
        """Remove what belonged to lost endpoints, where the store here leads."""
        store = self._find()
        if store.is_leader() if isinstance(store, ReplicaStore) else store.is_master():
            for lost in list(self._lost):
                await self._remove_owned_by(lost)
                self._lost.pop(lost, None)

    async def _succeed(self, clone: SingleStore, lost: str) -> None:
        """Promote the clone here, unless the master is there, or a survivor before was faster."""
        await trio.sleep(await self._rank(lost) * RANK_SECONDS)
        if await clone.await_idle(timeout=ALIVE_SECONDS):
            return
        try:
            # What the lost master had beyond is written again by those whom it belongs to.
            await clone.promote(force=True)
        except MeshError as error:
            logger.warning("the registry has no master: %s", error)
            return
        await self._restore()

    async def _restore(self) -> None:
        for session in list(self._sessions):
            await session.register_again()

    async def _rank(self, lost: str) -> int:
        names = [str(key) for key in await self._find().keys()]
        me = f"{MEMBERS}/{self._endpoint.node_id()}"
        members = {me, *(name for name in names if name.startswith(f"{MEMBERS}/"))}
        return sorted(members - {f"{MEMBERS}/{lost}"}).index(me)

    async def _remove_owned_by(self, lost: str) -> None:
        """Remove what all sessions at an endpoint registered."""

        def is_theirs(_: str, node: object) -> bool:
            return isinstance(node, tuple) and str(node[1]).startswith(lost)

        await self.ask(partial(_erase, is_theirs))

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
                except RegistryError:
                    raise  # The store was reached.
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
        self._size = 0

    async def _do(self, operation: str, path: str, data: str) -> str:
        return await self._tree.ask(partial(self._carry_out, operation, path, data))

    async def _carry_out(self, operation: str, path: str, data: str, store: Store) -> str:
        """Do it in the store. A node's value is its data, and its owner if it is ephemeral."""
        match operation:
            case "read":
                node = await store.get(path)
                return f"={node[0]}" if isinstance(node, tuple) else ""
            case "children":
                start = path.rstrip("/") + "/"
                keys = [str(key) for key in await store.keys()]
                below = (key.removeprefix(start) for key in keys if key.startswith(start))
                return "\n".join(sorted({name.partition("/")[0] for name in below}))
            case "write":
                await _write(path, data, store)
            case "remove":
                await _erase(lambda key, _: f"{key}/".startswith(f"{path}/"), store)
            case "register":
                if await _has_parent(path, store):
                    await (await store.put(path, (data, self._owner))).applied()
            case "unregister":
                if _is_node_of(self._owner, await store.get(path)):
                    await (await store.erase(path)).applied()
            case "claim":
                is_ours = await store.put_unique(path, (data, self._owner))
                held = await self._carry_out("read", path, "", store)
                return "=" if is_ours or held == f"={data}" else ""
            case _:
                raise RegistryError(f"the registry does not know how to {operation!r}")
        return ""

    def _keep(self, path: str, data: str) -> None:
        """Keep it within ``OWN_MAX`` and ``OWN_SIZE_MAX``; raises ``RegistryError``."""
        size = self._size - self._held(path) + len(path) + len(data)
        if (path not in self._mine and len(self._mine) >= OWN_MAX) or size > OWN_SIZE_MAX:
            raise RegistryError(f"up to {OWN_MAX} ephemeral nodes, of {OWN_SIZE_MAX} bytes in all")
        super()._keep(path, data)
        self._size = size

    def _drop(self, path: str) -> None:
        self._size -= self._held(path)
        super()._drop(path)

    def _held(self, path: str) -> int:
        return len(path) + len(self._mine[path]) if path in self._mine else 0

    async def would_pass(self, limit: int, path: str) -> bool:
        """Tell whether there would be more nodes than that with a path and all above it."""

        async def keys(store: Store) -> set[str]:
            if len(store.part.table.keys()) + len(nodes) <= limit:
                return set()
            return {str(key) for key in await store.keys()}

        nodes = {path, *parents(path)}
        return len(nodes | await self._tree.ask(keys)) > limit

    async def close(self) -> None:
        """Remove all ephemeral nodes of this session."""
        self._tree.forget(self)
        await self._tree.ask(partial(_erase, lambda _, node: _is_node_of(self._owner, node)))


async def _write(path: str, data: str, store: Store) -> None:
    for above in parents(path):
        await store.put_unique(above, (NULL, ""))
    await (await store.put(path, (data, ""))).applied()


async def _has_parent(path: str, store: Store) -> bool:
    above = parents(path)
    return not above or await store.get(above[-1]) is not None


def _is_node_of(owner: str, node: object) -> bool:
    """Tell whether a node is an ephemeral one of a session."""
    return isinstance(node, tuple) and node[1] == owner


async def _erase(is_meant: Callable[[str, object], bool], store: Store) -> None:
    """Erase the nodes of which ``is_meant`` is true, given path and node."""
    receipts: list[Receipt] = []
    for key, node in await store.items():
        if is_meant(str(key), node):
            receipts.append(await store.erase(key))
    for receipt in receipts:
        await receipt.applied()
