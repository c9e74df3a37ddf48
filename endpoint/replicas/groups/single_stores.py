"""Masters and clones: a store that is led alone, and copies of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from endpoint.replicas.attaching import BUFFER_SECONDS, Backend
from endpoint.replicas.backends import take_quota
from endpoint.replicas.disk import on_disk, reading
from endpoint.replicas.groups.attachments import GroupAttachments, restore
from endpoint.replicas.groups.single import SinglePart, Singles, SingleTopics
from endpoint.replicas.groups.table_part import TablePart
from endpoint.replicas.hosting import AttachingHost
from endpoint.replicas.parts import Kind
from endpoint.replicas.patience import Patience
from endpoint.replicas.stores.promoting import Promotion
from endpoint.replicas.stores.store import Store, Wanted
from endpoint.replicas.stores.store_proxy import StoreProxy
from endpoint.surroundings import Surroundings
from stores.disk.founding import Founding
from stores.group.election import FORCED_TERMS
from stores.group.limits import CATCH_UP_RUN
from stores.group.membership import Declared
from stores.quota import STORE_QUOTA, Quota
from stores.replica.beginning import Manner
from stores.replica.lazy import RowKeeper
from stores.replica.tables.core import TableCore
from wire.topics import group_topic, store_topics

if TYPE_CHECKING:
    from endpoint.replicas.groups.files import ReplicaFiles


class StorePart(SinglePart[TableCore], TablePart):
    """The copy of a store that is here, at a master or a clone."""

    def __init__(
        self,
        core: TableCore,
        files: ReplicaFiles | None,
        make_clone: Callable[[], TableCore],
        make_files: Callable[[dict[str, object]], ReplicaFiles],
        *,
        is_master: bool,
    ) -> None:
        """Start in one of the two roles; ``make_files`` makes those of a promoted clone."""
        super().__init__(core, files, make_clone, is_master=is_master)
        self._make_files = make_files

    @staticmethod
    def topics_of(name: str) -> SingleTopics:
        """Give the topics of a store of this name."""
        return SingleTopics(group_topic(name), *store_topics(name))

    @property
    def extent(self) -> str:
        """Say how much is here."""
        return f"revision {self.core.revision}"

    def _was_swapped(self, old: TableCore) -> None:
        self.core.machine.carry_over(old.machine)
        self.table = self.core.machine
        self.core.observe(is_observed=bool(self._observers))

    # -- for handles -----------------------------------------------------------------------------

    async def await_revision(self, revision: int) -> None:
        """Wait until readers see this revision, or the store is closed."""
        while self.core.revision < revision and self.runner.error is None:
            await self.moved.wait()

    async def promote(self, wanted: Wanted) -> Promotion:
        """Have a clone lead; see ``Store.promote``."""
        is_durable = wanted.backend is Backend.SQLite
        prepare = partial(self._settle_in, wanted.options) if is_durable else None
        revision, silent_seconds = await self.take_over(
            lambda: self.core.revision, prepare, is_forced=wanted.is_forced
        )
        if wanted.quota != self.core.meter.quota:
            self.runner.carry_out(self.core.set_quota(wanted.quota))
        return Promotion(self.core.epoch // FORCED_TERMS, revision, silent_seconds)

    async def _settle_in(self, options: dict[str, object]) -> None:
        """Put what a clone has into a file of its own, and have it go on there."""
        runner, core = self.runner, self.core
        files = self._make_files(options)
        snapshot = core.pause()
        assert core.group is not None, "it has a state"
        assert core.member is not None, "it has a state"
        founding = Founding(core.group, core.own, runner.now_ns())
        fill = partial(files.fill, founding, snapshot, core.member.ballot.promises)
        try:
            exposed = await on_disk(fill)
        except BaseException:
            runner.carry_out(core.go_on())
            await on_disk(files.close)
            raise
        self.backend = files
        runner.use_backend(files)
        runner.tell_exposed(exposed)
        keeper = RowKeeper(core.machine, core.machine.snapshot(), snapshot.position.index)
        runner.carry_out(core.settle_in(snapshot, keeper))


class SingleStores(Singles):
    """The masters and clones at one endpoint."""

    kind: Kind = "store"
    words: Final = ("master", "clone", "attach_replica")

    def __init__(self, host: AttachingHost, around: Surroundings, groups: GroupAttachments) -> None:
        """Make their cores as those of all ``groups`` are made."""
        super().__init__(host, around)
        self._groups = groups

    def topics(self, name: str) -> SingleTopics:
        """Give the topics of a store of this name."""
        return StorePart.topics_of(name)

    def has_group(self, name: str) -> bool:
        """Tell whether a replica group keeps a store."""
        return self._host.core.reach.has_group(name)

    async def attach_master(
        self, name: str, backend: Backend, options: dict[str, object], *, fresh: bool = False
    ) -> Store:
        """Start the master of a store, with what it had in an earlier life, here or at clones.

        Raises ``MasterExists``, ``BackendFailure``, ``ReplicaRegressed`` and ``StoreConflict``.
        """
        self._guarding(name).check("lead")
        self.check_lead(name)
        options = dict(options)
        quota = take_quota(options, STORE_QUOTA)
        own_name = self.own_name(self._groups.own_name)
        if backend is Backend.Memory:
            manner = self.master_manner(name, is_fresh=fresh)
            core = self._groups.in_memory(name, own_name, Declared((own_name,)), options, manner)
            return await self._lead(name, self._part(name, core, None, is_master=True), quota)
        files = self._files(name, options)
        load_files = partial(files.load, self._groups.founding(own_name))
        async with reading(partial(restore, name, load_files), files.close) as load:
            opened, machine = await load()
            self.check_lead(name)
            alone = Declared((opened.beginning.stored.promises.member.name,))
            manner = self.master_manner(name, is_fresh=fresh)
            core = self._groups.on_disk(name, alone, opened, machine, manner)
            part = self._part(name, core, files, is_master=True)
            store = await self._lead(name, part, quota)
            store.runner.tell_exposed(opened.exposed)
            return store

    async def _lead(self, name: str, part: StorePart, quota: Quota) -> Store:
        store = Store(part, self._groups.run(name, part), part.promote)
        await self.await_lead(store, part)
        if quota != part.core.meter.quota:
            store.runner.carry_out(part.core.set_quota(quota))
        return store

    async def attach_clone(
        self, name: str, stale_interval: float | None, mutation_buffer_interval: float
    ) -> Store:
        """Start a clone of a store, whether its master is known or not."""
        patience = Patience(mutation_buffer_interval, stale_interval)
        self._guarding(name).check("read")
        self.check_copy(name)
        core = self._clone(name, patience)
        part = self._part(name, core, None, is_master=False)
        return Store(part, self._groups.run(name, part), part.promote)

    async def attach_proxy(self, name: str, mutation_buffer_interval: float) -> StoreProxy:
        """Start a proxy of a store, whether its master is known or not."""
        return await self._groups.attach_proxy(name, mutation_buffer_interval)

    def _clone(self, name: str, patience: Patience) -> TableCore:
        manner = Manner(
            patience.ticks, is_single=True, ack_entries=CATCH_UP_RUN, stale_ns=patience.stale_ns
        )
        return self._groups.in_memory(
            name, self.own_name(self._groups.own_name), Declared(), {}, manner
        )

    def _part(
        self, name: str, core: TableCore, files: ReplicaFiles | None, *, is_master: bool
    ) -> StorePart:
        make_clone = partial(self._clone, name, Patience(BUFFER_SECONDS))
        make_files = partial(self._files, name)
        return StorePart(core, files, make_clone, make_files, is_master=is_master)

    def _files(self, name: str, options: dict[str, object]) -> ReplicaFiles:
        from endpoint.replicas.groups.files import ReplicaFiles

        return ReplicaFiles(name, options, self._around.open_replica, is_renamed=True)
