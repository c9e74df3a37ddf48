"""Makes the replicas of groups of one endpoint.

Imported when the first one is attached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import trio

from endpoint.mesh.core import EndpointCore
from endpoint.mesh.status import StatusCode
from endpoint.replicas.attaching import Backend
from endpoint.replicas.attachment import Attachment
from endpoint.replicas.disk import reading
from endpoint.replicas.groups.files import Opened, ReplicaFiles
from endpoint.replicas.groups.guarding import GroupGuarding
from endpoint.replicas.groups.outside import GroupProxyPart
from endpoint.replicas.groups.part import GroupPart
from endpoint.replicas.groups.replica import ReplicaStore
from endpoint.replicas.hosting import AttachingHost
from endpoint.replicas.patience import Patience
from endpoint.replicas.stores.store_proxy import StoreProxy
from endpoint.surroundings import Surroundings
from handshake.principals import ANONYMOUS
from stores.asking import KnownReplica
from stores.disk.replica import Founding
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.codec import GroupCodec
from stores.group.member import Stored
from stores.group.packed_fields import NAME_SIZE_MAX, VOTERS_MAX
from stores.group.positions import START, MemberId
from stores.quota import STORE_QUOTA
from stores.replica.beginning import ELECTED, Beginning, Manner, World
from stores.replica.core import GroupCore
from stores.replica.lazy import RowKeeper, packed
from stores.replica.outside import GroupProxy
from stores.replica.roster import Roster
from stores.table.codec import TableCodec
from stores.table.machine import TableMachine
from stores.table.rights import right_of
from wire.errors import BackendFailure, InvalidData, MasterExists, StoreError
from wire.identifiers import EndpointId
from wire.scalars import shorten
from wire.topics import group_topic, proxy_topic, store_topics

LIFE_END: Final = 1 << 63
"""Lives are drawn below it: two of one name are equal once in a lifetime of the universe."""


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
        self._attachment = Attachment(host, around, 1 << 32)

    async def attach(
        self, name: str, voters: Sequence[str], backend: Backend, options: dict[str, object]
    ) -> ReplicaStore:
        """Start a replica; raises ``InvalidData``, ``MasterExists`` and ``BackendFailure``."""
        own_name = self._check_names(name, voters)
        self._attachment.guarding(name).check("vote" if own_name in voters else "read")
        self._check_free(name)
        if backend is Backend.Memory:
            core = self.in_memory(name, own_name, voters, options)
            part = GroupPart(core, None)
            return ReplicaStore(part, self.run(name, part))
        files = ReplicaFiles(name, options, self._around.open_replica)
        founding = self.founding(own_name)
        load_files = partial(files.load, founding, is_learner=own_name not in voters)
        async with reading(partial(restore, name, load_files), files.close) as load:
            opened, machine = await load()
            core = self.on_disk(name, voters, opened, machine)
            self._check_free(name)
            part = GroupPart(core, files)
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
        core = GroupProxy(entity, GroupCodec(TableCodec()), self._around.now_ns(), ticks)

        def find_replicas() -> list[KnownReplica]:
            found = self._host.core.reach.find_stores([group_topic(name)])
            return [KnownReplica(origin) for origin, _ in found]

        part = GroupProxyPart(core, find_replicas)
        store = StoreProxy(part, self._attachment.run(name, part))
        store.runner.guarding = GroupGuarding(self._host.core, name, part, right_of)
        part.survey()
        store.runner.carry_out(core.start())
        return store

    def in_memory(
        self,
        name: str,
        own_name: str,
        voters: Sequence[str],
        options: dict[str, object],
        manner: Manner = ELECTED,
    ) -> GroupCore:
        """Make a replica without files; raises ``BackendFailure`` for an option."""
        if options:
            raise BackendFailure(f"a store in memory has no option {next(iter(options))!r}")
        promises = new_promises(self._new_member(own_name))
        stored = Stored(promises, NEW_SLOTS, START, (), (), 0, is_volatile=True)
        machine = TableMachine(f"store {name}", STORE_QUOTA)
        return self._core(name, voters, machine, Beginning(stored, None, manner=manner))

    def on_disk(
        self,
        name: str,
        voters: Sequence[str],
        opened: Opened,
        machine: TableMachine,
        manner: Manner = ELECTED,
    ) -> GroupCore:
        """Make the replica that the files have, with what they were restored to."""
        core = self._core(name, voters, machine, replace(opened.beginning, manner=manner))
        core.carrier.keeper = RowKeeper(machine, opened.columns, opened.beginning.stored.applied)
        return core

    def founding(self, own_name: str) -> Founding:
        """Give what a new file, or one of an earlier release, becomes a group with."""
        return Founding(self._new_group(), self._new_member(own_name), self._around.now_ns())

    def run(self, name: str, part: GroupPart) -> Callable[[], Awaitable[None]]:
        """Have a replica work; gives what closes it."""
        close = self._attachment.run(name, part)
        part.runner.guarding = GroupGuarding(self._host.core, name, part, right_of)
        part.runner.carry_out(part.core.start())
        return close

    def _new_member(self, own_name: str) -> MemberId:
        return MemberId(own_name, self._draw(1, LIFE_END))

    def _core(
        self, name: str, voters: Sequence[str], machine: TableMachine, beginning: Beginning
    ) -> GroupCore:
        entity = self._attachment.entity()
        roster = Roster(beginning.stored.promises.member, entity.endpoint, voters)
        codec = GroupCodec(TableCodec())
        return GroupCore(entity, roster, machine, codec, beginning, self._world(name))

    def _new_group(self) -> bytes:
        return bytes(self._around.new_id())

    def _check_names(self, name: str, voters: Sequence[str]) -> str:
        store_topics(name)
        if not voters:
            return self.own_name or ANONYMOUS
        if not self.own_name:
            raise InvalidData(
                f"store {name}: voters are known by the names of their endpoints, and this one has"
                " none of its own: give Endpoint(name=...)"
            )
        if len(voters) > VOTERS_MAX or len(set(voters)) != len(voters):
            raise InvalidData(
                f"voters={tuple(voters)!r}: give up to {VOTERS_MAX} different names of endpoints"
            )
        for each in (self.own_name, *voters):
            if not 0 < len(each) <= NAME_SIZE_MAX:
                raise InvalidData(
                    f"a voter's name has 1 to {NAME_SIZE_MAX} characters: {each!r:.60}"
                )
        return self.own_name

    def _check_free(self, name: str) -> None:
        masters, clones = store_topics(name)
        where = self._host.core.reach.find_store(masters)
        if where is not None:
            raise MasterExists(f"store {name} has its master at endpoint {where}, and no group")
        if clones in self._host.stores or group_topic(name) in self._host.stores:
            raise StoreError(f"store {name} is in use at this endpoint: use that handle")

    def _draw(self, least: int, most: int) -> int:
        return min(most, least + int(self._around.chance() * (most - least + 1)))

    def _world(self, name: str) -> World:
        return World(
            draw=self._draw,
            monotonic_ns=lambda: round(trio.current_time() * 1e9),
            now_ns=self._around.now_ns,
            new_group=self._new_group,
            vouches=self._vouches,
            may_vote=partial(self._may_vote, name),
        )

    def _may_vote(self, name: str) -> bool:
        return self._host.core.authorisation.own_role.rights(name).vote

    def _vouches(self, endpoint: EndpointId, name: str) -> bool:
        """Tell whether an endpoint may have a member of a name, where names are proven."""
        core: EndpointCore = self._host.core
        authorisation = core.authorisation
        if not authorisation.are_names_proven:
            return True
        known = core.topology.announcements.get(endpoint)
        if authorisation.believed_name(endpoint, known) == name:
            return True
        who = core.permissions.who(endpoint)
        authorisation.refusals.note(endpoint, f"{who} has no replica called {shorten(name)}")
        return False
