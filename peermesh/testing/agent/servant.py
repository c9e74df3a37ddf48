"""Does what a cluster asks of one node: an endpoint, behind calls whose arguments are plain values.

In this process it is called directly, in an agent by what comes over its socket: so that a node
means the same in every world. Each call is cancelled safely: a message is taken out of a
subscription only by ``poll``, which does not wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from endpoint.endpoint import Endpoint
from endpoint.outcome import Outcome
from endpoint.pubsub.stream import StatusSubscriber
from endpoint.pubsub.subscriber import Subscriber
from endpoint.replicas.attaching import Backend
from endpoint.replicas.logs.log_receipts import AppendReceipt
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.runner import Runner
from endpoint.replicas.stores.store import ReplicaStore, Store
from endpoint.replicas.stores.watching import Watch
from peermesh.testing import view
from peermesh.testing.agent import plain
from peermesh.testing.agent.log_servant import LogServant
from peermesh.testing.view import View
from wire.errors import EndpointClosed, LocalProtocolError, StoreClosed, StoreError
from wire.identifiers import EndpointId
from wire.values import Count, Value

RECEIPTS_MAX: Final = 10_000
"""Receipts kept for whoever asks for their outcome later; of older ones nobody will."""

POLL_MAX: Final = 1_000
"""Messages that one poll gives: what a reply can hold, if they are not huge."""

Source = Subscriber | StatusSubscriber | Watch


class _Queue:
    """What a subscription has, with the one that a waiter has taken out already."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.taken: deque[Any] = deque()

    async def wait(self, timeout: float | None) -> None:
        """Wait until there is something; raises ``TimeoutError``, or ``EndpointClosed``."""
        if not self.taken:
            try:
                self.taken.append(await self.source.get(timeout))
            except (EndpointClosed, StoreClosed):
                raise EndpointClosed("the subscription, or its endpoint, is closed") from None

    def poll(self) -> list[Any]:
        """Take what there is, up to a limit."""
        self.taken.extend(self.source.poll())
        return [self.taken.popleft() for _ in range(min(len(self.taken), POLL_MAX))]


class Servant:
    """One endpoint at the service of a cluster."""

    def __init__(self, endpoint: Endpoint, directory: Path) -> None:
        """Serve ``endpoint``; the files of its stores are in ``directory``."""
        self.endpoint = endpoint
        self._directory = directory
        self._numbers = 0
        self._queues: dict[int, _Queue] = {}
        self._stores: dict[int, Store | ReplicaStore] = {}
        self._receipts: dict[int, Receipt | AppendReceipt] = {}
        self._logs = LogServant(endpoint, directory, self._number, self._keep)
        self._methods: dict[str, Callable[..., Awaitable[Any]]] = {
            "listen": endpoint.listen,
            "peer": self._peer,
            "unpeer": self._unpeer,
            "await_peer": self._await_peer,
            "view": self._view,
            "await_change": self._await_change,
            "publish": self._publish,
            "publish_batch": endpoint.publish_batch,
            "subscribe": self._subscribe,
            "subscribe_status": self._subscribe_status,
            "add_topic": self._add_topic,
            "remove_topic": self._remove_topic,
            "wait": self._wait,
            "poll": self._poll,
            "close_queue": self._close_queue,
            "attach": self._attach,
            "attach_replica": self._attach_replica,
            "leader": self._leader,
            "await_leader": self._await_leader,
            "members": self._members,
            "read": self._read,
            "store": self._store,
            "entry": self._entry,
            "batch": self._batch,
            "watch": self._watch,
            "promote": self._promote,
            "verify": self._verify,
            "applied": self._applied,
            "await_idle": self._await_idle,
            "close_store": self._close_store,
            "statistics": self._statistics,
            **self._logs.methods,
        }

    async def call(self, method: str, *arguments: Any) -> Any:  # noqa: ANN401 - plain values
        """Do what is asked; raises what the endpoint raises, and ``LocalProtocolError``."""
        function = self._methods.get(method)
        if function is None:
            raise LocalProtocolError(f"a node cannot {method!r}")
        return await function(*arguments)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    # The mesh.

    async def _peer(self, address: str, port: int, retry: float) -> tuple[bool, str]:
        return _answer(await self.endpoint.peer(address, port, retry))

    async def _unpeer(self, address: str, port: int) -> tuple[bool, str]:
        return _answer(await self.endpoint.unpeer(address, port))

    async def _await_peer(self, node_id: bytes, timeout: float) -> tuple[bool, str]:
        return _answer(await self.endpoint.await_peer(EndpointId(node_id), timeout=timeout))

    async def _view(self) -> tuple[Any, ...]:
        return view.to_value(self.see())

    def see(self) -> View:
        """Give what the endpoint sees of the mesh now."""
        core, loop = self.endpoint.loop.core, self.endpoint.loop
        announcements = core.topology.announcements
        reachable = [each for each in core.topology.reachable() if each in announcements]
        runners = [each for each in loop.stores.values() if isinstance(each, Runner)]
        return View(
            announcements[core.local],
            tuple(announcements[each] for each in reachable),
            tuple((runner.name, runner.core.explain_idle()) for runner in runners),
            core.digest(),
        )

    async def _await_change(self, digest: Count) -> None:
        """Wait until the mesh is not as it was when it had this digest."""
        loop = self.endpoint.loop
        while loop.core.digest() == digest.value:
            await loop.changed.park()

    async def _statistics(self) -> dict[str, int]:
        statistics = self.endpoint.statistics()
        names = [name for name in type(statistics).__slots__ if name != "peers"]
        return {name: getattr(statistics, name) for name in names}

    # Messages.

    async def _publish(self, topic: str, data: Value, to: bytes | None) -> None:
        receiver = None if to is None else EndpointId(to)
        await self.endpoint.publish(topic, data, to=receiver)

    async def _subscribe(self, topics: tuple[str, ...], queue_size: int | None) -> int:
        return self._open(self.endpoint.subscribe(*topics, queue_size=queue_size))

    async def _subscribe_status(self) -> int:
        return self._open(self.endpoint.subscribe_status())

    def _open(self, source: Source) -> int:
        number = self._number()
        self._queues[number] = _Queue(source)
        return number

    async def _add_topic(self, number: int, topic: str) -> None:
        self._subscriber(number).add_topic(topic)

    async def _remove_topic(self, number: int, topic: str) -> None:
        self._subscriber(number).remove_topic(topic)

    def _subscriber(self, number: int) -> Subscriber:
        source = self._queue(number).source
        assert isinstance(source, Subscriber)
        return source

    async def _wait(self, number: int, timeout: float | None) -> None:
        await self._queue(number).wait(timeout)

    async def _poll(self, number: int) -> list[Any]:
        return [plain.item_to_value(each) for each in self._queue(number).poll()]

    async def _close_queue(self, number: int) -> None:
        queue = self._queues.pop(number, None)
        if queue is not None:
            queue.source.close()

    def _queue(self, number: int) -> _Queue:
        queue = self._queues.get(number)
        if queue is None:
            raise EndpointClosed("the subscription is closed, or its node was started anew")
        return queue

    # Stores.

    async def _attach(
        self, name: str, backend: str | None, path: str | None, stale_interval: float | None
    ) -> int:
        endpoint = self.endpoint
        if backend is None:
            store = await endpoint.attach_clone(name, stale_interval=stale_interval)
        else:
            options: dict[str, Any] = {} if path is None else {"path": self._directory / path}
            store = await endpoint.attach_master(name, Backend(backend), **options)
        return self._hold(store)

    async def _attach_replica(
        self, name: str, voters: tuple[str, ...], backend: str, path: str | None
    ) -> int:
        options: dict[str, Any] = {} if path is None else {"path": self._directory / path}
        attach = self.endpoint.attach_replica
        return self._hold(await attach(name, voters=voters, backend=backend, **options))

    def _hold(self, store: Store | ReplicaStore) -> int:
        number = self._number()
        self._stores[number] = store
        return number

    def _any_handle(self, number: int) -> Store | ReplicaStore:
        store = self._stores.get(number)
        if store is None:
            raise StoreError("the store was closed, or its node was started anew: attach it again")
        return store

    def _handle(self, number: int) -> Store:
        store = self._any_handle(number)
        assert isinstance(store, Store), store
        return store

    def _replica(self, number: int) -> ReplicaStore:
        store = self._any_handle(number)
        assert isinstance(store, ReplicaStore), store
        return store

    async def _leader(self, number: int) -> str | None:
        return self._replica(number).leader()

    async def _await_leader(self, number: int, timeout: float) -> str:
        return await self._replica(number).await_leader(timeout)

    async def _members(self, number: int) -> list[Any]:
        return [plain.member_to_value(each) for each in await self._replica(number).members()]

    async def _read(self, number: int, consistency: str, operation: str, arguments: Any) -> Any:  # noqa: ANN401 - what the operation gives
        return await getattr(self._replica(number).read(consistency), operation)(*arguments)

    async def _store(
        self, number: int, operation: str, arguments: tuple[Any, ...], options: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401 - what the operation gives
        given = await getattr(self._any_handle(number), operation)(*arguments, **options)
        return self._keep(given) if isinstance(given, Receipt) else given

    async def _entry(self, number: int, key: Value) -> Any:  # noqa: ANN401 - a plain value
        return plain.entry_to_value(await self._any_handle(number).entry(key))

    async def _batch(self, number: int, guards: Any, steps: Any, others: Any) -> int:  # noqa: ANN401 - plain values
        batch = plain.batch_from_value(guards, steps, others)
        return self._keep(await self._any_handle(number).batch(batch))

    async def _watch(self, number: int, prefix: Value, keys: Any, from_revision: int | None) -> int:  # noqa: ANN401 - plain values
        store = self._any_handle(number)
        return self._open(store.watch(prefix=prefix, keys=keys, from_revision=from_revision))

    async def _promote(
        self, number: int, backend: str, path: str | None, options: dict[str, Any]
    ) -> tuple[Any, ...]:
        place: dict[str, Any] = {} if path is None else {"path": self._directory / path}
        promotion = await self._handle(number).promote(Backend(backend), **place, **options)
        return plain.promotion_to_value(promotion)

    async def _verify(self, number: int, timeout: float) -> tuple[Any, ...]:
        return plain.verification_to_value(await self._handle(number).verify(timeout))

    def _keep(self, receipt: Receipt | AppendReceipt) -> int:
        kept = self._number()
        self._receipts[kept] = receipt
        if len(self._receipts) > RECEIPTS_MAX:
            del self._receipts[next(iter(self._receipts))]
        return kept

    async def _applied(self, number: int) -> int | tuple[int, int]:
        receipt = self._receipts.get(number)
        if receipt is None:
            raise StoreError(f"the receipt is too old: {RECEIPTS_MAX} are kept at once")
        place = await receipt.applied()
        return place if isinstance(place, int) else (place.partition, place.offset)

    async def _await_idle(self, number: int, timeout: float) -> tuple[bool, str]:
        held = self._logs.find(number) or self._any_handle(number)
        return _answer(await held.await_idle(timeout=timeout))

    async def _close_store(self, number: int) -> None:
        store = self._stores.pop(number, None)
        if store is not None:
            await store.close()


def _answer(outcome: Outcome) -> tuple[bool, str]:
    return (outcome.reached, outcome.reason)
