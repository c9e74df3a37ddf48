"""What a node holds for a test: subscriptions, stores and receipts, with the endpoint's names."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar

import trio

from endpoint.closing import AsyncClosing
from endpoint.mesh.status import StatusEvent
from endpoint.outcome import Outcome
from endpoint.pubsub.messages import Message
from endpoint.replicas.attaching import Backend
from endpoint.replicas.handle import AWAIT_IDLE_SECONDS
from endpoint.replicas.stores.outcomes import Promotion, Verification
from endpoint.replicas.stores.reading import Entry
from endpoint.replicas.stores.store import VERIFY_SECONDS
from endpoint.replicas.stores.watching import WatchItem
from endpoint.shielding import shielded
from peermesh.testing.agent import plain
from peermesh.testing.time_limits import limit
from wire.errors import EndpointClosed, ErrorCode, MeshError
from wire.values import Value

if TYPE_CHECKING:
    from peermesh.testing.node import Node
    from stores.batch import Batch

Item = TypeVar("Item")

GIVE_UP_SECONDS: Final = 5.0
"""How long closing a handle waits for a node that does not answer: it is about to end anyway."""


POLL_SECONDS: Final = 60.0
"""How long a poll may take: a node that is paused answers when it goes on. What comes later is
lost."""


class NodeDown(MeshError):
    """The node was killed, is paused, or has ended. ``restart`` or ``resume`` it first."""

    code = ErrorCode.SHUTTING_DOWN


class Handle:
    """Something that a node holds for the test, in its present life."""

    def __init__(self, node: Node, number: int) -> None:
        """Be what the node's present life knows under this number."""
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
            with trio.move_on_after(limit(GIVE_UP_SECONDS)):
                await self._call(method)


class Subscription(Handle, AsyncClosing, Generic[Item]):
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
        with shielded("what a poll takes from a node", POLL_SECONDS):
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


class Messages(Subscription[Message]):
    """Messages on topics."""

    async def add_topic(self, topic: str) -> None:
        """Want messages whose topic begins with this, too."""
        await self._call("add_topic", topic)

    async def remove_topic(self, topic: str) -> None:
        """No longer want messages for the sake of this prefix."""
        await self._call("remove_topic", topic)

    @staticmethod
    def _read(item: Any) -> Message:  # noqa: ANN401 - see ``plain``
        return plain.message_from_value(item)


class Events(Subscription[StatusEvent]):
    """Status events."""

    @staticmethod
    def _read(item: Any) -> StatusEvent:  # noqa: ANN401 - see ``plain``
        return plain.event_from_value(item)


class Watch(Subscription[WatchItem]):
    """What there is in a store, and then every commit; see ``peermesh.Watch``."""

    @staticmethod
    def _read(item: Any) -> WatchItem:  # noqa: ANN401 - see ``plain``
        return plain.watch_item_from_value(item)


class Held(Handle, AsyncClosing):
    """A store or a log that a node has attached for the test."""

    _CLOSE: ClassVar[str]
    """What the node calls letting go of it."""

    def __init__(self, node: Node, name: str, number: int) -> None:
        """Be waited for by the cluster's barriers, until it is closed."""
        super().__init__(node, number)
        self._name = name
        node.stores[self] = None

    def name(self) -> str:
        """Give its name."""
        return self._name

    async def await_idle(self, timeout: float | None = None) -> Outcome:
        """Wait until it is idle; false after ``timeout`` seconds, with the reason.

        Without a ``timeout`` it is that of an endpoint, or longer while the machine is slow.
        """
        timeout = limit(AWAIT_IDLE_SECONDS) if timeout is None else timeout
        return Outcome(*await self._call("await_idle", timeout))

    async def close(self) -> None:
        """Let go of it."""
        self.node.stores.pop(self, None)
        await self._close(self._CLOSE)


class RemoteReceipt(Handle):
    """One mutation on its way."""

    async def applied(self) -> int:
        """Wait until the master has applied it; gives the revision, or raises the error."""
        return int(await self._call("applied"))


class HeldStore(Held):
    """What of a store at a node no description gives; a base of ``StoreHandle``."""

    _CLOSE = "close_store"

    def __init__(self, node: Node, name: str, number: int, *, is_master: bool) -> None:
        """Made by ``Node.attach_master`` and ``Node.attach_clone``."""
        super().__init__(node, name, number)
        self.is_master = is_master

    # Reads.

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default``."""
        value: Value = await self._do("get", key, default)
        return value

    async def exists(self, key: Value) -> bool:
        """Tell whether a key is there."""
        return bool(await self._do("exists", key))

    async def entry(self, key: Value) -> Entry | None:
        """Give a key's value with its revision and expiry; ``None`` if it is missing."""
        return plain.entry_from_value(await self._call("entry", key))

    async def keys(self) -> list[Value]:
        """Give all keys, in no order."""
        return list(await self._do("keys"))

    async def items(self) -> list[tuple[Value, Value]]:
        """Give all keys with their values, as of one moment."""
        return list(await self._do("items"))

    # Mutations.

    async def batch(self, batch: Batch) -> RemoteReceipt:
        """Do all of a batch as one mutation, if its guards hold."""
        number = await self._call("batch", *plain.batch_to_value(batch))
        return RemoteReceipt(self.node, number)

    async def _do(self, operation: str, *arguments: Value, **options: Any) -> Any:  # noqa: ANN401 - plain values
        given = {name: option for name, option in options.items() if option is not None}
        return await self._call("store", operation, arguments, given)

    async def _ask(self, operation: str, *arguments: Value, **options: Any) -> RemoteReceipt:  # noqa: ANN401 - plain values
        return RemoteReceipt(self.node, await self._do(operation, *arguments, **options))

    async def watch(
        self,
        *,
        prefix: Value = None,
        keys: Sequence[Value] | None = None,
        from_revision: int | None = None,
    ) -> Watch:
        """Give what there is, a ``Bookmark``, and then every ``Commit``; see ``Store.watch``."""
        chosen = None if keys is None else tuple(keys)
        return Watch(self.node, await self._call("watch", prefix, chosen, from_revision))

    # The role.

    async def promote(
        self,
        backend: Backend = Backend.Memory,
        path: str | None = None,
        *,
        force: bool = False,
    ) -> Promotion:
        """Make this clone the master of its store; see ``Store.promote``.

        ``path`` is within the node's own directory, and a new file: ``<name>.db`` if nothing else
        is said.
        """
        if backend is Backend.SQLite and path is None:
            path = f"{self._name}.db"
        fields = await self._call("promote", backend.value, path, {"force": force})
        self.is_master = True
        return Promotion(*fields)

    async def verify(self, timeout: float | None = None) -> Verification:
        """Compare what all replicas hold at one moment of the master's stream.

        Without a ``timeout`` it is that of a store, or longer while the machine is slow.
        """
        timeout = limit(VERIFY_SECONDS) if timeout is None else timeout
        return plain.verification_from_value(await self._call("verify", timeout))
