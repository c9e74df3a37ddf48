"""Makes the logs of one endpoint: keepers with their backends, followers and proxies.

Imported when the first log is attached: an endpoint without logs does without their code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from endpoint.replicas.attaching import PATIENCE_SECONDS, Backend, first_use
from endpoint.replicas.disk import reading
from endpoint.replicas.guarding import Guarding
from endpoint.replicas.logs.log import Log
from endpoint.replicas.logs.log_collector import collect
from endpoint.replicas.logs.log_runner import LogCore, LogRunner, Patience
from endpoint.replicas.logs.log_source import LocalSource, RemoteSource, Source
from endpoint.replicas.storage_keys import take_keys
from endpoint.replicas.stores.attachments import (
    check_open,
    check_options,
    check_replicas,
    take_path,
    take_quota,
)
from endpoint.subscriber import Subscriber
from endpoint.surroundings import Surroundings
from stores.backends.log_memory import MemoryLogBackend
from stores.epochs import started_at
from stores.log.changes import LoadedLog, LogBackend, LogChanges, Role
from stores.log.follower import Follower
from stores.log.keeper import Keeper
from stores.log.limits import PARTITIONS_MAX
from stores.log.partitions import Retention
from stores.log.proxy import Proxy
from stores.quota import BYTES_DEFAULT, DISK_BYTES_DEFAULT, ENTRIES_DEFAULT, Meter, Quota
from wire.errors import BackendFailure, InvalidData, MasterExists, NoSuchMaster, StoreError
from wire.identifiers import EntityId
from wire.topics import log_topics

if TYPE_CHECKING:
    from endpoint.loop import EndpointLoop

_NANOSECONDS: Final = 1_000_000_000


def make_log_backend(backend: Backend, name: str, options: dict[str, object]) -> LogBackend:
    """Make the backend of a log; raises ``BackendFailure`` for options that it does not have."""
    if backend is Backend.Memory:
        if options:
            raise BackendFailure(f"a log in memory has no option {next(iter(options))!r}")
        return MemoryLogBackend()
    with first_use():
        from stores.backends.log_sqlite import SQLiteLogBackend

    path = take_path(options, "a log in SQLite")
    keys = take_keys(options)
    check_options(options, "a log in SQLite", SQLiteLogBackend)
    if keys is not None:
        from stores.backends.log_sealed import SealedLogBackend

        return SealedLogBackend(path, keys, name=name, **cast("Any", options))
    return SQLiteLogBackend(path, **cast("Any", options))


def _load_copy(backend: LogBackend) -> LoadedLog:
    """Load what a follower has; from now on it is a copy, and nobody leads with it unasked."""
    loaded = backend.load_follower()
    backend.commit(LogChanges(role=Role.COPY))
    return loaded


def take_retention(options: dict[str, object]) -> Retention:
    """Take the options about what is kept; raises ``InvalidData``."""
    seconds = options.pop("keep_seconds", None)
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    limits = (seconds, options.pop("keep_count", None), options.pop("keep_bytes", None))
    for limit in limits:
        if limit is not None and not (isinstance(limit, int | float) and 0 < limit < math.inf):
            raise InvalidData(f"{limit!r} is no limit: give a positive number, or None for none")
    age, count, size = cast("tuple[float | None, ...]", limits)
    return Retention(
        age_ns=None if age is None else round(age * _NANOSECONDS),
        count=None if count is None else round(count),
        size=None if size is None else round(size),
    )


def log_quota(backend: Backend) -> Quota:
    """Give the quota of a log that has no other: of the memory, or of the disk that it fills."""
    if backend is Backend.Memory:
        return Quota(ENTRIES_DEFAULT, BYTES_DEFAULT)
    return Quota(max_bytes=DISK_BYTES_DEFAULT)


class LogAttachments:
    """The logs of one endpoint."""

    def __init__(
        self, loop: EndpointLoop, around: Surroundings, subscribe: Callable[..., Subscriber]
    ) -> None:
        """Begin without logs; ``subscribe`` is the endpoint's, for logs that collect."""
        self._loop = loop
        self._around = around
        self._subscribe = subscribe
        self._objects = 1 << 32  # the stores of the endpoint count from one

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
        keeper = make_log_backend(backend, name, options)
        load = partial(keeper.load_keeper, started_at(self._around.now_ns()), partitions)
        async with reading(load, keeper.close) as read:
            loaded = await read()
            self._check_keeper(name)
            core: Keeper | Follower
            if loaded.role is Role.KEEPER:
                core = Keeper(self._entity(), loaded, retention, replicas)
                core.meter = Meter(f"log {name}", quota)
            else:
                core = Patience().follower(self._entity(), loaded, self._around.now_ns())
            runner = self._run(core, name, keeper, Patience())
            runner.tell_exposed(loaded.exposed)
        log = self._handle(runner, LocalSource(runner, PATIENCE_SECONDS))
        if isinstance(core, Follower):
            runner.carry_out(core.start())
        self._collect(log, topics)
        return log

    def _check_keeper(self, name: str) -> None:
        hears, readers, _ = log_topics(name)
        Guarding(self._loop.core, name).check("lead")
        where = self._loop.core.find_store(hears)
        if where is not None:
            raise MasterExists(
                f"log {name} has its keeper at endpoint {where}: attach a clone or a proxy here, or"
                " close it"
            )
        if readers in self._loop.stores:
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
        keeper = make_log_backend(backend, name, dict(options))
        stale_seconds, seconds = times
        patience = Patience(seconds, stale_seconds)
        async with reading(partial(_load_copy, keeper), keeper.close) as read:
            loaded = await read()
            self._check_reader(name, "read")
            core = patience.follower(self._entity(), loaded, self._around.now_ns())
            runner = self._run(core, name, keeper, patience)
            runner.tell_exposed(loaded.exposed)
        runner.carry_out(core.start())
        return self._handle(runner, LocalSource(runner, seconds))

    async def attach_proxy(self, name: str, patience: float) -> Log:
        """Start a proxy, whether its keeper is known or not."""
        self._check_reader(name, "read", "write")
        patient = Patience(patience)
        core = Proxy(self._entity(), self._around.now_ns(), patient.ticks)
        runner = self._run(core, name, None, patient)
        runner.carry_out(core.start())
        return self._handle(runner, RemoteSource(runner, patience))

    def _check_reader(self, name: str, *rights: str) -> None:
        keeper, readers, _ = log_topics(name)
        Guarding(self._loop.core, name).check(*rights)
        if keeper in self._loop.stores:
            raise NoSuchMaster(f"log {name} has its keeper at this endpoint: use its handle")
        if readers in self._loop.stores:
            raise StoreError(f"log {name} is in use at this endpoint: use that handle")

    def _entity(self) -> EntityId:
        self._objects += 1
        return EntityId(self._loop.core.local, self._objects)

    def _run(
        self, core: LogCore, name: str, backend: LogBackend | None, patience: Patience
    ) -> LogRunner:
        check_open(self._loop)
        runner = LogRunner(
            self._loop,
            core,
            name=name,
            backend=backend,
            patience=patience,
            now_ns=self._around.now_ns,
        )
        runner.guarding = Guarding(self._loop.core, name)
        runner.start()
        return runner

    def _handle(self, runner: LogRunner, source: Source) -> Log:
        async def close() -> None:
            await self._loop.close_store(runner.hears)
            for topic in runner.hears_all():
                self._loop.drop_store(topic)

        return Log(runner, source, close, self._collect)

    def _collect(self, log: Log, topics: Sequence[str]) -> None:
        if topics:
            log.runner.start_task(collect, log, self._subscribe(*topics))
