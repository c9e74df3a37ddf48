"""Makes the stores of one endpoint: masters with their backends, clones, and proxies.

Imported when the first store is attached: an endpoint without stores does without their code.
"""

from __future__ import annotations

from functools import partial

from endpoint.replicas.attaching import Backend
from endpoint.replicas.attachment import Attachment
from endpoint.replicas.backends import check_replicas, make_backend, take_quota
from endpoint.replicas.disk import reading
from endpoint.replicas.hosting import AttachingHost
from endpoint.replicas.patience import Patience
from endpoint.replicas.stores.promoting import Promotion, promote
from endpoint.replicas.stores.proxy_part import ProxyPart
from endpoint.replicas.stores.store import Store, Wanted
from endpoint.replicas.stores.store_part import StorePart, make_clone
from endpoint.replicas.stores.store_proxy import StoreProxy
from endpoint.surroundings import Surroundings
from stores.asking import KnownReplica
from stores.epochs import started_at
from stores.master import Master
from stores.proxy import Proxy
from stores.quota import STORE_QUOTA, Meter
from wire.errors import MasterExists, NoSuchMaster, StoreError
from wire.topics import group_topic, proxy_topic, store_topics


class Attachments:
    """The stores of one endpoint."""

    def __init__(self, host: AttachingHost, around: Surroundings) -> None:
        """Begin without stores."""
        self._host = host
        self._around = around
        self._attachment = Attachment(host, around, 1)

    async def attach_master(
        self, name: str, backend: Backend, options: dict[str, object], replicas: int = 0
    ) -> Store:
        """Start the master of a store; raises ``MasterExists`` and ``BackendFailure``."""
        check_replicas(replicas)
        hears, speaks = store_topics(name)
        self._attachment.guarding(name).check("lead")
        self._check(name, hears, speaks)
        options = dict(options)
        quota = take_quota(options, STORE_QUOTA)
        opened = make_backend(backend, name, options, self._around.open_file)
        epoch_min = started_at(self._around.now_ns())
        async with reading(partial(opened.load, epoch_min), opened.close) as load:
            loaded = await load()
            durable, now_ns = opened.is_durable, self._around.now_ns()
            self._check(name, hears, speaks)
            entity = self._attachment.entity()
            core = Master(entity, loaded, is_durable=durable, replicas=replicas, now_ns=now_ns)
            core.meter = Meter(f"store {name}", quota)
            part = StorePart(core, opened)
            store = self._run(name, part)
            store.runner.tell_exposed(loaded.exposed)
            return store

    def _run(self, name: str, part: StorePart) -> Store:
        async def promote_it(wanted: Wanted) -> Promotion:
            backend, options, replicas, quota, is_forced = wanted
            make = partial(make_backend, backend, name, options, self._around.open_file)
            return await promote(part, make, replicas, quota, force=is_forced)

        return Store(part, self._attachment.run(name, part), promote_it)

    def _check(self, name: str, hears: str, speaks: str) -> None:
        where = self._host.core.reach.find_store(hears)
        if where is not None:
            raise MasterExists(
                f"store {name} has its master at endpoint {where}: attach a clone here, or close it"
            )
        if speaks in self._host.stores:
            raise MasterExists(f"store {name} has a clone at this endpoint: close it first")
        if self._has_group(name):
            raise MasterExists(f"store {name} is kept by a replica group: use attach_replica")

    def _has_group(self, name: str) -> bool:
        return self._host.core.reach.has_voter(group_topic(name))

    def _check_no_group(self, name: str) -> None:
        if self._has_group(name):
            raise NoSuchMaster(
                f"store {name} is kept by a replica group, and has no master: attach_replica"
                " without voters follows it"
            )

    async def attach_clone(
        self, name: str, stale_interval: float | None, mutation_buffer_interval: float
    ) -> Store:
        """Start a clone of a store, whether its master is known or not."""
        patience = Patience(mutation_buffer_interval, stale_interval)
        speaks, hears = store_topics(name)
        self._attachment.guarding(name).check("read")
        if speaks in self._host.stores:
            raise NoSuchMaster(
                f"store {name} has its master at this endpoint: use the master's handle, or attach "
                "the clone to another endpoint"
            )
        if hears in self._host.stores:
            raise StoreError(f"store {name} has a clone at this endpoint: use its handle")
        self._check_no_group(name)
        core = make_clone(self._attachment.entity(), self._around.now_ns(), patience)
        part = StorePart(core, None)
        store = self._run(name, part)
        store.runner.carry_out(core.start())
        return store

    async def attach_proxy(self, name: str, mutation_buffer_interval: float) -> StoreProxy:
        """Start a proxy of a store, whether its master is known or not."""
        topics = store_topics(name)
        hears = proxy_topic(name)
        self._attachment.guarding(name).check("read", "write")
        if any(topic in self._host.stores for topic in (*topics, hears)):
            raise StoreError(f"store {name} is in use at this endpoint: use that handle")
        self._check_no_group(name)
        ticks = Patience(mutation_buffer_interval).ticks
        proxy = Proxy(self._attachment.entity(), self._around.now_ns(), ticks)

        def find_replicas() -> list[KnownReplica]:
            found = self._host.core.reach.find_stores(topics)
            return [KnownReplica(endpoint, topic == topics[0]) for endpoint, topic in found]

        part = ProxyPart(proxy, find_replicas)
        store = StoreProxy(part, self._attachment.run(name, part))
        part.survey()
        store.runner.carry_out(proxy.start())
        return store
