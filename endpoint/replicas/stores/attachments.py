"""Makes the stores of one endpoint: masters with their backends, and clones.

Imported when the first store is attached: an endpoint without stores does without their code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, cast

from endpoint.replicas.attaching import BUFFER_SECONDS, STALE_SECONDS, Backend, first_use
from endpoint.replicas.disk import reading
from endpoint.replicas.guarding import Guarding
from endpoint.replicas.storage_keys import take_keys
from endpoint.replicas.stores.proxy_runner import ProxyRunner
from endpoint.replicas.stores.store import Store
from endpoint.replicas.stores.store_proxy import StoreProxy
from endpoint.replicas.stores.store_runner import StoreCore, StoreRunner
from endpoint.surroundings import BackendOpener, Surroundings
from stores.asking import KnownReplica
from stores.backends import MemoryBackend
from stores.clone import Clone
from stores.effects import Deposed
from stores.epochs import started_at
from stores.limits import CLONES_MAX
from stores.master import Master
from stores.persistence import StoreBackend
from stores.proxy import Proxy
from stores.quota import BYTES_DEFAULT, ENTRIES_DEFAULT, Meter, Quota
from wire.errors import (
    BackendFailure,
    EndpointClosed,
    InvalidData,
    MasterExists,
    NoSuchMaster,
    StoreError,
)
from wire.identifiers import EntityId
from wire.topics import proxy_topic, store_topics

if TYPE_CHECKING:
    from endpoint.loop import EndpointLoop

_NANOSECONDS: Final = 1_000_000_000

TICK_SECONDS: Final = 0.1
"""The loop's ticks, which clones count."""


def make_backend(
    backend: Backend, name: str, options: dict[str, object], open_file: BackendOpener | None = None
) -> StoreBackend:
    """Make the backend of a store; raises ``BackendFailure`` for options that it does not have."""
    if backend is Backend.Memory:
        if options:
            raise BackendFailure(f"a store in memory has no option {next(iter(options))!r}")
        return MemoryBackend()
    with first_use():
        from stores.backends.sqlite import SQLiteBackend

    path = take_path(options, "an SQLite store")
    if open_file is not None:
        return open_file(path, options)
    keys = take_keys(options)
    check_options(options, "an SQLite store", SQLiteBackend)
    if keys is not None:
        from stores.backends.sqlite_sealed import SealedSQLiteBackend

        return SealedSQLiteBackend(path, keys, name=name, **cast("Any", options))
    return SQLiteBackend(path, **cast("Any", options))


def take_path(options: dict[str, object], what: str) -> str:
    """Take the path of the file out of the options; raises ``BackendFailure``."""
    path = options.pop("path", None)
    if not isinstance(path, (str, os.PathLike)):
        given = "" if path is None else f", not path={path!r}"
        raise BackendFailure(f"{what} needs the option path=FILE{given}")
    return os.fsdecode(path)


def check_options(
    options: Mapping[str, object], what: str, backend: Callable[..., object], *others: str
) -> None:
    """Raise ``BackendFailure`` for an option that a backend does not have, and name its options."""
    known = [*signature(backend).parameters, *others, "key_file", "keys"]
    for name in options:
        if name not in known:
            raise BackendFailure(f"{what} has no option {name!r}; there are {', '.join(known)}")


STORE_QUOTA: Final = Quota(ENTRIES_DEFAULT, BYTES_DEFAULT)


def take_quota(options: dict[str, object], default: Quota) -> Quota:
    """Take the options about the quota; raises ``InvalidData``."""
    entries = options.pop("max_entries", default.max_entries)
    size = options.pop("max_bytes", default.max_bytes)
    return Quota(cast("int | None", entries), cast("int | None", size))  # it looks at them


def check_open(loop: EndpointLoop) -> None:
    """Raise ``EndpointClosed`` if the endpoint was closed while a file was read."""
    if not loop.is_open:
        raise EndpointClosed("the endpoint was closed before the store or log was attached")


def check_replicas(replicas: int) -> None:
    """Raise ``InvalidData`` for a number of replicas that no store can have."""
    if not 0 <= replicas <= CLONES_MAX:
        raise InvalidData(f"replicas={replicas}: a receipt waits for 0 to {CLONES_MAX} clones")


@dataclass(frozen=True, slots=True)
class CloneOptions:
    """How patient a clone is; a deposed master becomes one with the usual patience."""

    stale_interval: float | None = STALE_SECONDS
    mutation_buffer_interval: float = BUFFER_SECONDS

    def clone(self, entity: EntityId, now_ns: int) -> Clone:
        """Make a clone without data."""
        return Clone(
            entity,
            now_ns,
            stale_interval_ns=self._stale_ns,
            buffer_ticks=self._buffer_ticks,
        )

    def successor(self, master: Master, deposed: Deposed, now_ns: int) -> Clone:
        """Make the clone that a deposed master becomes."""
        return Clone(
            master.entity,
            now_ns,
            stale_interval_ns=self._stale_ns,
            buffer_ticks=self._buffer_ticks,
            inheritance=master.bequeath(deposed),
        )

    @property
    def _stale_ns(self) -> int | None:
        interval = self.stale_interval
        return None if interval is None else round(interval * _NANOSECONDS)

    @property
    def _buffer_ticks(self) -> int:
        return max(0, round(self.mutation_buffer_interval / TICK_SECONDS))


class Attachments:
    """The stores of one endpoint."""

    def __init__(self, loop: EndpointLoop, around: Surroundings) -> None:
        """Begin without stores."""
        self._loop = loop
        self._around = around
        self._objects = 0

    async def attach_master(
        self, name: str, backend: Backend, options: dict[str, object], replicas: int = 0
    ) -> Store:
        """Start the master of a store; raises ``MasterExists`` and ``BackendFailure``."""
        check_replicas(replicas)
        hears, speaks = store_topics(name)
        self._guarding(name).check("lead")
        self._check(name, hears, speaks)
        options = dict(options)
        quota = take_quota(options, STORE_QUOTA)
        keeper = make_backend(backend, name, options, self._around.open_file)
        epoch_min = started_at(self._around.now_ns())
        async with reading(partial(keeper.load, epoch_min), keeper.close) as load:
            loaded = await load()
            durable, now_ns = keeper.is_durable, self._around.now_ns()
            self._check(name, hears, speaks)
            core = Master(
                self._entity(), loaded, is_durable=durable, replicas=replicas, now_ns=now_ns
            )
            core.meter = Meter(f"store {name}", quota)
            store = self._run(core, name, keeper, CloneOptions())
            store.runner.tell_exposed(loaded.exposed)
            return store

    def _check(self, name: str, hears: str, speaks: str) -> None:
        where = self._loop.core.find_store(hears)
        if where is not None:
            raise MasterExists(
                f"store {name} has its master at endpoint {where}: attach a clone here, or close it"
            )
        if speaks in self._loop.stores:
            raise MasterExists(f"store {name} has a clone at this endpoint: close it first")

    async def attach_clone(
        self, name: str, stale_interval: float | None, mutation_buffer_interval: float
    ) -> Store:
        """Start a clone of a store, whether its master is known or not."""
        options = CloneOptions(stale_interval, mutation_buffer_interval)
        speaks, hears = store_topics(name)
        self._guarding(name).check("read")
        if speaks in self._loop.stores:
            raise NoSuchMaster(
                f"store {name} has its master at this endpoint: use the master's handle, or attach "
                "the clone to another endpoint"
            )
        if hears in self._loop.stores:
            raise StoreError(f"store {name} has a clone at this endpoint: use its handle")
        core = options.clone(self._entity(), self._around.now_ns())
        store = self._run(core, name, None, options)
        store.runner.carry_out(core.start())
        return store

    async def attach_proxy(self, name: str, mutation_buffer_interval: float) -> StoreProxy:
        """Start a proxy of a store, whether its master is known or not."""
        topics = store_topics(name)
        hears = proxy_topic(name)
        self._guarding(name).check("read", "write")
        if any(topic in self._loop.stores for topic in (*topics, hears)):
            raise StoreError(f"store {name} is in use at this endpoint: use that handle")
        ticks = max(0, round(mutation_buffer_interval / TICK_SECONDS))
        proxy = Proxy(self._entity(), self._around.now_ns(), ticks)

        def find_replicas() -> list[KnownReplica]:
            found = self._loop.core.find_stores(topics)
            return [KnownReplica(endpoint, topic == topics[0]) for endpoint, topic in found]

        runner = ProxyRunner(
            self._loop, proxy, find_replicas, name=name, now_ns=self._around.now_ns
        )
        self._start(runner)
        runner.survey()
        runner.carry_out(proxy.start())
        return StoreProxy(runner, partial(self._loop.close_store, hears))

    def _guarding(self, name: str) -> Guarding:
        return Guarding(self._loop.core, name)

    def _entity(self) -> EntityId:
        self._objects += 1
        return EntityId(self._loop.core.local, self._objects)

    def _run(
        self, core: Master | Clone, name: str, backend: StoreBackend | None, options: CloneOptions
    ) -> Store:
        runner = StoreRunner(
            self._loop,
            cast("StoreCore", core),
            name=name,
            backend=backend,
            now_ns=self._around.now_ns,
        )
        runner.make_clone = options.successor
        runner.open_file = self._around.open_file
        self._start(runner)

        async def close() -> None:
            await self._loop.close_store(runner.hears)

        return Store(runner, close)

    def _start(self, runner: StoreRunner) -> None:
        check_open(self._loop)
        runner.guarding = self._guarding(runner.name)
        runner.home = self._loop
        self._loop.add_store(runner.hears, runner)
        runner.start_task(runner.flush_forever)
