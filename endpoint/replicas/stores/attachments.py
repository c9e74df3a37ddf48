"""Makes the stores of one endpoint: masters with their backends, and clones.

Imported when the first store is attached: an endpoint without stores does without their code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from endpoint.replicas.attaching import BUFFER_SECONDS, STALE_SECONDS, Backend
from endpoint.replicas.backends import STORE_QUOTA, check_replicas, make_backend, take_quota
from endpoint.replicas.disk import reading
from endpoint.replicas.guarding import Guarding
from endpoint.replicas.hosting import AttachingHost, check_open
from endpoint.replicas.stores.proxy_runner import ProxyRunner
from endpoint.replicas.stores.store import Store
from endpoint.replicas.stores.store_proxy import StoreProxy
from endpoint.replicas.stores.store_runner import StoreCore, StoreRunner
from endpoint.surroundings import Surroundings
from stores.asking import KnownReplica
from stores.clone import Clone
from stores.effects import Deposed
from stores.epochs import started_at
from stores.master import Master
from stores.persistence import StoreBackend
from stores.proxy import Proxy
from stores.quota import Meter
from wire.errors import MasterExists, NoSuchMaster, StoreError
from wire.identifiers import EntityId
from wire.topics import proxy_topic, store_topics

_NANOSECONDS: Final = 1_000_000_000

TICK_SECONDS: Final = 0.1
"""The loop's ticks, which clones count."""


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

    def __init__(self, host: AttachingHost, around: Surroundings) -> None:
        """Begin without stores."""
        self._host = host
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
        where = self._host.core.reach.find_store(hears)
        if where is not None:
            raise MasterExists(
                f"store {name} has its master at endpoint {where}: attach a clone here, or close it"
            )
        if speaks in self._host.stores:
            raise MasterExists(f"store {name} has a clone at this endpoint: close it first")

    async def attach_clone(
        self, name: str, stale_interval: float | None, mutation_buffer_interval: float
    ) -> Store:
        """Start a clone of a store, whether its master is known or not."""
        options = CloneOptions(stale_interval, mutation_buffer_interval)
        speaks, hears = store_topics(name)
        self._guarding(name).check("read")
        if speaks in self._host.stores:
            raise NoSuchMaster(
                f"store {name} has its master at this endpoint: use the master's handle, or attach "
                "the clone to another endpoint"
            )
        if hears in self._host.stores:
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
        if any(topic in self._host.stores for topic in (*topics, hears)):
            raise StoreError(f"store {name} is in use at this endpoint: use that handle")
        ticks = max(0, round(mutation_buffer_interval / TICK_SECONDS))
        proxy = Proxy(self._entity(), self._around.now_ns(), ticks)

        def find_replicas() -> list[KnownReplica]:
            found = self._host.core.reach.find_stores(topics)
            return [KnownReplica(endpoint, topic == topics[0]) for endpoint, topic in found]

        runner = ProxyRunner(
            self._host, proxy, find_replicas, name=name, now_ns=self._around.now_ns
        )
        self._start(runner)
        runner.survey()
        runner.carry_out(proxy.start())
        return StoreProxy(runner, partial(self._host.close_store, hears))

    def _guarding(self, name: str) -> Guarding:
        return Guarding(self._host.core, name)

    def _entity(self) -> EntityId:
        self._objects += 1
        return EntityId(self._host.core.local, self._objects)

    def _run(
        self, core: Master | Clone, name: str, backend: StoreBackend | None, options: CloneOptions
    ) -> Store:
        runner = StoreRunner(
            self._host,
            cast("StoreCore", core),
            name=name,
            backend=backend,
            now_ns=self._around.now_ns,
        )
        runner.make_clone = options.successor
        runner.open_file = self._around.open_file
        self._start(runner)

        async def close() -> None:
            await self._host.close_store(runner.hears)

        return Store(runner, close)

    def _start(self, runner: StoreRunner) -> None:
        check_open(self._host)
        runner.guarding = self._guarding(runner.name)
        runner.home = self._host
        self._host.add_store(runner.hears, runner)
        runner.start_task(runner.flush_forever)
