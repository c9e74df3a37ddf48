"""Attaches stores: replicas of groups, masters and clones, and proxies."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from endpoint.replicas.attaching import BUFFER_SECONDS, Backend, Patience
from endpoint.replicas.attachments import Attachments, Machinery
from endpoint.replicas.options import take_quota
from endpoint.replicas.part import Single
from endpoint.replicas.parts import topics_of
from endpoint.replicas.stores.part import TablePart
from endpoint.replicas.stores.store import ReplicaStore, Store
from endpoint.replicas.stores.store_proxy import StoreProxy, StoreProxyPart
from stores.group.codec import GroupCodec
from stores.group.member_parts import Stored
from stores.group.membership import Declared
from stores.group.positions import Voters
from stores.group.terms import is_of_another_lead
from stores.quota import STORE_QUOTA
from stores.replica.beginning import Opened
from stores.replica.lazy import RowKeeper, packed
from stores.replica.tables.core import TableCore
from stores.replica.tables.outbox import TableOutbox
from stores.replica.tables.outside import TableProxy
from stores.table.codec import TableCodec
from stores.table.machine import TableMachine
from stores.table.rights import right_of

if TYPE_CHECKING:
    from endpoint.replicas.stores.files import ReplicaFiles


class StoreAttachments(Attachments[TableCore, TableMachine, "ReplicaFiles", TablePart]):
    """The stores of one endpoint."""

    machinery = Machinery(
        kind="store",
        words=TableOutbox.words,
        attach="attach_replica",
        advice="attach it with attach_replica",
        first_object=1 << 32,
        usual=Patience(BUFFER_SECONDS),
        right_of=right_of,
        new_codec=lambda: GroupCodec(TableCodec()),
        new_core=TableCore,
        new_keeper=RowKeeper,
    )

    async def attach_master(
        self, name: str, backend: Backend, options: dict[str, object], *, fresh: bool = False
    ) -> Store:
        """Start the master of a store; raises ``InvalidData``, and what ``leader`` does."""
        options = dict(options)
        quota = take_quota(options, STORE_QUOTA)
        part = await self.leader(name, backend, options, is_fresh=fresh)
        part.keep(quota)
        return Store(part)

    async def attach_clone(
        self, name: str, stale_interval: float | None, mutation_buffer_interval: float
    ) -> Store:
        """Start a clone of a store, whether its master is known or not."""
        patience = Patience(mutation_buffer_interval, stale_interval)
        return Store(await self.copy(name, Backend.Memory, {}, patience))

    async def attach_replica(
        self,
        name: str,
        declared: Declared,
        backend: Backend,
        options: dict[str, object],
        patience: float,
    ) -> ReplicaStore:
        """Start a replica of a group; raises what ``replica`` does."""
        return ReplicaStore(await self.replica(name, declared, backend, options, patience))

    async def attach_proxy(self, name: str, mutation_buffer_interval: float) -> StoreProxy:
        """Start a proxy of a store, whether a leader of its group is known or not."""
        self._check_right(name, "read", "write")
        self._check_unused(name, topics_of("store", name))
        ticks, now_ns = Patience(mutation_buffer_interval).ticks, self._around.now_ns()
        core = TableProxy(self._entity(), self.machinery.new_codec(), now_ns, ticks)
        part = StoreProxyPart(core, partial(self._replicas, name))
        self._run_proxy(name, part)
        return StoreProxy(part)

    # -- of stores alone -------------------------------------------------------------------------

    def _machine(self, name: str, partitions: int | None) -> TableMachine:
        return TableMachine(f"store {name}", STORE_QUOTA)

    def _new_part(
        self,
        name: str,
        core: TableCore,
        files: ReplicaFiles | None,
        single: Single[TableCore] | None,
    ) -> TablePart:
        return TablePart(core, files, single, partial(self._files, name, is_renamed=True))

    def _files(self, name: str, options: dict[str, object], *, is_renamed: bool) -> ReplicaFiles:
        from endpoint.replicas.stores.files import ReplicaFiles

        return ReplicaFiles(name, options, self._around.open_replica, is_renamed=is_renamed)

    def _install(self, machine: TableMachine, opened: Opened) -> None:
        machine.install(opened.parts)
        packed(machine)

    def _is_learners(self, stored: Stored, voters: Voters) -> bool:
        own, term = stored.promises.member, stored.promises.term
        last = max((entry.term for entry in stored.entries), default=stored.floor.term)
        # A ballot of another lead is of a master that stopped while it took over from a clone, and
        # an earlier one was made anew. Clones have no files.
        is_level = term >= last and not is_of_another_lead(term, last)
        return bool(voters) and own not in voters and is_level

    def has_group(self, name: str) -> bool:
        """Tell whether a replica group keeps a store."""
        return self._host.core.reach.has_group(name)
