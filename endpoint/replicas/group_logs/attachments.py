"""Makes the replicas of logs at one endpoint, and their proxies.

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
from endpoint.replicas.group_logs.part import LogReplicaPart
from endpoint.replicas.group_logs.replica import ReplicaLog
from endpoint.replicas.group_logs.source import ReplicaSource
from endpoint.replicas.groups.making import Making
from endpoint.replicas.guarding import GroupGuarding
from endpoint.replicas.hosting import AttachingHost
from endpoint.replicas.logs.log_proxy import LogProxyPart
from endpoint.replicas.patience import Patience
from endpoint.surroundings import Surroundings
from stores.disk.founding import Founding
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.codec import GroupCodec
from stores.group.member_parts import Stored
from stores.group.membership import Declared
from stores.group.positions import START
from stores.log.codec import LogCodec
from stores.log.machine import LogMachine
from stores.log.rights import right_of
from stores.quota import STORE_QUOTA
from stores.replica.beginning import ELECTED, Beginning, Manner
from stores.replica.logs.books import BookKeeper
from stores.replica.logs.core import LogCore
from stores.replica.logs.outside import LogProxy
from stores.replica.roster import Roster
from wire.errors import BackendFailure, MasterExists, NoSuchMaster, StoreError
from wire.identifiers import EndpointId
from wire.topics import log_group_topic, log_topics

if TYPE_CHECKING:
    from endpoint.replicas.group_logs.files import LogReplicaFiles, OpenedLog

Close = Callable[[], Awaitable[None]]


class GroupLogAttachments:
    """The replicas of logs at one endpoint."""

    def __init__(self, host: AttachingHost, around: Surroundings, own_name: str) -> None:
        """Start without one. ``own_name`` is the endpoint's, empty if it was given none."""
        self._host = host
        self._around = around
        self.own_name = own_name
        self._making = Making(host, around, own_name)
        # The replicas of stores count from lower numbers.
        self._attachment = Attachment(host, around, 1 << 33)

    async def attach(
        self,
        name: str,
        declared: Declared,
        partitions: int | None,
        backend: Backend,
        options: dict[str, object],
        patience: float,
    ) -> ReplicaLog:
        """Start a replica; raises ``InvalidData``, ``MasterExists`` and ``BackendFailure``."""
        own_name = self._making.check_names("log", name, declared)
        is_learner = not declared.wanted.wants(own_name)
        self._attachment.guarding(name).check("read" if is_learner else "vote")
        self._check_free(name)
        manner = Manner(Patience(patience).ticks, is_founder=declared.is_founder)
        if backend is Backend.Memory:
            core = self.in_memory(name, own_name, declared, partitions, options, manner)
            part = _part(core, None)
            return ReplicaLog(part, self.run(name, part))
        from endpoint.replicas.group_logs.files import LogReplicaFiles

        files = LogReplicaFiles(name, options, self._around.open_log_replica)
        load_files = partial(self.restore, name, files, own_name, partitions, is_learner=is_learner)
        async with reading(load_files, files.close) as load:
            opened, machine = await load()
            self._check_free(name)
            part = _part(self.on_disk(name, declared, opened, machine, manner), files)
            log = ReplicaLog(part, self.run(name, part))
            log.runner.tell_exposed(opened.exposed)
            if opened.aside is not None:
                text = f"a file of an earlier release is kept as {opened.aside}"
                log.runner.tell_status(StatusCode.STORE_CONFLICT, part.core.entity, text)
            return log

    def attach_proxy(self, name: str, patience: float) -> tuple[LogProxyPart, Close]:
        """Start a proxy of a log, whether a leader is known or not."""
        keepers, readers, followers = log_topics(name)
        group = log_group_topic(name)
        self._attachment.guarding(name).check("read", "write")
        topics = (keepers, readers, followers, group)
        if any(topic in self._host.stores for topic in topics):
            if self._host.core.reach.find_store(keepers) == self._host.core.local:
                raise NoSuchMaster(f"log {name} has its keeper at this endpoint: use its handle")
            raise StoreError(f"log {name} is in use at this endpoint: use that handle")
        entity, ticks = self._attachment.entity(), Patience(patience).ticks
        core = LogProxy(entity, GroupCodec(LogCodec()), self._around.now_ns(), ticks)

        def find_replicas() -> list[EndpointId]:
            return [origin for origin, _ in self._host.core.reach.find_stores([group])]

        part = LogProxyPart(core, find_replicas, patience)
        guarding = GroupGuarding(self._host.core, name, part, right_of)
        close = self._attachment.run(name, part, guarding)
        part.survey()
        part.runner.carry_out(core.start())
        return part, close

    def in_memory(
        self,
        name: str,
        own_name: str,
        declared: Declared,
        partitions: int | None,
        options: dict[str, object],
        manner: Manner = ELECTED,
    ) -> LogCore:
        """Make a replica without files; raises ``BackendFailure`` for an option."""
        if options:
            raise BackendFailure(f"a log in memory has no option {next(iter(options))!r}")
        promises = new_promises(self._making.new_member(own_name))
        stored = Stored(promises, NEW_SLOTS, START, (), (), 0, is_volatile=True)
        machine = _new_machine(name, partitions)
        return self._core(name, declared, machine, Beginning(stored, None, manner=manner))

    def on_disk(
        self,
        name: str,
        declared: Declared,
        opened: OpenedLog,
        machine: LogMachine,
        manner: Manner = ELECTED,
    ) -> LogCore:
        """Make the replica that the files have, with what they were restored to."""
        core = self._core(name, declared, machine, replace(opened.beginning, manner=manner))
        core.carrier.keeper = BookKeeper(machine, opened.beginning.stored.applied)
        return core

    def restore(
        self,
        name: str,
        files: LogReplicaFiles,
        own_name: str,
        partitions: int | None,
        *,
        is_learner: bool = False,
    ) -> tuple[OpenedLog, LogMachine]:
        """Load files, and put the machine together, in a thread: much may have to be read."""
        machine, founding = _new_machine(name, partitions), self._making.founding(own_name)
        return _restore(files, founding, machine, is_learner=is_learner), machine

    def run(self, name: str, part: LogReplicaPart) -> Close:
        """Have a replica work; gives what closes it."""
        guarding = GroupGuarding(self._host.core, name, part, right_of)
        close = self._attachment.run(name, part, guarding)
        part.runner.carry_out(part.core.start())
        return close

    def _core(
        self,
        name: str,
        declared: Declared,
        machine: LogMachine,
        beginning: Beginning,
    ) -> LogCore:
        entity = self._attachment.entity()
        roster = Roster(
            beginning.stored.promises.member, entity.endpoint, declared.names, declared.count
        )
        world = self._making.world(name)
        return LogCore(entity, roster, machine, GroupCodec(LogCodec()), beginning, world)

    def _check_free(self, name: str) -> None:
        keepers, readers, _ = log_topics(name)
        where = self._host.core.reach.find_store(keepers)
        if where is not None:
            raise MasterExists(f"log {name} has its keeper at endpoint {where}, and no group")
        if readers in self._host.stores or log_group_topic(name) in self._host.stores:
            raise StoreError(f"log {name} is in use at this endpoint: use that handle")


def _part(core: LogCore, files: LogReplicaFiles | None) -> LogReplicaPart:
    part = LogReplicaPart(core, files)
    part.source = ReplicaSource(part)
    return part


def _new_machine(name: str, partitions: int | None) -> LogMachine:
    return LogMachine(f"log {name}", 1 if partitions is None else partitions, STORE_QUOTA)


def _restore(
    files: LogReplicaFiles, founding: Founding, machine: LogMachine, *, is_learner: bool
) -> OpenedLog:
    opened = files.load(founding, is_learner=is_learner)
    if opened.parts:
        machine.install(opened.parts)
    machine.beside_runs()  # The first checkpoint finds the records of all writers encoded.
    return opened
