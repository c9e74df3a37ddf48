"""A node of a cluster: one interface to an endpoint, in whatever world it lives.

All methods that reach the endpoint are ``async``, since it may be in another process. Names and
meanings are those of ``peermesh.Endpoint``, and so are the errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from endpoint.endpoint import AWAIT_PEER_SECONDS, Endpoint
from endpoint.mesh.status import StatusEvent
from endpoint.outcome import Outcome
from endpoint.pubsub.messages import Message
from endpoint.replicas.attaching import STALE_SECONDS, Backend
from peermesh.testing.agent.protocol import Met
from peermesh.testing.calls import StoreHandle
from peermesh.testing.faults import Unsupported
from peermesh.testing.handles import Events, Held, Messages, NodeDown, Subscription
from peermesh.testing.log_handle import LogHandle, LogReplicaHandle
from peermesh.testing.replica_handle import ReplicaHandle
from peermesh.testing.time_limits import limit
from peermesh.testing.view import View
from wire.identifiers import EndpointId
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.flight import FlightRecorder
    from peermesh.testing.disks import DiskFault


class NodeState(StrEnum):
    """What became of a node."""

    RUNNING = "running"
    PAUSED = "paused"
    KILLED = "killed"


class Host(Protocol):
    """Where one life of a node takes place. A world makes them; ``restart`` asks for another."""

    node_id: EndpointId
    flight: FlightRecorder
    """Its recorder, or what came of its records so far; it outlives the host."""
    clock_offset: float
    """What to add to the times of its records to have the seconds of the world."""
    endpoint: Endpoint | None
    """The endpoint itself, where it lives in this process."""

    async def call(self, method: str, arguments: tuple[Any, ...], met: Met) -> tuple[Any, Met]:
        """Have a ``Servant`` do something; raises its errors, and ``NodeDown``.

        ``met`` are the flight records that the caller knows of; those known there come back.
        """

    async def view(self) -> View:
        """Give what the node sees of the mesh."""

    def see(self) -> View | None:
        """Give the same without waiting, where that is possible."""

    async def kill(self) -> None:
        """End it without a word."""

    async def pause(self) -> None:
        """Stop it, with all connections standing."""

    async def resume(self) -> None:
        """Let it go on."""

    async def skew_clock(self, seconds: float) -> None:
        """Set its time of day forward, or back."""

    async def disturb_disk(self, fault: DiskFault) -> None:
        """Have its calls to the disk fail, in place of any other fault of it."""

    async def heal_disk(self) -> None:
        """Have its disk do again what it says."""

    async def close(self) -> None:
        """End it in order."""


class Node:
    """One node: publish, subscribe, attach stores, wait for truths; kill it and start it again."""

    def __init__(self, name: str, host: Host, address: tuple[str, int], control: Control) -> None:
        """Made by ``Cluster``."""
        self.name = name
        self.host = host
        self.address = address
        """Where it listens; the same after a restart."""
        self.state = NodeState.RUNNING
        self.former: list[Host] = []
        """Its earlier lives."""
        self.stores: dict[Held, None] = {}
        """The stores and logs that it holds for the test."""
        self._control = control

    def node_id(self) -> EndpointId:
        """Give the id of its endpoint, which is another one after a restart."""
        return self.host.node_id

    @property
    def endpoint(self) -> Endpoint:
        """Give the endpoint itself; raises ``Unsupported`` where it is in another process."""
        if self.host.endpoint is None:
            reason = "its endpoints live in processes of their own: use the methods of the node"
            raise Unsupported(self._control.world_name, "hand out an endpoint", reason)
        return self.host.endpoint

    @property
    def is_running(self) -> bool:
        """Tell whether it can answer."""
        return self.state is NodeState.RUNNING

    async def call(self, method: str, *arguments: Any) -> Any:  # noqa: ANN401 - plain values
        """Ask the node's servant; for the methods below."""
        self._check_running()
        journal = self._control.journal
        known = ((journal.node, journal.number),)
        value, met = await self.host.call(method, arguments, known)
        journal.meet(dict(met))
        return value

    def _check_running(self) -> None:
        if not self.is_running:
            raise NodeDown(f"node {self.name} is {self.state}: restart() or resume() it first")

    async def view(self) -> View:
        """Give what it sees of the mesh; for barriers and reports."""
        self._check_running()
        return await self.host.view()

    # The mesh.

    async def peer(self, address: str, port: int, retry: float = 0.0) -> Outcome:
        """Peer with an endpoint beyond the cluster; for nodes use ``Cluster.connect``."""
        return Outcome(*await self.call("peer", address, port, retry))

    async def unpeer(self, address: str, port: int) -> Outcome:
        """End a peering."""
        return Outcome(*await self.call("unpeer", address, port))

    async def await_peer(self, other: Node | EndpointId, timeout: float | None = None) -> Outcome:
        """Wait until this node knows another one; false after ``timeout`` seconds, with reason.

        Without a ``timeout`` it is that of an endpoint, or longer while the machine is slow.
        """
        timeout = limit(AWAIT_PEER_SECONDS) if timeout is None else timeout
        node_id = other.node_id() if isinstance(other, Node) else other
        reached, reason = await self.call("await_peer", node_id, timeout)
        return Outcome(reached, self._control.named(reason))

    async def peers(self) -> list[str]:
        """Name the nodes that are its peers; an endpoint beyond the cluster by its id."""
        links = (await self.view()).here.links
        return sorted(self._control.named(str(link)) for link in links)

    async def statistics(self) -> dict[str, int]:
        """Give the counters of ``Endpoint.statistics`` by their names."""
        return dict(await self.call("statistics"))

    # Messages.

    async def publish(
        self, topic: str, data: Value, *, to: Node | EndpointId | None = None
    ) -> None:
        """Publish, waiting for room."""
        await self.call("publish", topic, data, to.node_id() if isinstance(to, Node) else to)

    async def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in order."""
        await self.call("publish_batch", tuple(batch))

    async def subscribe(self, *topics: str, queue_size: int | None = None) -> Subscription[Message]:
        """Subscribe to all topics that begin with one of these."""
        number = await self.call("subscribe", topics, queue_size)
        return Messages(self, number)

    async def subscribe_status(self) -> Subscription[StatusEvent]:
        """Follow what happens in the mesh from now on."""
        return Events(self, await self.call("subscribe_status"))

    # Stores.

    async def attach_master(
        self, name: str, backend: Backend = Backend.Memory, path: str | None = None
    ) -> StoreHandle:
        """Attach the master of a store; ``path`` is within the node's own directory.

        A store in SQLite is in ``<name>.db`` if nothing else is said, and is found there again
        after a restart.
        """
        place = _file_of(name, backend, path)
        number = await self.call("attach", name, backend.value, place, None)
        return StoreHandle(self, name, number, is_master=True)

    async def attach_clone(
        self, name: str, *, stale_interval: float | None = STALE_SECONDS
    ) -> StoreHandle:
        """Attach a clone of a store, whose master need not be known yet."""
        number = await self.call("attach", name, None, None, stale_interval)
        return StoreHandle(self, name, number, is_master=False)

    async def attach_replica(
        self,
        name: str,
        *,
        voters: Iterable[str],
        backend: Backend = Backend.Memory,
        path: str | None = None,
    ) -> ReplicaHandle:
        """Attach a replica of a store whose group elects its leader; ``voters`` name nodes.

        ``path`` is as that of ``attach_master``.
        """
        place = _file_of(name, backend, path)
        number = await self.call("attach_replica", name, tuple(voters), backend.value, place)
        return ReplicaHandle(self, name, number)

    async def attach_log(
        self,
        name: str,
        topics: Iterable[str] = (),
        partitions: int | None = None,
        backend: Backend = Backend.Memory,
        path: str | None = None,
    ) -> LogHandle:
        """Attach the keeper of a log, which collects what is published on ``topics``.

        ``path`` is as that of ``attach_master``.
        """
        place = _file_of(name, backend, path)
        wanted = tuple(topics)
        number = await self.call("attach_log", name, wanted, partitions, backend.value, place)
        return LogHandle(self, name, number)

    async def attach_log_clone(
        self,
        name: str,
        backend: Backend = Backend.Memory,
        path: str | None = None,
        *,
        stale_interval: float | None = STALE_SECONDS,
    ) -> LogHandle:
        """Attach a follower of a log, whose keeper need not be known yet."""
        place = _file_of(name, backend, path)
        number = await self.call("attach_log_clone", name, backend.value, place, stale_interval)
        return LogHandle(self, name, number)

    async def attach_log_replica(
        self,
        name: str,
        *,
        voters: Iterable[str],
        partitions: int | None = None,
        backend: Backend = Backend.Memory,
        path: str | None = None,
    ) -> LogReplicaHandle:
        """Attach a replica of a log whose group elects its leader; ``voters`` name nodes.

        ``path`` is as that of ``attach_master``.
        """
        place, names = _file_of(name, backend, path), tuple(voters)
        arguments = (name, names, partitions, backend.value, place)
        return LogReplicaHandle(self, name, await self.call("attach_log_replica", *arguments))

    # Faults.

    async def kill(self) -> None:
        """End it without a word: as ``kill -9`` does in a world of processes."""
        await self._control.kill(self)

    async def restart(self) -> None:
        """Start it anew: another endpoint at the same address, with the same directory.

        It dials whom it dialled before. Its subscriptions and stores are gone.
        """
        await self._control.restart(self)

    async def pause(self) -> None:
        """Stop it; its connections stay open and silent. Raises ``Unsupported``."""
        await self._control.pause(self)

    async def resume(self) -> None:
        """Let it go on after a pause."""
        await self._control.resume(self)

    async def skew_clock(self, seconds: float) -> None:
        """Set its time of day forward, or back, by seconds. Raises ``Unsupported``."""
        await self._control.skew_clock(self, seconds)

    async def disturb_disk(self, fault: DiskFault) -> None:
        """Have its syncs or writes fail, lie, or take long; see ``peermesh.testing.disks``.

        Stands until ``heal_disk``, another fault, or the node's end. Raises ``Unsupported``.
        """
        self._check_running()
        await self._control.disturb_disk(self, fault)

    async def heal_disk(self) -> None:
        """Have its disk do again what it says."""
        await self._control.heal_disk(self)

    def __repr__(self) -> str:
        """Show name and state."""
        return f"<node {self.name}: {self.state}>"


def _file_of(name: str, backend: Backend, path: str | None) -> str | None:
    return f"{name}.db" if backend is Backend.SQLite and path is None else path


class Control(Protocol):
    """What a node needs of its cluster."""

    world_name: str
    journal: FlightRecorder
    """What the test did to the cluster, as a node of its own."""

    def named(self, text: str) -> str:
        """Put names for the ids of nodes."""

    async def kill(self, node: Node) -> None:
        """See ``Node.kill``."""

    async def restart(self, node: Node) -> None:
        """See ``Node.restart``."""

    async def pause(self, node: Node) -> None:
        """See ``Node.pause``."""

    async def resume(self, node: Node) -> None:
        """See ``Node.resume``."""

    async def skew_clock(self, node: Node, seconds: float) -> None:
        """See ``Node.skew_clock``."""

    async def disturb_disk(self, node: Node, fault: DiskFault) -> None:
        """See ``Node.disturb_disk``."""

    async def heal_disk(self, node: Node) -> None:
        """See ``Node.heal_disk``."""
