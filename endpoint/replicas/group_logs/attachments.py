"""Makes the replicas of logs at one endpoint.

Imported when the first one is attached.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from endpoint.replicas.attaching import Backend
from endpoint.replicas.attachment import Attachment
from endpoint.replicas.disk import reading
from endpoint.replicas.group_logs.files import LogReplicaFiles, OpenedLog
from endpoint.replicas.group_logs.part import LogReplicaPart
from endpoint.replicas.group_logs.replica import ReplicaLog
from endpoint.replicas.groups.guarding import GroupGuarding
from endpoint.replicas.groups.making import Making
from endpoint.replicas.hosting import AttachingHost
from endpoint.surroundings import Surroundings
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.codec import GroupCodec
from stores.group.member import Stored
from stores.group.membership import Declared
from stores.group.positions import START, MemberId
from stores.log.codec import LogCodec
from stores.log.machine import LogMachine
from stores.log.rights import right_of
from stores.quota import STORE_QUOTA
from stores.replica.beginning import Beginning
from stores.replica.logs.books import BookKeeper
from stores.replica.logs.core import LogCore
from stores.replica.roster import Roster
from wire.errors import BackendFailure, MasterExists, StoreError
from wire.topics import log_group_topic, log_topics


class GroupLogAttachments:
    """The replicas of logs at one endpoint."""

    def __init__(self, host: AttachingHost, around: Surroundings, own_name: str) -> None:
        """Start without one. ``own_name`` is the endpoint's, empty if it was given none."""
        self._host = host
        self._around = around
        self._making = Making(host, around, own_name)
        # Stores, logs and replicas of stores count from lower numbers.
        self._attachment = Attachment(host, around, 1 << 33)

    async def attach(
        self,
        name: str,
        voters: Sequence[str],
        partitions: int | None,
        backend: Backend,
        options: dict[str, object],
    ) -> ReplicaLog:
        """Start a replica; raises ``InvalidData``, ``MasterExists`` and ``BackendFailure``."""
        own_name = self._making.check_names("log", name, Declared(tuple(voters)))
        self._attachment.guarding(name).check("vote" if own_name in voters else "read")
        self._check_free(name)
        own = self._making.new_member(own_name)
        machine = LogMachine(f"log {name}", partitions or 1, STORE_QUOTA)
        if backend is Backend.Memory:
            if options:
                raise BackendFailure(f"a log in memory has no option {next(iter(options))!r}")
            stored = Stored(new_promises(own), NEW_SLOTS, START, (), (), 0, is_volatile=True)
            core = self._core(name, voters, machine, Beginning(stored, None))
            return self._run(name, LogReplicaPart(core, None))
        files = LogReplicaFiles(name, options, self._around.open_log_replica)
        load_files = partial(_restore, files, own, machine)
        async with reading(load_files, files.close) as load:
            opened = await load()
            self._check_free(name)
            core = self._core(name, voters, machine, opened.beginning)
            core.carrier.keeper = BookKeeper(machine, opened.beginning.stored.applied)
            log = self._run(name, LogReplicaPart(core, files))
            log.runner.tell_exposed(opened.exposed)
            return log

    def _core(
        self, name: str, voters: Sequence[str], machine: LogMachine, beginning: Beginning
    ) -> LogCore:
        entity = self._attachment.entity()
        roster = Roster(beginning.stored.promises.member, entity.endpoint, voters)
        world = self._making.world(name)
        return LogCore(entity, roster, machine, GroupCodec(LogCodec()), beginning, world)

    def _run(self, name: str, part: LogReplicaPart) -> ReplicaLog:
        log = ReplicaLog(part, self._attachment.run(name, part))
        part.runner.guarding = GroupGuarding(self._host.core, name, part, right_of)
        part.runner.carry_out(part.core.start())
        return log

    def _check_free(self, name: str) -> None:
        keepers, readers, _ = log_topics(name)
        where = self._host.core.reach.find_store(keepers)
        if where is not None:
            raise MasterExists(f"log {name} has its keeper at endpoint {where}, and no group")
        if readers in self._host.stores or log_group_topic(name) in self._host.stores:
            raise StoreError(f"log {name} is in use at this endpoint: use that handle")


def _restore(files: LogReplicaFiles, own: MemberId, machine: LogMachine) -> OpenedLog:
    """Load files, and put the machine together, in a thread: much may have to be read."""
    opened = files.load(own)
    if opened.parts:
        machine.install(opened.parts)
    machine.beside_runs()  # The first checkpoint finds the records of all writers encoded.
    return opened
