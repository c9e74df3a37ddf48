"""What the plugin's fixtures hand out: callables that open clusters, and keep them to the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import trio

from endpoint.replicas.attaching import Backend
from peermesh.testing.blocking import BlockingCluster
from peermesh.testing.calls import StoreHandle
from peermesh.testing.cluster import Cluster, open_cluster
from peermesh.testing.nurseries import open_quiet_nursery
from peermesh.testing.report import Snapshot
from wire.errors import MeshError

Shape = str | Iterable[tuple[str, str]]


class ClusterFactory:
    """Opens clusters in the world of the test: ``await cluster(5, "ring")``."""

    def __init__(self, nursery: trio.Nursery, options: dict[str, Any]) -> None:
        """Keep clusters in ``nursery`` until the test ends."""
        self._nursery = nursery
        self._options = options
        self._closing = trio.Event()
        self._clusters: list[Cluster] = []

    async def __call__(
        self,
        nodes: int | Sequence[str] = 3,
        shape: Shape = "line",
        **options: Any,  # noqa: ANN401 - settings
    ) -> Cluster:
        """Open one more; the arguments are those of ``open_cluster``."""
        cluster: Cluster = await self._nursery.start(self._live, nodes, shape, options)
        return cluster

    async def _live(
        self,
        nodes: int | Sequence[str],
        shape: Shape,
        options: dict[str, Any],
        *,
        task_status: trio.TaskStatus[Cluster],
    ) -> None:
        given = {**self._options, **options}
        if self._clusters:  # Each has a directory of its own, and two may have a node "a".
            given["directory"] = Path(given["directory"]) / f"cluster-{len(self._clusters) + 1}"
        async with open_cluster(nodes, shape, **given) as cluster:
            self._clusters.append(cluster)
            task_status.started(cluster)
            await self._closing.wait()

    def snapshots(self) -> list[Snapshot]:
        """Give what there was to see at the end of each cluster."""
        return [each.snapshot or each.peek() for each in self._clusters]

    def close(self) -> None:
        """Have all clusters end."""
        self._closing.set()


@asynccontextmanager
async def open_factory(options: dict[str, Any]) -> AsyncIterator[ClusterFactory]:
    """Open a factory; leaving the block ends its clusters."""
    async with open_quiet_nursery() as nursery:
        factory = ClusterFactory(nursery, options)
        try:
            yield factory
        finally:
            factory.close()


class Replicas(NamedTuple):
    """A store: its master, and its clones, each at a node of its own."""

    master: StoreHandle
    clones: tuple[StoreHandle, ...]


class NotIdle(MeshError):
    """The clones of a store did not find their master. The text says what is missing."""


class StoreFactory:
    """Opens a store with clones: ``master, clones = await master_with_clones(2)``."""

    def __init__(self, cluster: ClusterFactory) -> None:
        """Open clusters with this."""
        self._open = cluster

    async def __call__(
        self,
        clones: int = 2,
        shape: Shape = "star",
        *,
        name: str = "store",
        backend: Backend = Backend.Memory,
        **options: Any,  # noqa: ANN401 - those of ``open_cluster``
    ) -> Replicas:
        """Open a cluster of one more node than clones, with the master at the first."""
        cluster = await self._open(clones + 1, shape, **options)
        first, *others = cluster
        master = await first.attach_master(name, backend)
        handles = [await node.attach_clone(name) for node in others]
        converged = await cluster.await_converged()
        if not converged:
            raise NotIdle(str(converged))
        return Replicas(master, tuple(handles))


class BlockingFactory:
    """Opens clusters in plain tests: ``cluster = blocking_cluster(5, "ring")``."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Open them with these options."""
        self._options = options
        self._stack = ExitStack()
        self._clusters: list[BlockingCluster] = []

    def __call__(
        self,
        nodes: int | Sequence[str] = 3,
        shape: Shape = "line",
        **options: Any,  # noqa: ANN401 - settings
    ) -> BlockingCluster:
        """Open one more; the arguments are those of ``open_cluster``."""
        given = {**self._options, **options}
        if self._clusters:
            given["directory"] = Path(given["directory"]) / f"cluster-{len(self._clusters) + 1}"
        cluster = BlockingCluster(nodes, shape, **given)
        self._stack.callback(cluster.close)
        self._clusters.append(cluster)
        return cluster

    def snapshots(self) -> list[Snapshot]:
        """Look at all clusters; in plain tests they are open still when a report is made."""
        return [each.take_snapshot() for each in self._clusters]

    def __enter__(self) -> Self:
        """Keep clusters until the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End them."""
        self._stack.close()
