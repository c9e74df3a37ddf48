"""Attaches logs: replicas of groups, keepers and followers, and proxies; and collects topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from endpoint.pubsub.messages import Missed
from endpoint.pubsub.subscriber import Subscriber
from endpoint.replicas.attaching import PATIENCE_SECONDS, Backend, Patience
from endpoint.replicas.attachments import Attachments, Machinery, WantedReplica
from endpoint.replicas.logs.log import Log, ReplicaLog
from endpoint.replicas.logs.log_proxy import LogProxyPart
from endpoint.replicas.logs.part import LogPart
from endpoint.replicas.options import log_quota, take_quota, take_retention
from endpoint.replicas.part import Single
from endpoint.replicas.parts import NamedTopics, topics_of
from endpoint.replicas.runner import Host
from endpoint.surroundings import Surroundings
from stores.group.ballot import latest_mark
from stores.group.codec import GroupCodec
from stores.group.entries import latest_voters
from stores.group.member_parts import Stored
from stores.group.membership import Declared
from stores.group.positions import START
from stores.group.terms import is_of_another_lead
from stores.log.codec import LogCodec
from stores.log.machine import LogMachine
from stores.log.rights import right_of
from stores.quota import STORE_QUOTA
from stores.replica.beginning import Opened
from stores.replica.logs.books import BookKeeper
from stores.replica.logs.core import LogCore
from stores.replica.logs.outbox import LogOutbox
from stores.replica.logs.outside import LogProxy
from wire.errors import BackendFailure, InvalidData, NoSuchMaster, StoreError
from wire.logs import logger_of
from wire.scalars import Value, shorten

if TYPE_CHECKING:
    from endpoint.replicas.logs.files import LogReplicaFiles

logger = logger_of("peermesh.log")


class LogAttachments(Attachments[LogCore, LogMachine, "LogReplicaFiles", LogPart]):
    """The logs of one endpoint."""

    machinery = Machinery(
        kind="log",
        words=LogOutbox.words,
        attach="attach_log_replica",
        advice="attach it with attach_log_replica",
        first_object=1 << 33,  # those of stores count from lower numbers
        usual=Patience(PATIENCE_SECONDS),
        right_of=right_of,
        new_codec=lambda: GroupCodec(LogCodec()),
        new_core=LogCore,
        new_keeper=BookKeeper,
    )

    def __init__(
        self,
        host: Host,
        around: Surroundings,
        own_name: str,
        subscribe: Callable[..., Subscriber],
    ) -> None:
        """Attach to ``host``; ``subscribe`` is the endpoint's, to collect."""
        super().__init__(host, around, own_name)
        self._subscribe = subscribe

    async def attach_keeper(
        self,
        name: str,
        topics: Sequence[str],
        partitions: int | None,
        backend: Backend,
        options: dict[str, object],
        *,
        fresh: bool = False,
    ) -> Log:
        """Start the keeper of a log; raises ``InvalidData``, and what ``leader`` does."""
        options = dict(options)
        retention, quota = take_retention(options), take_quota(options, log_quota(backend))
        part = await self.leader(name, backend, options, partitions, is_fresh=fresh)
        count = len(part.core.machine.partitions)
        if partitions not in (None, count):
            await self._abandon(part)
            raise InvalidData(
                f"log {name} has {count} partition{'' if count == 1 else 's'}, not {partitions},"
                " and keeps that number: give it, or none"
            )
        part.keep(retention, quota)  # What was refused must let nothing go.
        log = Log(part, self._collect)
        self._collect(log, topics)
        return log

    async def attach_follower(
        self,
        name: str,
        backend: Backend,
        options: dict[str, object],
        stale_interval: float | None,
        patience: float,
    ) -> Log:
        """Start a follower, whether its keeper is known or not."""
        part = await self.copy(name, backend, options, Patience(patience, stale_interval))
        return Log(part, self._collect)

    async def attach_replica(
        self,
        name: str,
        declared: Declared,
        partitions: int | None,
        backend: Backend,
        options: dict[str, object],
        patience: float,
    ) -> ReplicaLog:
        """Start a replica of a group; raises what ``replica`` does."""
        return ReplicaLog(
            await self.replica(name, declared, backend, options, patience, partitions)
        )

    async def attach_proxy(self, name: str, patience: float) -> Log:
        """Start a proxy, whether its keeper is known or not."""
        topics = topics_of("log", name)
        self._check_right(name, "read", "write")
        if self._host.core.reach.find_store(topics.leader) == self._host.core.local:
            raise NoSuchMaster(f"log {name} has its keeper at this endpoint: use its handle")
        self._check_unused(name, topics)
        ticks, now_ns = Patience(patience).ticks, self._around.now_ns()
        core = LogProxy(self._entity(), self.machinery.new_codec(), now_ns, ticks)
        part = LogProxyPart(core, partial(self._replicas, name), patience)
        self._run_proxy(name, part)
        return Log(part, self._collect)

    def _collect(self, log: Log, topics: Sequence[str]) -> None:
        if topics:
            log.runner.start_task(_collect, log, self._subscribe(*topics))

    # -- of logs alone ---------------------------------------------------------------------------

    def _machine(self, name: str, partitions: int | None) -> LogMachine:
        return LogMachine(f"log {name}", 1 if partitions is None else partitions, STORE_QUOTA)

    def _new_part(
        self,
        name: str,
        core: LogCore,
        files: LogReplicaFiles | None,
        single: Single[LogCore] | None,
    ) -> LogPart:
        return LogPart(core, files, single)

    def _files(self, name: str, options: dict[str, object], *, is_renamed: bool) -> LogReplicaFiles:
        from endpoint.replicas.logs.files import LogReplicaFiles

        return LogReplicaFiles(name, options, self._around.open_log_replica, is_renamed=is_renamed)

    def _install(self, machine: LogMachine, opened: Opened) -> None:
        if opened.parts:
            machine.install(opened.parts)
        machine.beside_rows()

    def has_group(self, name: str) -> bool:
        """Tell whether a replica group keeps a log."""
        return self._host.core.reach.has_log_group(name)

    def _users(self, topics: NamedTopics) -> tuple[str, ...]:
        return (topics.group, topics.proxies)

    def _check_file(self, wanted: WantedReplica, path: str, stored: Stored) -> None:
        super()._check_file(wanted, path, stored)
        if wanted.patience is None:
            return
        leads = _leads(stored)
        if wanted.leads_alone and leads is False:
            raise BackendFailure(
                f"{path} holds a follower's copy of a log: attach it with"
                " attach_log_clone, and promote that if its keeper is gone"
            )
        if not wanted.leads_alone and leads:
            raise BackendFailure(
                f"{path} holds the log of a keeper: attach it with attach_log,"
                " or give the follower a file of its own"
            )


def _leads(stored: Stored) -> bool | None:
    """Tell whether what is stored led the log, as its voter; ``None`` if it may do either.

    So it is with a file that has nothing, or was to lead when its endpoint was killed.
    """
    voters = latest_voters(stored.voters, stored.entries)
    if stored.promises.member in voters:
        return True
    return False if voters and not _was_to_lead(stored) else None


def _was_to_lead(stored: Stored) -> bool:
    """Tell whether a ballot is of one that was to lead, which its journal does not say yet."""
    promises = stored.promises
    last = max((entry.term for entry in stored.entries), default=stored.floor.term)
    is_promoted = promises.vote == promises.member and is_of_another_lead(promises.term, last)
    is_taking_over = not promises.is_whole and latest_mark(stored.slots) == START
    is_without_its_ballot = promises.starts == 0
    return is_promoted or is_taking_over or is_without_its_ballot


async def _collect(log: Log, subscriber: Subscriber) -> None:
    """Append what comes, until the log or the endpoint ends, or the log has another keeper.

    That one collects, if it is told to: what both collect would be there twice. While the disk is
    busy the subscriber fills, and slows the publishers down.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_end_with, log, nursery.cancel_scope)
        try:
            await _append_all(log, subscriber)
        except StoreError as error:
            logger.warning("log %s collects no longer: %s", log.name(), error)
        nursery.cancel_scope.cancel()


async def _append_all(log: Log, subscriber: Subscriber) -> None:
    with subscriber:
        async for topic, value in subscriber:
            if isinstance(value, Missed):
                logger.warning("log %s: %d messages were missed", log.name(), value.count)
            else:
                await _append(log, topic, value)


async def _append(log: Log, topic: str, value: Value) -> None:
    """Append a message; what no log can hold is passed over, as it is for what it takes alone."""
    try:
        await log.append(value, key=topic)
    except InvalidData as error:
        text = f"a message on {shorten(topic)} is not collected: {error}"
        logger.warning("log %s: %s", log.name(), text)
        log.runner.note("log", f"{log.name()}: {text}")


@trio.lowlevel.enable_ki_protection  # As the task that it belongs to.
async def _end_with(log: Log, scope: trio.CancelScope) -> None:
    while log.runner.error is None and log.is_keeper():
        await log.runner.changed.park()
    scope.cancel()
