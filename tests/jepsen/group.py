"""What is tested: three voters on disk and a learner in memory, of a store and of a log."""

from __future__ import annotations

import shutil
from pathlib import Path

import trio

from peermesh import Backend
from peermesh.testing.cluster import Cluster
from peermesh.testing.log_handle import LogReplicaHandle
from peermesh.testing.node import Node
from peermesh.testing.replica_handle import ReplicaHandle
from peermesh.testing.time_limits import limit

STORE = "s"
LOG = "l"
PARTITIONS = 2
VOTERS = ("a", "b", "c")
NODES = (*VOTERS, "d")
EDGES = tuple((near, far) for at, near in enumerate(NODES) for far in NODES[at + 1 :])


class Group:
    """The nodes, each with a replica of the store and one of the log, as far as they live."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.handles: dict[str, ReplicaHandle] = {}
        self.logs: dict[str, LogReplicaHandle] = {}
        self.moved = trio.lowlevel.ParkingLot()
        """Woken when a replica comes, or one may have ended."""

    def __getitem__(self, name: str) -> Node:
        return self.cluster[name]

    async def attach(self, name: str) -> None:
        """Start the replicas of a node."""
        backend = Backend.SQLite if name in VOTERS else Backend.Memory
        node = self.cluster[name]
        self.handles[name] = await node.attach_replica(STORE, voters=VOTERS, backend=backend)
        self.logs[name] = await node.attach_log_replica(
            LOG, voters=VOTERS, partitions=PARTITIONS, backend=backend
        )
        self.moved.unpark_all()

    async def kill(self, *names: str) -> None:
        """End nodes without a word."""
        for name in names:
            self.handles.pop(name, None)
            self.logs.pop(name, None)
            await self.cluster[name].kill()

    async def start(self, *names: str) -> None:
        """Start nodes again, and their replicas."""
        for name in names:
            await self.cluster[name].restart()
            await self.attach(name)

    async def leader(self) -> str:
        """Give the store's leader, once a replica that lives knows one."""
        while True:
            for name, handle in list(self.handles.items()):
                if self.cluster[name].is_running:
                    return await handle.await_leader(limit(60))
            await self.moved.park()

    def keep(self, name: str) -> Path:
        """Copy the files of a voter that does not run: an old state, to be put back later."""
        old = self.directory / f"old-{name}"
        shutil.rmtree(old, ignore_errors=True)
        old.mkdir()
        for path in self._files(name):
            shutil.copy2(path, old)
        return old

    def put_back(self, name: str, old: Path) -> None:
        """Put old files in the place of a voter's; the ballots stay, as those of a disk would."""
        for path in self._files(name):
            path.unlink()
        for path in old.iterdir():
            shutil.copy2(path, self.directory / name)

    def _files(self, node: str) -> list[Path]:
        folder = self.directory / node
        return [
            path
            for name in (STORE, LOG)
            for end in ("", "-wal", "-shm")
            if (path := folder / f"{name}.db{end}").exists()
        ]
