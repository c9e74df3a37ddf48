"""Replicas of one group at endpoints of one process, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.stores.store import ReplicaStore
from peermesh.testing.time_limits import limit
from tests.waiting import until

NAMES = ("a", "b", "c")


class Life:
    """One endpoint with its replica, until it is ended."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.store: ReplicaStore
        self.port = 0
        self.closing = trio.Event()
        self.closed = trio.Event()


class Group:
    """Endpoints by name, all of them peers, each with a replica of the store ``s``."""

    def __init__(self, nursery: trio.Nursery, folder: Path | None, voters: tuple[str, ...]) -> None:
        self.lives: dict[str, Life] = {}
        self.voters = voters
        self.store_name = "s"
        self.options: dict[str, object] = {}
        """More options of the replicas on disk."""
        self._nursery = nursery
        self._folder = folder

    def __getitem__(self, name: str) -> ReplicaStore:
        return self.lives[name].store

    @property
    def stores(self) -> list[ReplicaStore]:
        return [life.store for life in self.lives.values()]

    async def start(self, name: str, **settings: object) -> ReplicaStore:
        """Start an endpoint, peer it with all others, and attach its replica."""
        return await self.attach(await self.open(name, **settings), self.voters)

    async def learn(self, name: str, **settings: object) -> ReplicaStore:
        """Start an endpoint likewise, with a learner that knows no voters."""
        return await self.attach(await self.open(name, **settings), ())

    async def attach(self, life: Life, voters: tuple[str, ...]) -> ReplicaStore:
        options = self.options_of(life)
        life.store = await life.endpoint.attach_replica(self.store_name, voters=voters, **options)
        return life.store

    def options_of(self, life: Life) -> dict[str, object]:
        if self._folder is None:
            return {}
        path = self._folder / f"{life.endpoint.settings.name}.db"
        return {"backend": "sqlite", "path": path, **self.options}

    async def open(self, name: str, key: str | None = None, **settings: object) -> Life:
        others = list(self.lives.values())
        life = await self.adopt(key or name, Endpoint(name=name, **settings))
        life.port = await life.endpoint.listen()
        for other in others:
            assert await life.endpoint.peer("127.0.0.1", other.port, timeout=limit())
        return life

    async def adopt(self, key: str, endpoint: Endpoint) -> Life:
        """Have an endpoint live until the test ends."""
        life = self.lives[key] = Life(endpoint)
        await self._nursery.start(self._live, life)
        return life

    async def _live(self, life: Life, task_status: trio.TaskStatus) -> None:
        async with life.endpoint:
            task_status.started()
            await life.closing.wait()
        life.closed.set()

    async def stop(self, name: str) -> None:
        """End an endpoint in order."""
        life = self.lives.pop(name)
        life.closing.set()
        await life.closed.wait()

    async def await_leader(self) -> str:
        """Wait until all agree who leads."""
        await until(
            lambda: (
                len({each.leader() for each in self.stores} - {None}) == 1
                and all(each.leader() is not None for each in self.stores)
            )
        )
        return self.stores[0].leader()

    def end(self) -> None:
        for life in self.lives.values():
            life.closing.set()


@asynccontextmanager
async def open_group(
    names: tuple[str, ...] = NAMES,
    folder: Path | None = None,
    voters: tuple[str, ...] = NAMES,
    kind: type[Group] = Group,
) -> AsyncIterator[Group]:
    with trio.fail_after(limit()):
        async with trio.open_nursery() as nursery:
            group = kind(nursery, folder, voters)
            try:
                for name in names:
                    await group.start(name)
                yield group
            finally:
                group.end()


@pytest.fixture
def groups() -> SimpleNamespace:
    return SimpleNamespace(open=open_group, until=until)
