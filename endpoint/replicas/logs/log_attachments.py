"""Makes the logs of one endpoint: keepers with their backends, followers and proxies.

Imported when the first log is attached: an endpoint without logs does without their code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from endpoint.pubsub.subscriber import Subscriber
from endpoint.replicas.attaching import PATIENCE_SECONDS, Backend
from endpoint.replicas.attachment import Attachment
from endpoint.replicas.backends import check_replicas, take_quota
from endpoint.replicas.disk import reading
from endpoint.replicas.hosting import AttachingHost
from endpoint.replicas.logs.log import Log
from endpoint.replicas.logs.log_backends import log_quota, make_log_backend, take_retention
from endpoint.replicas.logs.log_collector import collect
from endpoint.replicas.logs.log_part import LogCore, LogPart, make_follower
from endpoint.replicas.logs.log_source import LocalSource, RemoteSource
from endpoint.replicas.patience import Patience
from endpoint.surroundings import Surroundings
from stores.epochs import started_at
from stores.log.changes import LoadedLog, LogBackend, LogChanges, Role
from stores.log.follower import Follower
from stores.log.keeper import Keeper
from stores.log.limits import PARTITIONS_MAX
from stores.log.proxy import Proxy
from stores.quota import Meter
from wire.errors import InvalidData, MasterExists, NoSuchMaster, StoreError
from wire.topics import log_group_topic, log_topics


def _load_copy(backend: LogBackend) -> LoadedLog:
    """Load what a follower has; from now on it is a copy, and nobody leads with it unasked."""
    loaded = backend.load_follower()
    backend.commit(LogChanges(role=Role.COPY))
    return loaded


class LogAttachments:
    """The logs of one endpoint."""

    def __init__(
        self, host: AttachingHost, around: Surroundings, subscribe: Callable[..., Subscriber]
    ) -> None:
        """Begin without logs; ``subscribe`` is the endpoint's, for logs that collect."""
        self._host = host
        self._around = around
        self._subscribe = subscribe
        # The stores of the endpoint count from one.
        self._attachment = Attachment(host, around, (1 << 32) + 1)

    async def attach_log(
        self,
        name: str,
        topics: Sequence[str],
        partitions: int | None,
        backend: Backend,
        options: dict[str, object],
        replicas: int,
    ) -> Log:
        """Start the keeper of a log, and collect what is published on its topics.

        The file of a deposed keeper makes a follower, which collects nothing.
        """
        check_replicas(replicas)
        if partitions is not None and not 0 < partitions <= PARTITIONS_MAX:
            raise InvalidData(f"a log has 1 to {PARTITIONS_MAX} partitions, not {partitions}")
        self._check_keeper(name)
        options = dict(options)
        retention, quota = take_retention(options), take_quota(options, log_quota(backend))
        patience = Patience(PATIENCE_SECONDS)
        opened = make_log_backend(backend, name, options, self._around.open_log_file)
        load = partial(opened.load_keeper, started_at(self._around.now_ns()), partitions)
        async with reading(load, opened.close) as read:
            loaded = await read()
            self._check_keeper(name)
            core: Keeper | Follower
            if loaded.role is Role.KEEPER:
                core = Keeper(self._attachment.entity(), loaded, retention, replicas)
                core.meter = Meter(f"log {name}", quota)
            else:
                core = self._follower(loaded, patience)
            log = self._run(core, name, opened, patience)
            log.runner.tell_exposed(loaded.exposed)
        if isinstance(core, Follower):
            log.runner.carry_out(core.start())
        self._collect(log, topics)
        return log

    def _check_keeper(self, name: str) -> None:
        hears, readers, _ = log_topics(name)
        self._attachment.guarding(name).check("lead")
        self._check_no_group(name, MasterExists)
        where = self._host.core.reach.find_store(hears)
        if where is not None:
            raise MasterExists(
                f"log {name} has its keeper at endpoint {where}: attach a clone or a proxy here, or"
                " close it"
            )
        if readers in self._host.stores:
            raise MasterExists(f"log {name} is in use at this endpoint: close that handle first")

    async def attach_clone(
        self,
        name: str,
        backend: Backend,
        options: dict[str, object],
        times: tuple[float | None, float],
    ) -> Log:
        """Start a follower, whether its keeper is known or not."""
        self._check_reader(name, "read")
        opened = make_log_backend(backend, name, dict(options), self._around.open_log_file)
        stale_seconds, seconds = times
        patience = Patience(seconds, stale_seconds)
        async with reading(partial(_load_copy, opened), opened.close) as read:
            loaded = await read()
            self._check_reader(name, "read")
            core = self._follower(loaded, patience)
            log = self._run(core, name, opened, patience)
            log.runner.tell_exposed(loaded.exposed)
        log.runner.carry_out(core.start())
        return log

    def _follower(self, loaded: LoadedLog, patience: Patience) -> Follower:
        return make_follower(self._attachment.entity(), loaded, self._around.now_ns(), patience)

    async def attach_proxy(self, name: str, patience: float) -> Log:
        """Start a proxy, whether its keeper is known or not."""
        self._check_reader(name, "read", "write")
        patient = Patience(patience)
        core = Proxy(self._attachment.entity(), self._around.now_ns(), patient.ticks)
        log = self._run(core, name, None, patient)
        log.runner.carry_out(core.start())
        return log

    def _check_reader(self, name: str, *rights: str) -> None:
        keeper, readers, _ = log_topics(name)
        self._attachment.guarding(name).check(*rights)
        self._check_no_group(name, NoSuchMaster)
        if keeper in self._host.stores:
            raise NoSuchMaster(f"log {name} has its keeper at this endpoint: use its handle")
        if readers in self._host.stores:
            raise StoreError(f"log {name} is in use at this endpoint: use that handle")

    def _check_no_group(self, name: str, error: type[StoreError]) -> None:
        if self._host.core.reach.find_store(log_group_topic(name)) is not None:
            raise error(
                f"log {name} is kept by a replica group: attach_log_replica without voters follows"
                " it"
            )

    def _run(self, core: LogCore, name: str, backend: LogBackend | None, patience: Patience) -> Log:
        part = LogPart(core, backend, patience)
        close = self._attachment.run(name, part)
        make = RemoteSource if backend is None else LocalSource
        return Log(part, make(part, patience.seconds), close, self._collect)

    def _collect(self, log: Log, topics: Sequence[str]) -> None:
        if topics:
            log.runner.start_task(collect, log, self._subscribe(*topics))
