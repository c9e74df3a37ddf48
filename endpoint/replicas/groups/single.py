"""What a master and its clones are: the one voter of a group, and learners that follow it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from endpoint.mesh.status import StatusCode
from endpoint.replicas.attaching import BUFFER_SECONDS, LEADER_SECONDS, Backend
from endpoint.replicas.attachment import Attachment
from endpoint.replicas.backends import check_replicas, take_quota
from endpoint.replicas.disk import on_disk, reading
from endpoint.replicas.groups.attachments import GroupAttachments
from endpoint.replicas.groups.files import ReplicaFiles
from endpoint.replicas.groups.part import GroupPart
from endpoint.replicas.hosting import AttachingHost
from endpoint.replicas.parts import Topics
from endpoint.replicas.patience import Patience
from endpoint.replicas.stores.promoting import Promotion
from endpoint.replicas.stores.store import Store, Wanted
from endpoint.replicas.stores.verifying import Verification
from endpoint.surroundings import Surroundings
from stores.disk.replica import Founding
from stores.group.election import FORCED_TERMS
from stores.quota import STORE_QUOTA, Quota
from stores.replica.beginning import Manner
from stores.replica.core import GroupCore
from stores.replica.lazy import RowKeeper
from wire.errors import MasterExists, NoSuchMaster, PromotionRefused
from wire.identifiers import EntityId
from wire.topics import group_topic, store_topics

ALONE: Final = Manner(is_single=True)
"""How a master bears that it does not lead yet."""


class SinglePart(GroupPart):
    """The copy of a store that is here, at a master or a clone."""

    def __init__(
        self,
        core: GroupCore,
        files: ReplicaFiles | None,
        make_clone: Callable[[], GroupCore],
        *,
        is_master: bool,
    ) -> None:
        """Start in one of the two roles. ``make_clone`` makes what a deposed master becomes."""
        super().__init__(core, files)
        self._make_clone = make_clone
        self._is_master = is_master

    # -- for the runner --------------------------------------------------------------------------

    @property
    def leader(self) -> GroupCore | None:
        """The core, if it is a master."""
        return self.core if self._is_master else None

    def topics(self, name: str) -> Topics:
        """Hear the group's topic, and be announced as what this is by another one."""
        topic = group_topic(name)
        masters, clones = store_topics(name)
        return Topics(topic, topic, topic, masters if self._is_master else clones)

    def was_carried_out(self) -> None:
        """Wake those that wait, and become a clone where another one leads."""
        leader = self.core.leader
        if self._is_master and leader not in (None, self.core.own):
            self._step_aside()
        super().was_carried_out()

    def _step_aside(self) -> None:
        """Leave the master's file as it is, and begin anew as a clone."""
        old, runner = self.core, self.runner
        leader = None if old.leader is None else old.roster.endpoint_of(old.leader)
        where = EntityId(leader or old.entity.endpoint, 0)
        reason = (
            f"deposed at revision {old.revision}: {where} leads; what it did not hear of is lost,"
            " and this store is a clone now"
        )
        runner.tell_status(StatusCode.STORE_DEPOSED, where, reason)
        self._is_master = False
        runner.carry_out(old.bequeath("the master was deposed"))
        self.core, self.backend = self._make_clone(), None
        self.core.inherit(old.outbox)
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
        files = ReplicaFiles(runner.name, options, is_renamed=True)
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

    async def verify(self, timeout: float) -> Verification:
        """Compare all replicas."""
        raise NotImplementedError

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
        self, name: str, backend: Backend, options: dict[str, object], replicas: int = 0
    ) -> Store:
        """Start the master of a store; raises ``MasterExists`` and ``BackendFailure``."""
        check_replicas(replicas)
        self._guarding(name).check("lead")
        self._check(name)
        options = dict(options)
        quota = take_quota(options, STORE_QUOTA)
        own_name = self._own_name()
        if backend is Backend.Memory:
            core = self._groups.in_memory(name, own_name, [own_name], options, ALONE)
            return await self._lead(name, self._part(name, core, None, is_master=True), quota)
        files = ReplicaFiles(name, options, is_renamed=True)
        load_files = partial(files.load, self._groups.founding(own_name))
        async with reading(load_files, files.close) as load:
            opened = await load()
            self._check(name)
            voters = [opened.beginning.stored.promises.member.name]
            core = self._groups.on_disk(name, voters, opened, ALONE)
            part = self._part(name, core, files, is_master=True)
            store = await self._lead(name, part, quota)
            store.runner.tell_exposed(opened.exposed)
            return store

    async def _lead(self, name: str, part: SinglePart, quota: Quota) -> Store:
        store = Store(part, self._groups.run(name, part), part.promote)
        await part.await_leader(LEADER_SECONDS)
        if quota != part.core.meter.quota:
            store.runner.carry_out(part.core.set_quota(quota))
        return store

    def _check(self, name: str) -> None:
        masters, _ = store_topics(name)
        where = self._host.core.reach.find_store(masters)
        if where is not None:
            raise MasterExists(
                f"store {name} has its master at endpoint {where}: attach a clone here, or close it"
            )
        if group_topic(name) in self._host.stores:
            raise MasterExists(f"store {name} has a clone at this endpoint: close it first")

    async def attach_clone(
        self, name: str, stale_interval: float | None, mutation_buffer_interval: float
    ) -> Store:
        """Start a clone of a store, whether its master is known or not."""
        patience = Patience(mutation_buffer_interval, stale_interval)
        self._guarding(name).check("read")
        if group_topic(name) in self._host.stores:
            raise NoSuchMaster(
                f"store {name} has its master at this endpoint: use the master's handle, or attach "
                "the clone to another endpoint"
            )
        core = self._clone(name, patience)
        part = self._part(name, core, None, is_master=False)
        return Store(part, self._groups.run(name, part), part.promote)

    def _clone(self, name: str, patience: Patience) -> GroupCore:
        manner = Manner(patience.ticks, is_single=True, stale_ns=patience.stale_ns)
        return self._groups.in_memory(name, self._own_name(), (), {}, manner)

    def _part(
        self, name: str, core: GroupCore, files: ReplicaFiles | None, *, is_master: bool
    ) -> SinglePart:
        make_clone = partial(self._clone, name, Patience(BUFFER_SECONDS))
        return SinglePart(core, files, make_clone, is_master=is_master)

    def _own_name(self) -> str:
        """Give the endpoint's name; without one, the beginning of its id."""
        return self._groups.own_name or str(self._host.core.local)[:8]
