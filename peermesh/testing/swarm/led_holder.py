"""A store that one endpoint leads: its master, its clones, and a clone that takes over."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import trio

from endpoint import Endpoint, StatusCode
from endpoint.replicas.attaching import Backend
from endpoint.replicas.stores.store import Store
from peermesh.testing.swarm.holder import Holder
from peermesh.testing.swarm.ledgers import Author, Broken
from peermesh.testing.swarm.plan import Plan
from stores.effects import Changed
from wire.errors import (
    BackendFailure,
    MasterExists,
    ReplicaRegressed,
    StoreConflict,
    StoreError,
)
from wire.topics import store_topics

if TYPE_CHECKING:
    from peermesh.testing.swarm.records import Records

STORE: Final = "swarm"
PATH: Final = "swarm.db"

MASTER_PAUSE_SECONDS: Final = 0.5
"""Until a master that starts again looks whether the mesh has forgotten its last life."""

CLAIM_SECONDS: Final = 2.0
"""How long a master in memory that starts again looks for its clones."""

CLAIMS_MAX: Final = 10
"""How often an heir that starts again finds another master before it follows that one: so long, the
mesh may take its own last life for one."""


class LedHolder(Holder[Store]):
    """A master or a clone, in one life of a member."""

    def __init__(self, plan: Plan, author: Author, records: Records, endpoint: Endpoint) -> None:
        """Attach to ``endpoint``."""
        super().__init__(author, records.led)
        self._plan = plan
        self._records = records
        self._endpoint = endpoint
        self._is_content = False
        """Whether it had more than an heir has, and lets go of that."""
        self._is_closing = self._begins = False

    @property
    def is_leader(self) -> bool:
        """Whether the master is here."""
        return self.store is not None and self.store.is_master()

    @property
    def _is_to_lead(self) -> bool:
        """Whether it is started as the master.

        Without groups the last master is: it does not know of its heir. With them all are told.
        """
        plan, heir = self._plan, self._records.heir
        is_told = heir is not None and (plan.groups is not None or self._begins)
        return not self._is_content and self.author.node == (heir if is_told else plan.master)

    async def _attach(self) -> Store:
        if self._is_to_lead:
            return await self._attach_master()
        return await self._endpoint.attach_clone(STORE)

    async def settle_conflicts(self) -> None:
        """Do what a person does where two histories are there: one of them ends."""
        with self._endpoint.subscribe_status() as status:
            async for event in status:
                if event.status is StatusCode.STORE_CONFLICT and not self.is_in_touch:
                    await self.give_way()

    async def give_way(self) -> None:
        """Let go of what is here, and follow the other history."""
        self._is_content = True
        await self._close()

    async def _close(self) -> None:
        if self.store is not None and not self._is_closing:
            self._is_closing = True
            await self.store.close()
            self._is_closing = False

    async def begin_anew(self) -> None:
        """Lead a store of its own: nothing is left of the last one."""
        self._records.succeed(self.author.node, self._records.next_heir_path())
        self._begins, self._is_content = True, False
        await self._close()

    # The master.

    async def _attach_master(self) -> Store:
        heir = self._records.heir
        if heir not in (None, self.author.node) and not self._plan.is_durable:
            # It has nothing, and another one leads.
            return await self._endpoint.attach_clone(STORE)
        for attempt in range(1 << 30):
            try:
                store = await self._try_attach_master()
                break
            except (MasterExists, BackendFailure):
                pass
            except StoreConflict:
                self._is_content = True  # Two took over, and clones here have the other history.
                return await self._endpoint.attach_clone(STORE)
            except ReplicaRegressed as error:
                if not self.books.ledger.is_volatile:
                    text = f"the master came back with less than it had: {error}"
                    raise Broken(text) from error
            heir = self._records.heir
            if heir is not None and (heir != self.author.node or attempt >= CLAIMS_MAX):
                return await self._endpoint.attach_clone(STORE)  # Its time is over.
            await trio.sleep(MASTER_PAUSE_SECONDS)
        table, revision = store.part.table, store.part.core.revision
        entries = [(key, table.entry(key)) for key in table.keys()]  # noqa: SIM118 - it is no dict
        found = {key: (entry.value, entry.revision) for key, entry in entries if entry}
        self._records.start_master(found, revision)
        store.part.observe(self)
        return store

    async def _try_attach_master(self) -> Store:
        if self._plan.is_durable:
            is_heir = self.author.node == self._records.heir
            path = self._records.heir_path if is_heir else PATH
            return await self._endpoint.attach_master(
                STORE, Backend.SQLite, path=path, fresh=self._begins
            )
        fresh = self._begins or (self.author.life > 1 and not await self._finds_clones())
        return await self._endpoint.attach_master(STORE, Backend.Memory, fresh=fresh)

    async def _finds_clones(self) -> bool:
        """Tell whether all clones are in reach, so that a master can take over what they have.

        If it led without those that have more, both would stand still until a person decides.
        """
        _, clones = store_topics(STORE)
        wanted = sum(each.has_clone for each in self._plan.members)
        reach = self._endpoint.loop.core.reach
        with trio.move_on_after(CLAIM_SECONDS):
            while True:
                if len(list(reach.find_stores((clones,)))) >= wanted:
                    return True
                await trio.sleep(MASTER_PAUSE_SECONDS)
        return False

    def push(self, change: Changed) -> None:
        """Hear of one change of the master."""
        after = change.after
        value, revision = (None, None) if after is None else (after.value, after.revision)
        self._records.change(change.key, value, revision)

    def end(self) -> None:
        """Hear that no more changes come."""

    # Its heir.

    async def succeed(self) -> None:
        """Become the master, if there is something to go on from here; whatever is lost is."""
        if self.store is None or self._is_closing:
            return
        path = self._records.next_heir_path()
        backend = Backend.SQLite if self._plan.is_durable else Backend.Memory
        options: dict[str, Any] = {"path": path} if self._plan.is_durable else {}
        with suppress(StoreError):
            await self.store.promote(backend, force=True, **options)
            self._records.succeed(self.author.node, path)
