"""A node of a cluster: one interface to an endpoint, in whatever world it lives.

All methods that reach the endpoint are ``async``, since it may be in another process. Names and
meanings are those of ``peermesh.Endpoint``, and so are the errors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar

import trio

from endpoint.attaching import STALE_SECONDS, Backend
from endpoint.endpoint import AWAIT_PEER_SECONDS, Endpoint
from endpoint.mailbox import Message, Missed
from endpoint.outcome import Outcome
from endpoint.status import StatusCode, StatusEvent
from endpoint.store import AWAIT_IDLE_SECONDS
from peermesh.testing.agent.protocol import Met
from peermesh.testing.faults import Unsupported
from peermesh.testing.view import View
from stores.batch import Batch
from wire.errors import EndpointClosed, ErrorCode, MeshError
from wire.identifiers import EndpointId
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.flight import FlightRecorder

Item = TypeVar("Item")

GIVE_UP_SECONDS: Final = 5.0
"""How long closing a handle waits for a node that does not answer: it is about to end anyway."""


class NodeDown(MeshError):
    """The node was killed, is paused, or has ended. ``restart`` or ``resume`` it first."""

    code = ErrorCode.SHUTTING_DOWN


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
        self.stores: dict[StoreHandle, None] = {}
        """The stores that it holds for the test."""
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

    async def await_peer(
        self, other: Node | EndpointId, timeout: float = AWAIT_PEER_SECONDS
    ) -> Outcome:
        """Wait until this node knows another one; false after ``timeout`` seconds, with reason."""
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
        if backend is Backend.SQLite and path is None:
            path = f"{name}.db"
        number = await self.call("attach", name, backend.value, path, None)
        return StoreHandle(self, name, number, is_master=True)

    async def attach_clone(
        self, name: str, *, stale_interval: float | None = STALE_SECONDS
    ) -> StoreHandle:
        """Attach a clone of a store, whose master need not be known yet."""
        number = await self.call("attach", name, None, None, stale_interval)
        return StoreHandle(self, name, number, is_master=False)

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

    def __repr__(self) -> str:
        """Show name and state."""
        return f"<node {self.name}: {self.state}>"


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


class _Handle:
    """Something that a node holds for the test, in its present life."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self._host = node.host
        self._number = number

    async def _call(self, method: str, *arguments: Any) -> Any:  # noqa: ANN401 - plain values
        if self.node.host is not self._host:
            raise NodeDown(
                f"node {self.node.name} was started anew, and knows nothing of this: ask it again"
            )
        return await self.node.call(method, self._number, *arguments)

    async def _close(self, method: str) -> None:
        is_there = self.node.is_running and self.node.host is self._host
        if is_there:
            with trio.move_on_after(GIVE_UP_SECONDS):
                await self._call(method)


class Subscription(_Handle, Generic[Item]):
    """What a node receives on some topics: ``get``, ``poll``, or ``async for``."""

    def __init__(self, node: Node, number: int) -> None:
        """Made by ``Node.subscribe``."""
        super().__init__(node, number)
        self._ready: deque[Item] = deque()

    async def get(self, timeout: float | None = None) -> Item:
        """Wait for the next one, for ``timeout`` seconds at most; then ``TimeoutError``."""
        while not self._ready:
            await self._call("wait", timeout)
            await self._refill()
        return self._ready.popleft()

    async def poll(self) -> list[Item]:
        """Take all that are there, without waiting for more."""
        await self._refill()
        ready, self._ready = self._ready, deque()
        return list(ready)

    async def _refill(self) -> None:
        # Shielded, since what a poll has taken is nowhere else.
        with trio.CancelScope(shield=True):
            self._ready.extend(map(self._read, await self._call("poll")))

    @staticmethod
    def _read(item: Any) -> Any:  # noqa: ANN401 - values in, messages or events out
        raise NotImplementedError

    async def close(self) -> None:
        """Want nothing any more."""
        await self._close("close_queue")

    def __aiter__(self) -> Self:
        """Iterate until it, or its node, is closed."""
        return self

    async def __anext__(self) -> Item:
        """Wait for the next one."""
        try:
            return await self.get()
        except EndpointClosed:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        """Use it within the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()


class Messages(Subscription[Message]):
    """Messages on topics."""

    async def add_topic(self, topic: str) -> None:
        """Want messages whose topic begins with this, too."""
        await self._call("add_topic", topic)

    async def remove_topic(self, topic: str) -> None:
        """No longer want messages for the sake of this prefix."""
        await self._call("remove_topic", topic)

    @staticmethod
    def _read(item: Any) -> Message:  # noqa: ANN401 - see ``Servant``
        topic, data, is_missed = item
        return (topic, Missed(data) if is_missed else data)


class Events(Subscription[StatusEvent]):
    """Status events."""

    @staticmethod
    def _read(item: Any) -> StatusEvent:  # noqa: ANN401 - see ``Servant``
        status, endpoint, address, code, reason = item
        return StatusEvent(
            StatusCode(status),
            None if endpoint is None else EndpointId(endpoint),
            None if address is None else (address[0], address[1]),
            ErrorCode(code),
            reason,
        )


class RemoteReceipt(_Handle):
    """One mutation on its way."""

    async def applied(self) -> int:
        """Wait until the master has applied it; gives the revision, or raises the error."""
        return int(await self._call("applied"))


class StoreHandle(_Handle):
    """A store at a node, with the operations of ``peermesh.Store``."""

    def __init__(self, node: Node, name: str, number: int, *, is_master: bool) -> None:
        """Made by ``Node.attach_master`` and ``Node.attach_clone``."""
        super().__init__(node, number)
        self._name = name
        self.is_master = is_master
        node.stores[self] = None

    def name(self) -> str:
        """Give the store's name."""
        return self._name

    # Reads.

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default``."""
        value: Value = await self._do("get", key, default)
        return value

    async def exists(self, key: Value) -> bool:
        """Tell whether a key is there."""
        return bool(await self._do("exists", key))

    async def keys(self) -> list[Value]:
        """Give all keys, in no order."""
        return list(await self._do("keys"))

    async def items(self) -> list[tuple[Value, Value]]:
        """Give all keys with their values, as of one moment."""
        return list(await self._do("items"))

    # Mutations.

    async def put(self, key: Value, value: Value, expiry: float | None = None) -> RemoteReceipt:
        """Set a key."""
        return await self._ask("put", key, value, expiry=expiry)

    async def put_unique(self, key: Value, value: Value, expiry: float | None = None) -> bool:
        """Set a key if it is missing; tell whether it was."""
        return bool(await self._do("put_unique", key, value, expiry=expiry))

    async def erase(self, key: Value) -> RemoteReceipt:
        """Remove a key, present or not."""
        return await self._ask("erase", key)

    async def clear(self) -> RemoteReceipt:
        """Remove everything."""
        return await self._ask("clear")

    async def increment(
        self, key: Value, amount: Value = 1, expiry: float | None = None
    ) -> RemoteReceipt:
        """Add to a number or an instant."""
        return await self._ask("increment", key, amount, expiry=expiry)

    async def decrement(
        self, key: Value, amount: Value = 1, expiry: float | None = None
    ) -> RemoteReceipt:
        """Take away from a number or an instant."""
        return await self._ask("decrement", key, amount, expiry=expiry)

    async def append(self, key: Value, text: Value, expiry: float | None = None) -> RemoteReceipt:
        """Append to a string."""
        return await self._ask("append", key, text, expiry=expiry)

    async def insert_into(
        self, key: Value, index: Value, *value: Value, expiry: float | None = None
    ) -> RemoteReceipt:
        """Insert an element into a set; or with a value, an entry into a table."""
        return await self._ask("insert_into", key, index, *value, expiry=expiry)

    async def remove_from(
        self, key: Value, index: Value, expiry: float | None = None
    ) -> RemoteReceipt:
        """Remove an element from a set, or an entry from a table."""
        return await self._ask("remove_from", key, index, expiry=expiry)

    async def push(self, key: Value, value: Value, expiry: float | None = None) -> RemoteReceipt:
        """Append an element to a vector."""
        return await self._ask("push", key, value, expiry=expiry)

    async def pop(self, key: Value, expiry: float | None = None) -> RemoteReceipt:
        """Remove the last element of a vector."""
        return await self._ask("pop", key, expiry=expiry)

    async def batch(self, batch: Batch) -> RemoteReceipt:
        """Do all of a batch as one mutation, if its guards hold."""
        from peermesh.testing.agent.servant import batch_to_value

        return RemoteReceipt(self.node, await self._call("batch", *batch_to_value(batch)))

    async def _do(self, operation: str, *arguments: Value, expiry: float | None = None) -> Any:  # noqa: ANN401 - what the operation gives
        return await self._call("store", operation, arguments, expiry)

    async def _ask(
        self, operation: str, *arguments: Value, expiry: float | None = None
    ) -> RemoteReceipt:
        return RemoteReceipt(self.node, await self._do(operation, *arguments, expiry=expiry))

    # Barriers.

    async def await_idle(self, timeout: float = AWAIT_IDLE_SECONDS) -> Outcome:
        """Wait until the store is idle; false after ``timeout`` seconds, with the reason."""
        return Outcome(*await self._call("await_idle", timeout))

    async def close(self) -> None:
        """Let go of the store."""
        self.node.stores.pop(self, None)
        await self._close("close_store")

    async def __aenter__(self) -> Self:
        """Use it within the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()
