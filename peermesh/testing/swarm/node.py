"""One member of a swarm: a real endpoint, its subscriber, its store, and those who use them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import isfinite
from random import Random
from typing import TYPE_CHECKING, Any, Final

import trio

from endpoint import Endpoint, Missed, StatusCode, Subscriber
from endpoint.replicas.attaching import Backend
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.store import Store
from peermesh.testing.simulation import Host
from peermesh.testing.swarm.ledgers import (
    HALVES,
    JOURNAL,
    TOTAL,
    Asked,
    Author,
    Broken,
    brief_key,
    is_brief,
    own_key,
)
from peermesh.testing.swarm.plan import PUBLISHED, Plan
from stores.batch import Batch
from stores.effects import Changed
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import (
    BackendFailure,
    InvalidData,
    MasterExists,
    NoSuchKey,
    OutboxFull,
    ReplicaRegressed,
    StoreError,
    TypeClash,
)
from wire.identifiers import EndpointId
from wire.topics import store_topics
from wire.values import Value

if TYPE_CHECKING:
    from peermesh.testing.swarm.records import Records

PORT: Final = 4_000
RETRY_SECONDS: Final = 1.0
"""The longest pause between two dials: so healing takes seconds, and not more."""

STORE: Final = "swarm"
PATH: Final = "swarm.db"
HEIR_PATH: Final = "heir.db"

MASTER_PAUSE_SECONDS: Final = 0.5
"""Until somebody who starts as master looks again whether the mesh has forgotten its last life."""

CLAIM_SECONDS: Final = 2.0
"""How long a master in memory that starts again looks for its clones."""

KINDS: Final = (
    *("put", "put", "increment", "push", "slot", "slot", "erase"),
    *("contest", "contest", "batch", "brief"),
)
SLOTS: Final = 3
"""Keys that everybody writes and erases."""

BRIEF_SECONDS: Final = 1.5
"""How long a key stays that expires."""

REFUSALS: Final = (TypeClash, NoSuchKey, InvalidData)
"""Errors that no mutation of a swarm deserves."""


class Node:
    """A member, in whichever of its lives."""

    def __init__(self, plan: Plan, index: int, host: Host, records: Records) -> None:
        """Be told which one it is; ``host.start(node.live)`` begins."""
        self.index = index
        self.host = host
        self.life = 0
        self.ids: list[EndpointId] = []
        """The ids of all its lives."""
        self.endpoint: Endpoint | None = None
        self.subscriber: Subscriber | None = None
        self.store: Store | None = None
        self.is_quiet = False
        """No more mutations: somebody wants to see the store become idle."""
        self._plan = plan
        self._member = plan.members[index]
        self._records = records
        self._addresses: dict[int, str] = {}

    def __repr__(self) -> str:
        """Name it."""
        return f"<node {self.index}.{self.life}>"

    def know(self, addresses: dict[int, str]) -> None:
        """Be told where everybody is."""
        self._addresses = addresses

    @property
    def author(self) -> Author:
        """Name this life."""
        return Author(self.index, self.life)

    @property
    def node_id(self) -> EndpointId | None:
        """Give the endpoint's id, if there is one."""
        return None if self.endpoint is None else self.endpoint.node_id()

    @property
    def is_there(self) -> bool:
        """Whether it lives, and its endpoint is open."""
        return self.host.is_up and self.endpoint is not None

    def dialled(self) -> list[int]:
        """Name the members that this one dials."""
        forth = [edge.acceptor for edge in self._plan.edges if edge.dialler == self.index]
        back = [
            edge.dialler
            for edge in self._plan.edges
            if edge.acceptor == self.index and edge.is_mutual
        ]
        return forth + back

    async def live(self) -> None:
        """Run one life, until it is ended from outside."""
        self.life += 1
        self.endpoint = self.subscriber = self.store = None
        chance = Random(f"{self._plan.seed}/{self.index}/{self.life}")
        async with Endpoint(ttl=self._plan.ttl) as endpoint, trio.open_nursery() as nursery:
            await endpoint.listen(self.host.address, PORT)
            self.endpoint = endpoint
            self.ids.append(endpoint.node_id())
            for other in self.dialled():
                nursery.start_soon(self.dial, other)
            if self._member.topics:
                self.subscriber = endpoint.subscribe(*self._member.topics)
                nursery.start_soon(self._read, self.subscriber, self.author)
            if isfinite(self._member.publish_seconds):
                nursery.start_soon(self._publish, chance)
            if self._plan.master == self.index or self._member.has_clone:
                nursery.start_soon(self._keep_store, endpoint, chance)
            await trio.sleep_forever()

    # Peers.

    async def dial(self, other: int) -> None:
        """Peer with another member, for as long as it takes; a new life does so by itself."""
        if self.endpoint is not None:
            await self.endpoint.peer(self._addresses[other], PORT, RETRY_SECONDS)

    async def undial(self, other: int) -> None:
        """Part from another member."""
        if self.endpoint is not None:
            await self.endpoint.unpeer(self._addresses[other], PORT)

    # Messages.

    def publish(self, topic: str) -> int | None:
        """Publish a message, and give its number; ``None`` if there was no room."""
        assert self.endpoint is not None
        author = self.author
        number = self._records.messages.publish(author, topic)
        try:
            self.endpoint.publish_nowait(topic, (*author, number))
        except OutboxFull:
            return None
        return number

    async def _publish(self, chance: Random) -> None:
        while True:
            await trio.sleep(self._member.publish_seconds * chance.uniform(0.5, 1.5))
            self.publish(chance.choice(PUBLISHED))

    async def _read(self, subscriber: Subscriber, reader: Author) -> None:
        async for topic, data in subscriber:
            if isinstance(data, Missed):
                raise Broken(f"{reader} reads all the time, and missed {data.count} messages")
            assert isinstance(data, tuple)
            node, life, number = data
            self._records.messages.deliver(reader, topic, Author(node, life), number)

    # The store.

    async def _keep_store(self, endpoint: Endpoint, chance: Random) -> None:
        is_master = self._plan.master == self.index
        attach = self._attach_master if is_master else partial(Endpoint.attach_clone, name=STORE)
        async with trio.open_nursery() as nursery:
            self.store = await attach(endpoint)
            nursery.start_soon(self._settle_conflicts, endpoint)
            while True:
                await trio.sleep(self._member.write_seconds * chance.uniform(0.5, 1.5))
                store = self.store
                if store.runner.error is not None:  # its disk failed
                    await store.close()
                    self.store = await attach(endpoint)
                elif not self.is_quiet:
                    await self._write(store, chance, nursery)

    async def _settle_conflicts(self, endpoint: Endpoint) -> None:
        """Do what a person does about a clone that has more than a clone that was promoted."""
        with endpoint.subscribe_status() as status:
            async for event in status:
                store = self.store
                if store is None or store.is_master():
                    continue
                if event.status is StatusCode.STORE_CONFLICT:
                    await store.close()
                    self.store = await endpoint.attach_clone(STORE)

    async def _attach_master(self, endpoint: Endpoint) -> Store:
        while True:
            try:
                store = await self._try_attach_master(endpoint)
                break
            except (MasterExists, BackendFailure):
                if self._records.heir is not None:  # Its time is over.
                    return await endpoint.attach_clone(STORE)
                await trio.sleep(MASTER_PAUSE_SECONDS)
            except ReplicaRegressed as error:
                raise Broken(f"the master came back with less than it had: {error}") from error
        table, revision = store.part.table, store.part.core.revision
        entries = [(key, table.entry(key)) for key in table.keys()]  # noqa: SIM118 - it is no dict
        found = {key: (entry.value, entry.revision) for key, entry in entries if entry}
        self._records.start_master(found, revision)
        store.part.observe(self)
        return store

    async def _try_attach_master(self, endpoint: Endpoint) -> Store:
        if self._plan.is_durable:
            return await endpoint.attach_master(STORE, Backend.SQLite, path=PATH)
        fresh = self.life > 1 and not await self._finds_clones(endpoint)
        return await endpoint.attach_master(STORE, Backend.Memory, fresh=fresh)

    async def _finds_clones(self, endpoint: Endpoint) -> bool:
        """Tell whether all clones are in reach, so that a master can take over what they have.

        If it led without those that have more, both would stand still until a person decides.
        """
        _, clones = store_topics(STORE)
        wanted = sum(each.has_clone for each in self._plan.members)
        reach = endpoint.loop.core.reach
        with trio.move_on_after(CLAIM_SECONDS):
            while True:
                if len(list(reach.find_stores((clones,)))) >= wanted:
                    return True
                await trio.sleep(MASTER_PAUSE_SECONDS)
        return False

    async def succeed(self) -> None:
        """Become the master, if there is something to go on from here; whatever is lost is."""
        if self.store is not None and self.is_there:
            backend = Backend.SQLite if self._plan.is_durable else Backend.Memory
            options: dict[str, Any] = {"path": HEIR_PATH} if self._plan.is_durable else {}
            with suppress(StoreError):
                await self.store.promote(backend, force=True, **options)
                self._records.succeed(self.index)

    def push(self, change: Changed) -> None:
        """Hear of one change of the master."""
        after = change.after
        value, revision = (None, None) if after is None else (after.value, after.revision)
        self._records.change(change.key, value, revision)

    def end(self) -> None:
        """Hear that no more changes come."""

    async def _write(self, store: Store, chance: Random, nursery: trio.Nursery) -> None:
        kind = chance.choice(KINDS)
        if kind == "contest":
            number = self._records.next_attempt()
            nursery.start_soon(self._records.contest.attempt, store, self.author, number)
            return
        asked = self._records.store.ask(self.author, kind)
        slot = f"slot {chance.randrange(SLOTS)}"
        requests: dict[str, Callable[[], object]] = {
            "put": partial(store.put, own_key(asked), asked.number),
            "increment": partial(store.increment, TOTAL),
            "push": partial(store.push, JOURNAL, asked.number),
            "slot": partial(store.put, slot, asked.number),
            "erase": partial(store.erase, slot),
            "batch": partial(store.batch, _pair(asked.number)),
            "brief": partial(store.put, brief_key(asked), asked.number, BRIEF_SECONDS),
        }
        try:
            receipt = await requests[kind]()  # type: ignore[misc]  # each of them is a coroutine function
        except StoreError:
            asked.is_unknown = True
            return
        receipt.wake_when_resolved(partial(self._resolved, asked, receipt))

    def _resolved(self, asked: Asked, receipt: Receipt) -> None:
        try:
            receipt.outcome()
        except REFUSALS as error:
            self._records.fail(Broken(f"refused for no reason: {asked}: {error!r}"))
        except StoreError:
            asked.is_unknown = True
        else:
            asked.is_applied = True

    def table(self) -> tuple[int, dict[bytes, bytes]] | None:
        """Give what the store shows now, with its revision; ``None`` if it shows nothing yet."""
        store = self.store
        if store is None or store.runner.error is not None or not store.runner.is_synced:
            return None
        table = store.part.table
        found = {key: table.get(key) for key in table.keys()}  # noqa: SIM118 - it is no dict
        entries = {key: value for key, value in found.items() if value is not None}
        return store.part.core.revision, entries

    def overdue_key(self, seconds: float) -> Value:
        """Give a key that has to be gone after so many seconds at the latest; ``None`` if none is.

        Keys that were set while the master's clock was wrong may stay much longer: with a finite
        time they are passed over.
        """
        store = self.store
        if store is None or store.runner.error is not None:
            return None
        table, deadline = store.part.table, store.runner.now_ns() + seconds * 1e9
        deadline -= store.part.core.epoch_ns
        for key in filter(is_brief, map(decode, table.keys())):
            entry = table.entry(encode(key))
            if entry is not None and (entry.expires_at_ns or 0) <= deadline:
                return key
        return None


def _pair(number: int) -> Batch:
    """Set both halves, or neither."""
    left, right = HALVES
    return Batch().put(left, number).put(right, number)
