"""What a master and its clones are: the one voter of a group, and learners that follow it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from endpoint.mesh.status import StatusCode
from endpoint.replicas.attaching import BUFFER_SECONDS, LEADER_SECONDS, Backend
from endpoint.replicas.attachment import Attachment
from endpoint.replicas.backends import take_quota
from endpoint.replicas.disk import on_disk, reading
from endpoint.replicas.groups.attachments import GroupAttachments, restore
from endpoint.replicas.groups.table_part import TablePart
from endpoint.replicas.hosting import AttachingHost
from endpoint.replicas.parts import Topics
from endpoint.replicas.patience import Patience
from endpoint.replicas.stores.promoting import Promotion
from endpoint.replicas.stores.store import Store, Wanted
from endpoint.replicas.stores.store_proxy import StoreProxy
from endpoint.shielding import shielded
from endpoint.surroundings import Surroundings
from endpoint.tasks import FINISH_SECONDS
from stores.disk.founding import Founding
from stores.group.election import FORCED_TERMS
from stores.group.limits import CATCH_UP_RUN
from stores.group.words import Aim
from stores.quota import STORE_QUOTA, Quota
from stores.replica.beginning import Manner
from stores.replica.lazy import RowKeeper
from stores.replica.tables.core import TableCore
from wire.errors import MasterExists, NoSuchMaster, PromotionRefused, StoreError
from wire.identifiers import EntityId
from wire.topics import group_topic, store_topics

if TYPE_CHECKING:
    from endpoint.replicas.groups.files import ReplicaFiles


class SinglePart(TablePart):
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
        """Start in one of the two roles.

        ``make_clone`` makes what a deposed master becomes, and ``make_files`` the files of a
        promoted clone.
        """
        super().__init__(core, files)
        self._make_clone, self._make_files = make_clone, make_files
        self._is_master = is_master

    # -- for the runner --------------------------------------------------------------------------

    @property
    def leader(self) -> TableCore | None:
        """The core, if it is a master."""
        return self.core if self._is_master else None

    def topics(self, name: str) -> Topics:
        """Hear the group's topic, and be announced as what this is by another one."""
        topic = group_topic(name)
        masters, clones = store_topics(name)
        return Topics(topic, topic, topic, masters if self._is_master else clones)

    def was_carried_out(self) -> None:
        """Wake those that wait, and become a clone where another one leads."""
        core = self.core
        is_settled = self._is_master and not core.adoption.is_under_way
        if is_settled and core.is_conceding:
            if not core.carrier.is_writing:
                self._step_aside()
        elif is_settled and (core.is_deposed or core.leader not in (None, core.own)):
            self.runner.carry_out(core.concede())
        super().was_carried_out()

    def _step_aside(self) -> None:
        """Leave the master's file as it is, and begin anew as a clone."""
        old, runner = self.core, self.runner
        leader = None if old.leader is None else old.roster.endpoint_of(old.leader)
        where = EntityId(leader or old.entity.endpoint, 0)
        who = "a clone was promoted" if old.is_deposed else f"{where} leads"
        reason = (
            f"deposed at revision {old.revision}: {who}; what it did not hear of is lost, and this"
            " store is a clone now"
        )
        runner.tell_status(StatusCode.STORE_DEPOSED, where, reason)
        self._is_master = False
        runner.carry_out(old.bequeath("the master was deposed"))
        self.core, self.backend = self._make_clone(), None
        self.core.inherit(old)
        self.core.machine.carry_over(old.machine)
        self.table = self.core.machine
        self.core.observe(is_observed=bool(self._observers))
        runner.use_backend(None)
        runner.swapped()
        runner.carry_out(self.core.start())

    # -- for handles -----------------------------------------------------------------------------

    async def await_revision(self, revision: int) -> None:
        """Wait until readers see this revision, or the store is closed."""
        while self.core.revision < revision and self.runner.error is None:
            await self.moved.wait()

    async def promote(self, wanted: Wanted) -> Promotion:
        """Have a clone lead; see ``Store.promote``."""
        runner, core = self.runner, self.core
        what = f"store {runner.name}"
        if not wanted.is_forced:
            await self._await_word()
        if self._is_master:
            raise MasterExists(f"{what} has its master here already")
        assert runner.guarding is not None, "every replica has one"
        runner.guarding.check("lead")
        if runner.is_changing_role:
            raise PromotionRefused(f"{what} is being promoted already")
        objection = self._objection()
        if objection and not (wanted.is_forced and runner.is_synced):
            raise PromotionRefused(f"{what}: {objection}")
        silent_ns = core.silent_ns(runner.now_ns())
        runner.is_changing_role = True
        try:
            if wanted.backend is Backend.SQLite:
                await runner.finish_task(
                    "its promotion to be durable", self._settle_in, wanted.options
                )
            if runner.error is not None:
                raise PromotionRefused(f"{what} was closed meanwhile")
            revision = core.revision
            self._is_master = True
            runner.carry_out(core.force())
            await self.await_leader(LEADER_SECONDS)
            runner.rename()
            if wanted.quota != core.meter.quota:
                runner.carry_out(core.set_quota(wanted.quota))
        finally:
            runner.end_change()
        return Promotion(core.epoch // FORCED_TERMS, revision, silent_ns / 1e9)

    async def _await_word(self) -> None:
        """Have a master that is in touch answer once: a farewell that is under way comes first."""

        async def answer() -> None:
            with suppress(StoreError):
                await self.await_current()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            while self.core.is_served and self.runner.error is None:
                await self.moved.wait()
            nursery.cancel_scope.cancel()

    def _objection(self) -> str:
        core = self.core
        if not self.runner.is_synced:
            return "this clone never had a snapshot, so that nothing would be left"
        if core.is_served:
            return (
                "its master is alive: close it first, when it is idle; with force it is deposed,"
                " and what it acknowledges meanwhile is lost"
            )
        if core.missing_count:
            return (
                f"{core.missing_count} entries of the master are missing here (it is at revision"
                f" {core.revision}): promote a clone that has them; with force they are lost"
            )
        return ""

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

    async def await_current(self) -> None:
        """Wait until a clone has all that its master had after the call."""
        if not self._is_master:
            await self.runner.reach(self.core.begin_read)


class SingleAttachments:
    """The masters and clones at one endpoint."""

    def __init__(self, host: AttachingHost, around: Surroundings, groups: GroupAttachments) -> None:
        """Make their cores as those of all ``groups`` are made."""
        self._host = host
        self._around = around
        self._groups = groups
        self._guarding = Attachment(host, around, 0).guarding

    async def attach_master(
        self, name: str, backend: Backend, options: dict[str, object], *, fresh: bool = False
    ) -> Store:
        """Start the master of a store, with what it had in an earlier life, here or at clones.

        Raises ``MasterExists``, ``BackendFailure``, ``ReplicaRegressed`` and ``StoreConflict``.
        """
        self._guarding(name).check("lead")
        self._check(name)
        options = dict(options)
        quota = take_quota(options, STORE_QUOTA)
        own_name = self._own_name()
        if backend is Backend.Memory:
            manner = self._master_manner(name, is_fresh=fresh)
            core = self._groups.in_memory(name, own_name, [own_name], options, manner)
            return await self._lead(name, self._part(name, core, None, is_master=True), quota)
        files = self._files(name, options)
        load_files = partial(files.load, self._groups.founding(own_name))
        async with reading(partial(restore, name, load_files), files.close) as load:
            opened, machine = await load()
            self._check(name)
            voters = [opened.beginning.stored.promises.member.name]
            manner = self._master_manner(name, is_fresh=fresh)
            core = self._groups.on_disk(name, voters, opened, machine, manner)
            part = self._part(name, core, files, is_master=True)
            store = await self._lead(name, part, quota)
            store.runner.tell_exposed(opened.exposed)
            return store

    async def _lead(self, name: str, part: SinglePart, quota: Quota) -> Store:
        store = Store(part, self._groups.run(name, part), part.promote)
        try:
            await part.await_leader(LEADER_SECONDS)
        except BaseException:
            with shielded("a master that does not lead to close", FINISH_SECONDS):
                await store.close()
            raise
        if quota != part.core.meter.quota:
            store.runner.carry_out(part.core.set_quota(quota))
        return store

    def _master_manner(self, name: str, *, is_fresh: bool) -> Manner:
        """Have a master ask the clones that are known, unless it begins anew."""
        if is_fresh:
            return Manner(is_single=True, aim=Aim.ANEW)
        _, clones = store_topics(name)
        found = frozenset(where for where, _ in self._host.core.reach.find_stores((clones,)))
        return Manner(is_single=True, aim=Aim.CLAIM, announced=found)

    def _check(self, name: str) -> None:
        masters, _ = store_topics(name)
        where = self._host.core.reach.find_store(masters)
        if where is not None:
            raise MasterExists(
                f"store {name} has its master at endpoint {where}: attach a clone here, or close it"
            )
        self._check_no_group(name, MasterExists)
        if group_topic(name) in self._host.stores:
            raise MasterExists(f"store {name} has a clone at this endpoint: close it first")

    def _check_no_group(self, name: str, error: type[StoreError]) -> None:
        if self._host.core.reach.has_group(name):
            raise error(
                f"store {name} is kept by a replica group: attach_replica without voters follows it"
            )

    async def attach_clone(
        self, name: str, stale_interval: float | None, mutation_buffer_interval: float
    ) -> Store:
        """Start a clone of a store, whether its master is known or not."""
        patience = Patience(mutation_buffer_interval, stale_interval)
        self._guarding(name).check("read")
        masters, _ = store_topics(name)
        is_here = group_topic(name) in self._host.stores
        if is_here and self._host.core.reach.find_store(masters) == self._host.core.local:
            raise NoSuchMaster(
                f"store {name} has its master at this endpoint: use the master's handle, or attach "
                "the clone to another endpoint"
            )
        self._check_no_group(name, NoSuchMaster)
        if is_here:
            raise StoreError(f"store {name} has a clone at this endpoint: use its handle")
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
        return self._groups.in_memory(name, self._own_name(), (), {}, manner)

    def _part(
        self, name: str, core: TableCore, files: ReplicaFiles | None, *, is_master: bool
    ) -> SinglePart:
        make_clone = partial(self._clone, name, Patience(BUFFER_SECONDS))
        make_files = partial(self._files, name)
        return SinglePart(core, files, make_clone, make_files, is_master=is_master)

    def _files(self, name: str, options: dict[str, object]) -> ReplicaFiles:
        from endpoint.replicas.groups.files import ReplicaFiles

        return ReplicaFiles(name, options, self._around.open_replica, is_renamed=True)

    def _own_name(self) -> str:
        """Give the endpoint's name; without one, the beginning of its id."""
        return self._groups.own_name or str(self._host.core.local)[:8]
