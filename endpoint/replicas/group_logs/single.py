"""Keepers and followers: a log that is led alone, and copies of it; and collecting topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from endpoint.mesh.status import StatusCode
from endpoint.pubsub.subscriber import Subscriber
from endpoint.replicas.attaching import PATIENCE_SECONDS, Backend
from endpoint.replicas.backends import take_quota
from endpoint.replicas.disk import reading
from endpoint.replicas.group_logs.attachments import GroupLogAttachments
from endpoint.replicas.group_logs.single_part import LogPart
from endpoint.replicas.groups.single import Singles, SingleTopics
from endpoint.replicas.hosting import AttachingHost
from endpoint.replicas.logs.log import Log
from endpoint.replicas.logs.log_backends import log_quota, take_retention
from endpoint.replicas.logs.log_collector import collect
from endpoint.replicas.parts import Kind
from endpoint.replicas.patience import Patience
from endpoint.surroundings import Surroundings
from stores.group.entries import VotersEntry
from stores.group.limits import CATCH_UP_RUN
from stores.group.member_parts import Stored
from stores.group.membership import Declared
from stores.log.partitions import Retention
from stores.quota import Quota
from stores.replica.beginning import Manner
from stores.replica.logs.core import LogCore
from wire.errors import BackendFailure, InvalidData, StoreError
from wire.topics import log_topics

if TYPE_CHECKING:
    from endpoint.replicas.group_logs.files import LogReplicaFiles


@dataclass(frozen=True, slots=True)
class Kept:
    """What a keeper is attached with."""

    topics: Sequence[str]
    """What is published on them elsewhere becomes entries."""
    partitions: int | None
    """``None`` for those that there are, or one."""
    retention: Retention
    quota: Quota


class SingleLogs(Singles):
    """The keepers, followers and proxies of logs at one endpoint."""

    kind: Kind = "log"
    words: Final = ("keeper", "follower", "attach_log_replica")

    def __init__(
        self,
        host: AttachingHost,
        around: Surroundings,
        groups: GroupLogAttachments,
        subscribe: Callable[..., Subscriber],
    ) -> None:
        """Make cores as those of all ``groups``; ``subscribe`` is the endpoint's, to collect."""
        super().__init__(host, around)
        self._groups = groups
        self._subscribe = subscribe

    def topics(self, name: str) -> SingleTopics:
        """Give the topics of a log of this name."""
        return LogPart.topics_of(name)

    def has_group(self, name: str) -> bool:
        """Tell whether a replica group keeps a log."""
        return self._host.core.reach.has_log_group(name)

    async def attach_log(
        self,
        name: str,
        topics: Sequence[str],
        partitions: int | None,
        backend: Backend,
        options: dict[str, object],
        *,
        fresh: bool = False,
    ) -> Log:
        """Start the keeper of a log, with what it had in an earlier life, here or at followers.

        Raises ``MasterExists``, ``InvalidData``, ``BackendFailure``, ``ReplicaRegressed`` and
        ``StoreConflict``.
        """
        self._guarding(name).check("lead")
        self._check_reader(name)
        self.check_lead(name)
        options = dict(options)
        retention, quota = take_retention(options), take_quota(options, log_quota(backend))
        kept = Kept(topics, partitions, retention, quota)
        own_name = self.own_name(self._groups.own_name)
        if backend is Backend.Memory:
            manner = self.master_manner(name, is_fresh=fresh)
            core = self._groups.in_memory(
                name, own_name, Declared((own_name,)), partitions, options, manner
            )
            return await self._lead(name, self._part(name, core, None, is_master=True), kept)
        files = self._files(name, options)
        restore = partial(self._groups.restore, name, files, own_name, partitions)
        async with reading(restore, files.close) as load:
            opened, machine = await load()
            self.check_lead(name)
            stored = opened.beginning.stored
            if _leads(stored) is False:
                raise BackendFailure(
                    f"{files.path} holds a follower's copy of a log: attach it with"
                    " attach_log_clone, and promote that if its keeper is gone"
                )
            manner = self.master_manner(name, is_fresh=fresh)
            alone = Declared((stored.promises.member.name,))
            core = self._groups.on_disk(name, alone, opened, machine, manner)
            part = self._part(name, core, files, is_master=True)
            log = await self._lead(name, part, kept)
            log.runner.tell_exposed(opened.exposed)
            return log

    async def _lead(self, name: str, part: LogPart, kept: Kept) -> Log:
        log = Log(part, self._groups.run(name, part), part.promote, self._collect)
        await self.await_lead(log, part)
        part.keep(kept.retention, kept.quota)
        count = len(part.core.machine.partitions)
        if kept.partitions not in (None, count):
            await self.abandon(log)
            raise InvalidData(f"{name} is a log of {count} partitions, not {kept.partitions}")
        self._collect(log, kept.topics)
        return log

    async def attach_clone(
        self,
        name: str,
        backend: Backend,
        options: dict[str, object],
        times: tuple[float | None, float],
    ) -> Log:
        """Start a follower, whether its keeper is known or not."""
        stale_seconds, seconds = times
        patience = Patience(seconds, stale_seconds)
        self._guarding(name).check("read")
        self._check_reader(name)
        self.check_copy(name)
        if backend is Backend.Memory:
            core = self._follower(name, patience, options)
            part = self._part(name, core, None, patience)
            return Log(part, self._groups.run(name, part), part.promote, self._collect)
        files = self._files(name, options)
        own_name = self.own_name(self._groups.own_name)
        restore = partial(self._groups.restore, name, files, own_name, None, is_learner=True)
        async with reading(restore, files.close) as load:
            opened, machine = await load()
            self.check_copy(name)
            if _leads(opened.beginning.stored):
                raise BackendFailure(
                    f"{files.path} holds the log of a keeper: attach it with attach_log, or give"
                    " the follower a file of its own"
                )
            core = self._groups.on_disk(name, Declared(), opened, machine, _manner_of(patience))
            part = self._part(name, core, files, patience)
            log = Log(part, self._groups.run(name, part), part.promote, self._collect)
            log.runner.tell_exposed(opened.exposed)
            if opened.aside is not None:
                text = f"a file of an earlier release is kept as {opened.aside}"
                log.runner.tell_status(StatusCode.STORE_CONFLICT, core.entity, text)
            return log

    async def attach_proxy(self, name: str, patience: float) -> Log:
        """Start a proxy, whether its keeper is known or not."""
        part, close = self._groups.attach_proxy(name, patience)
        return Log(part, close, part.promote, self._collect)

    def _check_reader(self, name: str) -> None:
        _, readers, _ = log_topics(name)
        if readers in self._host.stores:
            raise StoreError(f"log {name} is in use at this endpoint: use that handle")

    def _follower(self, name: str, patience: Patience, options: dict[str, object]) -> LogCore:
        own_name, manner = self.own_name(self._groups.own_name), _manner_of(patience)
        return self._groups.in_memory(name, own_name, Declared(), None, options, manner)

    def _part(
        self,
        name: str,
        core: LogCore,
        files: LogReplicaFiles | None,
        patience: Patience | None = None,
        *,
        is_master: bool = False,
    ) -> LogPart:
        usual = Patience(PATIENCE_SECONDS)
        make_follower = partial(self._follower, name, usual, {})
        return LogPart(core, files, make_follower, patience or usual, is_master=is_master)

    def _files(self, name: str, options: dict[str, object]) -> LogReplicaFiles:
        from endpoint.replicas.group_logs.files import LogReplicaFiles

        return LogReplicaFiles(name, options, self._around.open_log_replica, is_renamed=True)

    def _collect(self, log: Log, topics: Sequence[str]) -> None:
        if topics:
            log.runner.start_task(collect, log, self._subscribe(*topics))


def _manner_of(patience: Patience) -> Manner:
    """Give how a follower comes to its log, and does without its keeper."""
    return Manner(
        patience.ticks, is_single=True, ack_entries=CATCH_UP_RUN, stale_ns=patience.stale_ns
    )


def _leads(stored: Stored) -> bool | None:
    """Tell whether what is stored led the log, as its voter; ``None`` if it has nothing of one."""
    voters = stored.voters
    for entry in stored.entries:
        if isinstance(entry, VotersEntry):
            voters = entry.voters
    return stored.promises.member in voters if voters else None
