"""Makes the logs of one endpoint: keepers with their backends, followers and proxies.

Imported when the first log is attached: an endpoint without logs does without their code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

import trio

from endpoint.attaching import Backend
from endpoint.guarding import Guarding
from endpoint.log import Log
from endpoint.log_collector import collect
from endpoint.log_runner import Ear, LogCore, LogRunner, LogTopics
from endpoint.log_source import TICKS_PER_SECOND, LocalSource, RemoteSource, Source
from endpoint.storage_keys import take_keys
from endpoint.subscriber import Subscriber
from endpoint.surroundings import Surroundings
from stores.backends.log_memory import MemoryLogBackend
from stores.log.changes import LogBackend
from stores.log.follower import Follower
from stores.log.keeper import Keeper
from stores.log.limits import PARTITIONS_MAX
from stores.log.partitions import Retention
from stores.log.proxy import Proxy
from wire.errors import BackendFailure, InvalidData, MasterExists, NoSuchMaster, StoreError
from wire.identifiers import EntityId
from wire.topics import log_topics

if TYPE_CHECKING:
    from endpoint.loop import EndpointLoop
    from endpoint.store_runner import StoreRunner

_NANOSECONDS: Final = 1_000_000_000


def make_log_backend(backend: Backend, name: str, options: dict[str, object]) -> LogBackend:
    """Make the backend of a log; raises ``BackendFailure`` for options that it does not have."""
    if backend is Backend.Memory:
        if options:
            raise BackendFailure(f"a log in memory has no option {next(iter(options))!r}")
        return MemoryLogBackend()
    from stores.backends.log_sqlite import SQLiteLogBackend

    path = options.pop("path", None)
    if not isinstance(path, (str, os.PathLike)):
        raise BackendFailure("a log in SQLite needs the option path=FILE")
    keys = take_keys(options)
    try:
        if keys is not None:
            from stores.backends.log_sealed import SealedLogBackend

            return SealedLogBackend(path, keys, name=name, **cast("Any", options))
        return SQLiteLogBackend(path, **cast("Any", options))
    except TypeError as error:
        raise BackendFailure(f"a log in SQLite cannot be set up like this: {error}") from None


def take_retention(options: dict[str, object]) -> Retention:
    """Take the options about what is kept; raises ``InvalidData``."""
    seconds = options.pop("keep_seconds", None)
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    limits = (seconds, options.pop("keep_count", None), options.pop("keep_bytes", None))
    for limit in limits:
        if limit is not None and (not isinstance(limit, int | float) or limit <= 0):
            raise InvalidData(f"{limit!r} is no limit: give a positive number, or None for none")
    age, count, size = cast("tuple[float | None, ...]", limits)
    return Retention(
        age_ns=None if age is None else round(age * _NANOSECONDS),
        count=None if count is None else round(count),
        size=None if size is None else round(size),
    )


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
    ) -> Log:
        """Start the keeper of a log, and collect what is published on its topics."""
        if partitions is not None and not 0 < partitions <= PARTITIONS_MAX:
            raise InvalidData(f"a log has 1 to {PARTITIONS_MAX} partitions, not {partitions}")
        self._check_keeper(name)
        options = dict(options)
        retention = take_retention(options)
        keeper = make_log_backend(backend, name, options)
        loaded = await self._load(
            keeper, lambda: keeper.load_keeper(self._around.now_ns(), partitions)
        )
        try:
            self._check_keeper(name)
        except StoreError:
            await trio.to_thread.run_sync(keeper.close)
            raise
        core = Keeper(self._entity(), loaded, retention)
        hears, readers, followers = log_topics(name)
        runner = self._run(core, name, LogTopics(hears, readers, followers), keeper)
        log = self._handle(runner, LocalSource(runner, 0.0), hears)
        if topics:
            subscriber = self._subscribe(*topics)
            self._loop.start_task(collect, log, subscriber)
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
        loaded = await self._load(keeper, keeper.load_follower)
        try:
            self._check_reader(name, "read")
        except StoreError:
            await trio.to_thread.run_sync(keeper.close)
            raise
        stale_seconds, patience = times
        stale_ns = None if stale_seconds is None else round(stale_seconds * _NANOSECONDS)
        core = Follower(
            self._entity(),
            self._around.now_ns(),
            loaded,
            patience_ticks=round(patience * TICKS_PER_SECOND),
            stale_interval_ns=stale_ns,
        )
        speaks, hears, all_hear = log_topics(name)
        runner = self._run(core, name, LogTopics(hears, speaks, speaks), keeper)
        self._loop.add_store(all_hear, cast("StoreRunner", Ear(runner, all_hear)))
        log = self._handle(runner, LocalSource(runner, patience), all_hear, hears)
        runner.carry_out(core.start())
        return log

    async def attach_proxy(self, name: str, patience: float) -> Log:
        """Start a proxy, whether its keeper is known or not."""
        self._check_reader(name, "read", "write")
        ticks = round(patience * TICKS_PER_SECOND)
        core = Proxy(self._entity(), self._around.now_ns(), ticks)
        speaks, hears, _ = log_topics(name)
        runner = self._run(core, name, LogTopics(hears, speaks, speaks), None)
        log = self._handle(runner, RemoteSource(runner, patience), hears)
        runner.carry_out(core.start())
        return log

    def _check_reader(self, name: str, *rights: str) -> None:
        keeper, readers, _ = log_topics(name)
        Guarding(self._loop.core, name).check(*rights)
        if keeper in self._loop.stores:
            raise NoSuchMaster(f"log {name} has its keeper at this endpoint: use its handle")
        if readers in self._loop.stores:
            raise StoreError(f"log {name} is in use at this endpoint: use that handle")

    async def _load(self, backend: LogBackend, load: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it loads
        try:
            return await trio.to_thread.run_sync(load)
        except StoreError:
            await trio.to_thread.run_sync(backend.close)
            raise

    def _entity(self) -> EntityId:
        self._objects += 1
        return EntityId(self._loop.core.local, self._objects)

    def _run(
        self, core: LogCore, name: str, topics: LogTopics, backend: LogBackend | None
    ) -> LogRunner:
        runner = LogRunner(
            self._loop,
            core,
            name=name,
            topics=topics,
            backend=backend,
            now_ns=self._around.now_ns,
        )
        runner.guarding = Guarding(self._loop.core, name)
        self._loop.add_store(topics.hears, runner)
        self._loop.start_task(runner.flush_forever)
        return runner

    def _handle(self, runner: LogRunner, source: Source, *hears: str) -> Log:
        async def close() -> None:
            for topic in hears:
                await self._loop.close_store(topic)

        return Log(runner, source, close)
