"""Makes the replicas of groups of one endpoint.

Imported when the first one is attached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from endpoint.mesh.status import StatusCode
from endpoint.replicas.attaching import Backend
from endpoint.replicas.attachment import Attachment
from endpoint.replicas.disk import reading
from endpoint.replicas.groups.making import Making
from endpoint.replicas.groups.replica import ReplicaStore
from endpoint.replicas.groups.table_part import TablePart
from endpoint.replicas.guarding import GroupGuarding
from endpoint.replicas.hosting import AttachingHost
from endpoint.replicas.patience import Patience
from endpoint.replicas.stores.proxy_part import StoreProxyPart
from endpoint.replicas.stores.store_proxy import StoreProxy
from endpoint.surroundings import Surroundings
from stores.disk.founding import Founding
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.codec import GroupCodec
from stores.group.member_parts import Stored
from stores.group.membership import Declared
from stores.group.positions import START
from stores.quota import STORE_QUOTA
from stores.replica.beginning import ELECTED, Beginning, Manner
from stores.replica.lazy import RowKeeper, packed
from stores.replica.roster import Roster
from stores.replica.tables.core import TableCore
from stores.replica.tables.outside import TableProxy
from stores.table.codec import TableCodec
from stores.table.machine import TableMachine
from stores.table.rights import right_of
from wire.errors import BackendFailure, MasterExists, StoreError
from wire.identifiers import EndpointId
from wire.topics import group_topic, proxy_topic, store_topics

if TYPE_CHECKING:
    from endpoint.replicas.groups.files import Opened


def restore(name: str, load: Callable[[], Opened]) -> tuple[Opened, TableMachine]:
    """Load files, and put the machine together, in a thread: a million entries take a second."""
    opened = load()
    machine = TableMachine(f"store {name}", STORE_QUOTA)
    machine.install(opened.parts)
    packed(machine)  # The first checkpoint finds the records of all writers encoded.
    return opened, machine


class GroupAttachments:
    """The replicas of groups at one endpoint."""

    def __init__(self, host: AttachingHost, around: Surroundings, own_name: str) -> None:
        """Start without one. ``own_name`` is the endpoint's, empty if it was given none."""
        self._host = host
        self._around = around
        self.own_name = own_name
        self._making = Making(host, around, own_name)
        self._attachment = Attachment(host, around, 1 << 32)

    async def attach(
        self,
        name: str,
        declared: Declared,
        backend: Backend,
        options: dict[str, object],
        patience: float,
    ) -> ReplicaStore:
        """Start a replica; raises ``InvalidData``, ``MasterExists`` and ``BackendFailure``."""
        own_name = self._making.check_names("store", name, declared)
        is_learner = not declared.wanted.wants(own_name)
        self._attachment.guarding(name).check("read" if is_learner else "vote")
        self._check_free(name)
        manner = Manner(Patience(patience).ticks, is_founder=declared.is_founder)
        if backend is Backend.Memory:
            core = self.in_memory(name, own_name, declared, options, manner)
            part = TablePart(core, None)
            return ReplicaStore(part, self.run(name, part))
        from endpoint.replicas.groups.files import ReplicaFiles

        files = ReplicaFiles(name, options, self._around.open_replica)
        founding = self.founding(own_name)
        load_files = partial(files.load, founding, is_learner=is_learner)
        async with reading(partial(restore, name, load_files), files.close) as load:
            opened, machine = await load()
            core = self.on_disk(name, declared, opened, machine, manner)
            self._check_free(name)
            part = TablePart(core, files)
            store = ReplicaStore(part, self.run(name, part))
            store.runner.tell_exposed(opened.exposed)
            if opened.aside is not None:
                text = f"a file of an earlier release is kept as {opened.aside}"
                store.runner.tell_status(StatusCode.STORE_CONFLICT, core.entity, text)
            return store

    async def attach_proxy(self, name: str, mutation_buffer_interval: float) -> StoreProxy:
        """Start a proxy of a store, whether a leader of its group is known or not."""
        hears = proxy_topic(name)
        self._attachment.guarding(name).check("read", "write")
        topics = (*store_topics(name), group_topic(name), hears)
        if any(topic in self._host.stores for topic in topics):
            raise StoreError(f"store {name} is in use at this endpoint: use that handle")
        entity, ticks = self._attachment.entity(), Patience(mutation_buffer_interval).ticks
        core = TableProxy(entity, GroupCodec(TableCodec()), self._around.now_ns(), ticks)

        def find_replicas() -> list[EndpointId]:
            found = self._host.core.reach.find_stores([group_topic(name)])
            return [origin for origin, _ in found]

        part = StoreProxyPart(core, find_replicas)
        guarding = GroupGuarding(self._host.core, name, part, right_of)
        store = StoreProxy(part, self._attachment.run(name, part, guarding))
        part.survey()
        store.runner.carry_out(core.start())
        return store

    def in_memory(
        self,
        name: str,
        own_name: str,
        declared: Declared,
        options: dict[str, object],
        manner: Manner = ELECTED,
    ) -> TableCore:
        """Make a replica without files; raises ``BackendFailure`` for an option."""
        if options:
            raise BackendFailure(f"a store in memory has no option {next(iter(options))!r}")
        promises = new_promises(self._making.new_member(own_name))
        stored = Stored(promises, NEW_SLOTS, START, (), (), 0, is_volatile=True)
        machine = TableMachine(f"store {name}", STORE_QUOTA)
        return self._core(name, declared, machine, Beginning(stored, None, manner=manner))

    def on_disk(
        self,
        name: str,
        declared: Declared,
        opened: Opened,
        machine: TableMachine,
        manner: Manner = ELECTED,
    ) -> TableCore:
        """Make the replica that the files have, with what they were restored to."""
        core = self._core(name, declared, machine, replace(opened.beginning, manner=manner))
        core.carrier.keeper = RowKeeper(machine, opened.columns, opened.beginning.stored.applied)
        return core

    def founding(self, own_name: str) -> Founding:
        """Give what a new file, or one of an earlier release, becomes a group with."""
        return self._making.founding(own_name)

    def run(self, name: str, part: TablePart) -> Callable[[], Awaitable[None]]:
        """Have a replica work; gives what closes it."""
        guarding = GroupGuarding(self._host.core, name, part, right_of)
        close = self._attachment.run(name, part, guarding)
        part.runner.carry_out(part.core.start())
        return close

    def _core(
        self,
        name: str,
        declared: Declared,
        machine: TableMachine,
        beginning: Beginning,
    ) -> TableCore:
        entity = self._attachment.entity()
        own = beginning.stored.promises.member
        roster = Roster(own, entity.endpoint, declared.names, declared.count)
        codec = GroupCodec(TableCodec())
        return TableCore(entity, roster, machine, codec, beginning, self._making.world(name))

    def _check_free(self, name: str) -> None:
        masters, clones = store_topics(name)
        where = self._host.core.reach.find_store(masters)
        if where is not None:
            raise MasterExists(f"store {name} has its master at endpoint {where}, and no group")
        if clones in self._host.stores or group_topic(name) in self._host.stores:
            raise StoreError(f"store {name} is in use at this endpoint: use that handle")
