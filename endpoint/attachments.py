"""Makes the stores of one endpoint: masters with their backends, and clones.

Imported when the first store is attached: an endpoint without stores does without their code.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, cast

import trio

from endpoint.attaching import Backend
from endpoint.store import Store
from endpoint.store_runner import StoreCore, StoreRunner
from endpoint.surroundings import BackendOpener, Surroundings
from stores.backends import MemoryBackend
from stores.clone import Clone
from stores.master import Master
from stores.persistence import StoreBackend
from wire.errors import BackendFailure, MasterExists, NoSuchMaster, StoreError
from wire.identifiers import EntityId
from wire.topics import store_topics

if TYPE_CHECKING:
    from endpoint.loop import EndpointLoop

_NANOSECONDS: Final = 1_000_000_000


def make_backend(
    backend: Backend, options: dict[str, object], open_file: BackendOpener | None = None
) -> StoreBackend:
    """Make the backend; raises ``BackendFailure`` for options that it does not have."""
    if backend is Backend.Memory:
        if options:
            raise BackendFailure(f"a store in memory has no option {next(iter(options))!r}")
        return MemoryBackend()
    from stores.backends.sqlite import SQLiteBackend

    try:
        path = options.pop("path")
        if not isinstance(path, (str, os.PathLike)):
            raise BackendFailure(f"path={path!r}: give the path of the file")
        if open_file is not None:
            return open_file(os.fspath(path), options)
        return SQLiteBackend(path, **options)  # type: ignore[arg-type]  # SQLiteBackend checks them
    except KeyError:
        raise BackendFailure("an SQLite store needs the option path=FILE") from None
    except TypeError as error:
        raise BackendFailure(f"an SQLite store cannot be set up like this: {error}") from None


class Attachments:
    """The stores of one endpoint."""

    def __init__(self, loop: EndpointLoop, around: Surroundings) -> None:
        """Begin without stores."""
        self._loop = loop
        self._around = around
        self._objects = 0

    async def attach_master(self, name: str, backend: Backend, options: dict[str, object]) -> Store:
        """Start the master of a store; raises ``MasterExists`` and ``BackendFailure``."""
        hears, speaks = store_topics(name)
        self._check(name, hears, speaks)
        keeper = make_backend(backend, dict(options), self._around.open_file)
        loaded = await trio.to_thread.run_sync(keeper.load, self._around.now_ns())
        try:
            self._check(name, hears, speaks)
        except StoreError:
            await trio.to_thread.run_sync(keeper.close)
            raise
        core = Master(self._entity(), loaded, is_durable=keeper.is_durable)
        return self._run(core, name, hears, speaks, keeper)

    def _check(self, name: str, hears: str, speaks: str) -> None:
        where = self._loop.core.find_store(hears)
        if where is not None:
            raise MasterExists(
                f"store {name} has its master at endpoint {where}: attach a clone here, or close it"
            )
        if speaks in self._loop.stores:
            raise MasterExists(f"store {name} has a clone at this endpoint: close it first")

    async def attach_clone(self, name: str, stale_interval: float | None) -> Store:
        """Start a clone of a store, whether its master is known or not."""
        speaks, hears = store_topics(name)
        if speaks in self._loop.stores:
            raise NoSuchMaster(
                f"store {name} has its master at this endpoint: use the master's handle, or attach "
                "the clone to another endpoint"
            )
        if hears in self._loop.stores:
            raise StoreError(f"store {name} has a clone at this endpoint: use its handle")
        interval = None if stale_interval is None else round(stale_interval * _NANOSECONDS)
        core = Clone(self._entity(), self._around.now_ns(), stale_interval_ns=interval)
        store = self._run(core, name, hears, speaks, None)
        store.runner.carry_out(core.start())
        return store

    def _entity(self) -> EntityId:
        self._objects += 1
        return EntityId(self._loop.core.local, self._objects)

    def _run(
        self,
        core: Master | Clone,
        name: str,
        hears: str,
        speaks: str,
        backend: StoreBackend | None,
    ) -> Store:
        runner = StoreRunner(
            self._loop,
            cast("StoreCore", core),
            name=name,
            speaks_on=speaks,
            backend=backend,
            now_ns=self._around.now_ns,
        )
        self._loop.add_store(hears, runner)
        self._loop.start_task(runner.flush_forever)

        async def close() -> None:
            await self._loop.close_store(hears)

        return Store(runner, close)
